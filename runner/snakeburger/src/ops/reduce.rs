//! Reductions along dimensions.

use super::fold::{Groups, Source, Visit, check_inputs, check_reducer, fold, joined_dims};
use super::reduce_grad;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, strides};
use crate::ir::{Attr, Dict, Ints, LocId, NodeId, RegionId, TensorTy, Ty, TypeId, ValueId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

payload! {
    /// Combines the elements along some dimensions, which vanish.
    Reduce { dimensions: Ints }
}

impl OpDef for Reduce {
    const NAME: &'static str = "stablehlo.reduce";
    const FORM: Form = Form::Custom { parse: parse_reduce, print: print_reduce };
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(0),
        results: Count::AtLeast(0),
        regions: Count::Exactly(1),
        tensors: true,
    };

    fn check(&self, c: &mut Check<'_>) {
        let Some(inputs) = check_inputs(c, ["C3", "C1", "C2"]) else { return };
        c.dimensions("dimensions", &self.dimensions, inputs[0].rank(), "C4", "C5");
        let elems = check_reducer(c, 0, "C6", &inputs);
        let kept = self.kept(&joined_dims(&inputs));
        for (i, elem) in elems.into_iter().enumerate() {
            let result = c.result(i);
            c.require(crate::ir::dims_compatible(&result.dims, &kept), "C7", || {
                format!("result {i} is {result}, its shape must be {kept:?}")
            });
            c.require(result.elem == elem, "C8", || {
                format!("result {i} is {result}, the body yields {elem}")
            });
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let inputs = &c.operands(0)[..c.operand_types().len() / 2];
        let kept = self.kept(&joined_dims(inputs));
        let ty = |i| TensorTy::new(kept.iter().copied(), c.result(i).elem.clone()).into();
        Infer::Types((0..inputs.len()).map(ty).collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let input = cx.tensor(0)?;
        let n = cx.operand_count() / 2;
        for i in 1..n {
            let other = cx.tensor(i)?;
            if other.dims() != input.dims() {
                return Err(cx.error(format!("inputs are {} and {}", input.ty, other.ty)));
            }
        }
        let dims = input.dims().to_vec();
        let axes = Axes::new(&dims, &self.dimensions);
        let results = fold(cx, &self.kept(&dims), &axes)?;
        Ok(results.into_iter().map(Into::into).collect())
    }

    columns!(Reduce, Accumulated, Rule(reduce_grad::of_reduce));
}

impl Reduce {
    /// The dimensions that stay.
    fn kept(&self, dims: &[i64]) -> Vec<i64> {
        let stays = |d: &usize| !self.dimensions.contains(&(*d as i64));
        (0..dims.len()).filter(stays).map(|d| dims[d]).collect()
    }
}

/// A dimension's size and stride.
type Axis = (usize, usize);

/// Kept and reduced dimensions of a shape, as sizes and strides.
struct Axes {
    kept: Vec<Axis>,
    reduced: Vec<Axis>,
    /// The innermost reduced one.
    inner: Axis,
}

impl Axes {
    fn new(dims: &[i64], dimensions: &[i64]) -> Self {
        let all = dims.iter().map(|d| *d as usize).zip(strides(dims)).enumerate();
        let (reduced, kept): (Vec<_>, Vec<_>) =
            all.partition(|(d, _)| dimensions.contains(&(*d as i64)));
        let mut reduced = merged(reduced.into_iter().map(|(_, axis)| axis));
        let inner = reduced.pop().unwrap_or((1, 1));
        Self { kept: kept.into_iter().map(|(_, axis)| axis).collect(), reduced, inner }
    }
}

/// Joins neighbours that are one run in memory.
fn merged(axes: impl Iterator<Item = Axis>) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::new();
    for (size, stride) in axes {
        match joined.last_mut() {
            Some(outer) if outer.1 == size * stride => *outer = (outer.0 * size, stride),
            _ => joined.push((size, stride)),
        }
    }
    joined
}

/// The offset of the `i`th place within some dimensions.
fn offset(axes: &[Axis], mut i: usize) -> usize {
    let mut offset = 0;
    for (size, stride) in axes.iter().rev() {
        offset += i % size * stride;
        i /= size;
    }
    offset
}

impl Groups for Axes {
    fn size(&self) -> usize {
        self.reduced.iter().chain([&self.inner]).map(|(size, _)| size).product()
    }

    fn row(&self) -> usize {
        match self.kept.last() {
            Some((size, 1)) => *size,
            _ => 1,
        }
    }

    fn visit(&self, i: usize, visit: Visit<'_>) -> EvalResult<()> {
        if self.size() == 0 {
            return Ok(());
        }
        let base = offset(&self.kept, i);
        let (count, step) = self.inner;
        let runs: usize = self.reduced.iter().map(|(size, _)| size).product();
        for run in 0..runs {
            visit(Source::Run { start: base + offset(&self.reduced, run), count, step })?;
        }
        Ok(())
    }
}

/// `(%a init: %b), (%c init: %d) applies stablehlo.add across dimensions = [0] : …`, or without
/// `applies` and with a `reducer(…) (…) {…}` at the end.
fn parse_reduce(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    let mut inits = Vec::new();
    loop {
        p.cur.expect("(")?;
        raw.operands.push(p.operand()?);
        p.cur.expect_word("init")?;
        p.cur.expect(":")?;
        inits.push(p.operand()?);
        p.cur.expect(")")?;
        if !p.cur.eat(",") {
            break;
        }
    }
    let n = inits.len();
    raw.operands.extend(inits);
    let applied = if p.cur.eat_word("applies") { Some(p.operation_name()?) } else { None };
    p.cur.expect_word("across")?;
    p.cur.expect_word("dimensions")?;
    p.cur.expect("=")?;
    raw.attrs.push(("dimensions".into(), p.attr()?));
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    let region = match applied {
        Some(info) => {
            let ty = scalar_of(p, raw.results.first().copied())?;
            p.binary_region(info, ty)?
        }
        None => parse_reducer(p, n)?,
    };
    raw.regions.push(region);
    Ok(raw)
}

/// The rank-0 type of a tensor type's elements.
fn scalar_of(p: &mut Parser<'_>, ty: Option<TypeId>) -> Parse<TypeId> {
    let tensor = ty.and_then(|ty| p.module.ty(ty).as_tensor());
    match tensor.map(|tensor| TensorTy::scalar(tensor.elem.clone())) {
        Some(scalar) => Ok(p.module.types.intern(scalar.into())),
        None => p.cur.fail("a reduction yields tensors"),
    }
}

/// `reducer(%x0: T, %y0: T) (%x1: U, %y1: U) {…}`: the region takes all the x, then all the y.
fn parse_reducer(p: &mut Parser<'_>, n: usize) -> Parse<RegionId> {
    p.cur.expect_word("reducer")?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let at = p.cur.at;
        let pair = p.list("(", ")", Parser::typed_name)?;
        let [x, y] = pair[..] else {
            return p.cur.fail_at(at, "expected two arguments for each input");
        };
        left.push(x);
        right.push(y);
    }
    left.extend(right);
    p.region(&left)
}

