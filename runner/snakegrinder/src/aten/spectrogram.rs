//! Fourier transforms of short windows that slide over a signal, and the windows.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops;

use super::Lower;
use super::fourier::{Way, transform};
use crate::cx::{Cx, Res, refuse};
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::bartlett_window", |cx| window(cx, |x| 1.0 - (2.0 * x - 1.0).abs())),
    ("aten::blackman_window", |cx| {
        window(cx, |x| {
            let turn = std::f64::consts::TAU * x;
            0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos()
        })
    }),
    ("aten::hamming_window", |cx| {
        let alpha = if cx.given("alpha") { cx.float("alpha")? } else { 0.54 };
        let beta = if cx.given("beta") { cx.float("beta")? } else { 0.46 };
        window(cx, |x| alpha - beta * (std::f64::consts::TAU * x).cos())
    }),
    ("aten::hann_window", |cx| window(cx, |x| 0.5 - 0.5 * (std::f64::consts::TAU * x).cos())),
    ("aten::istft", istft),
    ("aten::kaiser_window", |cx| {
        let beta = if cx.given("beta") { cx.float("beta")? } else { 12.0 };
        window(cx, |x| {
            let side = 2.0 * x - 1.0;
            bessel(beta * (1.0 - side * side).max(0.0).sqrt()) / bessel(beta)
        })
    }),
    ("aten::stft", stft),
];

/// The modified Bessel function of order zero, by its series, whose terms are all positive.
fn bessel(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..500 {
        term *= quarter / f64::from(k * k);
        sum += term;
        if term < sum * f64::EPSILON / 4.0 {
            break;
        }
    }
    sum
}

/// A function from 0 to 1 at equal steps; a periodic window leaves the last one out.
fn window(cx: &mut Cx<'_>, f: impl Fn(f64) -> f64) -> Res {
    let count = cx.int("window_length")?;
    let periodic = !cx.given("periodic") || cx.bool("periodic")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
    if count == 1 {
        return Ok(cx.e.float(&[1], dtype, 1.0).into());
    }
    let steps = (count - i64::from(!periodic)).max(1) as f64;
    let values: Vec<f64> = (0..count.max(0)).map(|i| f(i as f64 / steps)).collect();
    Ok(cx.e.floats(&values, &[count.max(0)], dtype).into())
}

/// The sizes of a sliding transform.
struct Frames {
    size: i64,
    hop: i64,
    window: Option<V>,
    one_sided: bool,
    norm: Option<&'static str>,
}

fn frames(cx: &mut Cx<'_>, complex: bool, dtype: DType) -> Res<Frames> {
    let size = cx.int("n_fft")?;
    let hop = cx.maybe_int("hop_length")?.unwrap_or(size / 4);
    let length = cx.maybe_int("win_length")?.unwrap_or(size);
    let one_sided = match cx.val("onesided")? {
        crate::value::Val::None => !complex,
        _ => cx.bool("onesided")?,
    };
    let norm = cx.bool("normalized")?.then_some("ortho");
    if size < 1 || hop < 1 || length < 1 || length > size {
        return refuse(format!("transforms {size} elements every {hop} with a window of {length}"));
    }
    let window = match cx.maybe_tensor("window")? {
        Some(window) => Some(cx.e.convert(window, dtype)),
        None if length < size => Some(cx.e.float(&[length], dtype, 1.0)),
        None => None,
    };
    // A shorter window stands in the middle.
    let left = (size - length) / 2;
    let window =
        window.map(|window| cx.e.pad(window, &[left], &[size - length - left], &[0], Num::F(0.0)));
    Ok(Frames { size, hop, window, one_sided, norm })
}

fn stft(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.e.dtype(x);
    let complex = dtype.is_complex();
    if !complex && dtype.complex_of().is_none() {
        return refuse(format!("transforms {dtype}"));
    }
    let plan = frames(cx, complex, dtype)?;
    let centred = cx.bool("center").unwrap_or(false);
    let mode = if centred { cx.str("pad_mode")? } else { "constant".into() };
    let plain = !cx.is_none("return_complex") && !cx.bool("return_complex")?;
    let e = &mut cx.e;
    let single = e.rank(x) == 1;
    let mut x = if single { e.unsqueeze(x, &[0]) } else { x };
    if centred {
        x = padded(e, x, plan.size / 2, &mode)?;
    }
    let length = e.dims(x)[1];
    if length < plan.size {
        return refuse("slides a window over a signal shorter than it");
    }
    let count = 1 + (length - plan.size) / plan.hop;
    let places: Vec<i64> = (0..count)
        .flat_map(|i| (0..plan.size).map(move |j| (i, j)))
        .map(|(i, j)| i * plan.hop + j)
        .collect();
    let places = e.ints(&places, &[count, plan.size], DType::S64);
    let mut x = e.take(x, 1, places);
    if let Some(window) = plan.window {
        let dims = e.dims(x);
        let window = e.broadcast_in(window, &dims, &[2]);
        x = e.mul(x, window);
    }
    let way = if plan.one_sided && !complex { Way::FromReal } else { Way::Complex };
    if way == Way::Complex && !complex {
        x = e.convert(x, dtype.complex_of().unwrap_or(DType::C64));
    }
    let x = transform(e, x, way, true, &[2], &[None], plan.norm)?;
    let x = e.swap(x, 1, 2);
    let mut dims = e.dims(x).to_vec();
    if single {
        dims.remove(0);
    }
    let mut y = e.reshape(x, &dims);
    if plain {
        let part = e.ty(y).with_elem(e.dtype(y).part());
        let (re, im) = (e.push(ops::Real {}, &[y], part.clone()), e.push(ops::Imag {}, &[y], part));
        let rank = e.rank(re);
        let (re, im) = (e.unsqueeze(re, &[rank]), e.unsqueeze(im, &[rank]));
        y = e.concat(&[re, im], rank);
    }
    Ok(y.into())
}

