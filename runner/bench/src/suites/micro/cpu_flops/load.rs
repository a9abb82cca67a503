//! The kernels as a load: every core computes the same again and again, and every result is held
//! against what plain code made of it beforehand.

use std::time::{Duration, Instant};

use super::kernel::{self, Ready};
use super::rate::Tuned;
use super::state::State;
use crate::load::{Load, Round};
use crate::suite::{Context, Unable};
use crate::suites::micro::threads::{of, together};

const ROUND: Duration = Duration::from_millis(500);

pub fn load() -> Box<dyn Load> {
    Box::new(CpuLoad::default())
}

#[derive(Default)]
struct CpuLoad {
    cpus: Vec<usize>,
    jobs: Vec<Job>,
}

/// A kernel with what it has to make of its seed.
struct Job {
    kernel: Ready,
    iterations: u64,
    wanted: Box<State>,
}

/// What one core did.
struct Done {
    stretches: u64,
    difference: Option<String>,
}

impl Job {
    /// Stretches until the time is up or one goes wrong.
    fn repeat(&self, state: &mut State, time: Duration) -> Done {
        let begun = Instant::now();
        let seed = self.kernel.seeded();
        let mut done = Done { stretches: 0, difference: None };
        while done.difference.is_none() && begun.elapsed() < time {
            state.clone_from(&seed);
            self.kernel.run(self.iterations, state);
            done.difference = self.kernel.difference(state, &self.wanted);
            done.stretches += 1;
        }
        done
    }

    fn operations(&self) -> f64 {
        (self.iterations * self.kernel.instructions * self.kernel.operations) as f64
    }
}

impl Load for CpuLoad {
    fn unit(&self) -> &'static str {
        "OP"
    }

    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.cpus = of(cx);
        for kernel in kernel::best() {
            cx.check()?;
            let iterations = Tuned::new(kernel, self.cpus[0])?.iterations;
            let wanted = kernel.wanted(iterations);
            self.jobs.push(Job { kernel, iterations, wanted });
        }
        Ok(())
    }

    fn round(&mut self, cx: &Context<'_>) -> Result<Round, Unable> {
        let mut round = Round { amount: 0.0, checks: 0 };
        let time = ROUND / self.jobs.len() as u32;
        for job in &self.jobs {
            cx.check()?;
            let mut states: Vec<_> = self.cpus.iter().map(|_| job.kernel.seeded()).collect();
            let done = together(&self.cpus, &mut states, |state| job.repeat(state, time))?.results;
            for (cpu, done) in self.cpus.iter().zip(done) {
                if let Some(difference) = done.difference {
                    return Err(Unable::Wrong(format!("CPU {cpu}: {difference}")));
                }
                round.amount += done.stretches as f64 * job.operations();
                round.checks += done.stretches;
            }
        }
        Ok(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(iterations: u64) -> Job {
        let kernel = kernel::best()[0];
        Job { kernel, iterations, wanted: kernel.wanted(iterations) }
    }

    #[test]
    fn right_results_are_counted() {
        let job = job(100);
        let done = job.repeat(&mut job.kernel.seeded(), Duration::from_millis(5));
        assert_eq!(done.difference, None);
        assert!(done.stretches > 0);
    }

    #[test]
    fn the_first_wrong_result_ends_it() {
        let mut job = job(100);
        job.wanted.sums[3] ^= 1;
        let done = job.repeat(&mut job.kernel.seeded(), Duration::from_mins(1));
        assert_eq!(done.stretches, 1);
        assert!(done.difference.unwrap().contains("byte 0 of the sums"));
    }
}
