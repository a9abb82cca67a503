//! Sums of products along dimensions: `dot_general` and its deprecated special case `dot`.

use std::borrow::Cow;

use super::contract::{Domain, Precision, Sizes, batched, in_domain, permuted};
use super::dot_algorithm::{DotAlgorithm, by_algorithm};
use super::dot_grad;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalError, EvalResult, Tensor};
use crate::ir::{
    Attr, AttrValue, Dict, Dims, Ints, NodeId, TensorTy, dim_compatible, dims_compatible,
};
use crate::text::{Form, Parse, Parser, Printer, Types, Word, form};

struct_attr! {
    /// Which dimensions pair up.
    DotDims ("stablehlo.dot", "#stablehlo.dot<lhs_contracting_dimensions = [1], …>") {
        lhs_batching_dimensions: Ints = Ints::default(),
        rhs_batching_dimensions: Ints = Ints::default(),
        lhs_contracting_dimensions: Ints = Ints::default(),
        rhs_contracting_dimensions: Ints = Ints::default(),
    }
}

impl DotDims {
    /// The sizes of the result, as far as the dimensions named exist.
    pub(crate) fn result_dims(&self, lhs: &[i64], rhs: &[i64]) -> Dims {
        let batch = self.lhs_batching_dimensions.iter().filter_map(|d| size(lhs, *d));
        let free = |dims: &[i64], batch: &Ints, contracting: &Ints| -> Dims {
            free_dims(dims.len(), batch, contracting).iter().map(|d| dims[*d]).collect()
        };
        let mut dims: Dims = batch.collect();
        dims.extend(free(lhs, &self.lhs_batching_dimensions, &self.lhs_contracting_dimensions));
        dims.extend(free(rhs, &self.rhs_batching_dimensions, &self.rhs_contracting_dimensions));
        dims
    }

    /// C1 to C10 and C12.
    fn check(&self, c: &mut Check<'_>) {
        let (lhs, rhs) = (c.operand(0), c.operand(1));
        let sides = [
            (
                "lhs",
                lhs,
                &self.lhs_batching_dimensions,
                &self.lhs_contracting_dimensions,
                ["C3", "C5", "C6"],
            ),
            (
                "rhs",
                rhs,
                &self.rhs_batching_dimensions,
                &self.rhs_contracting_dimensions,
                ["C4", "C7", "C8"],
            ),
        ];
        let pairs = [
            ("C1", "C9", "batching", &self.lhs_batching_dimensions, &self.rhs_batching_dimensions),
            (
                "C2",
                "C10",
                "contracting",
                &self.lhs_contracting_dimensions,
                &self.rhs_contracting_dimensions,
            ),
        ];
        for (count, _, what, left, right) in pairs {
            c.require(left.len() == right.len(), count, || {
                format!("{what} dimensions {left:?} and {right:?} differ in number")
            });
        }
        for (side, ty, batching, contracting, [unique, in_batch, in_contracting]) in sides {
            let names = ["batching", "contracting"].map(|name| format!("{side}_{name}_dimensions"));
            c.dimensions(&names[0], batching, ty.rank(), in_batch, unique);
            c.dimensions(&names[1], contracting, ty.rank(), in_contracting, unique);
            let both = batching.iter().find(|d| contracting.contains(d));
            if let Some(d) = both {
                c.fail(unique, format!("dimension {d} of {side} is batching and contracting"));
            }
        }
        for (_, sizes, what, left, right) in pairs {
            for (l, r) in left.iter().zip(right) {
                let (Some(a), Some(b)) = (size(&lhs.dims, *l), size(&rhs.dims, *r)) else {
                    continue;
                };
                c.same_dim(sizes, &format!("{what} dimensions {l} of lhs and {r} of rhs"), a, b);
            }
        }
        let (wanted, result) = (self.result_dims(&lhs.dims, &rhs.dims), c.result(0));
        c.require(dims_compatible(&wanted, &result.dims), "C12", || {
            format!("the result is {result}, its shape must be {:?}", wanted.as_slice())
        });
    }

