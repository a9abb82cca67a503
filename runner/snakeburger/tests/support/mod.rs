//! What the fuzzing campaign in `tests/fuzz.rs` and the coverage-guided targets in `fuzz/` share:
//! changes to a program's tokens, and what is done with a changed program.

#![allow(dead_code, reason = "each user takes what it needs")]

use std::time::{Duration, Instant};

use warpforge_snakeburger::eval::{Interpreter, Limits};
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;

/// Values that sit at the edges of what checks must handle.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "255",
    "4096",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "?",
];
const WORDS: &[&str] = &[
    "f32",
    "f64",
    "bf16",
    "f16",
    "i1",
    "i4",
    "ui8",
    "i32",
    "ui64",
    "complex<f32>",
    "f8E4M3FN",
    "true",
    "false",
    "[]",
    "dense<>",
    "!stablehlo.token",
    "tensor<i32>",
    "tensor<?xf32>",
    "!quant.uniform<i8:f32:0, {0.1:-30, 0.5}>",
    "stablehlo.add",
    "\"stablehlo.reduce\"",
    "%0",
    "",
];

/// Where tokens start and end: words, numbers, or single marks.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'%' | b'@' | b'-');
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        if word(bytes[start]) {
            while at < bytes.len() && word(bytes[at]) {
                at += 1;
            }
        }
        if !bytes[start].is_ascii_whitespace()
            && text.is_char_boundary(start)
            && text.is_char_boundary(at)
        {
            tokens.push((start, at));
        }
    }
    tokens
}

fn pick<'a, T>(below: &mut impl FnMut(u64) -> u64, items: &'a [T]) -> &'a T {
    &items[below(items.len() as u64) as usize]
}

/// One change: another number for a number, another word for a word, or a token of another place.
/// `below` draws a number below its argument.
pub fn mutate(below: &mut impl FnMut(u64) -> u64, text: &str) -> String {
    let tokens = tokens(text);
    if tokens.is_empty() {
        return WORDS.concat();
    }
    let (start, end) = *pick(below, &tokens);
    let old = &text[start..end];
    let (from, to) = *pick(below, &tokens);
    let new = match below(4) {
        0 => &text[from..to],
        1 if !old.starts_with(|c: char| c.is_ascii_digit() || c == '-') => pick(below, WORDS),
        2 => "",
        _ => pick(below, NUMBERS),
    };
    format!("{}{new}{}", &text[..start], &text[end..])
}

/// Parses, verifies and evaluates; says how far it came.
pub fn run(text: &str) -> usize {
    let Ok(module) = text::parse(text, Options::default()) else { return 0 };
    let _ = text::print(&module, text::PrintOptions::default());
    if !verify::problems(&module).is_empty() {
        return 1;
    }
    for func in module.funcs().iter().filter(|func| func.arguments.is_empty()) {
        let mut interpreter = Interpreter::new(&module);
        interpreter.limits = Limits {
            max_elements: 1 << 20,
            max_depth: 32,
            deadline: Some(Instant::now() + Duration::from_secs(2)),
        };
        let _ = interpreter.call(&func.name, Vec::new());
    }
    2
}
