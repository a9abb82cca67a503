//! Running conformance files: programs that state what their results must be.
//!
//! A file is split at `// -----`; each part is parsed, verified, printed and parsed back, and, if
//! it can be called without arguments, evaluated with its `check.*` expectations in force.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::diag::Source;
use crate::eval::{ErrorKind, EvalError, Interpreter, Limits};
use crate::ir::{Module, Visibility};
use crate::text::{self, Options, PrintOptions};
use crate::verify;

/// How one file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// A constraint, an expectation or the round trip does not hold.
    Failed(String),
    /// Something is not implemented.
    Unsupported(String),
    /// The file says that it is not to be run, and why.
    Disabled(String),
}

/// What a file did.
#[derive(Clone, Debug)]
pub struct FileReport {
    pub outcome: Outcome,
    /// The operations it contains.
    pub ops: BTreeSet<&'static str>,
    /// Whether anything was evaluated, not only parsed, verified and printed.
    pub evaluated: bool,
    pub elapsed: Duration,
}

/// Runs one file's text; a panic or the time limit is a failure of this file alone.
pub fn run(name: &str, text: &str, limit: Duration) -> FileReport {
    let start = Instant::now();
    let mut report = FileReport {
        outcome: Outcome::Passed,
        ops: BTreeSet::new(),
        evaluated: false,
        elapsed: Duration::ZERO,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| run_parts(name, text, start + limit, &mut report)));
    let outcome = match ran {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(outcome)) => outcome,
        Err(panic) => Outcome::Failed(format!("panicked: {}", panic_message(&*panic))),
    };
    report.outcome = match disabled(text) {
        None => outcome,
        Some(reason) => Outcome::Disabled(with_own_reason(reason, &outcome)),
    };
    report.elapsed = start.elapsed();
    report
}

/// Why a file is not to be run and, if it would not pass here either, why.
fn with_own_reason(reason: String, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(own) | Outcome::Unsupported(own) => format!("{reason}; here: {own}"),
        Outcome::Passed | Outcome::Disabled(_) => reason,
    }
}

/// The reason on a `// RUN-DISABLED(…)` line.
fn disabled(text: &str) -> Option<String> {
    let is_mark = |line: &&str| {
        let comment = line.trim_start().trim_start_matches('/');
        comment.len() < line.len() && comment.trim_start().starts_with("RUN-DISABLED")
    };
    let line = text.lines().find(is_mark)?;
    let reason = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    Some(reason.map_or("", |(reason, _)| reason).to_string())
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run_parts(
    name: &str,
    text: &str,
    deadline: Instant,
    report: &mut FileReport,
) -> Result<(), Outcome> {
    for (first_line, part) in text::split(text) {
        let source = Source { name, text: part, first_line };
        let module = load(source)?;
        report.ops.extend(ops_of(&module));
        report.evaluated |= evaluate(source, &module, deadline)?;
    }
    Ok(())
}

/// Parses, verifies, and holds the printed text against the program.
fn load(source: Source<'_>) -> Result<Module, Outcome> {
    let module = text::parse(source.text, Options::default())
        .map_err(|diagnostic| Outcome::Failed(source.render(&diagnostic)))?;
    if let Some(first) = verify::problems(&module).first() {
        return Err(Outcome::Failed(source.render(first)));
    }
    for generic in [false, true] {
        let options = PrintOptions { generic, locations: true };
        let printed = text::print(&module, options);
        let again = text::parse(&printed, Options::default()).map_err(|diagnostic| {
            let source = Source::new("the printed program", &printed);
            Outcome::Failed(source.render(&diagnostic))
        })?;
        if text::print(&again, options) != printed {
            return Err(Outcome::Failed("print(parse(print(x))) differs from print(x)".into()));
        }
    }
    Ok(module)
}

fn ops_of(module: &Module) -> BTreeSet<&'static str> {
    let graphs = module.funcs().iter().filter_map(|func| func.body.as_ref());
    graphs.flat_map(|graph| graph.nodes().map(|(_, node)| node.op.name())).collect()
}

/// Calls `main`, or every public function if there is none; returns whether anything was called.
fn evaluate(source: Source<'_>, module: &Module, deadline: Instant) -> Result<bool, Outcome> {
    let entries: Vec<&str> = match module.func("main") {
        Some(main) => vec![&main.name],
        None => module
            .funcs()
            .iter()
            .filter(|func| func.visibility != Visibility::Private)
            .map(|func| &*func.name)
            .collect(),
    };
    let mut evaluated = false;
    for entry in entries {
        let Some(func) = module.func(entry).filter(|f| f.arguments.is_empty()) else { continue };
        let mut interpreter = Interpreter::new(module);
        interpreter.limits = Limits { deadline: Some(deadline), ..Limits::default() };
        interpreter.call(&func.name, Vec::new()).map_err(|error| outcome(source, &error))?;
        evaluated = true;
    }
    Ok(evaluated)
}

fn outcome(source: Source<'_>, error: &EvalError) -> Outcome {
    let diagnostic =
        crate::diag::Diagnostic { offset: error.offset, message: error.message.clone() };
    let text = source.render(&diagnostic);
    match error.kind {
        ErrorKind::Unsupported => Outcome::Unsupported(text),
        _ => Outcome::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        run("a.mlir", text, Duration::from_secs(10)).outcome
    }

    #[test]
    fn only_marked_files_are_disabled_and_say_what_is_wrong_with_them() {
        let good = "func.func @main() {\n  return\n}\n";
        assert_eq!(outcome(good), Outcome::Passed);
        assert_eq!(
            outcome(&format!("// RUN-DISABLED(inaccurate) tool %s\n{good}")),
            Outcome::Disabled("inaccurate".into())
        );
        let Outcome::Disabled(reason) = outcome("// RUN-DISABLED(#1): tool %s\nnonsense") else {
            panic!("not disabled");
        };
        assert!(reason.starts_with("#1; here: ") && reason.contains("a.mlir:2:1"), "{reason}");
        // The word alone, somewhere in the text, is no mark.
        let mentions = format!("{good}// nothing like RUN-DISABLED(x)\n");
        assert_eq!(outcome(&mentions), Outcome::Passed);
        assert!(matches!(outcome("nonsense"), Outcome::Failed(_)));
    }
}