    fn check_run_time(&self, cx: &Cx<'_, '_>, lhs: &Tensor, rhs: &Tensor) -> Result<(), EvalError> {
        let pairs = self.lhs_batching_dimensions.iter().zip(&self.rhs_batching_dimensions);
        let contracting =
            self.lhs_contracting_dimensions.iter().zip(&self.rhs_contracting_dimensions);
        for (l, r) in pairs.chain(contracting) {
            if lhs.dims()[*l as usize] != rhs.dims()[*r as usize] {
                return Err(cx.error(format!(
                    "dimension {l} of {} is not dimension {r} of {}",
                    lhs.ty, rhs.ty
                )));
            }
        }
        Ok(())
    }
}

fn size(dims: &[i64], d: i64) -> Option<i64> {
    usize::try_from(d).ok().and_then(|d| dims.get(d)).copied()
}

/// The dimensions that are neither batching nor contracting.
fn free_dims(rank: usize, batching: &[i64], contracting: &[i64]) -> Vec<usize> {
    let used = |d: usize| batching.contains(&(d as i64)) || contracting.contains(&(d as i64));
    (0..rank).filter(|d| !used(*d)).collect()
}

/// C11, or its like of another operation.
pub(crate) fn check_precision(c: &mut Check<'_>, config: &[Precision], number: &str) {
    c.require(config.is_empty() || config.len() == 2, number, || {
        format!("precision_config has {} entries, one per operand is needed", config.len())
    });
}

payload! {
    /// Sums products of elements along contracting dimensions.
    DotGeneral {
        dot_dimension_numbers: DotDims,
        precision_config: Vec<Precision> = Vec::new(),
        algorithm: Option<DotAlgorithm> = None,
    }
}

impl DotGeneral {
    /// C13 to C20: the element types.
    fn check_elements(&self, c: &mut Check<'_>) {
        let (lhs, rhs, result) = (c.operand(0), c.operand(1), c.result(0));
        let [left, right, out] = [lhs, rhs, result].map(|ty| ty.elem.quant());
        if left.is_none() && right.is_none() && out.is_none() {
            c.require(lhs.elem == rhs.elem, "C13", || format!("operands are {lhs} and {rhs}"));
            return;
        }
        c.require(right.is_some() && left.is_some() == out.is_some(), "C14", || {
            format!("of {lhs}, {rhs} and {result} only some are quantized")
        });
        c.require(left.is_none_or(|q| q.axis.is_none()), "I1", || {
            format!("lhs is {lhs}, which is not quantized per tensor")
        });
        let Some(right) = right else { return };
        c.require(right.zero_points.iter().all(|zero| *zero == 0), "C15", || {
            format!("zero points of {rhs} must be 0")
        });
        let contracted = &self.dot_dimension_numbers.rhs_contracting_dimensions;
        c.require(right.axis.is_none_or(|axis| !contracted.contains(&axis)), "C16", || {
            format!("the quantized dimension of {rhs} is contracted")
        });
        let Some(left) = left else {
            let same = lhs.elem.expressed() == right.expressed && lhs.elem == result.elem;
            c.require(same, "C20", || format!("lhs is {lhs}, rhs {rhs}, the result {result}"));
            return;
        };
        c.require(left.storage == right.storage, "C17", || {
            format!("operands are {lhs} and {rhs}, their storage types differ")
        });
        let expressed = [left.expressed, right.expressed, result.elem.expressed()];
        c.require(expressed.iter().all(|e| *e == expressed[0]), "C18", || {
            format!("{lhs}, {rhs} and {result} differ in what they express")
        });
        let per_tensor = right.axis.is_some() || out.is_none_or(|q| q.axis.is_none());
        c.require(per_tensor, "C19", || {
            format!("rhs is {rhs}, so {result} must be quantized per tensor")
        });
    }

    /// C21 to C24.
    fn check_algorithm(&self, c: &mut Check<'_>) {
        let Some(algorithm) = &self.algorithm else { return };
        let default = self.precision_config.iter().all(|p| *p == Precision::Default);
        c.require(default, "C21", || "with an algorithm the precision must be DEFAULT".into());
        let counts = [
            ("C22", "lhs_component_count", algorithm.lhs_component_count),
            ("C23", "rhs_component_count", algorithm.rhs_component_count),
            ("C24", "num_primitive_operations", algorithm.num_primitive_operations),
        ];
        for (number, name, count) in counts {
            c.require(count > 0, number, || format!("{name} is {count}, it must be positive"));
        }
    }
}

