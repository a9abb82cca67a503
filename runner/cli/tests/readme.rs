//! The README's examples: every `$ warpforge …` line in it runs and succeeds.

mod common;

use common::{Scratch, outcome};

fn examples(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ warpforge ") {
            commands.push(command);
        }
    }
    commands
}

#[test]
fn every_example_of_the_readme_runs() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let commands = examples(&text);
    assert!(commands.len() >= 6, "the README lost its examples: {commands:?}");
    let scratch = Scratch::new();
    let example = std::fs::read_to_string(format!("{root}/docs/examples/mlp.mlir")).unwrap();
    scratch.write("docs/examples/mlp.mlir", &example);
    let model = "runner/snakegrinder/tests/fixtures/tied.pt2";
    scratch.write(model, "");
    std::fs::copy(format!("{root}/{model}"), scratch.path().join(model)).unwrap();
    for command in commands {
        let args: Vec<&str> = command.split_whitespace().collect();
        let torch = format!("{root}/.libtorch/torch");
        let (code, out, err) =
            outcome(scratch.warpforge(&args).env("WARPFORGE_GOLDEN_LIBTORCH", torch));
        assert_eq!(code, 0, "warpforge {command}\n{out}\n{err}");
        assert!(!out.is_empty(), "warpforge {command} says nothing");
    }
}
