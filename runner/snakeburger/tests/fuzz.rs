//! A fuzzing campaign over real programs: tokens of the programs in `tests/ops` are changed one
//! by one, and whatever comes out is parsed, verified and, if it passes, evaluated. Nothing may
//! panic, overflow the stack or run away. Sampled by the commit's seed; `--full` runs it long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use warpforge_snakeburger::eval::{Interpreter, Limits};
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;
use warpforge_tests::campaign::{self, Numbers};

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

fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts
        .flat_map(|text| {
            text::split(&text).into_iter().map(|(_, part)| part.to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

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

fn pick<'a, T>(numbers: &mut Numbers, items: &'a [T]) -> &'a T {
    &items[numbers.below(items.len() as u64) as usize]
}

/// One change: another number for a number, another word for a word, or a token of another place.
fn mutate(numbers: &mut Numbers, text: &str) -> String {
    let tokens = tokens(text);
    let (start, end) = *pick(numbers, &tokens);
    let old = &text[start..end];
    let (from, to) = *pick(numbers, &tokens);
    let new = match numbers.below(4) {
        0 => &text[from..to],
        1 if !old.starts_with(|c: char| c.is_ascii_digit() || c == '-') => pick(numbers, WORDS),
        2 => "",
        _ => pick(numbers, NUMBERS),
    };
    format!("{}{new}{}", &text[..start], &text[end..])
}

/// Parses, verifies and evaluates; says how far it came.
fn run(text: &str) -> usize {
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

#[test]
fn changed_programs_never_panic() {
    let seeds = seeds();
    let mut numbers = campaign::numbers("snakeburger-fuzz");
    let mut reached = [0usize; 3];
    for round in 0..campaign::rounds(100_000, 20_000_000) {
        let mut text = pick(&mut numbers, &seeds).clone();
        for _ in 0..=numbers.below(3) {
            text = mutate(&mut numbers, &text);
        }
        let start = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| run(&text)));
        let place = format!("round {round} of seed {}:\n{text}", campaign::seed());
        reached[ran.unwrap_or_else(|_| panic!("panicked in {place}"))] += 1;
        assert!(start.elapsed() < Duration::from_mins(1), "ran away in {place}");
    }
    // A campaign that never gets past the parser would prove nothing.
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
}