impl OpDef for DotGeneral {
    const NAME: &'static str = "stablehlo.dot_general";
    const FORM: Form = Form::Custom { parse: parse_dot, print: print_dot };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        self.dot_dimension_numbers.check(c);
        check_precision(c, &self.precision_config, "C11");
        self.check_elements(c);
        self.check_algorithm(c);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
        let dims = &self.dot_dimension_numbers;
        dims.check_run_time(cx, lhs, rhs)?;
        let ty = cx.result_of(0, &dims.result_dims(lhs.dims(), rhs.dims()))?;
        let result = match &self.algorithm {
            Some(algorithm) if lhs.storage().is_float() && rhs.storage().is_float() => {
                by_algorithm(lhs, rhs, dims, ty, algorithm)
            }
            _ => contract(lhs, rhs, dims, ty),
        };
        Ok(vec![result.into()])
    }

    columns!(Contraction, Accumulated, Rule(dot_grad::of_dot_general));
}

/// Sums products; the result's type is static and fits.
pub(crate) fn contract(lhs: &Tensor, rhs: &Tensor, dims: &DotDims, ty: TensorTy) -> Tensor {
    fn run<T: Domain>(lhs: &Tensor, rhs: &Tensor, dims: &DotDims, ty: TensorTy) -> Tensor {
        let sums = products(dims, T::read(lhs), lhs.dims(), T::read(rhs), rhs.dims());
        T::write(ty, &sums)
    }
    in_domain!(lhs, rhs, &ty, run(lhs, rhs, dims, ty))
}

/// Sums of products as row-major data.
pub(crate) fn products<T: Domain>(
    dims: &DotDims,
    lhs: Cow<'_, [T]>,
    lhs_dims: &[i64],
    rhs: Cow<'_, [T]>,
    rhs_dims: &[i64],
) -> Vec<T> {
    let index = |list: &Ints| -> Vec<usize> { list.iter().map(|d| *d as usize).collect() };
    let count = |dims: &[i64], list: &[usize]| -> usize {
        list.iter().map(|d| dims[*d].max(0) as usize).product()
    };
    let (left_batch, left_sum) =
        (index(&dims.lhs_batching_dimensions), index(&dims.lhs_contracting_dimensions));
    let (right_batch, right_sum) =
        (index(&dims.rhs_batching_dimensions), index(&dims.rhs_contracting_dimensions));
    let left_free =
        free_dims(lhs_dims.len(), &dims.lhs_batching_dimensions, &dims.lhs_contracting_dimensions);
    let right_free =
        free_dims(rhs_dims.len(), &dims.rhs_batching_dimensions, &dims.rhs_contracting_dimensions);
    let sizes = Sizes {
        batch: count(lhs_dims, &left_batch),
        m: count(lhs_dims, &left_free),
        k: count(lhs_dims, &left_sum),
        n: count(rhs_dims, &right_free),
    };
    // Either order of a matrix serves the kernel: take the one that moves nothing.
    let order = |batch: &[usize], first: &[usize], second: &[usize]| {
        let transposed = [batch, second, first].concat();
        if transposed.is_sorted() {
            (transposed, true)
        } else {
            ([batch, first, second].concat(), false)
        }
    };
    let (left_order, left_transposed) = order(&left_batch, &left_free, &left_sum);
    let (right_order, right_transposed) = order(&right_batch, &right_sum, &right_free);
    let lhs = permuted(lhs, lhs_dims, &left_order);
    let rhs = permuted(rhs, rhs_dims, &right_order);
    batched(sizes, (&lhs, left_transposed), (&rhs, right_transposed))
}

