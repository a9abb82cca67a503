//! Random numbers, the same in every run.

use rayon::prelude::*;

use super::elementwise::{B, F, I};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Num, Tensor};
use crate::ir::{DType, TensorTy, dims_compatible};
use crate::num::format::round_to;
use crate::num::random::{join, philox, threefry};
use crate::text::{Form, Types, Word};

enum_attr! {
    /// How numbers are spread.
    Distribution ("stablehlo.rng_distribution", "UNIFORM or NORMAL") {
        Uniform = "UNIFORM", Normal = "NORMAL",
    }
}

payload! {
    /// Random numbers of a distribution. Each operation of a program has a stream of its own,
    /// which is the same in every run.
    Rng { rng_distribution: Distribution }
}

impl OpDef for Rng {
    const NAME: &'static str = "stablehlo.rng";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "distribution", attr: "rng_distribution" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (a, b, shape, result) = (c.operand(0), c.operand(1), c.operand(2), c.result(0));
        let kinds = B.or(I).or(F);
        for (number, ty) in [("I1", a), ("I2", b)] {
            let good = ty.rank() == 0 && kinds.allows(&ty.elem);
            c.require(good, number, || format!("{ty} must be a {kinds} tensor of rank 0"));
        }
        let good = shape.rank() == 1 && I.allows(&shape.elem);
        c.require(good, "I3", || format!("shape is {shape}, not a list of integers"));
        c.require(a.elem == b.elem && a.elem == result.elem, "C1", || {
            format!("a is {a}, b {b}, the result {result}")
        });
        let float = self.rng_distribution == Distribution::Uniform || F.allows(&a.elem);
        c.require(float, "C2", || format!("a normal distribution of {a}"));
        if let (1, Some(size)) = (shape.rank(), shape.dims.first()) {
            let rank = result.rank() as i64;
            c.same_dim("C3", "the length of shape and the result's rank", *size, rank);
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (a, b) = (cx.tensor(0)?.get(0), cx.tensor(1)?.get(0));
        let ty = cx.result_of(0, &cx.tensor(2)?.ints())?;
        let (dtype, key) = (ty.elem.storage(), u64::from(cx.node.0));
        let result = match (self.rng_distribution, a, b) {
            (Distribution::Normal, ..) => {
                Tensor::from_nums(ty, |i| Num::F(a.float() + b.float() * normal(key, i)))
            }
            (_, Num::I(a), Num::I(b)) => {
                Tensor::from_ints(ty, |i| uniform_int(dtype, a, b, key, i))
            }
            (_, Num::B(a), _) => Tensor::from_nums(ty, |_| Num::B(a)),
            _ => Tensor::from_floats(ty, |i| uniform(dtype, a.float(), b.float(), key, i)),
        };
        Ok(vec![result.into()])
    }

    columns!(Opaque, Exact, Zero);
}

/// Random bits for element `i`.
fn bits(key: u64, i: usize) -> [u64; 2] {
    let [a, b, c, d] = philox(i as u128, key);
    [join(a, b), join(c, d)]
}

/// A number from 0 on and below 1.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 * 2f64.powi(-53)
}

fn uniform(dtype: DType, a: f64, b: f64, key: u64, i: usize) -> f64 {
    let value = round_to(dtype, a + (b - a) * fraction(bits(key, i)[0]));
    // Rounding may reach the end of the interval, which is not part of it.
    if value >= b { a } else { value }
}

fn uniform_int(dtype: DType, a: i64, b: i64, key: u64, i: usize) -> i64 {
    let empty = if dtype.is_unsigned() { a as u64 >= b as u64 } else { a >= b };
    let range = b.wrapping_sub(a) as u64;
    if empty { a } else { a.wrapping_add((bits(key, i)[0] % range) as i64) }
}

/// Box and Muller's method; the logarithm's argument is above zero.
fn normal(key: u64, i: usize) -> f64 {
    let [x, y] = bits(key, i);
    let radius = (-2.0 * (1.0 - fraction(x)).ln()).sqrt();
    radius * (std::f64::consts::TAU * fraction(y)).cos()
}

enum_attr! {
    /// Which generator; the default one is Philox.
    Algorithm ("stablehlo.rng_algorithm", "DEFAULT, THREE_FRY or PHILOX") {
        Default = "DEFAULT", ThreeFry = "THREE_FRY", Philox = "PHILOX",
    }
}

payload! {
    /// Random bits from a state, and the next state: bit for bit what XLA gives.
    RngBitGenerator { rng_algorithm: Algorithm }
}

impl OpDef for RngBitGenerator {
    const NAME: &'static str = "stablehlo.rng_bit_generator";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "algorithm", attr: "rng_algorithm" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 2);

