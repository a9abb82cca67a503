//! A component under load for as long as it is told to: rounds of a [`Load`], counted, timed, and
//! each held against what it has to give.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use warpforge_parity::verdict::Verdict;

use crate::load::Load;
use crate::model::Component;
use crate::monitor::Summary;
use crate::suite::{Context, Unable};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StressRun {
    pub component: Component,
    /// For how long it was to go on.
    pub duration_seconds: f64,
    pub verdict: Verdict,
    /// Why the verdict is not a pass.
    pub reason: Option<String>,
    pub tally: Tally,
    /// What the monitor saw meanwhile.
    pub monitor: Option<Summary>,
}

/// What has been done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Time under load.
    pub seconds: f64,
    pub rounds: u64,
    /// How much was done, in `unit`.
    pub amount: f64,
    /// Such as `FLOP` or `B`.
    pub unit: String,
    /// Per second, over all rounds that were right.
    pub rate: f64,
    /// Per second, of the slowest round: far below the others, something slowed the hardware.
    pub slowest_rate: Option<f64>,
    /// Per second, of the fastest round.
    pub fastest_rate: Option<f64>,
    /// How many results were held against what they have to be.
    pub checks: u64,
    /// How many rounds gave a wrong result.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
}

impl Tally {
    fn add(&mut self, amount: f64, checks: u64, took: Duration) {
        let rate = amount / took.as_secs_f64().max(1e-9);
        self.amount += amount;
        self.checks += checks;
        self.rate = self.amount / self.seconds.max(1e-9);
        self.slowest_rate = Some(self.slowest_rate.map_or(rate, |known| known.min(rate)));
        self.fastest_rate = Some(self.fastest_rate.map_or(rate, |known| known.max(rate)));
    }

    fn wrong(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }
}

/// A load cannot begin as it was asked for, such as in a folder that cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unready(String);

/// Puts the component under load until the context's time is up, it is told to stop, or it cannot
/// go on. A wrong result does not end it: how often results are wrong says what kind of defect it
/// is. `tell` is told after every round.
pub fn drive(
    component: Component,
    load: &mut dyn Load,
    cx: &Context<'_>,
    tell: &mut dyn FnMut(&Tally),
) -> Result<StressRun, Unready> {
    let mut tally = Tally { unit: load.unit().to_owned(), ..Tally::default() };
    let ended = match load.prepare(cx) {
        Err(Unable::Failed(why)) => return Err(Unready(why)),
        Err(other) => Err(other),
        Ok(()) => rounds(load, cx, &mut tally, tell),
    };
    let (verdict, reason) = judge(&tally, ended.err());
    let duration_seconds = cx.duration.as_secs_f64();
    Ok(StressRun { component, duration_seconds, verdict, reason, tally, monitor: None })
}

fn rounds(
    load: &mut dyn Load,
    cx: &Context<'_>,
    tally: &mut Tally,
    tell: &mut dyn FnMut(&Tally),
) -> Result<(), Unable> {
    let begun = Instant::now();
    loop {
        cx.check()?;
        let from = Instant::now();
        let done = load.round(cx);
        tally.seconds = begun.elapsed().as_secs_f64();
        match done {
            Ok(round) => tally.add(round.amount, round.checks, from.elapsed()),
            Err(Unable::Wrong(what)) => tally.wrong(what),
            Err(other) => return Err(other),
        }
        tally.rounds += 1;
        tell(tally);
        if begun.elapsed() >= cx.duration {
            return Ok(());
        }
    }
}

