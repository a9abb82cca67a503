//! Double-double numbers: unevaluated sums of two f64, about 31 digits.
//!
//! Complex functions are made of sums that cancel; carried out here, what is left over still
//! fills an f64.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `hi + lo`, where `lo` is at most half a unit in the last place of `hi`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dd {
    pub hi: f64,
    pub lo: f64,
}

const LN_2: Dd = Dd { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };
const PIO2: [f64; 3] =
    [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];
pub(crate) const PI: Dd = Dd { hi: std::f64::consts::PI, lo: 1.224_646_799_147_353_2e-16 };

pub(crate) fn dd(x: f64) -> Dd {
    Dd { hi: x, lo: 0.0 }
}

fn two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    let part = hi - a;
    Dd { hi, lo: (a - (hi - part)) + (b - part) }
}

fn quick_two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    Dd { hi, lo: b - (hi - a) }
}

/// The exact product of two f64.
pub(crate) fn product(a: f64, b: f64) -> Dd {
    let hi = a * b;
    Dd { hi, lo: a.mul_add(b, -hi) }
}

/// `x 2^k` over the whole range of `k`.
pub(crate) fn ldexp(x: f64, k: i32) -> f64 {
    let power = |k: i32| f64::from_bits(((k + 1023) as u64) << 52);
    match k {
        1024.. => ldexp(x * power(1023), (k - 1023).min(2200)),
        ..=-1023 => x * power(-1000) * power((k + 1000).max(-1022)),
        k => x * power(k),
    }
}

impl Add for Dd {
    type Output = Dd;

    fn add(self, other: Dd) -> Dd {
        let s = two_sum(self.hi, other.hi);
        let t = two_sum(self.lo, other.lo);
        let s = quick_two_sum(s.hi, s.lo + t.hi);
        quick_two_sum(s.hi, s.lo + t.lo)
    }
}

impl Neg for Dd {
    type Output = Dd;

