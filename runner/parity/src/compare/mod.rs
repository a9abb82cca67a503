//! One pair of tensors in one fused pass over both: every statistic the verdict and the report
//! need, read once, in parallel, with the same result on any number of threads.

#![allow(
    clippy::inline_always,
    reason = "code that is not inlined is not compiled for the processor's wider vectors"
)]

mod formats;
mod kernel;
mod nonfinite;
mod partial;
mod records;
mod statistics;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
pub use safetensors::Dtype;

use formats::{
    BF16, BLOCK, Bool, C64, Element, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, F16, F32, F64,
    I8, I16, I32, I64, U8, U16, U32, U64,
};
use kernel::{CHUNK, Chunk, Decode, Limits, OracleBytes};
use partial::Partial;
pub use statistics::{
    Bucket, NonFiniteCounts, Number, OracleStatistics, Quantiles, Statistics, Tolerance, Worst,
};

/// Chunks whose results are held before they are added up, so that memory stays small.
const GROUP: usize = 64;

/// A tensor: little-endian elements in row-major order, as safetensors has them.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub dtype: Dtype,
    pub shape: &'a [usize],
    pub data: &'a [u8],
}

/// How one pair is held to account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Applies to floats; integers and booleans must be equal.
    pub tolerance: Tolerance,
    /// The candidate's RMSE to the oracle may be this multiple of golden's.
    pub oracle_factor: f64,
    /// Golden is expected to hold NaN or infinity; the candidate must have the same in the same
    /// places.
    pub expect_nonfinite: bool,
}

/// Why two tensors cannot be compared element by element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error("the shapes differ: golden has {golden:?}, the other side {other:?}")]
    Shape { golden: Vec<usize>, other: Vec<usize> },
    #[error("the element types differ: golden has {golden:?}, the candidate {candidate:?}")]
    Dtype { golden: Dtype, candidate: Dtype },
    #[error("elements of type {0:?} cannot be compared")]
    Unsupported(Dtype),
    #[error("{bytes} bytes do not make a tensor of shape {shape:?} and type {dtype:?}")]
    Size { dtype: Dtype, shape: Vec<usize>, bytes: usize },
    #[error("an oracle of type {0:?} is of no use: it must be a float")]
    Oracle(Dtype),
}

/// Compares a candidate with golden, and both with the oracle where there is one.
///
/// The oracle is ignored for formats that are compared exactly and for complex ones.
pub fn compare(
    golden: &Tensor<'_>,
    candidate: &Tensor<'_>,
    oracle: Option<&Tensor<'_>>,
    options: &Options,
) -> Result<Statistics, CompareError> {
    if golden.dtype != candidate.dtype {
        let (golden, candidate) = (golden.dtype, candidate.dtype);
        return Err(CompareError::Dtype { golden, candidate });
    }
    check_shape(golden, candidate)?;
    let oracle = oracle.filter(|_| ulp(golden.dtype, 1.0).is_some());
    oracle.map_or(Ok(()), |oracle| check_shape(golden, oracle))?;
    for tensor in [Some(golden), Some(candidate), oracle].into_iter().flatten() {
        check_size(tensor)?;
    }
    let oracle = oracle.map(oracle_bytes).transpose()?;
    let tolerance = if is_exact(golden.dtype) { Tolerance::EXACT } else { options.tolerance };
    let limits = Limits { rtol: tolerance.rtol, atol: tolerance.atol };
    let pass = match golden.dtype {
        Dtype::F32 => pass::<F32, 4>,
        Dtype::F64 => pass::<F64, 8>,
        Dtype::BF16 => pass::<BF16, 2>,
        Dtype::F16 => pass::<F16, 2>,
        Dtype::F8_E5M2 => pass::<F8E5M2, 1>,
        Dtype::F8_E4M3 => pass::<F8E4M3, 1>,
        Dtype::F8_E5M2FNUZ => pass::<F8E5M2Fnuz, 1>,
        Dtype::F8_E4M3FNUZ => pass::<F8E4M3Fnuz, 1>,
        Dtype::F8_E8M0 => pass::<F8E8M0, 1>,
        Dtype::C64 => pass::<C64, 8>,
        Dtype::BOOL => pass::<Bool, 1>,
        Dtype::I8 => pass::<I8, 1>,
        Dtype::U8 => pass::<U8, 1>,
        Dtype::I16 => pass::<I16, 2>,
        Dtype::U16 => pass::<U16, 2>,
        Dtype::I32 => pass::<I32, 4>,
        Dtype::U32 => pass::<U32, 4>,
        Dtype::I64 => pass::<I64, 8>,
        Dtype::U64 => pass::<U64, 8>,
        other => return Err(CompareError::Unsupported(other)),
    };
    let (partial, values) = pass(golden, candidate, oracle, limits);
    Ok(statistics::finish(&partial, &values, golden, tolerance, options))
}

/// The value of one element on both sides, by its number.
type Values<'a> = Box<dyn Fn(u64) -> [f64; 2] + 'a>;

