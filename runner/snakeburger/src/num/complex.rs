//! Complex functions that keep their accuracy where the textbook formulas lose it.
//!
//! Finite arguments are evaluated in double-double arithmetic, so each part is within a unit or
//! two in its own last place, cancellation or not. Infinities, NaNs and signed zeros follow C's
//! Annex G where it speaks of the function.

use std::f64::consts::FRAC_PI_2;

use num_complex::Complex64;

use super::dd::{self, Dd, dd, exponent, ldexp};
pub use super::inverse::{acos, acosh, asin, asinh, atan, atanh};

/// A real number as a complex one.
pub fn real(x: f64) -> Complex64 {
    Complex64::new(x, 0.0)
}

pub(super) fn nan() -> Complex64 {
    Complex64::new(f64::NAN, f64::NAN)
}

fn finite(z: Complex64) -> bool {
    z.re.is_finite() && z.im.is_finite()
}

/// A number in double-double parts.
#[derive(Clone, Copy)]
struct Wide {
    re: Dd,
    im: Dd,
}

impl Wide {
    fn new(re: Dd, im: Dd) -> Self {
        Self { re, im }
    }

    fn mul(self, other: Wide) -> Wide {
        let Wide { re: c, im: d } = other;
        Wide::new(self.re * c - self.im * d, self.re * d + self.im * c)
    }

    /// The quotient, for numbers whose squares neither overflow nor underflow.
    fn div(self, other: Wide) -> Wide {
        let norm = other.re.square() + other.im.square();
        let top = self.mul(Wide::new(other.re, -other.im));
        Wide::new(top.re / norm, top.im / norm)
    }

    fn round(self) -> Complex64 {
        Complex64::new(self.re.f64(), self.im.f64())
    }

    /// The number times `2^k`, rounded.
    fn round_scaled(self, k: i32) -> Complex64 {
        let z = self.round();
        Complex64::new(ldexp(z.re, k), ldexp(z.im, k))
    }
}

/// A number brought near 1 and the power of two that was taken out.
fn scaled(z: Complex64) -> (Wide, i32) {
    let k = exponent(z.re.abs().max(z.im.abs()));
    (Wide::new(dd(ldexp(z.re, -k)), dd(ldexp(z.im, -k))), k)
}

/// Lexicographic order, for the few operations that compare complex numbers.
pub fn less(x: Complex64, y: Complex64) -> bool {
    x.re < y.re || (x.re == y.re && x.im < y.im)
}

pub fn div(x: Complex64, y: Complex64) -> Complex64 {
    let zero = |z: Complex64| z.re == 0.0 && z.im == 0.0;
    if zero(y) {
        let y = y.re.abs();
        return Complex64::new(x.re / y, x.im / y);
    }
    if zero(x) && finite(y) {
        return smith(x, y);
    }
    if finite(x) && finite(y) {
        let ((top, k), (bottom, l)) = (scaled(x), scaled(y));
        return top.div(bottom).round_scaled(k - l);
    }
    let infinite = |z: Complex64| z.re.is_infinite() || z.im.is_infinite();
    // An infinity counts as one unit in its direction, anything finite beside it as nothing.
    let boxed = |z: Complex64| {
        let unit = |x: f64| f64::from(u8::from(x.is_infinite())).copysign(x);
        Complex64::new(unit(z.re), unit(z.im))
    };
    if infinite(x) && finite(y) {
        let q = boxed(x) * y.conj();
        return Complex64::new(f64::INFINITY * q.re, f64::INFINITY * q.im);
    }
    if finite(x) && infinite(y) {
        let q = x * boxed(y).conj();
        return Complex64::new(0.0 * q.re, 0.0 * q.im);
    }
    smith(x, y)
}