fn padded(e: &mut Emitter, x: V, by: i64, mode: &str) -> Res<V> {
    let length = e.dims(x)[1];
    match mode {
        "constant" => {
            let dtype = e.dtype(x);
            Ok(e.pad(x, &[0, by], &[0, by], &[0, 0], Num::I(0).fit(dtype)))
        }
        "reflect" if by < length => {
            let places: Vec<i64> = (-by..length + by)
                .map(|i| {
                    if i < 0 {
                        -i
                    } else if i >= length {
                        2 * (length - 1) - i
                    } else {
                        i
                    }
                })
                .collect();
            let places = e.ints(&places, &[length + 2 * by], DType::S64);
            Ok(e.take(x, 1, places))
        }
        other => refuse(format!("pads by {other}")),
    }
}

/// The signal whose overlapping windows have these transforms: their sum over the sum of the
/// windows' squares.
fn istft(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.e.dtype(x);
    if !dtype.is_complex() {
        return refuse("takes complex numbers");
    }
    if cx.bool("return_complex")? {
        return refuse("yields a complex signal");
    }
    let plan = frames(cx, false, dtype.part())?;
    let (centred, asked) = (cx.bool("center")?, cx.maybe_int("length")?);
    let e = &mut cx.e;
    let single = e.rank(x) == 2;
    let x = if single { e.unsqueeze(x, &[0]) } else { x };
    let x = e.swap(x, 1, 2);
    let (batch, count) = (e.dims(x)[0], e.dims(x)[1]);
    // Half a spectrum says all; of a whole one the rest repeats it.
    let x = if plan.one_sided { x } else { e.slice_axis(x, 2, 0, plan.size / 2 + 1, 1) };
    let x = transform(e, x, Way::ToReal, false, &[2], &[Some(plan.size)], plan.norm)?;
    let dims = e.dims(x);
    let window = match plan.window {
        Some(window) => window,
        None => e.float(&[plan.size], dtype.part(), 1.0),
    };
    let spread = e.broadcast_in(window, &dims, &[2]);
    let x = e.mul(x, spread);
    let signal = overlap(e, x, plan.hop);
    let square = e.mul(window, window);
    let square = e.broadcast_in(square, &[1, count, plan.size], &[2]);
    let weight = overlap(e, square, plan.hop);
    let full = plan.size + plan.hop * (count - 1);
    let start = if centred { plan.size / 2 } else { 0 };
    let end = match asked {
        Some(length) => (start + length).min(full),
        None if centred => full - plan.size / 2,
        None => full,
    };
    let signal = e.slice_axis(signal, 1, start, end, 1);
    let weight = e.slice_axis(weight, 1, start, end, 1);
    let weight = e.reshape(weight, &[end - start]);
    let weight = e.broadcast_in(weight, &[batch, end - start], &[1]);
    let mut y = e.div(signal, weight);
    let missing = asked.map_or(0, |length| length - (end - start)).max(0);
    y = e.pad(y, &[0, 0], &[0, missing], &[0, 0], Num::F(0.0));
    if single {
        let length = e.dims(y)[1];
        y = e.reshape(y, &[length]);
    }
    Ok(y.into())
}

/// Adds windows where they overlap: each is cut into pieces of one hop, and the pieces of one
/// place in their windows are shifted together.
fn overlap(e: &mut Emitter, x: V, hop: i64) -> V {
    let (batch, count, size) = (e.dims(x)[0], e.dims(x)[1], e.dims(x)[2]);
    let pieces = (size + hop - 1) / hop;
    let x = e.pad(x, &[0, 0, 0], &[0, 0, pieces * hop - size], &[0, 0, 0], Num::F(0.0));
    let mut sum: Option<V> = None;
    for i in 0..pieces {
        let piece = e.slice_axis(x, 2, i * hop, (i + 1) * hop, 1);
        let piece = e.pad(piece, &[0, i, 0], &[0, pieces - 1 - i, 0], &[0, 0, 0], Num::F(0.0));
        sum = Some(match sum {
            Some(sum) => e.add(sum, piece),
            None => piece,
        });
    }
    let total = (count + pieces - 1) * hop;
    let flat = e.reshape(sum.unwrap_or(x), &[batch, total]);
    e.slice_axis(flat, 1, 0, size + hop * (count - 1), 1)
}
