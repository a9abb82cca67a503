//! Fourier transforms. StableHLO's transform the last axes, forwards without a factor and
//! backwards with one over the length; other axes are moved there, other factors multiplied.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, FftType};

use super::Lower;
use super::math::{cos, sin};
use crate::cx::{Cx, Operand, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::complex", |cx| {
        let both = [cx.operand("real")?, cx.operand("imag")?];
        join(cx, both)
    }),
    ("aten::fft_fft", |cx| one(cx, Way::Complex, true)),
    ("aten::fft_fft2", |cx| many(cx, Way::Complex, true)),
    ("aten::fft_fftfreq", |cx| frequencies(cx, false)),
    ("aten::fft_fftn", |cx| many(cx, Way::Complex, true)),
    ("aten::fft_fftshift", |cx| shifted(cx, |size| size / 2)),
    ("aten::fft_hfft", |cx| one(cx, Way::ToReal, true)),
    ("aten::fft_hfft2", |cx| many(cx, Way::ToReal, true)),
    ("aten::fft_hfftn", |cx| many(cx, Way::ToReal, true)),
    ("aten::fft_ifft", |cx| one(cx, Way::Complex, false)),
    ("aten::fft_ifft2", |cx| many(cx, Way::Complex, false)),
    ("aten::fft_ifftn", |cx| many(cx, Way::Complex, false)),
    ("aten::fft_ifftshift", |cx| shifted(cx, |size| (size + 1) / 2)),
    ("aten::fft_ihfft", |cx| one(cx, Way::FromReal, false)),
    ("aten::fft_ihfft2", |cx| many(cx, Way::FromReal, false)),
    ("aten::fft_ihfftn", |cx| many(cx, Way::FromReal, false)),
    ("aten::fft_irfft", |cx| one(cx, Way::ToReal, false)),
    ("aten::fft_irfft2", |cx| many(cx, Way::ToReal, false)),
    ("aten::fft_irfftn", |cx| many(cx, Way::ToReal, false)),
    ("aten::fft_rfft", |cx| one(cx, Way::FromReal, true)),
    ("aten::fft_rfft2", |cx| many(cx, Way::FromReal, true)),
    ("aten::fft_rfftfreq", |cx| frequencies(cx, true)),
    ("aten::fft_rfftn", |cx| many(cx, Way::FromReal, true)),
    ("aten::polar", |cx| {
        let both = [cx.operand("abs")?, cx.operand("angle")?];
        let dtype = cx.common(&both);
        let both = cx.together(&both, dtype)?;
        let e = &mut cx.e;
        let (cos, sin) = (cos(e, both[1]), sin(e, both[1]));
        let parts = [e.mul(both[0], cos), e.mul(both[0], sin)];
        join(cx, parts.map(Operand::Tensor))
    }),
];

/// What a transform is between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Complex,
    /// From real numbers to the half of the spectrum that says all.
    FromReal,
    ToReal,
}

fn join(cx: &mut Cx<'_>, parts: [Operand; 2]) -> Res {
    let dtype = cx.common(&parts);
    let parts = cx.together(&parts, dtype)?;
    let Some(complex) = dtype.complex_of() else {
        return refuse(format!("makes complex numbers of {dtype}"));
    };
    let ty = cx.e.ty(parts[0]).with_elem(complex);
    Ok(cx.e.push(ops::Complex {}, &parts, ty).into())
}

/// The operand in a type that can be transformed.
fn operand(cx: &mut Cx<'_>, way: Way) -> Res<V> {
    let x = cx.tensor("self")?;
    let dtype = promote::to_float(cx.e.dtype(x), cx.default);
    let x = cx.e.convert(x, dtype);
    if way == Way::FromReal {
        if dtype.is_complex() || dtype.complex_of().is_none() {
            return refuse(format!("transforms {dtype}"));
        }
        return Ok(x);
    }
    let complex = if dtype.is_complex() { Some(dtype) } else { dtype.complex_of() };
    match complex {
        Some(complex) => Ok(cx.e.convert(x, complex)),
        None => refuse(format!("transforms {dtype}")),
    }
}

fn one(cx: &mut Cx<'_>, way: Way, forward: bool) -> Res {
    let x = operand(cx, way)?;
    let at = axis(cx.int("dim")?, cx.e.rank(x))?;
    let size = cx.maybe_int("n")?;
    let norm = cx.maybe_str("norm")?;
    Ok(transform(&mut cx.e, x, way, forward, &[at], &[size], norm.as_deref())?.into())
}

fn many(cx: &mut Cx<'_>, way: Way, forward: bool) -> Res {
    let x = operand(cx, way)?;
    let rank = cx.e.rank(x);
    let sizes = cx.maybe_ints("s")?;
    let axes: Vec<usize> = match (cx.maybe_ints("dim")?, &sizes) {
        (Some(dims), _) => dims.iter().map(|dim| axis(*dim, rank)).collect::<Res<_>>()?,
        (None, Some(sizes)) if sizes.len() <= rank => (rank - sizes.len()..rank).collect(),
        (None, _) => (0..rank).collect(),
    };
    let sizes: Vec<Option<i64>> = match sizes {
        Some(sizes) if sizes.len() == axes.len() => {
            sizes.iter().map(|size| (*size != -1).then_some(*size)).collect()
        }
        Some(_) => return refuse("has other numbers of sizes and axes"),
        None => vec![None; axes.len()],
    };
    let norm = cx.maybe_str("norm")?;
    Ok(transform(&mut cx.e, x, way, forward, &axes, &sizes, norm.as_deref())?.into())
}