/// Division by Smith's method, which carries signs of zeros and NaNs through.
fn smith(x: Complex64, y: Complex64) -> Complex64 {
    if y.re.abs() >= y.im.abs() {
        let ratio = y.im / y.re;
        let scale = y.re + y.im * ratio;
        Complex64::new((x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale)
    } else {
        let ratio = y.re / y.im;
        let scale = y.re * ratio + y.im;
        Complex64::new((x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale)
    }
}

pub fn rem(x: Complex64, y: Complex64) -> Complex64 {
    let q = div(x, y);
    x - Complex64::new(q.re.trunc(), q.im.trunc()) * y
}

/// `z²` with the real part factored, so that it does not cancel.
pub fn square(z: Complex64) -> Complex64 {
    Complex64::new((z.re - z.im) * (z.re + z.im), 2.0 * z.re * z.im)
}

pub fn exp(z: Complex64) -> Complex64 {
    let (a, b) = (z.re, z.im);
    if b == 0.0 {
        return Complex64::new(a.exp(), b);
    }
    if !finite(z) {
        return match a {
            a if a == f64::NEG_INFINITY => {
                if b.is_finite() {
                    Complex64::new(0.0 * b.cos(), 0.0 * b.sin())
                } else {
                    Complex64::new(0.0, 0.0f64.copysign(b))
                }
            }
            a if a == f64::INFINITY => {
                if b.is_finite() {
                    Complex64::new(a * b.cos(), a * b.sin())
                } else {
                    Complex64::new(a, f64::NAN)
                }
            }
            _ => nan(),
        };
    }
    let (e, k) = dd(a).exp();
    let (sin, cos) = dd(b).sin_cos();
    Wide::new(e * cos, e * sin).round_scaled(k)
}

/// `exp(z) - 1` without cancellation: the real part is `expm1(a) cos b - 2 sin²(b/2)`.
pub fn exp_m1(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.exp_m1(), z.im);
    }
    if !finite(z) || z.re.abs() > 700.0 {
        return exp(z) - 1.0;
    }
    let (sin, cos) = dd(z.im).sin_cos();
    let (half, _) = dd(z.im * 0.5).sin_cos();
    let m = dd(z.re).exp_m1();
    let re = m * cos - half.square().scale(2.0);
    Wide::new(re, (m + dd(1.0)) * sin).round()
}

pub fn ln(z: Complex64) -> Complex64 {
    Complex64::new(ln_abs(z).f64(), z.im.atan2(z.re))
}

/// `ln |z|`, accurate near the unit circle too.
pub(super) fn ln_abs(z: Complex64) -> Dd {
    let big = z.re.abs().max(z.im.abs());
    if z.re.is_infinite() || z.im.is_infinite() {
        return dd(f64::INFINITY);
    }
    if z.re.is_nan() || z.im.is_nan() {
        return dd(f64::NAN);
    }
    if big == 0.0 {
        return dd(f64::NEG_INFINITY);
    }
    if (0.5..=2.0).contains(&big) {
        let square = dd::product(z.re, z.re) - dd(1.0) + dd::product(z.im, z.im);
        return square.ln_1p().scale(0.5);
    }
    // Subnormal numbers first, so that the rest finds a leading digit.
    let (z, lift) = if big < 1e-290 { (z * 2f64.powi(100), 100) } else { (z, 0) };
    let (w, k) = scaled(z);
    let norm = (w.re.square() + w.im.square()).ln().scale(0.5);
    norm + Dd::ln_2() * dd(f64::from(k - lift))
}

/// `ln(1 + z)` without cancellation.
pub fn ln_1p(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if !finite(z) || x.abs().max(y.abs()) > 1e15 {
        return ln(Complex64::new(1.0 + x, y));
    }
    let shifted = dd(1.0) + dd(x);
    let im = if y == 0.0 { y.atan2(1.0 + x) } else { dd(y).atan2(shifted).f64() };
    let t = dd(2.0 * x) + dd::product(x, x) + dd::product(y, y);
    let re = match t.hi {
        t if t <= -1.0 => f64::NEG_INFINITY,
        hi if hi > -0.75 => t.ln_1p().scale(0.5).f64(),
        _ => (shifted.square() + dd::product(y, y)).ln().scale(0.5).f64(),
    };
    // `2x` and `y²` may both vanish beside each other's rounding: then only `y²` is left.
    Complex64::new(if x == 0.0 && re == 0.0 { 0.5 * y * y } else { re }, im)
}

/// The square root of what [`scaled`] gives, in the right half-plane.
fn wide_sqrt(w: Wide) -> Wide {
    let norm = (w.re.square() + w.im.square()).sqrt();
    let size = if w.re.hi < 0.0 { -w.re } else { w.re };
    let t = ((size + norm).scale(0.5)).sqrt();
    let other = w.im / t.scale(2.0);
    if w.re.hi >= 0.0 {
        return Wide::new(t, other);
    }
    let negative = w.im.hi.is_sign_negative();
    let (x, y) = if negative { (-other, -t) } else { (other, t) };
    Wide::new(x, y)
}

/// A finite number as `w 4^k`.
fn scaled_by_squares(z: Complex64) -> (Wide, i32) {
    let k = exponent(z.re.abs().max(z.im.abs())).div_euclid(2);
    let part = |x: f64| dd(ldexp(ldexp(x, -k), -k));
    (Wide::new(part(z.re), part(z.im)), k)
}

