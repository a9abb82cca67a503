//! The learning rate at a step, in float64 and in the order of operations that PyTorch's
//! `LambdaLR` and the usual schedules with warm-up have.

use warpforge_training::{Recipe, Schedule};

pub fn learning_rate(recipe: &Recipe, step: u32) -> f64 {
    recipe.learning_rate * factor(recipe.schedule, step)
}

fn factor(schedule: Schedule, step: u32) -> f64 {
    let warmup = match schedule {
        Schedule::Constant => 0,
        Schedule::Warmup { warmup }
        | Schedule::Linear { warmup, .. }
        | Schedule::Cosine { warmup, .. }
        | Schedule::Step { warmup, .. } => warmup,
    };
    if step < warmup {
        return f64::from(step) / f64::from(warmup);
    }
    let after = f64::from(step - warmup);
    match schedule {
        Schedule::Constant | Schedule::Warmup { .. } => 1.0,
        Schedule::Linear { total, .. } | Schedule::Cosine { total, .. } if step >= total => 0.0,
        Schedule::Linear { total, .. } => f64::from(total - step) / f64::from(total - warmup),
        Schedule::Cosine { total, .. } => {
            let progress = after / f64::from(total - warmup);
            0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
        }
        Schedule::Step { every, gamma, .. } => power(gamma, f64::from((step - warmup) / every)),
    }
}

/// As Python's `**`, which is the C library's function. The compiler must not see a constant
/// exponent: it would take a root instead, which rounds otherwise.
pub fn power(base: f64, exponent: f64) -> f64 {
    base.powf(std::hint::black_box(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_the_usual_schedules() {
        let linear = Schedule::Linear { warmup: 2, total: 6 };
        let at = |schedule, steps: &[u32]| -> Vec<f64> {
            steps.iter().map(|step| factor(schedule, *step)).collect()
        };
        assert_eq!(at(linear, &[0, 1, 2, 3, 5, 6, 9]), [0.0, 0.5, 1.0, 0.75, 0.25, 0.0, 0.0]);
        assert_eq!(at(Schedule::Constant, &[0, 7]), [1.0, 1.0]);
        assert_eq!(at(Schedule::Warmup { warmup: 4 }, &[0, 1, 4, 9]), [0.0, 0.25, 1.0, 1.0]);
        let cosine = at(Schedule::Cosine { warmup: 0, total: 4 }, &[0, 2, 4, 5]);
        assert_eq!((cosine[0], cosine[2], cosine[3]), (1.0, 0.0, 0.0));
        assert!((cosine[1] - 0.5).abs() < 1e-15);
        let stairs = Schedule::Step { warmup: 1, every: 2, gamma: 0.5 };
        assert_eq!(at(stairs, &[0, 1, 2, 3, 4, 5]), [0.0, 1.0, 1.0, 0.5, 0.5, 0.25]);
    }
}
