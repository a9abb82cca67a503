//! One part of the tests: a command with a name and a ceiling, run and timed.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::group::Group;

pub struct Part {
    pub name: &'static str,
    pub ceiling: Duration,
    pub command: Command,
}

#[derive(Debug, PartialEq)]
pub enum Outcome {
    Passed,
    Failed,
    /// It was ended at its ceiling.
    TooSlow,
    /// An earlier part failed.
    NotRun,
}

pub struct Done {
    name: &'static str,
    ceiling: Duration,
    outcome: Outcome,
    took: Duration,
}

/// Runs the parts in order up to the first that fails, and says whether all passed.
pub fn run_all(parts: Vec<Part>) -> Result<bool> {
    let mut done: Vec<Done> = Vec::new();
    for part in parts {
        let go_on = done.iter().all(|part| part.outcome == Outcome::Passed);
        done.push(if go_on { run(part)? } else { skip(&part) });
    }
    println!("\n{}", table(&done));
    Ok(done.iter().all(|part| part.outcome == Outcome::Passed))
}

fn run(mut part: Part) -> Result<Done> {
    println!("\n=== {}", part.name);
    let started = Instant::now();
    let group = Group::spawn(&mut part.command)
        .with_context(|| format!("could not start {}", part.command.get_program().display()))?;
    let outcome = match group.wait_at_most(part.ceiling)? {
        None => Outcome::TooSlow,
        Some(status) if status.success() => Outcome::Passed,
        Some(_) => Outcome::Failed,
    };
    let done = Done { name: part.name, ceiling: part.ceiling, outcome, took: started.elapsed() };
    println!("=== {}", done.line().split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(done)
}

fn skip(part: &Part) -> Done {
    let (name, ceiling) = (part.name, part.ceiling);
    Done { name, ceiling, outcome: Outcome::NotRun, took: Duration::ZERO }
}

impl Done {
    fn line(&self) -> String {
        let outcome = match self.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::TooSlow => "TOO SLOW, ended",
            Outcome::NotRun => "not run",
        };
        row(self.name, outcome, self.took, self.ceiling)
    }
}

fn row(name: &str, outcome: &str, took: Duration, ceiling: Duration) -> String {
    let (took, ceiling) = (took.as_secs_f64(), ceiling.as_secs_f64() / 60.0);
    format!("{name:<10} {outcome:<16} {took:>8.1} s   of {ceiling:>4} min")
}

fn table(done: &[Done]) -> String {
    let total = |time: fn(&Done) -> Duration| done.iter().map(time).sum();
    let passed = done.iter().all(|part| part.outcome == Outcome::Passed);
    let outcome = if passed { "ok" } else { "FAILED" };
    let mut lines: Vec<String> = done.iter().map(Done::line).collect();
    lines.push(row("in all", outcome, total(|part| part.took), total(|part| part.ceiling)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, millis: u64, script: &str) -> Part {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Part { name, ceiling: Duration::from_millis(millis), command }
    }

    #[test]
    fn a_part_past_its_ceiling_is_too_slow() {
        assert_eq!(run(part("slow", 100, "sleep 300")).unwrap().outcome, Outcome::TooSlow);
    }

    #[test]
    fn nothing_runs_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let touch = format!("touch {}", trace.display());
        let parts = vec![part("bad", 9000, "exit 3"), part("later", 9000, &touch)];
        assert!(!run_all(parts).unwrap());
        assert!(!trace.exists());
    }

    #[test]
    fn the_table_has_a_line_a_part_and_the_sum() {
        let minute = Duration::from_mins(1);
        let done = [
            Done { name: "fmt", ceiling: minute, outcome: Outcome::Passed, took: minute / 60 },
            Done {
                name: "tests",
                ceiling: 3 * minute,
                outcome: Outcome::TooSlow,
                took: 3 * minute,
            },
        ];
        let expected = "\
fmt        ok                    1.0 s   of    1 min
tests      TOO SLOW, ended     180.0 s   of    3 min
in all     FAILED              181.0 s   of    4 min";
        assert_eq!(table(&done), expected);
    }
}