/// A wrong result outweighs whatever ended it, and a load that checked nothing is no pass.
fn judge(tally: &Tally, ended: Option<Unable>) -> (Verdict, Option<String>) {
    if let Some(first) = &tally.first_error {
        let rounds = if tally.errors == 1 { "round" } else { "rounds" };
        let reason = format!("{} {rounds} gave a wrong result; the first: {first}", tally.errors);
        return (Verdict::Fail, Some(reason));
    }
    match ended {
        Some(Unable::Wrong(what)) => (Verdict::Fail, Some(what)),
        Some(Unable::Missing(what)) => (Verdict::Skipped, Some(what)),
        Some(Unable::Failed(what)) => (Verdict::Inconclusive, Some(what)),
        Some(Unable::Interrupted) => (Verdict::Inconclusive, Some("interrupted".to_owned())),
        None if tally.checks == 0 => (Verdict::Invalid, Some("nothing was checked".to_owned())),
        None => (Verdict::Pass, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Round;
    use crate::model::Params;
    use crate::suite::{Stop, Unwatched};
    use crate::system::{Surroundings, System};

    /// Adds up numbers, and holds the sum against Gauss's; from one round on it adds one too few,
    /// and at another something else happens.
    #[derive(Default)]
    struct Sums<'a> {
        round: u64,
        wrong_at: Vec<u64>,
        ends_at: Option<(u64, Unable)>,
        stops_at: Option<(u64, &'a Stop)>,
        unprepared: Option<Unable>,
    }

    const COUNT: u64 = 1000;

    impl Load for Sums<'_> {
        fn unit(&self) -> &'static str {
            "sum"
        }

        fn prepare(&mut self, _: &Context<'_>) -> Result<(), Unable> {
            self.unprepared.clone().map_or(Ok(()), Err)
        }

        fn round(&mut self, _: &Context<'_>) -> Result<Round, Unable> {
            self.round += 1;
            if let Some((at, stop)) = self.stops_at
                && at == self.round
            {
                stop.set();
            }
            if let Some((at, unable)) = &self.ends_at
                && *at == self.round
            {
                return Err(unable.clone());
            }
            let count = COUNT - u64::from(self.wrong_at.contains(&self.round));
            let (found, wanted) = ((0..=count).sum::<u64>(), COUNT * (COUNT + 1) / 2);
            if found != wanted {
                return Err(Unable::Wrong(format!("the sum is {found}, and has to be {wanted}")));
            }
            std::thread::sleep(Duration::from_millis(1));
            Ok(Round { amount: COUNT as f64, checks: 1 })
        }
    }

    fn run(load: &mut Sums<'_>, stop: &Stop, milliseconds: u64) -> (StressRun, u64) {
        let (run, told) = attempt(load, stop, milliseconds);
        (run.unwrap(), told)
    }

    fn attempt(
        load: &mut Sums<'_>,
        stop: &Stop,
        milliseconds: u64,
    ) -> (Result<StressRun, Unready>, u64) {
        let system = System::read(&crate::Sysroot::at("/nowhere"), &Surroundings::default());
        let cx = Context {
            duration: Duration::from_millis(milliseconds),
            burn_in: Duration::ZERO,
            params: &Params::new(),
            system: &system,
            stop,
            watch: &Unwatched,
        };
        let mut told = 0;
        let run = drive(Component::Cpu, load, &cx, &mut |_| told += 1);
        (run, told)
    }

    #[test]
    fn rounds_go_on_until_the_time_is_up() {
        let (run, told) = run(&mut Sums::default(), &Stop::default(), 30);
        assert_eq!((run.verdict, run.reason), (Verdict::Pass, None));
        let tally = run.tally;
        assert!(tally.seconds >= 0.03 && tally.rounds >= 1, "{tally:?}");
        assert_eq!((tally.rounds, tally.checks, tally.errors), (told, told, 0));
        assert_eq!(tally.amount, (COUNT * told) as f64);
        assert!(tally.slowest_rate <= tally.fastest_rate && tally.rate > 0.0, "{tally:?}");
    }

    #[test]
    fn a_wrong_result_fails_and_is_counted_on() {
        let mut load = Sums { wrong_at: vec![2, 4], ..Sums::default() };
        let stop = Stop::default();
        load.stops_at = Some((6, &stop));
        let (run, _) = run(&mut load, &stop, 60_000);
        assert_eq!((run.verdict, run.tally.errors, run.tally.checks), (Verdict::Fail, 2, 4));
        let reason = run.reason.unwrap();
        let wanted = "2 rounds gave a wrong result; the first: the sum is 499500, and has to be";
        assert!(reason.starts_with(wanted), "{reason}");
    }

    #[test]
    fn an_interruption_keeps_what_was_done() {
        let stop = Stop::default();
        let mut load = Sums { stops_at: Some((3, &stop)), ..Sums::default() };
        let (run, told) = run(&mut load, &stop, 60_000);
        assert_eq!(run.verdict, Verdict::Inconclusive);
        assert_eq!((run.reason.as_deref(), told), (Some("interrupted"), 3));
        assert_eq!(run.tally.amount, 3.0 * COUNT as f64);
    }

    #[test]
    fn every_ending_has_its_verdict() {
        let missing = Unable::Missing("no NVIDIA driver (libcuda.so.1 not found)".into());
        let mut load = Sums { unprepared: Some(missing), ..Sums::default() };
        let (skipped, told) = run(&mut load, &Stop::default(), 10);
        assert_eq!((skipped.verdict, told), (Verdict::Skipped, 0));
        assert_eq!(skipped.reason.unwrap(), "no NVIDIA driver (libcuda.so.1 not found)");

        let full = Unable::Failed("the disk is full".into());
        let mut load = Sums { ends_at: Some((2, full)), ..Sums::default() };
        let (failed, told) = run(&mut load, &Stop::default(), 60_000);
        assert_eq!((failed.verdict, told), (Verdict::Inconclusive, 1));
        assert_eq!(failed.reason.unwrap(), "the disk is full");

        let folder = Unable::Failed("/nowhere cannot be written".into());
        let mut load = Sums { unprepared: Some(folder), ..Sums::default() };
        let (unready, told) = attempt(&mut load, &Stop::default(), 10);
        assert_eq!(unready, Err(Unready("/nowhere cannot be written".into())));
        assert_eq!(told, 0);

        assert_eq!(judge(&Tally::default(), None).0, Verdict::Invalid);
    }
}