fn pass<'a, E: Element<N>, const N: usize>(
    golden: &Tensor<'a>,
    candidate: &Tensor<'a>,
    oracle: Option<OracleBytes<'a>>,
    limits: Limits,
) -> (Partial, Values<'a>) {
    let (golden, candidate) = (golden.data, candidate.data);
    let count = golden.len() / N;
    let chunks = count.div_ceil(CHUNK);
    let one = |number: usize| {
        let (from, to) = (number * CHUNK, count.min((number + 1) * CHUNK));
        let bytes = from * N..to * N;
        let oracle = oracle.map(|oracle| oracle.slice(from, to));
        let (golden, candidate) = (&golden[bytes.clone()], &candidate[bytes]);
        Chunk { golden, candidate, oracle, start: from as u64, limits }.compare::<E, N>()
    };
    let mut sum = Partial::new(E::WIDE);
    for group in (0..chunks).step_by(GROUP) {
        let numbers = group..chunks.min(group + GROUP);
        let partials: Vec<Partial> = numbers.into_par_iter().map(one).collect();
        for partial in &partials {
            sum.append(partial);
        }
    }
    let value = |side: &[u8], at: u64| {
        let bytes = side.as_chunks::<N>().0.get(at as usize);
        bytes.map_or(f64::NAN, |bytes| E::value(*bytes))
    };
    (sum, Box::new(move |at| [value(golden, at), value(candidate, at)]))
}

fn check_shape(golden: &Tensor<'_>, other: &Tensor<'_>) -> Result<(), CompareError> {
    if golden.shape == other.shape {
        return Ok(());
    }
    Err(CompareError::Shape { golden: golden.shape.into(), other: other.shape.into() })
}

fn check_size(tensor: &Tensor<'_>) -> Result<(), CompareError> {
    let Tensor { dtype, shape, data } = *tensor;
    let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
    let bits = count.and_then(|count| count.checked_mul(dtype.bitsize()));
    if bits.is_some_and(|bits| bits == data.len() * 8) {
        return Ok(());
    }
    Err(CompareError::Size { dtype, shape: shape.into(), bytes: data.len() })
}

fn oracle_bytes<'a>(oracle: &Tensor<'a>) -> Result<OracleBytes<'a>, CompareError> {
    fn decode<E: Element<N>, const N: usize>(bytes: &[u8], values: &mut [f64; BLOCK]) {
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *value = E::value(*bytes);
        }
    }
    let (width, decode): (_, Decode) = match oracle.dtype {
        Dtype::F64 => (8, decode::<F64, 8>),
        Dtype::F32 => (4, decode::<F32, 4>),
        other => return Err(CompareError::Oracle(other)),
    };
    Ok(OracleBytes { bytes: oracle.data, width, decode })
}

/// Turns the bytes of consecutive elements into values.
pub(crate) type Decoder = fn(&[u8], &mut [f64]);

/// The width of an element in bytes, and how elements become values; none for types that cannot
/// be compared. Of complex elements the value is the modulus.
pub(crate) fn decoder(dtype: Dtype) -> Option<(usize, Decoder)> {
    fn decode<E: Element<N>, const N: usize>(bytes: &[u8], values: &mut [f64]) {
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *value = E::value(*bytes);
        }
    }
    Some(match dtype {
        Dtype::F32 => (4, decode::<F32, 4>),
        Dtype::F64 => (8, decode::<F64, 8>),
        Dtype::BF16 => (2, decode::<BF16, 2>),
        Dtype::F16 => (2, decode::<F16, 2>),
        Dtype::F8_E5M2 => (1, decode::<F8E5M2, 1>),
        Dtype::F8_E4M3 => (1, decode::<F8E4M3, 1>),
        Dtype::F8_E5M2FNUZ => (1, decode::<F8E5M2Fnuz, 1>),
        Dtype::F8_E4M3FNUZ => (1, decode::<F8E4M3Fnuz, 1>),
        Dtype::F8_E8M0 => (1, decode::<F8E8M0, 1>),
        Dtype::C64 => (8, decode::<C64, 8>),
        Dtype::BOOL => (1, decode::<Bool, 1>),
        Dtype::I8 => (1, decode::<I8, 1>),
        Dtype::U8 => (1, decode::<U8, 1>),
        Dtype::I16 => (2, decode::<I16, 2>),
        Dtype::U16 => (2, decode::<U16, 2>),
        Dtype::I32 => (4, decode::<I32, 4>),
        Dtype::U32 => (4, decode::<U32, 4>),
        Dtype::I64 => (8, decode::<I64, 8>),
        Dtype::U64 => (8, decode::<U64, 8>),
        _ => return None,
    })
}

/// Whether elements of this type must be equal.
pub fn is_exact(dtype: Dtype) -> bool {
    use Dtype::{BOOL, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, BOOL | I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64)
}

/// Whether the type is a float of less than 32 bits, for which the oracle's bound decides.
pub fn is_reduced(dtype: Dtype) -> bool {
    ulp(dtype, 1.0).is_some_and(|ulp| ulp > f64::from(f32::EPSILON))
}

/// One unit in the last place of a real float format at a value; none for other types.
pub fn ulp(dtype: Dtype, value: f64) -> Option<f64> {
    let (mantissa_bits, least_exponent) = match dtype {
        Dtype::F64 => (52, -1022),
        Dtype::F32 => (23, -126),
        Dtype::BF16 => (7, -126),
        Dtype::F16 => (10, -14),
        Dtype::F8_E5M2 => (2, -14),
        Dtype::F8_E4M3 => (3, -6),
        Dtype::F8_E5M2FNUZ => (2, -15),
        Dtype::F8_E4M3FNUZ => (3, -7),
        Dtype::F8_E8M0 => (0, -127),
        _ => return None,
    };
    let exponent = if value == 0.0 { least_exponent } else { value.abs().log2().floor() as i32 };
    Some(2f64.powi(exponent.max(least_exponent) - mantissa_bits))
}
