//! Any text: parsing, verifying and printing never panic, and what is printed parses back to the
//! same text: the generic form always, the pretty one of valid programs.

#![no_main]

mod mutator;
#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use warpforge_snakeburger::text::{self, Options, PrintOptions};
use warpforge_snakeburger::verify;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(module) = text::parse(text, Options::default()) else { return };
    let valid = verify::problems(&module).is_empty();
    for generic in [false, true] {
        let options = PrintOptions { generic, locations: true };
        let printed = text::print(&module, options);
        if !valid && !generic {
            continue;
        }
        let again = text::parse(&printed, Options::default())
            .unwrap_or_else(|error| panic!("{error:?} in the printed program\n{printed}"));
        assert_eq!(text::print(&again, options), printed, "printing is not stable");
    }
});

mutator::tokens!();
