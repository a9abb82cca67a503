//! Folding many elements into one by a region: what reductions and windows share.

use rayon::prelude::*;
use smallvec::SmallVec;

use super::elementwise::{Fun, IntFun, Row};
use super::{Add, And, Check, Maximum, Minimum, Multiply, OpDef, Or};
use crate::eval::{Apply, Cx, EvalResult, Num, Program, Tensor};
use crate::ir::{DType, Elem, TensorTy, Ty};
use crate::num::format;

/// What is folded next.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Elements `start`, `start + step`, … of each input.
    Run { start: usize, count: usize, step: usize },
    /// The initial values, this often: they stand in for what padding adds.
    Init(usize),
}

/// Takes what is folded, in order.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Source) -> EvalResult<()>;

/// Which elements of the inputs become element `i` of the results, in order.
pub(crate) trait Groups: Sync {
    /// How many elements become one.
    fn size(&self) -> usize;
    /// How many results in a row, from each multiple of this number on, are folded alike: what
    /// becomes the next one lies one element further.
    fn row(&self) -> usize {
        1
    }
    fn visit(&self, i: usize, visit: Visit<'_>) -> EvalResult<()>;
}

/// The longest fold of narrow floats that rounds at every step, as the region says. A longer one,
/// and any of float32, is accumulated in f64 and rounded once: roundings on the way would say more
/// about the order, which is free, than about the sum.
const LONG: usize = 256;

/// Elements that may pass between two looks at the clock.
const PATIENCE: usize = 1 << 16;

/// Folds the operands (inputs, then as many initial values) by region 0, from left to right and
/// starting with the initial values.
pub(crate) fn fold(
    cx: &mut Cx<'_, '_>,
    dims: &[i64],
    groups: &impl Groups,
) -> EvalResult<Vec<Tensor>> {
    let n = cx.operand_count() / 2;
    let elems: Vec<Elem> = cx.scalars(0, 2 * n, n)?.iter().map(|ty| ty.elem.clone()).collect();
    let promoted = |i: usize| Ok(promote(cx.tensor(i)?, &elems[i]));
    let inputs: Vec<Tensor> = (0..n).map(promoted).collect::<EvalResult<_>>()?;
    let inits: Vec<Tensor> = (n..2 * n).map(promoted).collect::<EvalResult<_>>()?;
    let types: Vec<TensorTy> =
        (0..n).map(|i| cx.result_of(i, dims)).collect::<EvalResult<Vec<_>>>()?;
    if let ([input], [init], [ty]) = (&inputs[..], &inits[..], &types[..])
        && let Some((name, row)) = single(cx)?
        && let Some(tensor) = fold_row(cx, name, &row, input, init.get(0), ty, groups)
    {
        return Ok(vec![tensor?]);
    }
    let count = types.first().and_then(TensorTy::count).unwrap_or(0);
    let folded = cx.each(0, count, |body, i| fold_one(body, &inputs, &inits, groups, i))?;
    let result = |(k, ty)| Tensor::from_nums(ty, |i: usize| folded[i][k]);
    Ok(types.into_iter().enumerate().map(result).collect())
}

/// Folds one element of each result by the region.
fn fold_one(
    body: &mut dyn Apply,
    inputs: &[Tensor],
    inits: &[Tensor],
    groups: &impl Groups,
    i: usize,
) -> EvalResult<SmallVec<[Num; 2]>> {
    let n = inputs.len();
    let start: SmallVec<[Num; 2]> = inits.iter().map(|init| init.get(0)).collect();
    let mut arguments: SmallVec<[Num; 4]> = start.iter().chain(&start).copied().collect();
    let mut results = start.clone();
    groups.visit(i, &mut |source| {
        let count = match source {
            Source::Run { count, .. } | Source::Init(count) => count,
        };
        for j in 0..count {
            match source {
                Source::Run { start, step, .. } => {
                    for (argument, input) in arguments[n..].iter_mut().zip(inputs) {
                        *argument = input.get(start + j * step);
                    }
                }
                Source::Init(_) => arguments[n..].copy_from_slice(&start),
            }
            body.apply(&arguments, &mut results)?;
            arguments[..n].copy_from_slice(&results);
        }
        Ok(())
    })?;
    arguments.truncate(n);
    Ok(arguments.into_iter().collect())
}

/// The operation a region consists of, if it is one of those most reductions use.
fn single(cx: &Cx<'_, '_>) -> EvalResult<Option<(&'static str, Row)>> {
    let program = cx.program(0)?;
    Ok(program.and_then(|program| row_of(&program)))
}

/// The operation that a compiled region consists of, if it is one of those most regions are.
pub(crate) fn row_of(program: &Program) -> Option<(&'static str, Row)> {
    let name = program.single?;
    let row = match name {
        Add::NAME => Add::ROW,
        Multiply::NAME => Multiply::ROW,
        Maximum::NAME => Maximum::ROW,
        Minimum::NAME => Minimum::ROW,
        And::NAME => And::ROW,
        Or::NAME => Or::ROW,
        _ => return None,
    };
    Some((name, row))
}

/// Folds by one elementwise operation on floats or integers.
fn fold_row(
    cx: &Cx<'_, '_>,
    name: &str,
    row: &Row,
    input: &Tensor,
    init: Num,
    ty: &TensorTy,
    groups: &impl Groups,
) -> Option<EvalResult<Tensor>> {
    let dtype = input.ty.dtype()?;
    let count = ty.count().unwrap_or(0);
    let folds = Folds { cx, groups, count };
    Some(match (row.float, row.int) {
        (Fun::Two(f), _) if dtype.is_float() => {
            let init = init.float();
            let folded = if groups.size() <= LONG && dtype.bits() < 32 {
                let rounded = |x, y| format::round_to(dtype, f(x, y));
                folds.all(&input.floats(), init, rounded)
            } else if dtype == DType::F32 {
                let values: &[f32] = input.data.as_slice();
                // What nearly all reductions do is compiled for itself.
                match name {
                    Add::NAME => folds.all(values, init, |x, y| x + y),
                    _ => folds.all(values, init, f),
                }
            } else {
                folds.all(&input.floats(), init, f)
            };
            folded.map(|folded| Tensor::from_floats(ty.clone(), |i| folded[i]))
        }
        (_, IntFun::Two(f)) if dtype.is_int() => {
            let folded = folds.all(&input.ints(), init.int(), |x, y| f(dtype, x, y));
            folded.map(|folded| Tensor::from_ints(ty.clone(), |i| folded[i]))
        }
        _ if dtype.is_bool() => {
            let Fun::Two(f) = row.bool else { return None };
            let values: Vec<bool> = input.data.bytes().iter().map(|byte| *byte != 0).collect();
            let folded = folds.all(&values, init.bool(), f);
            folded.map(|folded| Tensor::from_nums(ty.clone(), |i| Num::B(folded[i])))
        }
        _ => return None,
    })
}

/// Elements a task folds at least.
const TASK: usize = 1 << 13;

/// Results that are folded side by side at most.
const WIDTH: usize = 64;

/// All folds of an operation, each from left to right.
struct Folds<'a, 'c, 'm, G> {
    cx: &'a Cx<'c, 'm>,
    groups: &'a G,
    /// How many results there are.
    count: usize,
}