fn print_reduce(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    let operands = p.graph().operands(node);
    let (inputs, inits) = operands.split_at(operands.len() / 2);
    for (i, (input, init)) in inputs.iter().zip(inits).enumerate() {
        p.push(if i > 0 { ", (" } else { "(" });
        p.value(*input);
        p.push(" init: ");
        p.value(*init);
        p.push(")");
    }
    let applied = applied(p, node);
    if let Some(name) = applied {
        p.push(" applies ");
        p.push(name);
    }
    p.push(" across dimensions = ");
    let dimensions = form::take(&mut attrs, "dimensions");
    p.short_attr(&dimensions.unwrap_or(Attr::Array(Vec::new())));
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
    if let (None, [region]) = (applied, p.graph().regions(node)) {
        print_reducer(p, *region);
    }
}

fn print_reducer(p: &mut Printer<'_>, region: RegionId) {
    let arguments = p.name_arguments(region);
    let (left, right) = arguments.split_at(arguments.len() / 2);
    p.line();
    p.push(" reducer");
    for (i, (x, y)) in left.iter().zip(right).enumerate() {
        p.push(if i > 0 { " (" } else { "(" });
        p.typed_values(&[*x, *y]);
        p.push(")");
    }
    p.push(" ");
    p.region(region, false);
}

/// The name of the one operation that a region applies to its two arguments, if `applies` can
/// say all there is to say about it.
fn applied(p: &Printer<'_>, node: NodeId) -> Option<&'static str> {
    let graph = p.graph();
    let [region] = graph.regions(node) else { return None };
    let [inner, last] = graph.region(*region).nodes[..] else { return None };
    let arguments: Vec<ValueId> = graph.arguments(*region).collect();
    let results: Vec<ValueId> = graph.results(inner).collect();
    let whole = arguments.len() == 2
        && graph.operands(inner) == arguments
        && graph.operands(last) == results
        && graph.regions(inner).is_empty();
    let plain = |id: NodeId| {
        let node = graph.node(id);
        node.extra.is_none() && node.loc == LocId::default() && node.op.write().is_empty()
    };
    let result = p.module().value_ty(graph, graph.results(node).next()?).as_tensor()?;
    let scalar = Ty::Tensor(TensorTy::scalar(result.elem.clone()));
    let is_scalar = |value: &ValueId| *p.module().value_ty(graph, *value) == scalar;
    let typed = arguments.iter().chain(&results).all(is_scalar);
    let ends = graph.node(last).op.name() == super::Return::NAME;
    (whole && typed && ends && plain(inner) && plain(last)).then(|| graph.node(inner).op.name())
}
