//! Tests of what crosses crates, and the helpers that they and other crates'
//! tests share: where the checkout is, what set-up brought, and how campaigns are
//! sampled.

pub mod campaign;
pub mod installed;

use std::path::{Path, PathBuf};

/// The checkout these tests were built from.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the checkout").into()
}