pub fn sqrt(z: Complex64) -> Complex64 {
    let (a, b) = (z.re, z.im);
    if a == 0.0 && b == 0.0 {
        return Complex64::new(0.0, b);
    }
    if b.is_infinite() {
        return Complex64::new(f64::INFINITY, b);
    }
    if a.is_infinite() {
        let small = if b.is_nan() { b } else { 0.0f64.copysign(b) };
        return if a > 0.0 {
            Complex64::new(a, small)
        } else {
            Complex64::new(small.abs(), a.abs().copysign(b))
        };
    }
    if !finite(z) {
        return nan();
    }
    let (w, k) = scaled_by_squares(z);
    let root = wide_sqrt(w).round_scaled(k);
    Complex64::new(root.re, root.im.copysign(b))
}

pub fn rsqrt(z: Complex64) -> Complex64 {
    if z.re == 0.0 && z.im == 0.0 {
        return Complex64::new(f64::INFINITY, f64::NAN);
    }
    if z.re.is_infinite() || z.im.is_infinite() {
        return Complex64::new(0.0, -0.0f64.copysign(z.im));
    }
    if !finite(z) {
        return nan();
    }
    let (w, k) = scaled_by_squares(z);
    let root = wide_sqrt(w);
    let inverse = Wide::new(dd(1.0), dd(0.0)).div(root).round_scaled(-k);
    Complex64::new(inverse.re, inverse.im.copysign(-z.im))
}

/// `exp(w)` of a finite number, rounded.
fn wide_exp(w: Wide) -> Complex64 {
    let (e, k) = w.re.exp();
    let (sin, cos) = w.im.sin_cos();
    Wide::new(e * cos, e * sin).round_scaled(k)
}

/// The angle of a finite number.
fn wide_arg(z: Complex64) -> Dd {
    if z.im == 0.0 || z.re == 0.0 {
        // Multiples of a right angle, to all digits.
        let quarter = (z.im.atan2(z.re) / FRAC_PI_2).round();
        return dd::PI.scale(0.5) * dd(quarter);
    }
    dd(z.im).atan2(dd(z.re))
}

/// The principal cube root.
pub fn cbrt(z: Complex64) -> Complex64 {
    if z.im == 0.0 && !z.re.is_sign_negative() {
        return Complex64::new(z.re.cbrt(), z.im);
    }
    if !finite(z) || (z.re == 0.0 && z.im == 0.0) {
        let radius = z.re.hypot(z.im).cbrt();
        let angle = z.im.atan2(z.re) / 3.0;
        return Complex64::new(radius * angle.cos(), radius * angle.sin());
    }
    let third = |x: Dd| x / dd(3.0);
    wide_exp(Wide::new(third(ln_abs(z)), third(wide_arg(z))))
}

pub fn pow(x: Complex64, y: Complex64) -> Complex64 {
    if x.re == 0.0 && x.im == 0.0 {
        return match y.re == 0.0 && y.im == 0.0 {
            true => real(1.0),
            false if y.re > 0.0 => real(0.0),
            false => Complex64::new(f64::INFINITY, f64::NAN),
        };
    }
    if y.re == 0.0 && y.im == 0.0 {
        return real(1.0);
    }
    if !finite(x) || !finite(y) {
        let l = ln(x);
        let modulus = (y.re * l.re - y.im * l.im).exp();
        let (sin, cos) = (y.im * l.re + y.re * l.im).sin_cos();
        return Complex64::new(modulus * cos, modulus * sin);
    }
    let log = Wide::new(ln_abs(x), wide_arg(x));
    wide_exp(log.mul(Wide::new(dd(y.re), dd(y.im))))
}

/// `-i ln((x + iy) / sqrt(x² + y²))`.
pub fn atan2(y: Complex64, x: Complex64) -> Complex64 {
    let numerator = x + Complex64::i() * y;
    let denominator = sqrt(x * x + y * y);
    -Complex64::i() * ln(div(numerator, denominator))
}

pub fn sign(z: Complex64) -> Complex64 {
    if z.re.is_nan() || z.im.is_nan() {
        return nan();
    }
    let size = z.re.hypot(z.im);
    if size == 0.0 { real(0.0) } else { z / size }
}

/// `sin z = -i sinh(iz)`.
pub fn sin(z: Complex64) -> Complex64 {
    let s = sinh(Complex64::new(-z.im, z.re));
    Complex64::new(s.im, -s.re)
}

