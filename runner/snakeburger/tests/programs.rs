//! The programs in `tests/ops`: what must hold does, what must be refused is, with a message
//! worth reading.

use std::path::{Path, PathBuf};
use std::time::Duration;

use warpforge_snakeburger::conformance::{self, Outcome};
use warpforge_snakeburger::diag::{Diagnostic, Source};
use warpforge_snakeburger::eval::Interpreter;
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;

/// The files of `tests/ops`, sorted, with their texts.
fn programs(bad: bool) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files
        .iter()
        .map(|path| (name(path), std::fs::read_to_string(path).unwrap()))
        .filter(|(name, _)| name.ends_with(".bad.mlir") == bad)
        .collect()
}

#[test]
fn good_programs_pass() {
    let mut failures = Vec::new();
    let programs = programs(false);
    assert!(!programs.is_empty());
    for (name, text) in &programs {
        let report = conformance::run(name, text, Duration::from_mins(1));
        assert!(report.evaluated, "{name} evaluates nothing");
        if report.outcome != Outcome::Passed {
            failures.push(format!("{name}: {:?}", report.outcome));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The problems of one part, as a person sees them: of its text, of its constraints, or, where
/// only the values can tell, of its evaluation.
fn problems(source: Source<'_>) -> Vec<String> {
    let module = match text::parse(source.text, Options::default()) {
        Err(diagnostic) => return vec![source.render(&diagnostic)],
        Ok(module) => module,
    };
    let problems = verify::problems(&module);
    if !problems.is_empty() {
        return problems.iter().map(|problem| source.render(problem)).collect();
    }
    let entry = module.entry().filter(|func| func.arguments.is_empty());
    let ran = entry.map(|func| Interpreter::new(&module).call(&func.name, Vec::new()));
    let error = ran.and_then(Result::err).map(|error| Diagnostic {
        offset: error.offset,
        message: format!("when it runs: {}", error.message),
    });
    error.iter().map(|error| source.render(error)).collect()
}

#[test]
fn bad_programs_are_refused_with_a_reason() {
    for (name, text) in programs(true) {
        let mut shown = Vec::new();
        for (first_line, part) in text::split(&text) {
            let source = Source { name: &name, text: part, first_line };
            let problems = problems(source);
            assert!(!problems.is_empty(), "{name}: the part at line {first_line} is accepted");
            shown.push(problems.join("\n"));
        }
        insta::assert_snapshot!(name.trim_end_matches(".mlir"), shown.join("\n\n"));
    }
}