/// `%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = […] : …`.
fn parse_dot(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    raw.operands.push(p.operand()?);
    let mut dims = Dict::new();
    while p.cur.eat(",") {
        match p.cur.word("batching_dims, contracting_dims, precision or algorithm")? {
            word @ ("batching_dims" | "contracting_dims") => {
                let role = word.trim_end_matches("_dims");
                p.cur.expect("=")?;
                dims.push((format!("lhs_{role}_dimensions").into(), p.attr()?));
                p.cur.expect("x")?;
                dims.push((format!("rhs_{role}_dimensions").into(), p.attr()?));
            }
            "precision" => {
                p.cur.expect("=")?;
                raw.attrs.push(("precision_config".into(), p.attr()?));
            }
            "algorithm" => {
                p.cur.expect("=")?;
                let attr = match p.cur.peek() {
                    b'<' => {
                        Attr::Struct("stablehlo.dot_algorithm".into(), p.dict_between("<", ">")?)
                    }
                    _ => p.attr()?,
                };
                raw.attrs.push(("algorithm".into(), attr));
            }
            word => {
                let message = format!(
                    "expected batching_dims, contracting_dims, precision or algorithm, found `{word}`"
                );
                return p.cur.fail(message);
            }
        }
    }
    let dims = Attr::Struct("stablehlo.dot".into(), dims);
    raw.attrs.push(("dot_dimension_numbers".into(), dims));
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_dot(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    let dims = form::take(&mut attrs, "dot_dimension_numbers");
    let dims = dims.as_ref().and_then(DotDims::from_attr).unwrap_or(DotDims {
        lhs_batching_dimensions: Ints::default(),
        rhs_batching_dimensions: Ints::default(),
        lhs_contracting_dimensions: Ints::default(),
        rhs_contracting_dimensions: Ints::default(),
    });
    let pair = |left: &Ints, right: &Ints| format!("{left:?} x {right:?}");
    if !(dims.lhs_batching_dimensions.is_empty() && dims.rhs_batching_dimensions.is_empty()) {
        p.push(", batching_dims = ");
        p.push(&pair(&dims.lhs_batching_dimensions, &dims.rhs_batching_dimensions));
    }
    p.push(", contracting_dims = ");
    p.push(&pair(&dims.lhs_contracting_dimensions, &dims.rhs_contracting_dimensions));
    if let Some(precision) = form::take(&mut attrs, "precision_config") {
        p.push(", precision = ");
        p.short_attr(&precision);
    }
    let algorithm = form::take(&mut attrs, "algorithm");
    if let Some(algorithm) = algorithm.as_ref().and_then(DotAlgorithm::from_attr) {
        p.push(", algorithm = ");
        p.push(&algorithm.text());
    }
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

payload! {
    /// Deprecated: the product of two vectors or matrices.
    Dot { precision_config: Vec<Precision> = Vec::new() }
}

impl Dot {
    fn dims(lhs: &TensorTy) -> DotDims {
        DotDims {
            lhs_batching_dimensions: Ints::default(),
            rhs_batching_dimensions: Ints::default(),
            lhs_contracting_dimensions: [lhs.rank() as i64 - 1].into(),
            rhs_contracting_dimensions: [0].into(),
        }
    }
}

impl OpDef for Dot {
    const NAME: &'static str = "stablehlo.dot";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "precision", attr: "precision_config" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (lhs, rhs, result) = (c.operand(0), c.operand(1), c.result(0));
        let ranks = [lhs, rhs].iter().all(|ty| (1..=2).contains(&ty.rank()));
        c.require(ranks, "", || format!("operands are {lhs} and {rhs}, not vectors or matrices"));
        if !ranks {
            return;
        }
        let inner = (lhs.dims[lhs.rank() - 1], rhs.dims[0]);
        c.require(dim_compatible(inner.0, inner.1), "", || {
            format!("{lhs} and {rhs} do not fit together")
        });
        check_precision(c, &self.precision_config, "");
        let wanted = Self::dims(lhs).result_dims(&lhs.dims, &rhs.dims);
        c.require(dims_compatible(&wanted, &result.dims), "", || {
            format!("the result is {result}, its shape must be {:?}", wanted.as_slice())
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
        let dims = Self::dims(&lhs.ty);
        dims.check_run_time(cx, lhs, rhs)?;
        let ty = cx.result_of(0, &dims.result_dims(lhs.dims(), rhs.dims()))?;
        Ok(vec![contract(lhs, rhs, &dims, ty).into()])
    }

    columns!(Contraction, Accumulated, Rule(dot_grad::of_dot));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eval::{Num, ravel, unravel};
    use crate::ir::DType;

    /// A case: sizes of batch, lhs-only, rhs-only and contracting dimensions, and a key by which
    /// each operand's dimensions are shuffled.
    #[derive(Clone, Debug)]
    struct Case {
        sizes: [Vec<i64>; 4],
        keys: [Vec<u8>; 2],
    }

    fn cases() -> impl Strategy<Value = Case> {
        let list = || prop::collection::vec(0i64..4, 0..3);
        let key = || prop::collection::vec(any::<u8>(), 6);
        ([list(), list(), list(), list()], [key(), key()])
            .prop_map(|(sizes, keys)| Case { sizes, keys })
    }

    /// Roles of an operand's dimensions: which list and which place in it.
    fn roles(case: &Case, own: usize, key: &[u8]) -> Vec<(usize, usize)> {
        let mut roles: Vec<(usize, usize)> = [0, own, 3]
            .iter()
            .flat_map(|list| (0..case.sizes[*list].len()).map(move |i| (*list, i)))
            .collect();
        let mut order: Vec<usize> = (0..roles.len()).collect();
        order.sort_by_key(|i| key[*i]);
        // The free dimensions keep their order: the result has them in the operand's.
        let free: Vec<(usize, usize)> = roles.iter().copied().filter(|r| r.0 == own).collect();
        let mut next = free.into_iter();
        roles = order.iter().map(|i| roles[*i]).collect();
        roles.iter_mut().filter(|r| r.0 == own).for_each(|r| *r = next.next().unwrap());
        roles
    }

    fn places(roles: &[(usize, usize)], list: usize, count: usize) -> Ints {
        let place = |i| roles.iter().position(|r| *r == (list, i)).unwrap() as i64;
        (0..count).map(place).collect()
    }

    fn naive(
        case: &Case,
        left: &Tensor,
        right: &Tensor,
        roles: [&[(usize, usize)]; 2],
    ) -> Vec<i64> {
        let dims: Vec<i64> = case.sizes[..3].concat();
        let count: i64 = dims.iter().product();
        let sum_dims = &case.sizes[3];
        let at = |tensor: &Tensor, roles: &[(usize, usize)], out: &[i64], sum: &[i64]| {
            let value = |role: &(usize, usize)| match role.0 {
                3 => sum[role.1],
                list => out[case.sizes[..list].iter().map(Vec::len).sum::<usize>() + role.1],
            };
            let index: Vec<i64> = roles.iter().map(value).collect();
            tensor.get(ravel(&index, tensor.dims())).int()
        };
        (0..count as usize)
            .map(|i| {
                let out = unravel(i, &dims);
                (0..sum_dims.iter().product::<i64>() as usize).fold(0, |total: i64, k| {
                    let sum = unravel(k, sum_dims);
                    let x = at(left, roles[0], &out, &sum);
                    total.wrapping_add(x.wrapping_mul(at(right, roles[1], &out, &sum)))
                })
            })
            .collect()
    }

    fn filled(case: &Case, roles: &[(usize, usize)], dtype: DType, seed: usize) -> Tensor {
        let dims: Vec<i64> = roles.iter().map(|(list, i)| case.sizes[*list][*i]).collect();
        let value = |i: usize| ((i + seed) * 7 % 13) as i64 - 6;
        Tensor::from_nums(TensorTy::new(dims, dtype), |i| Num::I(value(i)).convert(dtype))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn contractions_agree_with_the_definition(case in cases()) {
            let (l, r) = (roles(&case, 1, &case.keys[0]), roles(&case, 2, &case.keys[1]));
            let dims = DotDims {
                lhs_batching_dimensions: places(&l, 0, case.sizes[0].len()),
                rhs_batching_dimensions: places(&r, 0, case.sizes[0].len()),
                lhs_contracting_dimensions: places(&l, 3, case.sizes[3].len()),
                rhs_contracting_dimensions: places(&r, 3, case.sizes[3].len()),
            };
            for dtype in [DType::S32, DType::F32, DType::C128] {
                let (lhs, rhs) = (filled(&case, &l, dtype, 1), filled(&case, &r, dtype, 4));
                let ty = TensorTy::new(dims.result_dims(lhs.dims(), rhs.dims()), dtype);
                prop_assert_eq!(&ty.dims[..], &case.sizes[..3].concat()[..]);
                let found = contract(&lhs, &rhs, &dims, ty);
                let found: Vec<i64> = (0..found.count()).map(|i| found.get(i).int()).collect();
                prop_assert_eq!(found, naive(&case, &lhs, &rhs, [&l, &r]), "{}", dtype);
            }
        }
    }
}