/// `cos z = cosh(iz)`.
pub fn cos(z: Complex64) -> Complex64 {
    cosh(Complex64::new(-z.im, z.re))
}

pub fn sinh(z: Complex64) -> Complex64 {
    let (a, b) = (z.re, z.im);
    if b == 0.0 {
        return Complex64::new(a.sinh(), b);
    }
    if !finite(z) {
        return Complex64::new(
            if a == 0.0 { a } else { a.sinh() * b.cos() },
            if a.is_infinite() && !b.is_finite() { f64::NAN } else { a.cosh() * b.sin() },
        );
    }
    let ((s, c, k), (sin, cos)) = (scaled_sinh_cosh(a), dd(b).sin_cos());
    let result = Wide::new(s * cos, c * sin).round_scaled(k);
    Complex64::new(if a == 0.0 { a * cos.hi } else { result.re }, result.im)
}

pub fn cosh(z: Complex64) -> Complex64 {
    let (a, b) = (z.re, z.im);
    if b == 0.0 || a == 0.0 {
        let sign = a.signum() * b.signum();
        return Complex64::new(if b == 0.0 { a.cosh() } else { b.cos() }, 0.0 * sign);
    }
    if !finite(z) {
        return Complex64::new(a.cosh() * b.cos(), a.sinh() * b.sin());
    }
    let ((s, c, k), (sin, cos)) = (scaled_sinh_cosh(a), dd(b).sin_cos());
    Wide::new(c * cos, s * sin).round_scaled(k)
}

/// `sinh` and `cosh` over a power of two, which is 0 unless they would overflow.
fn scaled_sinh_cosh(a: f64) -> (Dd, Dd, i32) {
    if a.abs() < 600.0 {
        let (s, c) = dd(a.abs()).sinh_cosh();
        return (if a < 0.0 { -s } else { s }, c, 0);
    }
    let (e, k) = dd(a.abs()).exp();
    (if a < 0.0 { -e } else { e }, e, k - 1)
}

/// `tan z = -i tanh(iz)`.
pub fn tan(z: Complex64) -> Complex64 {
    let t = tanh(Complex64::new(-z.im, z.re));
    Complex64::new(t.im, -t.re)
}

/// `(sinh a cosh a + i sin b cos b) / (sinh² a + cos² b)`, whose terms only add up.
pub fn tanh(z: Complex64) -> Complex64 {
    let (a, b) = (z.re, z.im);
    if b == 0.0 {
        return Complex64::new(a.tanh(), b);
    }
    if a.is_nan() || (!b.is_finite() && a.is_finite()) {
        return nan();
    }
    if a.abs() > 50.0 {
        let tail = 4.0 * b.sin() * b.cos() * (-2.0 * a.abs()).exp();
        let tail = if tail.is_nan() { 0.0f64.copysign(b) } else { tail };
        return Complex64::new(1f64.copysign(a), tail);
    }
    let ((sin, cos), (s, c)) = (dd(b).sin_cos(), dd(a.abs()).sinh_cosh());
    let norm = s.square() + cos.square();
    let re = (s * c / norm).f64();
    Complex64::new(re.copysign(a), (sin * cos / norm).f64())
}

