//! Fourier transforms of one to three dimensions and any length.

use std::borrow::Cow;
use std::f64::consts::TAU;

use num_complex::Complex64;
use rayon::prelude::*;

use super::contract::{Domain, permuted};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::build::{Emitter, V};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Num};
use crate::ir::{DType, DYNAMIC, Dims, EnumAttr, Ints, Kind, TensorTy, dims_compatible};
use crate::text::{Form, Types, Word};

enum_attr! {
    /// Which transform.
    FftType ("stablehlo.fft_type", "FFT, IFFT, RFFT or IRFFT") {
        Fft = "FFT", Ifft = "IFFT", Rfft = "RFFT", Irfft = "IRFFT",
    }
}

payload! {
    /// Fourier transforms along the last dimensions.
    Fft { fft_type: FftType, fft_length: Ints }
}

impl Fft {
    /// The result's sizes; half of a real transform's spectrum follows from the other half.
    fn result_dims(&self, operand: &[i64]) -> Dims {
        let mut dims: Dims = operand.into();
        let Some(last) = dims.last_mut() else { return dims };
        match (self.fft_type, self.fft_length.last()) {
            (FftType::Rfft, _) if *last != DYNAMIC => *last = half(*last),
            (FftType::Irfft, Some(length)) => *last = *length,
            _ => {}
        }
        dims
    }

    /// C2.
    fn result_elem(&self, operand: DType) -> Option<DType> {
        match (self.fft_type, operand.kind()) {
            (FftType::Fft | FftType::Ifft, Kind::Complex) => Some(operand),
            (FftType::Rfft, Kind::Float) => operand.complex_of(),
            (FftType::Irfft, Kind::Complex) => Some(operand.part()),
            _ => None,
        }
    }
}

fn half(length: i64) -> i64 {
    if length == 0 { 0 } else { length / 2 + 1 }
}

impl OpDef for Fft {
    const NAME: &'static str = "stablehlo.fft";
    const FORM: Form = Form::Plain {
        words: &[
            Word { text: "type", attr: "fft_type" },
            Word { text: "length", attr: "fft_length" },
        ],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result, length) = (c.operand(0), c.result(0), &self.fft_length);
        c.require(length.len() <= operand.rank(), "C1", || {
            format!("fft_length {length:?} is longer than the shape of {operand}")
        });
        let elem = operand.dtype().and_then(|dtype| self.result_elem(dtype));
        c.require(elem.is_some() && elem == result.dtype(), "C2", || {
            format!("{} does not turn {operand} into {result}", self.fft_type.word())
        });
        c.require((1..=3).contains(&length.len()), "C3", || {
            format!("fft_length has {} entries, 1 to 3 are allowed", length.len())
        });
        let real = match self.fft_type {
            FftType::Rfft => Some(operand),
            FftType::Irfft => Some(result),
            _ => None,
        };
        if let Some(real) = real {
            let tail = &real.dims[real.rank().saturating_sub(length.len())..];
            c.require(dims_compatible(tail, length), "C4", || {
                format!("{real} does not end in fft_length {length:?}")
            });
        }
        let wanted = self.result_dims(&operand.dims);
        let mut same = dims_compatible(&wanted, &result.dims);
        if let (FftType::Irfft, Some(given)) = (self.fft_type, operand.dims.last()) {
            let needed = length.last().map_or(0, |length| half(*length));
            same &= crate::ir::dim_compatible(*given, needed);
        }
        c.require(same, "C5", || format!("the operand is {operand}, the result {result}"));
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, &self.result_dims(operand.dims()))?;
        let mut dims: Vec<i64> = operand.dims().to_vec();
        let mut data = Complex64::read(operand).into_owned();
        let last = dims.len() - 1;
        let mut axes: Vec<usize> = (dims.len() - self.fft_length.len()..dims.len()).rev().collect();
        let inverse = matches!(self.fft_type, FftType::Ifft | FftType::Irfft);
        if inverse {
            axes.reverse();
        }
        for axis in axes {
            let out = if axis == last { ty.dims[last] as usize } else { dims[axis] as usize };
            let line = match self.fft_type {
                FftType::Irfft if axis == last => Line { length: out, out, inverse, full: true },
                _ => Line { length: dims[axis] as usize, out, inverse, full: false },
            };
            data = along(&data, &dims, axis, &line);
            dims[axis] = out as i64;
        }
        Ok(vec![Complex64::write(ty, &data).into()])
    }

    columns!(Opaque, Accumulated, Rule(derive_fft));
}

/// How each line along an axis is transformed.
struct Line {
    /// How many samples the transform has.
    length: usize,
    /// How many results of it are kept.
    out: usize,
    inverse: bool,
    /// The input is half a spectrum that must be made whole first.
    full: bool,
}

