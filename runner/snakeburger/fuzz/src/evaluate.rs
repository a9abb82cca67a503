//! Any program: what passes the verifier is evaluated within limits and never panics.

#![no_main]

mod mutator;
#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    // What does not even parse is the other target's business.
    match std::str::from_utf8(data).map(support::run) {
        Ok(1..) => Corpus::Keep,
        _ => Corpus::Reject,
    }
});

mutator::tokens!();
