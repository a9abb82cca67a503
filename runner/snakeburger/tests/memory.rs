//! What parsing takes at its peak, counted by an allocator: a test program of its own, so that
//! nothing else allocates meanwhile.

#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait over the system's own")]
#![allow(clippy::format_push_string, reason = "programs are written line by line")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use warpforge_snakeburger::text::{self, Options};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    PEAK.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; only sizes are added up.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // While a block moves, both places are taken; one that shrinks stays where it is.
        if new > layout.size() {
            add(new);
        } else {
            NOW.fetch_add(new, Relaxed);
        }
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A program of many operations, one a line.
fn program(functions: usize, operations: usize, ty: &str, prefix: &str) -> String {
    let mut out = String::new();
    for f in 0..functions {
        out += &format!("func.func @f{f}(%arg0: {ty}, %arg1: {ty}) -> {ty} {{\n");
        out += &format!("  %{prefix}0 = stablehlo.add %arg0, %arg1 : {ty}\n");
        for i in 1..operations {
            let before = i - 1;
            out += &match i % 4 {
                0 => format!("  %{prefix}{i} = stablehlo.tanh %{prefix}{before} : {ty}\n"),
                1 => format!("  %{prefix}{i} = stablehlo.add %{prefix}{before}, %arg0 : {ty}\n"),
                2 => {
                    format!(
                        "  %{prefix}{i} = stablehlo.reshape %{prefix}{before} : ({ty}) -> {ty}\n"
                    )
                }
                _ => format!("  %{prefix}{i} = stablehlo.negate %{prefix}{before} : {ty}\n"),
            };
        }
        out += &format!("  return %{prefix}{} : {ty}\n}}\n", operations - 1);
    }
    out
}

/// Peak bytes of a parse for each byte of text.
fn peak(text: &str) -> f64 {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let module = text::parse(text, Options::default()).unwrap();
    let peak = PEAK.load(Relaxed) - before;
    drop(module);
    peak as f64 / text.len() as f64
}

/// One test: two at once would count each other's bytes.
#[test]
fn parsing_takes_memory_in_proportion_to_the_text() {
    let cases = [
        ("one large function", program(1, 10_000, "tensor<8x128x768xf32>", ""), 2.0),
        ("many functions", program(200, 50, "tensor<8x128x768xf32>", ""), 2.0),
        ("short types", program(1, 10_000, "tensor<f32>", ""), 3.0),
        ("named values", program(1, 10_000, "tensor<8x128x768xf32>", "v"), 3.0),
    ];
    for (name, text, most) in cases {
        let found = peak(&text);
        assert!(found <= most, "{name}: {found:.2} bytes for each byte of text, {most} at most");
    }
}