/// Transforms every line along an axis.
fn along(data: &[Complex64], dims: &[i64], axis: usize, line: &Line) -> Vec<Complex64> {
    let mut order: Vec<usize> = (0..dims.len()).filter(|d| *d != axis).collect();
    order.push(axis);
    let input = dims[axis].max(0) as usize;
    if data.is_empty() || line.length == 0 {
        let count = data.len() / input.max(1) * line.out;
        return vec![Complex64::default(); count];
    }
    let lines = permuted(Cow::Borrowed(data), dims, &order);
    let plan = Plan::new(line.length);
    let mut out = vec![Complex64::default(); data.len() / input * line.out];
    out.par_chunks_mut(line.out).zip(lines.par_chunks(input)).for_each(|(out, samples)| {
        let whole = if line.full { full_spectrum(samples, line.length) } else { samples.into() };
        let result = plan.run(&whole, line.inverse);
        out.copy_from_slice(&result[..out.len()]);
    });
    let mut moved: Vec<i64> = order.iter().map(|d| dims[*d]).collect();
    moved[dims.len() - 1] = line.out as i64;
    let back: Vec<usize> =
        (0..dims.len()).map(|d| order.iter().position(|o| *o == d).unwrap_or(d)).collect();
    permuted(Cow::Owned(out), &moved, &back).into_owned()
}

/// A real signal's spectrum from its first half.
fn full_spectrum(half: &[Complex64], length: usize) -> Cow<'_, [Complex64]> {
    let other = |k: usize| if k < half.len() { half[k] } else { half[length - k].conj() };
    (0..length).map(other).collect::<Vec<_>>().into()
}

/// The transform of one length: mixed radix, or Bluestein's where a large prime divides it.
struct Plan {
    length: usize,
    /// `exp(-2πi k / length)`.
    roots: Vec<Complex64>,
    bluestein: Option<Bluestein>,
}

/// A transform as a convolution whose length is a power of two.
struct Bluestein {
    inner: Box<Plan>,
    /// `exp(-πi k² / length)`.
    chirp: Vec<Complex64>,
    /// The transform of the conjugate chirp.
    kernel: Vec<Complex64>,
}

const LARGEST_RADIX: usize = 61;

impl Plan {
    fn new(length: usize) -> Plan {
        let roots = (0..length).map(|k| root(k, length)).collect();
        let bluestein = (largest_factor(length) > LARGEST_RADIX).then(|| Bluestein::new(length));
        Plan { length, roots, bluestein }
    }

    /// Transforms a line; the inverse divides by the length.
    fn run(&self, samples: &[Complex64], inverse: bool) -> Vec<Complex64> {
        if !inverse {
            return self.forward(samples);
        }
        // The inverse is the forward transform between two conjugations.
        let conjugate: Vec<Complex64> = samples.iter().map(Complex64::conj).collect();
        let scale = self.length as f64;
        self.forward(&conjugate).into_iter().map(|z| z.conj() / scale).collect()
    }

    fn forward(&self, samples: &[Complex64]) -> Vec<Complex64> {
        if let Some(bluestein) = &self.bluestein {
            return bluestein.forward(samples);
        }
        let mut out = vec![Complex64::default(); self.length];
        self.radix(samples, 1, &mut out);
        out
    }

    /// Transforms every `step`-th sample: split by the smallest factor, then combine.
    fn radix(&self, samples: &[Complex64], step: usize, out: &mut [Complex64]) {
        let length = out.len();
        if length == 1 {
            out[0] = samples[0];
            return;
        }
        let factor = smallest_factor(length);
        let part = length / factor;
        for (r, out) in out.chunks_exact_mut(part).enumerate() {
            self.radix(&samples[r * step..], step * factor, out);
        }
        let mut column = vec![Complex64::default(); factor];
        for k in 0..part {
            for (r, term) in column.iter_mut().enumerate() {
                *term = out[r * part + k] * self.roots[r * k * step % self.length];
            }
            for q in 0..factor {
                let turn = |r: usize| self.roots[r * q * part * step % self.length];
                out[q * part + k] = (0..factor).map(|r| column[r] * turn(r)).sum();
            }
        }
    }
}

impl Bluestein {
    fn new(length: usize) -> Bluestein {
        let size = (2 * length).next_power_of_two();
        let chirp: Vec<Complex64> =
            (0..length).map(|k| root(k * k % (2 * length), 2 * length)).collect();
        let mut kernel = vec![Complex64::default(); size];
        for (k, z) in chirp.iter().enumerate() {
            kernel[k] = z.conj();
            kernel[(size - k) % size] = z.conj();
        }
        let inner = Box::new(Plan::new(size));
        let kernel = inner.forward(&kernel);
        Bluestein { inner, chirp, kernel }
    }