impl<G: Groups> Folds<'_, '_, '_, G> {
    /// The results, made in tasks of similar work however large the groups are. Values are
    /// widened as they are read.
    fn all<V: Copy + Into<T> + Sync, T: Copy + Send + Sync>(
        &self,
        values: &[V],
        init: T,
        f: impl Fn(T, T) -> T + Sync,
    ) -> EvalResult<Vec<T>> {
        let mut folded = vec![init; self.count];
        let row = self.groups.row().max(1);
        let each = TASK.div_ceil(self.groups.size().max(1)).max(row.min(WIDTH));
        let task = |(task, mut folded): (usize, &mut [T])| {
            let mut first = task * each;
            while !folded.is_empty() {
                let width = folded.len().min(WIDTH).min(row - first % row);
                let (part, rest) = std::mem::take(&mut folded).split_at_mut(width);
                match part {
                    [one] => self.one(first, values, one, &f)?,
                    _ => self.side_by_side(first, values, part, &f)?,
                }
                (first, folded) = (first + width, rest);
            }
            Ok(())
        };
        if self.count <= each {
            task((0, &mut folded))?;
        } else {
            folded.par_chunks_mut(each).enumerate().try_for_each(task)?;
        }
        Ok(folded)
    }

    /// Folds result `i`, which holds the initial value.
    fn one<V: Copy + Into<T>, T: Copy>(
        &self,
        i: usize,
        values: &[V],
        folded: &mut T,
        f: impl Fn(T, T) -> T,
    ) -> EvalResult<()> {
        let init = *folded;
        self.visit(i, |source| match source {
            Source::Run { start, count, step: 1 } => {
                let run = &values[start..start + count];
                *folded = run.iter().fold(*folded, |folded, value| f(folded, (*value).into()));
            }
            Source::Run { start, count, step } => {
                let run = (0..count).map(|j| values[start + j * step].into());
                *folded = run.fold(*folded, &f);
            }
            Source::Init(count) => {
                *folded = (0..count).fold(*folded, |folded, _| f(folded, init));
            }
        })
    }

    /// Folds results from the `i`th on, which hold the initial value and lie in one row.
    fn side_by_side<V: Copy + Into<T>, T: Copy>(
        &self,
        i: usize,
        values: &[V],
        folded: &mut [T],
        f: impl Fn(T, T) -> T,
    ) -> EvalResult<()> {
        let init = folded[0];
        self.visit(i, |source| match source {
            Source::Run { start, count, step } => {
                for j in 0..count {
                    let run = &values[start + j * step..][..folded.len()];
                    for (folded, value) in folded.iter_mut().zip(run) {
                        *folded = f(*folded, (*value).into());
                    }
                }
            }
            Source::Init(count) => {
                for folded in folded.iter_mut() {
                    *folded = (0..count).fold(*folded, |folded, _| f(folded, init));
                }
            }
        })
    }

    /// Goes through what becomes result `i`; time may run out on the way.
    fn visit(&self, i: usize, mut take: impl FnMut(Source)) -> EvalResult<()> {
        let mut passed = 0usize;
        self.groups.visit(i, &mut |source| {
            let (Source::Run { count, .. } | Source::Init(count)) = source;
            take(source);
            passed = passed.saturating_add(count);
            if passed >= PATIENCE {
                passed = 0;
                self.cx.interpreter.check_time()?;
            }
            Ok(())
        })
    }
}

