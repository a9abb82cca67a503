//! A logarithmic axis.

/// Decades from the least to the greatest value, and one below for zero.
pub(super) struct Log {
    least: i32,
    greatest: i32,
    top: f64,
    bottom: f64,
}

impl Log {
    /// An axis for the positive ones among these values, drawn between two heights.
    pub fn of(values: impl Iterator<Item = f64>, top: f64, bottom: f64) -> Self {
        let mut bounds: Option<(f64, f64)> = None;
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            let (low, high) = bounds.unwrap_or((value, value));
            bounds = Some((low.min(value), high.max(value)));
        }
        let (low, high) = bounds.unwrap_or((1e-8, 1e-6));
        let least = low.log10().floor() as i32;
        let greatest = (high.log10().ceil() as i32).max(least + 1);
        Self { least, greatest, top, bottom }
    }

    /// The height of a value; zero lies on the axis, NaN and infinity at the top.
    pub fn y(&self, value: f64) -> f64 {
        if value == 0.0 {
            return self.bottom;
        }
        if !value.is_finite() {
            return self.top;
        }
        let share =
            (value.log10() - f64::from(self.least - 1)) / f64::from(self.greatest - self.least + 1);
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    /// Powers of ten to label, at most about eight.
    pub fn ticks(&self) -> Vec<i32> {
        let step = ((self.greatest - self.least) / 8 + 1).max(1);
        (self.least..=self.greatest).filter(|power| power.rem_euclid(step) == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_evenly_spaced_and_zero_lies_on_the_axis() {
        let scale = Log::of([1e-6, 0.0, f64::NAN, 1e-3].into_iter(), 0.0, 100.0);
        assert_eq!((scale.y(0.0), scale.y(f64::NAN)), (100.0, 0.0));
        let heights = [1e-6, 1e-5, 1e-4, 1e-3].map(|x| scale.y(x).round());
        assert_eq!(heights, [75.0, 50.0, 25.0, 0.0]);
        assert_eq!(scale.ticks(), [-6, -5, -4, -3]);
        let empty = Log::of(std::iter::empty(), 0.0, 1.0);
        assert!(empty.y(1e-7).is_finite() && !empty.ticks().is_empty());
        assert!(Log::of([1e-300, 1e300].into_iter(), 0.0, 1.0).ticks().len() <= 10);
    }
}