    fn forward(&self, samples: &[Complex64]) -> Vec<Complex64> {
        let mut padded: Vec<Complex64> =
            samples.iter().zip(&self.chirp).map(|(x, z)| x * z).collect();
        padded.resize(self.inner.length, Complex64::default());
        let mut product = self.inner.forward(&padded);
        product.iter_mut().zip(&self.kernel).for_each(|(x, z)| *x *= z);
        let convolved = self.inner.run(&product, true);
        convolved.iter().zip(&self.chirp).map(|(x, z)| x * z).collect()
    }
}

/// `exp(-2πi k / n)`, from an angle of at most an eighth of a turn, where it is most accurate.
fn root(k: usize, n: usize) -> Complex64 {
    let eighths = 8 * k;
    let (octant, angle) = (eighths / n, TAU * (k as f64 / n as f64));
    let nearest = octant.div_ceil(2);
    let rest = angle_from(k, n, nearest).unwrap_or(angle);
    let (sin, cos) = rest.sin_cos();
    // A quarter turn clockwise multiplies by -i.
    let z = Complex64::new(cos, -sin);
    match nearest % 4 {
        0 => z,
        1 => Complex64::new(z.im, -z.re),
        2 => -z,
        _ => Complex64::new(-z.im, z.re),
    }
}

/// The angle from a number of quarter turns to `k / n` of a turn.
fn angle_from(k: usize, n: usize, quarters: usize) -> Option<f64> {
    let numerator = i64::try_from(4 * k).ok()? - i64::try_from(quarters * n).ok()?;
    Some(TAU * numerator as f64 / (4.0 * n as f64))
}

fn smallest_factor(n: usize) -> usize {
    if n.is_multiple_of(4) {
        return 4;
    }
    (2..=n.isqrt()).find(|p| n.is_multiple_of(*p)).unwrap_or(n)
}

fn largest_factor(mut n: usize) -> usize {
    let mut largest = 1;
    while n > 1 {
        let factor = smallest_factor(n);
        largest = largest.max(factor);
        n /= factor;
    }
    largest
}

/// Transforms are linear: the cotangent goes through the transposed one.
fn derive_fft(op: &Fft, d: &mut Derive<'_>) -> Derived {
    let x = d.operand(0);
    let ty = d.e.ty(x).clone();
    d.one(0, |e, g| op.transposed(e, g, ty))
}

impl Fft {
    fn transposed(&self, e: &mut Emitter, g: V, ty: TensorTy) -> V {
        let count: i64 = self.fft_length.iter().product();
        let with = |fft_type| Fft { fft_type, fft_length: self.fft_length.clone() };
        match self.fft_type {
            FftType::Fft => {
                let y = e.same(with(FftType::Ifft), &[g]);
                e.scale(y, count as f64)
            }
            FftType::Ifft => {
                let y = e.same(with(FftType::Fft), &[g]);
                e.scale(y, 1.0 / count as f64)
            }
            // Missing frequencies get nothing; of the whole transform the real part counts.
            FftType::Rfft => {
                let rank = ty.rank();
                let dims = e.dims(g);
                let mut high = vec![0; rank];
                high[rank - 1] = ty.dims[rank - 1] - dims[rank - 1];
                let zeros = vec![0; rank];
                let zero = Num::I(0).fit(e.dtype(g));
                let whole = e.pad(g, &zeros, &high, &zeros, zero);
                let y = e.same(with(FftType::Ifft), &[whole]);
                let real = e.push(super::Real {}, &[y], ty);
                e.scale(real, count as f64)
            }
            // Frequencies that stand for their mirror images too count twice.
            FftType::Irfft => {
                let last = *self.fft_length.last().unwrap_or(&1);
                let y = e.push(with(FftType::Rfft), &[g], ty.clone());
                let half = *ty.dims.last().unwrap_or(&1);
                let mut weights = vec![2.0 / count as f64; half as usize];
                let edges = if last % 2 == 0 { vec![0, half - 1] } else { vec![0] };
                for edge in edges {
                    weights[edge as usize] = 1.0 / count as f64;
                }
                let weights = e.floats(&weights, &[half], ty.elem.storage().part());
                let weights = e.convert(weights, ty.elem.storage());
                let weights = e.broadcast_to(weights, &ty.dims);
                e.mul(y, weights)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_agrees_with_the_definition() {
        for n in (1..40).chain([64, 67, 97, 120, 134]) {
            let samples: Vec<Complex64> =
                (0..n).map(|i| Complex64::new((i * 7 % 11) as f64, (i * 5 % 13) as f64)).collect();
            let plan = Plan::new(n);
            let found = plan.run(&samples, false);
            for (k, found) in found.iter().enumerate() {
                let sum: Complex64 = (0..n).map(|i| samples[i] * root(i * k % n, n)).sum();
                assert!((sum - found).norm() < 1e-10 * n as f64, "length {n}, term {k}");
            }
            let back = plan.run(&found, true);
            assert!(back.iter().zip(&samples).all(|(a, b)| (a - b).norm() < 1e-11 * n as f64));
        }
    }
}