/// A tensor's elements in the type a region takes them in (the specification's
/// `to_destination_type`).
pub(crate) fn promote(tensor: &Tensor, elem: &Elem) -> Tensor {
    if tensor.ty.elem == *elem {
        return tensor.clone();
    }
    let ty = tensor.ty.with_elem(elem.clone());
    if elem.quant().is_some() || tensor.ty.elem.quant().is_some() {
        let real = tensor.real_values();
        return Tensor::quantize(ty, |i| real[i]);
    }
    let (from, to) = (tensor.storage(), elem.storage());
    Tensor::from_nums(ty, |i| tensor.get(i).convert_from(from, to))
}

/// Whether elements of one type may enter a region as elements of another.
pub(crate) fn is_promotable(from: &Elem, to: &Elem) -> bool {
    let narrow = |a: DType, b: DType| a.bits() <= b.bits();
    match (from, to) {
        (Elem::Plain(a), Elem::Plain(b)) => {
            let same = (a.is_bool() && b.is_bool())
                || (a.is_int() && b.is_int())
                || (a.is_float() && b.is_float())
                || (a.is_complex() && b.is_complex());
            same && narrow(*a, *b)
        }
        (Elem::Quant(a), Elem::Quant(b)) => {
            a.expressed == b.expressed && narrow(a.storage, b.storage)
        }
        _ => false,
    }
}

/// Requires a region to combine scalars of types that the inputs can be promoted to: it takes two
/// of each and yields one. Returns the types it yields.
pub(crate) fn check_reducer(
    c: &mut Check<'_>,
    region: usize,
    constraint: &str,
    inputs: &[&TensorTy],
) -> Vec<Elem> {
    let found = c.region(region);
    let elem = |i: usize| {
        found
            .results
            .get(i)
            .and_then(|ty| ty.as_tensor())
            .map_or_else(|| inputs[i].elem.clone(), |ty| ty.elem.clone())
    };
    let elems: Vec<Elem> = (0..inputs.len()).map(elem).collect();
    let one: Vec<Ty> = elems.iter().map(|elem| TensorTy::scalar(elem.clone()).into()).collect();
    c.region_is(region, constraint, &[one.clone(), one.clone()].concat(), &one);
    for (input, elem) in inputs.iter().zip(&elems) {
        c.require(is_promotable(&input.elem, elem), constraint, || {
            format!("{} cannot be promoted to {elem}", input.elem)
        });
    }
    elems
}

/// The constraints on inputs and initial values: as many of one as of the other and of results,
/// inputs of one shape, initial values of their types. Returns the inputs.
pub(crate) fn check_inputs<'a>(
    c: &mut Check<'a>,
    [sizes, shapes, types]: [&str; 3],
) -> Option<Vec<&'a TensorTy>> {
    let operands = c.operands(0);
    let n = operands.len() / 2;
    let results = c.result_types().len();
    if n == 0 || !operands.len().is_multiple_of(2) || results != n {
        let message = format!(
            "{} operands and {results} results: there must be as many inputs as initial values \
             and results, and at least one",
            operands.len()
        );
        c.fail(sizes, message);
        return None;
    }
    let (inputs, inits) = operands.split_at(n);
    for (i, (input, init)) in inputs.iter().zip(inits).enumerate() {
        let same = crate::ir::dims_compatible(&input.dims, &inputs[0].dims);
        c.require(same, shapes, || format!("input {i} is {input}, input 0 is {}", inputs[0]));
        c.require(input.elem == init.elem, types, || {
            format!("input {i} is {input}, its initial value {init}")
        });
        c.require(init.rank() == 0, "I2", || format!("initial value {i} is {init}, not a scalar"));
        let per_axis = input.elem.quant().is_some_and(|quant| quant.axis.is_some());
        c.require(!per_axis, "I1", || format!("input {i} is quantized per axis: {input}"));
    }
    Some(inputs.to_vec())
}

/// The shape that all of these agree on: a dimension that any of them knows is known.
pub(crate) fn joined_dims(types: &[&TensorTy]) -> Vec<i64> {
    let known = |d: usize| {
        let sizes = types.iter().filter_map(|ty| ty.dims.get(d).copied());
        sizes.max().unwrap_or(crate::ir::DYNAMIC)
    };
    (0..types.first().map_or(0, |ty| ty.rank())).map(known).collect()
}
