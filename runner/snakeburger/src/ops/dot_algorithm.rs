//! Dot products by an algorithm: through which number formats the operands and the sums go.

use std::borrow::Cow;

use super::contract::Domain;
use super::dot::{DotDims, products};
use crate::eval::Tensor;
use crate::ir::{Attr, AttrValue, DType, TensorTy};
use crate::num::format;

/// A float type as an attribute, `tf32` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatType(pub DType);

impl AttrValue for FloatType {
    const EXPECTED: &'static str = "a float type";

    fn from_attr(attr: &Attr) -> Option<Self> {
        let name = match attr {
            Attr::Opaque(name) => name,
            Attr::Enum { word, .. } => word,
            _ => return None,
        };
        let dtype = DType::SPELLINGS.iter().find(|(text, _)| text.eq_ignore_ascii_case(name))?.1;
        dtype.is_float().then_some(Self(dtype))
    }

    fn to_attr(&self) -> Attr {
        Attr::Opaque(self.0.name().into())
    }
}

struct_attr! {
    /// Which formats a dot product goes through on the way.
    DotAlgorithm ("stablehlo.dot_algorithm", "#stablehlo.dot_algorithm<lhs_precision_type = tf32, …>") {
        lhs_precision_type: FloatType,
        rhs_precision_type: FloatType,
        accumulation_type: FloatType,
        lhs_component_count: i64,
        rhs_component_count: i64,
        num_primitive_operations: i64,
        allow_imprecise_accumulation: bool,
    }
}

impl DotAlgorithm {
    /// The fields in angle brackets, as the pretty form has them.
    pub(crate) fn text(&self) -> String {
        format!(
            "<lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, \
             lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, \
             allow_imprecise_accumulation = {}>",
            self.lhs_precision_type.0,
            self.rhs_precision_type.0,
            self.accumulation_type.0,
            self.lhs_component_count,
            self.rhs_component_count,
            self.num_primitive_operations,
            self.allow_imprecise_accumulation,
        )
    }
}

/// As an algorithm says: operands become sums of components in their precision types, the first
/// few pairs of components are multiplied, and what is added up is held in the accumulation type.
pub(crate) fn by_algorithm(
    lhs: &Tensor,
    rhs: &Tensor,
    dims: &DotDims,
    ty: TensorTy,
    algorithm: &DotAlgorithm,
) -> Tensor {
    let left =
        components(lhs.floats(), algorithm.lhs_precision_type.0, algorithm.lhs_component_count);
    let right =
        components(rhs.floats(), algorithm.rhs_precision_type.0, algorithm.rhs_component_count);
    let mut sums = vec![0.0; ty.count().unwrap_or(0)];
    for (i, j) in primitive_pairs(left.len(), right.len(), algorithm.num_primitive_operations) {
        let (x, y) = (Cow::Borrowed(&left[i][..]), Cow::Borrowed(&right[j][..]));
        let part = products(dims, x, lhs.dims(), y, rhs.dims());
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let accumulation = algorithm.accumulation_type.0;
    for sum in &mut sums {
        *sum = format::round_to(accumulation, *sum);
    }
    f64::write(ty, &sums)
}

/// Each value as a sum of values of a narrower type, the largest first.
fn components(values: Cow<'_, [f64]>, dtype: DType, count: i64) -> Vec<Vec<f64>> {
    let mut rest = values.into_owned();
    let mut parts = Vec::new();
    // What is left after a few components is zero; a bound keeps a huge count from costing.
    for _ in 0..count.clamp(1, 8) {
        let part: Vec<f64> = rest.iter().map(|x| format::round_to(dtype, *x)).collect();
        rest.iter_mut().zip(&part).for_each(|(rest, part)| *rest -= part);
        // An infinity has no rest.
        rest.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
        parts.push(part);
    }
    parts
}

/// The pairs of components that matter most.
fn primitive_pairs(left: usize, right: usize, count: i64) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> =
        (0..left).flat_map(|i| (0..right).map(move |j| (i, j))).collect();
    pairs.sort_by_key(|(i, j)| i + j);
    pairs.truncate(count.max(1) as usize);
    pairs
}