    fn neg(self) -> Dd {
        Dd { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Dd {
    type Output = Dd;

    fn sub(self, other: Dd) -> Dd {
        self + -other
    }
}

impl Mul for Dd {
    type Output = Dd;

    fn mul(self, other: Dd) -> Dd {
        let p = product(self.hi, other.hi);
        quick_two_sum(p.hi, p.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Dd {
    type Output = Dd;

    fn div(self, other: Dd) -> Dd {
        let first = self.hi / other.hi;
        if !first.is_finite() || first == 0.0 {
            return dd(first);
        }
        let rest = self - other * dd(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * dd(second);
        quick_two_sum(first, second) + dd(rest.hi / other.hi)
    }
}

impl Dd {
    pub fn f64(self) -> f64 {
        // A not finite `hi` leaves a NaN in `lo`.
        if self.hi.is_finite() { self.hi + self.lo } else { self.hi }
    }

    pub fn scale(self, by: f64) -> Dd {
        Dd { hi: self.hi * by, lo: self.lo * by }
    }

    pub fn square(self) -> Dd {
        self * self
    }

    pub fn sqrt(self) -> Dd {
        if self.hi <= 0.0 {
            return dd(0.0);
        }
        let root = self.hi.sqrt();
        let rest = self - product(root, root);
        quick_two_sum(root, rest.hi / (2.0 * root))
    }

    /// `(m, k)` with `exp(x) - 1 = m` where `k` is 0, else `exp(x) = (1 + m) 2^k`.
    fn exp_parts(self) -> (Dd, i32) {
        const HALVINGS: u32 = 9;
        let k = (self.hi / LN_2.hi).round();
        let k = if self.hi.abs() < 0.35 { 0.0 } else { k };
        let r = (self - LN_2 * dd(k)).scale(1.0 / f64::from(1 << HALVINGS));
        let mut sum = r;
        let mut term = r;
        for n in 2..9 {
            term = term * r / dd(f64::from(n));
            sum = sum + term;
        }
        for _ in 0..HALVINGS {
            sum = sum.scale(2.0) + sum.square();
        }
        (sum, k as i32)
    }

    /// `exp(x) - 1`, for arguments whose exponential is finite.
    pub fn exp_m1(self) -> Dd {
        let (m, k) = self.exp_parts();
        if k == 0 {
            return m;
        }
        let e = m + dd(1.0);
        Dd { hi: ldexp(e.hi, k), lo: ldexp(e.lo, k) } - dd(1.0)
    }

    /// `exp(x)` as a number near 1 and a power of two, for any finite argument.
    pub fn exp(self) -> (Dd, i32) {
        let limited = if self.hi.abs() > 1e5 { dd(1e5f64.copysign(self.hi)) } else { self };
        let (m, k) = limited.exp_parts();
        (m + dd(1.0), k)
    }

    /// The natural logarithm of a positive number.
    pub fn ln(self) -> Dd {
        let near = self - dd(1.0);
        if near.hi.abs() < 0.01 {
            return near.ln_1p();
        }
        let guess = self.hi.ln();
        let (e, k) = (-dd(guess)).exp();
        let e = Dd { hi: ldexp(e.hi, k), lo: ldexp(e.lo, k) };
        dd(guess) + (self * e - dd(1.0))
    }

    /// `ln(1 + x)` for `x > -1`.
    pub fn ln_1p(self) -> Dd {
        if self.hi.abs() >= 0.01 {
            return (self + dd(1.0)).ln();
        }
        // 2 atanh(x / (2 + x))
        let s = self / (self + dd(2.0));
        let square = s.square();
        let mut sum = dd(0.0);
        for n in (0..8).rev() {
            sum = sum * square + dd(1.0) / dd(f64::from(2 * n + 1));
        }
        (s * sum).scale(2.0)
    }

    pub fn sin_cos(self) -> (Dd, Dd) {
        if self.hi.abs() > 1e8 {
            let (sin, cos) = self.hi.sin_cos();
            // The first derivative carries what `lo` adds.
            return (two_sum(sin, cos * self.lo), two_sum(cos, -sin * self.lo));
        }
        let k = (self.hi / PIO2[0]).round();
        let mut r = self;
        for part in PIO2 {
            r = r - product(k, part);
        }
        let (sin, cos) = r.sin_cos_small();
        match (k as i64).rem_euclid(4) {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    /// Taylor's series, for at most a quarter of pi.
    fn sin_cos_small(self) -> (Dd, Dd) {
        let square = self.square();
        let (mut sin, mut cos) = (dd(1.0), dd(1.0));
        for n in (1..15).rev() {
            let n = f64::from(2 * n);
            sin = dd(1.0) - square * sin / dd(n * (n + 1.0));
            cos = dd(1.0) - square * cos / dd(n * (n - 1.0));
        }
        (self * sin, cos)
    }

    /// The angle of the point `(x, self)`.
    pub fn atan2(self, x: Dd) -> Dd {
        let guess = self.hi.atan2(x.hi);
        let size = self.hi.abs().max(x.hi.abs());
        if size == 0.0 || !size.is_finite() {
            return dd(guess);
        }
        // Both by one power of two, which the angle does not notice.
        let scale = ldexp(1.0, -exponent(size));
        let (y, x) = (self.scale(scale), x.scale(scale));
        let (sin, cos) = dd(guess).sin_cos();
        dd(guess) + (y * cos - x * sin) / (x.square() + y.square()).sqrt()
    }

    /// `sinh` and `cosh`, for arguments whose exponential is finite.
    pub fn sinh_cosh(self) -> (Dd, Dd) {
        let m = self.exp_m1();
        let e = m + dd(1.0);
        let sinh = (m + m / e).scale(0.5);
        let cosh = (e + dd(1.0) / e).scale(0.5);
        (sinh, cosh)
    }

    pub fn ln_2() -> Dd {
        LN_2
    }
}

/// The power of two just below a finite number; subnormal ones count as the smallest normal.
pub(crate) fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both halves of a value made with 60 digits.
    fn close(found: Dd, hi: f64, lo: f64) {
        let off = (found - Dd { hi, lo }).hi.abs();
        assert!(off <= hi.abs() * 1e-29, "{found:?} is not {hi:e} + {lo:e}");
    }

    #[test]
    fn functions_have_thirty_digits() {
        close(dd(0.1).exp_m1(), 0.105_170_918_075_647_63, 1.771_487_713_610_55e-18);
        close(dd(3.5).exp_m1(), 32.115_451_958_692_31, 2.243_560_140_392_755_4e-15);
        close(dd(7.25).ln(), 1.981_001_468_866_583_3, 6.013_262_624_124_967e-17);
        close(dd(1e-5).ln_1p(), 9.999_950_000_333_332e-06, -2.386_863_728_449_341_6e-22);
        close(dd(2.0).sin_cos().0, 0.909_297_426_825_681_7, -1.402_090_655_781_625_6e-17);
        close(dd(100.0).sin_cos().1, 0.862_318_872_287_683_9, 4.334_809_858_136_501e-17);
        close(dd(1.5).atan2(dd(-0.75)), 2.034_443_935_795_702_7, 2.841_996_617_907_152e-17);
        close(dd(2.0).sqrt(), std::f64::consts::SQRT_2, -9.667_293_313_452_913e-17);
        close(dd(0.01).sinh_cosh().0, 0.010_000_166_667_500_003, -5.644_562_789_430_375e-19);
    }
}
