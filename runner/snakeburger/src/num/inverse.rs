//! Inverse trigonometric and hyperbolic functions of complex numbers.

use std::f64::consts::{FRAC_PI_2, LN_2};

use num_complex::Complex64;

use super::complex::{ln_abs, nan};
use super::dd::{self, Dd, dd};

/// Hull, Fairgrieve and Tang: what `asin` and `acos` of `x + iy` in the first quadrant are made
/// of: `sqrt(a² - x²)`, over which the real part is an angle, and the imaginary part.
fn arc(x: f64, y: f64) -> (Dd, Dd) {
    let (xp, xm) = (dd(1.0) + dd(x), dd(1.0) - dd(x));
    let yy = dd::product(y, y);
    let hypot = |side: Dd| match y < 1e-140 {
        // The square would vanish; it matters only where the other side does too.
        true if side.hi == 0.0 => dd(y),
        true => {
            if side.hi < 0.0 {
                -side
            } else {
                side
            }
        }
        false => (side.square() + yy).sqrt(),
    };
    let (r, s) = (hypot(xp), hypot(xm));
    let a = (r + s).scale(0.5);
    let left = yy / (r + xp);
    // a - 1 and a - x, each by the form that does not cancel.
    let inner = xm.hi > 0.0;
    let other = if inner { s + xm } else { s - xm };
    let tail = match y {
        0.0 => dd(0.0),
        y if xm.hi == 0.0 => dd(y),
        _ => yy / other,
    };
    let (above_one, above_x) = if inner {
        ((left + tail).scale(0.5), (left + other).scale(0.5))
    } else {
        ((left + other).scale(0.5), (left + tail).scale(0.5))
    };
    let root = (above_x * (a + dd(x))).sqrt();
    let im = (above_one + (above_one * (a + dd(1.0))).sqrt()).ln_1p();
    if y < 1e-140 && xm.hi != 0.0 {
        // To first order in y: what was squared away above.
        let slope = if inner { (xm * xp).sqrt() } else { (-xm * xp).sqrt() };
        let small = dd(y) / slope;
        return if inner { (root, small) } else { (small * dd(x), im) };
    }
    (root, im)
}

fn huge(z: Complex64) -> bool {
    z.re.abs().max(z.im.abs()) > 1e100
}

pub fn asin(z: Complex64) -> Complex64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if x.is_nan() || y.is_nan() {
        return match () {
            () if x == 0.0 => Complex64::new(z.re, f64::NAN),
            () if x.is_infinite() || y.is_infinite() => Complex64::new(f64::NAN, f64::INFINITY),
            () => nan(),
        };
    }
    let (re, im) = if huge(z) {
        (x.atan2(y), (ln_abs(z) + Dd::ln_2()).f64())
    } else {
        let (root, im) = arc(x, y);
        (dd(x).atan2(root).f64(), im.f64())
    };
    Complex64::new(re.copysign(z.re), im.copysign(z.im))
}

pub fn acos(z: Complex64) -> Complex64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if x.is_nan() || y.is_nan() {
        return match () {
            () if x == 0.0 => Complex64::new(FRAC_PI_2, f64::NAN),
            () if x.is_infinite() || y.is_infinite() => Complex64::new(f64::NAN, f64::INFINITY),
            () => nan(),
        };
    }
    let (re, im) = if huge(z) {
        (y.atan2(z.re), (ln_abs(z) + Dd::ln_2()).f64())
    } else {
        let (root, im) = arc(x, y);
        (root.atan2(dd(z.re)).f64(), im.f64())
    };
    Complex64::new(re, -im.copysign(z.im))
}

/// `asinh z = -i asin(iz)`.
pub fn asinh(z: Complex64) -> Complex64 {
    let w = asin(Complex64::new(-z.im, z.re));
    Complex64::new(w.im, -w.re)
}

/// `acos z` turned by a quarter into the right half-plane.
pub fn acosh(z: Complex64) -> Complex64 {
    let w = acos(z);
    Complex64::new(w.im.abs(), w.re.copysign(z.im))
}

pub fn atanh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if x.is_nan() || y.is_nan() {
        let re = if x.is_nan() && y.is_finite() { f64::NAN } else { 0.0f64.copysign(z.re) };
        let im = if y.is_infinite() { FRAC_PI_2 } else { f64::NAN };
        return Complex64::new(re, im.copysign(z.im));
    }
    let (re, im) = if huge(z) {
        // The real part of 1/z.
        let size = x.max(y);
        let (u, v) = (x / size, y / size);
        let re = if size.is_infinite() { 0.0 } else { u / (u * u + v * v) / size };
        (re, FRAC_PI_2)
    } else {
        let (xp, xm, yy) = (dd(1.0) + dd(x), dd(1.0) - dd(x), dd::product(y, y));
        let re = dd(4.0 * x) / (xm.square() + yy);
        let re = if re.hi.is_finite() {
            re.ln_1p().scale(0.25).f64()
        } else {
            // Beside the pole at 1, where the squares vanish.
            0.5 * (LN_2 - y.ln())
        };
        (re, 0.5 * dd(2.0 * y).atan2(xm * xp - yy).f64())
    };
    Complex64::new(re.copysign(z.re), im.copysign(z.im))
}

/// `atan z = -i atanh(iz)`.
pub fn atan(z: Complex64) -> Complex64 {
    let w = atanh(Complex64::new(-z.im, z.re));
    Complex64::new(w.im, -w.re)
}
