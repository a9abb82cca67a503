//! How fast a kernel runs, and how fast the processor could run it.

use std::time::{Duration, Instant};

use super::kernel::Ready;
use super::state::State;
use crate::measure::repetitions;
use crate::statistics::{quantile, sorted};
use crate::suite::Unable;
use crate::suites::micro::frequency;
use crate::suites::micro::threads::{Scope, together};

/// So long the kernel runs between two looks at the clock's frequency. Wide vectors lower it, and
/// it rises again soon after them: looks of twenty microseconds saw another than the kernel's on a
/// Xeon, looks of ten its own.
const STRETCH: Duration = Duration::from_micros(200);
/// The processor's limit is looked for in so many stretches of a part of that, as shorter ones are
/// disturbed less often.
const TRIALS: usize = 400;
const SHORTER: u64 = 4;
/// The clock is the fastest of so many looks before a trial and one after it: what disturbs a look
/// makes it slower.
const LOOKS: usize = 3;

/// A kernel with what was found about it on this processor.
#[derive(Clone, Copy)]
pub struct Tuned {
    pub kernel: Ready,
    /// Iterations of one stretch.
    pub iterations: u64,
    /// Instructions a cycle, at the best, as the processor's units allow it: a power of two, or one
    /// in such a number of cycles.
    pub per_cycle: f64,
}

/// What cores did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Operations a second, all together.
    pub operations: f64,
    /// Cycles a second, of one.
    pub hertz: f64,
}

impl Tuned {
    /// Checks the kernel's results and finds out how fast it can run, on one core.
    pub fn new(kernel: Ready, cpu: usize) -> Result<Self, Unable> {
        let mut states = [kernel.seeded()];
        let done = together(&[cpu], &mut states, |state| {
            check(kernel, state)?;
            Ok(Self::find(kernel, state))
        })?;
        done.results.into_iter().next().expect("one thread, one result")
    }

    fn find(kernel: Ready, state: &mut State) -> Self {
        let iterations = repetitions(STRETCH, |count| timed(kernel, count, state));
        let short = (iterations / SHORTER).max(1);
        let mut looks = [frequency::hertz(); LOOKS + 1];
        let mut trials = Vec::with_capacity(TRIALS);
        for trial in 0..TRIALS {
            let took = timed(kernel, short, state).as_secs_f64();
            looks[trial % (LOOKS + 1)] = frequency::hertz();
            let hertz = looks.iter().copied().fold(0.0, f64::max);
            trials.push((short * kernel.instructions) as f64 / took / hertz);
        }
        // Whatever disturbs the kernel makes it look slower; what disturbs all looks at the clock,
        // which is rare, makes it look faster.
        let best = quantile(&sorted(&trials), 0.9);
        Self { kernel, iterations, per_cycle: units(best) }
    }

    /// Operations a second at so many cycles a second, if every unit is busy in every cycle.
    pub fn peak(&self, hertz: f64, cores: usize) -> f64 {
        self.per_cycle * self.kernel.operations as f64 * hertz * cores as f64
    }

    /// The peak in words.
    pub fn peak_words(&self, hertz: f64, scope: &Scope) -> String {
        let rate = if self.per_cycle < 1.0 {
            format!("one {} in {} cycles", self.kernel.instruction, 1.0 / self.per_cycle)
        } else {
            format!("{} × {} a cycle", self.per_cycle, self.kernel.instruction)
        };
        let (ghz, cores) = (hertz / 1e9, scope.words());
        format!("peak of {rate} (measured) at the measured {ghz:.2} GHz on {cores}")
    }

    /// All cores of the scope for about `time`.
    pub fn rate(&self, scope: &Scope, time: Duration) -> Result<Rate, Unable> {
        let mut states: Vec<_> = scope.cpus.iter().map(|_| self.kernel.seeded()).collect();
        let done = together(&scope.cpus, &mut states, |state| self.alone(state, time))?;
        let cores = done.results.len() as f64;
        Ok(Rate {
            operations: done.results.iter().map(|rate| rate.operations).sum(),
            hertz: done.results.iter().map(|rate| rate.hertz).sum::<f64>() / cores,
        })
    }

    fn alone(&self, state: &mut State, time: Duration) -> Rate {
        let begun = Instant::now();
        let (mut busy, mut stretches) = (Duration::ZERO, 0);
        let mut cycle = 0.0;
        while begun.elapsed() < time || stretches == 0 {
            cycle += 1.0 / frequency::hertz();
            busy += timed(self.kernel, self.iterations, state);
            stretches += 1;
        }
        let each = self.iterations * self.kernel.instructions * self.kernel.operations;
        // Both are means over the block: what slows the core down for longer than a stretch slows
        // both.
        let hertz = stretches as f64 / cycle;
        Rate { operations: (each * stretches) as f64 / busy.as_secs_f64(), hertz }
    }
}

fn timed(kernel: Ready, iterations: u64, state: &mut State) -> Duration {
    let from = Instant::now();
    kernel.run(iterations, state);
    from.elapsed()
}

fn check(kernel: Ready, state: &mut State) -> Result<(), Unable> {
    const ITERATIONS: u64 = 1000;
    kernel.run(ITERATIONS, state);
    match kernel.difference(state, &kernel.wanted(ITERATIONS)) {
        Some(difference) => Err(Unable::Wrong(difference)),
        None => Ok(()),
    }
}

/// The rate that units of hardware have: so many a cycle, or one in so many cycles, and a power of
/// two in all processors that this has run on. What was measured mostly lies below it, as others
/// use the units too, and may lie above by as much as the frequency has changed since it was
/// looked at.
fn units(measured: f64) -> f64 {
    const BELOW: f64 = 0.25;
    (measured.log2() + BELOW).round().exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::micro::cpu_flops::kernel;

    #[test]
    fn rates_are_those_of_whole_units() {
        let rows = [
            (1.99, 2.0),
            (2.01, 2.0),
            (1.3, 2.0),
            (2.3, 2.0),
            (3.2, 4.0),
            (4.3, 4.0),
            (1.0, 1.0),
            (0.75, 1.0),
            (1.1, 1.0),
            (0.497, 0.5),
            (0.05, 1.0 / 16.0),
            (0.0626, 1.0 / 16.0),
            (0.07, 1.0 / 16.0),
        ];
        for (measured, wanted) in rows {
            assert_eq!(units(measured), wanted, "{measured}");
        }
    }

    #[test]
    fn the_peak_says_how_it_was_found() {
        let kernel = kernel::best().into_iter().find(|k| k.family.precision() == "f32").unwrap();
        let tuned = Tuned { kernel, iterations: 1, per_cycle: 2.0 };
        let scope = Scope { name: "all", cpus: vec![0, 1, 2] };
        let operations = kernel.operations as f64;
        assert_eq!(tuned.peak(1e9, 3), 6e9 * operations);
        let words = tuned.peak_words(2.5e9, &scope);
        assert!(words.starts_with("peak of 2 × "), "{words}");
        assert!(
            words.ends_with(" a cycle (measured) at the measured 2.50 GHz on 3 cores"),
            "{words}"
        );
        let slow = Tuned { per_cycle: 1.0 / 16.0, ..tuned };
        assert!(slow.peak_words(1e9, &scope).contains(" in 16 cycles"));
    }
}
