//! Reading and writing text: generated programs survive the round trip, broken ones are refused
//! with a place, and nothing a text can hold makes the parser panic.

#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "programs are written line by line"
)]

use proptest::prelude::*;
use warpforge_snakeburger::diag::Source;
use warpforge_snakeburger::ir::{Loc, Module};
use warpforge_snakeburger::text::{self, Options, PrintOptions};
use warpforge_snakeburger::verify;

fn parse(text: &str) -> Module {
    text::parse(text, Options::default())
        .unwrap_or_else(|d| panic!("{}", Source::new("test.mlir", text).render(&d)))
}

fn refuse(text: &str) -> String {
    match text::parse(text, Options::default()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(diagnostic) => Source::new("test.mlir", text).render(&diagnostic),
    }
}

#[test]
fn errors_have_a_place_and_say_what_was_expected() {
    let cases = [
        "func.func @f(%a: tensor<2xf32>) { %0 = stablehlo.ad %a, %a : tensor<2xf32> return }",
        "func.func @f() { %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32> return }",
        "func.func @f() { %0 = stablehlo.constant dense<300> : tensor<i8> return }",
        "func.func @f() { %0 = stablehlo.constant dense<\"0x0102\"> : tensor<3xi8> return }",
        "func.func @f(%a: tensor<2xf32>) { %0 = stablehlo.add %a, %b : tensor<2xf32> return }",
        "func.func @f(%a: tensor<2xf32>) { %0 = stablehlo.add %a, %a : tensor<3xf32> return }",
        "func.func @f(%a: tensor<2xf99>) { return }",
        "func.func @f(%a: tensor<*xf32>) { return }",
        "func.func @f(%a: tensor<2xf32>) { %a = stablehlo.add %a, %a : tensor<2xf32> return }",
        "func.func @f() { return } func.func @f() { return }",
        "func.func @f() { %0 = \"stablehlo.iota\"() : () -> tensor<4xi32> return }",
        "func.func @f() { %0:2 = stablehlo.constant dense<1> : tensor<i32> return }",
        "module @m { func.func @f() { return }",
        "func.func @f() { return } #a = #b",
        "module @m {} trailing",
    ];
    let shown: Vec<String> = cases.iter().map(|text| refuse(text)).collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn aliases_resources_and_locations_are_understood() {
    let text = r#"
#loc = loc("model.py":3:7)
#shape = array<i64: 1, 0>
!vector = tensor<4xf32>
module @m attributes {mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: !vector loc("x"), %arg1: tensor<2x3xf32>) -> (!vector, tensor<3x2xf32>) {
    %0 = stablehlo.constant dense_resource<blob> : tensor<4xf32> loc(#loc1)
    %1 = stablehlo.add %arg0, %0 : !vector loc(fused[#loc, "layer.0"(#loc)])
    %2 = "stablehlo.transpose"(%arg1) {permutation = #shape} : (tensor<2x3xf32>) -> tensor<3x2xf32> loc(callsite("a" at #loc))
    return %1, %2 : !vector, tensor<3x2xf32>
  }
}
#loc1 = loc("weights"(#loc))
{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
"#;
    let module = parse(text);
    assert!(verify::problems(&module).is_empty());
    let graph = module.func("main").unwrap().body.as_ref().unwrap();
    let locs: Vec<_> = graph.nodes().map(|(_, node)| module.locs.name(node.loc)).collect();
    assert_eq!(locs, [Some("weights"), Some("layer.0"), Some("a"), None]);
    let options = PrintOptions { locations: true, ..PrintOptions::default() };
    insta::assert_snapshot!(text::print(&module, options));
    let dropped =
        text::parse(text, Options { drop_locations: true, ..Options::default() }).unwrap();
    let graph = dropped.func("main").unwrap().body.as_ref().unwrap();
    assert!(graph.nodes().all(|(_, node)| *dropped.locs.get(node.loc) == Loc::Unknown));
}

#[test]
fn constants_keep_their_bits() {
    let text = "func.func @f() {
        %0 = stablehlo.constant dense<[0x7FC00001, -0.0, 1.0e-45, 3.4028235e38]> : tensor<4xf32>
        %1 = stablehlo.constant dense<[(0x7F800000, -1.5), (2.0, 0.1)]> : tensor<2xcomplex<f32>>
        %2 = stablehlo.constant dense<[[true], [false]]> : tensor<2x1xi1>
        %3 = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
        %4 = stablehlo.constant dense<18446744073709551615> : tensor<3xui64>
        %5 = stablehlo.constant dense<[0xFF, 0x7E]> : tensor<2xf8E4M3FN>
        %6 = stablehlo.constant dense<> : tensor<0x3xf64>
        return
    }";
    let printed = text::print(&parse(text), PrintOptions::default());
    assert_eq!(text::print(&parse(&printed), PrintOptions::default()), printed);
    insta::assert_snapshot!(printed);
}

#[test]
fn nesting_and_aliases_have_limits() {
    let deep = format!("module attributes {{a = {}1{}}} {{}}", "[".repeat(9999), "]".repeat(9999));
    assert!(refuse(&deep).contains("nested deeper"));
    let bomb: String = (0..64).map(|i| format!("#a{} = [#a{i}, #a{i}]\n", i + 1)).collect();
    let text = format!("{bomb}#a0 = 1\nmodule attributes {{a = #a64}} {{}}");
    assert!(refuse(&text).contains("expanded too often"));
    let types = "tuple<".repeat(5000);
    assert!(refuse(&format!("func.func @f(%a: {types}")).contains("nested deeper"));
}

/// Straight-line programs over a few types, as text.
fn program() -> impl Strategy<Value = String> {
    let shapes = prop::sample::select(vec![
        "tensor<f32>",
        "tensor<3xf32>",
        "tensor<2x2xf64>",
        "tensor<4xi32>",
    ]);
    (shapes, prop::collection::vec((0usize..12, any::<u8>(), any::<u8>(), any::<u32>()), 1..30))
        .prop_map(|(ty, steps)| {
            let int = ty.contains('i');
            let mut out = format!("module {{\n  func.func @main(%arg0: {ty}) -> {ty} {{\n");
            for (i, (op, a, b, bits)) in steps.iter().enumerate() {
                let value = |n: &u8| match usize::from(*n) % (i + 1) {
                    0 => "%arg0".to_owned(),
                    n => format!("%{}", n - 1),
                };
                let (x, y) = (value(a), value(b));
                let line = match op {
                    0 if int => format!("stablehlo.constant dense<{}> : {ty}", *bits as i32),
                    0 => format!(
                        "stablehlo.constant dense<{:?}> : {ty}",
                        f32::from(*bits as i16) / 8.0
                    ),
                    1..=3 => format!("stablehlo.add {x}, {y} : {ty}"),
                    4 | 5 => format!("stablehlo.multiply {x}, {y} : {ty}"),
                    6 => format!("stablehlo.maximum {x}, {y} : {ty}"),
                    7 => format!("stablehlo.negate {x} : {ty}"),
                    8 => format!("stablehlo.abs {x} {{tag = [1, \"a\\0A\", {{b}}]}} : {ty}"),
                    9 => format!("stablehlo.subtract {x}, {y} : {ty}"),
                    10 => format!("\"stablehlo.sign\"({x}) : ({ty}) -> {ty}"),
                    _ => format!("stablehlo.clamp {x}, {y}, {x} : {ty}"),
                };
                out += &format!("    %{i} = {line}\n");
            }
            out + &format!("    return %{} : {ty}\n  }}\n}}\n", steps.len() - 1)
        })
}

/// Damage that keeps a text close to a program: where the interesting paths are.
fn damaged() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "",
        "dense<",
        ">",
        "tensor<?x",
        "%0",
        "0x",
        "-1",
        "9223372036854775807",
        "\"",
        "{",
        "}",
        "(",
        "#",
        ":",
    ];
    (
        program(),
        prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..6, prop::sample::select(PIECES)),
            1..5,
        ),
    )
        .prop_map(|(mut text, edits)| {
            for (at, length, piece) in edits {
                let start = at.index(text.len());
                let end = (start + length).min(text.len());
                text.replace_range(start..end, piece);
            }
            text
        })
}

proptest! {
    #[test]
    fn printed_programs_parse_back_to_themselves(text in program(), generic: bool) {
        let module = parse(&text);
        prop_assert!(verify::problems(&module).is_empty());
        let options = PrintOptions { generic, locations: true };
        let printed = text::print(&module, options);
        prop_assert_eq!(text::print(&parse(&printed), options), printed);
    }

    #[test]
    fn damaged_programs_are_refused_or_verified_but_never_panic(text in damaged()) {
        if let Ok(module) = text::parse(&text, Options::default()) {
            let _ = verify::problems(&module);
        }
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        let _ = text::parse(&text, Options::default());
    }
}