    fn check(&self, c: &mut Check<'_>) {
        let (state, next, output) = (c.operand(0), c.result(0), c.result(1));
        let good = state.rank() == 1 && state.dtype() == Some(DType::U64);
        c.require(good, "I2", || format!("initial_state is {state}, not a list of ui64"));
        let kinds = I.or(F);
        c.require(kinds.allows(&output.elem), "", || format!("output is {output}, not {kinds}"));
        let same = state.elem == next.elem && dims_compatible(&state.dims, &next.dims);
        c.require(same, "C1", || format!("initial_state is {state}, output_state {next}"));
        let sizes: &[i64] = match self.rng_algorithm {
            Algorithm::ThreeFry => &[2],
            Algorithm::Philox | Algorithm::Default => &[2, 3],
        };
        let size = state.dims.first().copied().unwrap_or(0);
        c.require(size == crate::ir::DYNAMIC || sizes.contains(&size), "C2", || {
            format!("initial_state is {state}, of size {sizes:?} it must be")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let state = cx.tensor(0)?;
        let words: Vec<u64> = state.ints().iter().map(|word| *word as u64).collect();
        if !matches!(words.len(), 2 | 3) {
            return Err(cx.error(format!("the state has {} words", words.len())));
        }
        let next = cx.result_of(0, state.dims())?;
        let ty = cx.result_ty(1)?;
        let ty = cx.result_of(1, &ty.dims)?;
        let (after, bits) = match self.rng_algorithm {
            Algorithm::ThreeFry => threefry_bits(&words, &ty),
            Algorithm::Philox | Algorithm::Default => philox_bits(&words, &ty),
        };
        let after = Tensor::from_ints(next, |i| after[i] as i64);
        Ok(vec![after.into(), from_bits(ty, &bits).into()])
    }

    columns!(Opaque, Exact, Zero);
}

/// Elements whose bits are given; those above the type's width are dropped.
fn from_bits(ty: TensorTy, bits: &[u64]) -> Tensor {
    if ty.elem.storage().is_int() {
        return Tensor::from_ints(ty, |i| bits[i] as i64);
    }
    let width = match ty.elem.storage().bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    };
    let mask = u64::MAX >> (64 - ty.elem.storage().bits().min(64));
    let mut raw = Tensor::from_ints(ty.with_elem(width), |i| (bits[i] & mask) as i64);
    raw.ty = ty;
    raw
}

/// The state is a key and a counter, the counter of 64 or 128 bits; in the shorter one the key
/// doubles as the counter's upper half.
fn philox_bits(state: &[u64], ty: &TensorTy) -> (Vec<u64>, Vec<u64>) {
    let (low, high) = if state.len() > 2 { (state[1], state[2]) } else { (state[1], state[0]) };
    let counter = u128::from(low) | u128::from(high) << 64;
    let count = ty.count().unwrap_or(0);
    let wide = ty.elem.storage().bits() == 64;
    let per_block = if wide { 2 } else { 4 };
    let blocks = count.div_ceil(per_block);
    let mut bits = vec![0; blocks * per_block];
    bits.par_chunks_mut(per_block).with_min_len(1 << 10).enumerate().for_each(|(i, bits)| {
        let [a, b, c, d] = philox(counter.wrapping_add(i as u128), state[0]);
        if wide {
            bits.copy_from_slice(&[join(a, b), join(c, d)]);
        } else {
            bits.copy_from_slice(&[a, b, c, d].map(u64::from));
        }
    });
    let after = counter.wrapping_add(blocks as u128);
    let mut next = vec![state[0], after as u64];
    next.extend((state.len() > 2).then_some((after >> 64) as u64));
    (next, bits)
}

/// The state is a key and a counter. One block has 64 bits: an element of that width, or two
/// neighbours along a dimension.
fn threefry_bits(state: &[u64], ty: &TensorTy) -> (Vec<u64>, Vec<u64>) {
    let (key, counter) = (state[0], state[1]);
    let block = |i: usize| threefry(counter.wrapping_add(i as u64), key);
    let count = ty.count().unwrap_or(0);
    if ty.elem.storage().bits() == 64 {
        let bits = (0..count).map(block).map(|[a, b]| join(a, b)).collect();
        return (vec![key, counter.wrapping_add(count as u64)], bits);
    }
    let split = split_dim(&ty.dims);
    let size = split.map_or(1, |d| ty.dims[d] as usize);
    let inner: usize = split.map_or(1, |d| ty.dims[d + 1..].iter().product::<i64>() as usize);
    let halves = size.div_ceil(2);
    let place = |i: usize| {
        let (outer, along, within) = (i / inner / size, i / inner % size, i % inner);
        ((outer * halves + along / 2) * inner + within, along % 2)
    };
    let bits: Vec<u64> = (0..count).map(place).map(|(i, half)| u64::from(block(i)[half])).collect();
    let blocks = if count == 0 { 0 } else { count / size * halves };
    (vec![key, counter.wrapping_add(blocks as u64)], bits)
}

/// The first even dimension, else the first of the largest ones.
fn split_dim(dims: &[i64]) -> Option<usize> {
    let even = dims.iter().position(|d| d % 2 == 0);
    even.or_else(|| (0..dims.len()).rev().max_by_key(|d| dims[*d]))
}
