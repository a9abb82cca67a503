//! Parsing speed, verification and memory: `cargo bench -p warpforge-snakeburger --bench text`.

#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "programs are written line by line"
)]

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// A program of `count` operations over a few shapes, as exporters write them.
fn dense_ops(count: usize) -> String {
    let ty = "tensor<8x128x768xf32>";
    let mut out = format!("func.func @main(%arg0: {ty}, %arg1: {ty}) -> {ty} {{\n");
    out += &format!("  %0 = stablehlo.add %arg0, %arg1 : {ty}\n");
    for i in 1..count {
        let before = i - 1;
        out += &match i % 5 {
            0 => format!("  %{i} = stablehlo.multiply %{before}, %arg1 : {ty}\n"),
            1 => format!("  %{i} = stablehlo.add %{before}, %arg0 : {ty}\n"),
            2 => format!("  %{i} = stablehlo.tanh %{before} : {ty}\n"),
            3 => format!(
                "  %{i} = stablehlo.transpose %{before}, dims = [0, 1, 2] : ({ty}) -> {ty}\n"
            ),
            _ => format!("  %{i} = stablehlo.reshape %{before} : ({ty}) -> {ty}\n"),
        };
    }
    out + &format!("  return %{} : {ty}\n}}\n", count - 1)
}

/// A program that is one constant of `bytes` bytes in hexadecimal.
fn hex_constant(bytes: usize) -> String {
    let digits: String = (0..bytes).map(|i| format!("{:02X}", i * 31 % 251)).collect();
    let elements = bytes / 4;
    format!(
        "func.func @main() -> tensor<{elements}xf32> {{\n  %0 = stablehlo.constant dense<\"0x{digits}\"> : \
         tensor<{elements}xf32>\n  return %0 : tensor<{elements}xf32>\n}}\n"
    )
}

#[divan::bench]
fn parse_dense_ops(bencher: Bencher<'_, '_>) {
    let text = dense_ops(10_000);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| text::parse(black_box(&text), Options::default()).unwrap());
}

#[divan::bench]
fn parse_and_verify_10_000_ops(bencher: Bencher<'_, '_>) {
    let text = dense_ops(10_000);
    bencher.counter(BytesCount::of_str(&text)).bench(|| {
        verify::verify(text::parse(black_box(&text), Options::default()).unwrap()).unwrap()
    });
}

#[divan::bench]
fn parse_hex_constant(bencher: Bencher<'_, '_>) {
    let text = hex_constant(32 << 20);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| text::parse(black_box(&text), Options::default()).unwrap());
}
