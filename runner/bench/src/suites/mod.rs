//! The suites, a folder each.

pub mod micro;