/// `1 / (1 + exp(-z))`.
pub fn logistic(z: Complex64) -> Complex64 {
    if !finite(z) || z.re.abs() > 300.0 {
        // One of the two terms vanishes beside the other.
        return match z.re {
            re if re >= 0.0 => div(real(1.0), real(1.0) + exp(-z)),
            _ => {
                let e = exp(z);
                div(e, real(1.0) + e)
            }
        };
    }
    let (e, k) = dd(-z.re).exp();
    let (sin, cos) = dd(z.im).sin_cos();
    let e = Dd { hi: ldexp(e.hi, k), lo: ldexp(e.lo, k) };
    let bottom = Wide::new(dd(1.0) + e * cos, -(e * sin));
    let result = Wide::new(dd(1.0), dd(0.0)).div(bottom).round();
    Complex64::new(result.re, if z.im == 0.0 { z.im } else { result.im })
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn c(re: f64, im: f64) -> Complex64 {
        Complex64::new(re, im)
    }

    /// Each part within two units of its own last place, NaNs and signs of zeros included.
    fn close(found: Complex64, wanted: Complex64) {
        for (a, b) in [(found.re, wanted.re), (found.im, wanted.im)] {
            let same = a == b && a.is_sign_negative() == b.is_sign_negative();
            let near = (a - b).abs() <= 2.0 * f64::EPSILON * b.abs() && b != 0.0;
            assert!(same || near || (a.is_nan() && b.is_nan()), "{found} is not {wanted}");
        }
    }

    #[test]
    fn cancellation_costs_no_digits() {
        close(exp_m1(c(0.0102, 0.1432)), c(-8.835_107_634_493_364e-05, 0.144_174_188_177_128_74));
        close(
            exp_m1(c(1.0e-12, 1.0e-06)),
            c(5.000_000_000_000_417e-13, 1.000_000_000_000_833_2e-06),
        );
        close(ln(c(0.6, 0.8)), c(2.220_446_049_250_313_2e-17, 0.927_295_218_001_612_3));
        close(ln(c(1.0e-300, -3.0e-301)), c(-690.732_439_050_093_1, -0.291_456_794_477_867_1));
        close(
            ln_1p(c(-5.0e-07, 0.001)),
            c(1.250_000_000_434_269_8e-13, 0.001_000_000_166_666_616_7),
        );
        close(ln_1p(c(-0.4, 0.8)), c(2.220_446_049_250_313_2e-17, 0.927_295_218_001_612_3));
        close(sqrt(c(-3.0, 1.0e-09)), c(2.886_751_345_948_129e-10, 1.732_050_807_568_877_2));
        close(rsqrt(c(-2.0, 5.0)), c(0.241_588_307_804_488_5, -0.356_833_893_722_577_3));
        close(cbrt(c(-8.0, 0.5)), c(1.036_491_740_076_464_8, 1.711_983_188_901_558));
        close(sin(c(3.1, 0.2)), c(0.042_415_051_424_818_62, -0.201_161_877_154_317_33));
        close(cos(c(1.57, 0.001)), c(0.000_796_327_108_896_651_9, -0.000_999_999_849_598_456_8));
        close(tan(c(1.57, -0.001)), c(487.307_166_365_759_9, -611.944_368_032_429_8));
        close(tanh(c(0.25, 1.5)), c(3.786_108_936_814_774, 1.025_332_061_229_339_3));
        #[expect(clippy::approx_constant, reason = "near the pole, not at it")]
        close(logistic(c(0.001, 3.14)), c(283.261_894_862_668_1, 450.341_481_467_452_87));
        close(asin(c(1.000_001, 1.0e-07)), c(1.570_725_704_138_372_2, 0.001_415_975_716_405_519_6));
        close(
            acos(c(0.999_999, -1.0e-07)),
            c(0.001_415_975_951_302_659_8, 7.062_269_189_059_976e-05),
        );
        close(asinh(c(0.3, -2.0)), c(1.333_822_790_480_945_2, -1.400_095_855_358_700_2));
        close(acosh(c(-3.0, 0.25)), c(1.766_869_302_624_151_3, 3.053_475_831_385_454_4));
        close(atan(c(0.001, 0.999)), c(0.392_949_206_740_390_6, 3.626_914_434_672_752_7));
        close(atanh(c(1.0, 1.0e-09)), c(10.708_206_508_753_179, 0.785_398_163_647_448_3));
        close(pow(c(1.5, -2.5), c(3.25, 1.75)), c(18.568_904_890_202_308, -195.641_301_756_587_75));
        close(div(c(1.0, 1e-9), c(1e-9, -1.0)), c(0.0, 1.0));
    }

    #[test]
    fn special_values_follow_annex_g() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        close(exp(c(-inf, 1.0)), c(0.0, 0.0));
        close(exp(c(inf, 0.0)), c(inf, 0.0));
        close(exp(c(710.0, 0.5)).conj(), exp(c(710.0, -0.5)));
        close(ln(c(-0.0, 0.0)), c(-inf, PI));
        close(ln(c(inf, nan)), c(inf, nan));
        close(sqrt(c(-inf, 1.0)), c(0.0, inf));
        close(sqrt(c(nan, -inf)), c(inf, -inf));
        close(sqrt(c(-4.0, -0.0)), c(0.0, -2.0));
        close(tanh(c(inf, 1.0)), c(1.0, 0.0));
        close(tanh(c(0.5, -0.0)), c(0.5f64.tanh(), -0.0));
        close(atanh(c(inf, 1.0)), c(0.0, FRAC_PI_2));
        close(acos(c(nan, inf)), c(nan, -inf));
        close(pow(c(0.0, 0.0), c(2.0, 1.0)), c(0.0, 0.0));
        close(div(c(1.0, 1.0), c(inf, 0.0)), c(0.0, 0.0));
        close(sin(c(0.5, 0.0)), c(0.5f64.sin(), 0.0));
    }
}