/// A transform along axes, the last of which is the one a real transform halves.
pub fn transform(
    e: &mut Emitter,
    x: V,
    way: Way,
    forward: bool,
    axes: &[usize],
    sizes: &[Option<i64>],
    norm: Option<&str>,
) -> Res<V> {
    let Some((last, others)) = axes.split_last() else { return Ok(x) };
    let mut lengths = Vec::new();
    let mut x = x;
    for (at, size) in axes.iter().zip(sizes) {
        let own = e.dims(x)[*at];
        let halved = way == Way::ToReal && at == last;
        let length = size.unwrap_or(if halved { 2 * (own - 1) } else { own });
        if length < 1 {
            return refuse(format!("transforms {length} elements"));
        }
        x = resized(e, x, *at, if halved { length / 2 + 1 } else { length });
        lengths.push(length);
    }
    let length = lengths[lengths.len() - 1];
    // Backwards from half a spectrum is all that StableHLO has; the other way is its conjugate.
    match (way, forward) {
        (Way::Complex, _) => {
            for at in axes {
                x = complex(e, x, *at, forward);
            }
        }
        (Way::FromReal, _) => {
            x = along(e, x, *last, |e, x| real(e, x, length));
            for at in others {
                x = complex(e, x, *at, true);
            }
            if !forward {
                x = e.same(ops::Conj {}, &[x]);
            }
        }
        (Way::ToReal, _) => {
            if forward {
                x = e.same(ops::Conj {}, &[x]);
            }
            for at in others {
                x = complex(e, x, *at, false);
            }
            x = along(e, x, *last, |e, x| back(e, x, length));
        }
    }
    let count: f64 = lengths.iter().map(|length| *length as f64).product();
    let done = match (way, forward) {
        (Way::Complex, false) | (Way::ToReal, _) => 1.0 / count,
        _ => 1.0,
    };
    let wanted = match (norm, forward) {
        (None | Some("backward"), true) | (Some("forward"), false) => 1.0,
        (None | Some("backward"), false) | (Some("forward"), true) => 1.0 / count,
        (Some("ortho"), _) => 1.0 / count.sqrt(),
        (Some(other), _) => return refuse(format!("scales by {other}")),
    };
    let factor = wanted / done;
    Ok(if (factor - 1.0).abs() < f64::EPSILON { x } else { e.scale(x, factor) })
}

/// Cut or filled up with zeros.
fn resized(e: &mut Emitter, x: V, at: usize, size: i64) -> V {
    let rank = e.rank(x);
    let mut high = vec![0; rank];
    high[at] = size - e.dims(x)[at];
    let dtype = e.dtype(x);
    e.pad(x, &vec![0; rank], &high, &vec![0; rank], Num::I(0).fit(dtype))
}

/// With an axis moved to the end and back.
fn along(e: &mut Emitter, x: V, at: usize, f: impl FnOnce(&mut Emitter, V) -> V) -> V {
    let last = e.rank(x) - 1;
    let x = e.swap(x, at, last);
    let x = f(e, x);
    e.swap(x, at, last)
}

fn complex(e: &mut Emitter, x: V, at: usize, forward: bool) -> V {
    along(e, x, at, |e, x| {
        let length = e.dims(x)[e.rank(x) - 1];
        let fft_type = if forward { FftType::Fft } else { FftType::Ifft };
        e.same(ops::Fft { fft_type, fft_length: [length].into() }, &[x])
    })
}

fn real(e: &mut Emitter, x: V, length: i64) -> V {
    let mut dims = e.dims(x);
    let last = dims.len() - 1;
    dims[last] = length / 2 + 1;
    let elem = e.dtype(x).complex_of().unwrap_or(DType::C64);
    let ty = e.ty(x).with_dims(dims).with_elem(elem);
    e.push(ops::Fft { fft_type: FftType::Rfft, fft_length: [length].into() }, &[x], ty)
}

fn back(e: &mut Emitter, x: V, length: i64) -> V {
    let mut dims = e.dims(x);
    let last = dims.len() - 1;
    dims[last] = length;
    let ty = e.ty(x).with_dims(dims).with_elem(e.dtype(x).part());
    e.push(ops::Fft { fft_type: FftType::Irfft, fft_length: [length].into() }, &[x], ty)
}

/// Rotates axes so that frequency zero comes to the middle, or back.
fn shifted(cx: &mut Cx<'_>, by: fn(i64) -> i64) -> Res {
    let mut x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let axes = match cx.maybe_ints("dim")? {
        Some(axes) => axes.iter().map(|dim| axis(*dim, dims.len())).collect::<Res<Vec<_>>>()?,
        None => (0..dims.len()).collect(),
    };
    for at in axes {
        let size = dims[at];
        let cut = size - by(size);
        if cut == 0 || cut == size {
            continue;
        }
        let (head, tail) =
            (cx.e.slice_axis(x, at, 0, cut, 1), cx.e.slice_axis(x, at, cut, size, 1));
        x = cx.e.concat(&[tail, head], at);
    }
    Ok(x.into())
}

fn frequencies(cx: &mut Cx<'_>, half: bool) -> Res {
    let (n, d) = (cx.int("n")?, cx.float("d")?);
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
    let steps: Vec<f64> = if half {
        (0..=n / 2).map(|i| i as f64).collect()
    } else {
        (0..n).map(|i| if i < (n + 1) / 2 { i as f64 } else { (i - n) as f64 }).collect()
    };
    let steps = cx.e.floats(&steps, &[steps.len() as i64], dtype);
    Ok(cx.e.scale(steps, 1.0 / (n as f64 * d)).into())
}
