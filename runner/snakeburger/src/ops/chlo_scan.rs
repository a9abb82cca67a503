//! `scan`: a region applied along a dimension, with values carried from step to step.

use super::collective::concatenate;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Tensor, Value};
use crate::ir::{Attr, DType, DYNAMIC, Dict, Ints, NodeId, TensorTy, Ty, dim_compatible};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

payload! {
    /// Runs along a dimension of the inputs; yields what each step yields, and the last carries.
    #[allow(non_snake_case, reason = "the attributes are spelled like this")]
    Scan {
        dimension: i64,
        is_reverse: bool = false,
        is_associative: Option<bool> = None,
        scan_dim_size: Option<i64> = None,
        operandSegmentSizes: Ints,
        resultSegmentSizes: Ints = Box::default(),
    }
}

impl Scan {
    /// How many of the operands are inputs; the others are the first carries.
    fn inputs(&self, operands: usize) -> usize {
        usize::try_from(self.operandSegmentSizes.first().copied().unwrap_or(0))
            .unwrap_or(0)
            .min(operands)
    }

    /// A type without the scanned dimension.
    fn slice(&self, ty: &TensorTy) -> TensorTy {
        let kept = ty.dims.iter().enumerate().filter(|(d, _)| *d as i64 != self.dimension);
        ty.with_dims(kept.map(|(_, size)| *size))
    }
}

impl OpDef for Scan {
    const NAME: &'static str = "chlo.scan";
    const FORM: Form = Form::Custom { parse: parse_scan, print: print_scan };
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(1),
        results: Count::AtLeast(0),
        regions: Count::Exactly(1),
        tensors: true,
    };

    fn check(&self, c: &mut Check<'_>) {
        let operands = c.operand_types().len();
        let sizes = &self.operandSegmentSizes;
        let split = sizes.len() == 2
            && sizes.iter().all(|size| *size >= 0)
            && sizes.iter().sum::<i64>() == operands as i64;
        c.require(split, "", || format!("operandSegmentSizes {sizes:?} of {operands} operands"));
        let inputs = self.inputs(operands);
        let size = |ty: &TensorTy| ty.dims.get(self.dimension as usize).copied();
        let first = (inputs > 0).then(|| size(c.operand(0))).flatten().unwrap_or(DYNAMIC);
        let mut arguments: Vec<Ty> = Vec::new();
        for (i, ty) in c.operands(0).into_iter().enumerate() {
            if i >= inputs {
                arguments.push(ty.clone().into());
                continue;
            }
            let found = size(ty);
            c.require(found.is_some_and(|found| dim_compatible(found, first)), "", || {
                format!("operand {i} is {ty}, dimension {} must be {first}", self.dimension)
            });
            arguments.push(self.slice(ty).into());
        }
        let region = c.region(0);
        let fits = region.arguments.len() == arguments.len()
            && region.arguments.iter().zip(&arguments).all(|(a, b)| a.compatible(b));
        c.require(fits, "", || "the region's arguments are not slices and carries".into());
        let (results, yields) = (c.result_types().len(), region.results.len());
        c.require(results == yields && results >= operands - inputs, "", || {
            format!("{results} results, the region yields {yields}")
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let operands = c.operand_types().len();
        let carries = operands - self.inputs(operands);
        let outputs = c.result_types().len() - carries;
        let size = c.operand(0).dims.get(self.dimension as usize).copied().unwrap_or(DYNAMIC);
        let yields = c.region(0).results;
        let types = yields.into_iter().enumerate().map(|(i, ty)| match ty {
            Ty::Tensor(ty) if i < outputs => {
                let mut dims = ty.dims.clone();
                dims.insert((self.dimension as usize).min(dims.len()), size);
                Ty::Tensor(ty.with_dims(dims))
            }
            ty => ty.clone(),
        });
        Infer::Types(types.collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let inputs = self.inputs(cx.operand_count());
        let all: Vec<Tensor> = cx.tensors(0)?.into_iter().cloned().collect();
        let dim = self.dimension as usize;
        let Some(steps) = all.first().filter(|_| inputs > 0).map(|input| input.dims()[dim]) else {
            return Err(cx.error("there is nothing to scan"));
        };
        if all[..inputs].iter().any(|input| input.dims()[dim] != steps) {
            return Err(cx.error("the inputs differ in the scanned dimension"));
        }
        let mut carries: Vec<Value> = all[inputs..].iter().cloned().map(Value::from).collect();
        let outputs = cx.graph().results(cx.node).len() - carries.len();
        let mut yielded: Vec<Vec<Tensor>> = vec![Vec::new(); outputs];
        for step in 0..steps {
            let at = if self.is_reverse { steps - 1 - step } else { step } as usize;
            let slice = |input: &Tensor| {
                let part = super::collective::part(input, dim, steps as usize, at);
                let dims = self.slice(&input.ty).dims;
                Value::from(part.with_dims(dims))
            };
            let arguments = all[..inputs].iter().map(slice).chain(carries).collect();
            let mut results = cx.region(0, arguments)?;
            carries = results.split_off(outputs.min(results.len()));
            for (list, value) in yielded.iter_mut().zip(results) {
                let Value::Tensor(tensor) = value else {
                    return Err(cx.error("the region yields what is no tensor"));
                };
                list.push(tensor);
            }
        }
        let mut results = Vec::new();
        for (i, mut slices) in yielded.into_iter().enumerate() {
            if self.is_reverse {
                slices.reverse();
            }
            results.push(stack(cx, i, dim, steps, slices)?.into());
        }
        results.extend(carries);
        Ok(results)
    }

    columns!(Opaque, Accumulated, Missing("has no rule"));
}

/// Slices behind each other along a new dimension.
fn stack(
    cx: &Cx<'_, '_>,
    i: usize,
    dim: usize,
    steps: i64,
    slices: Vec<Tensor>,
) -> EvalResult<Tensor> {
    let Some(first) = slices.first() else {
        let ty = cx.result_ty(i)?;
        cx.allow(ty)?;
        return Ok(Tensor::zeros(ty.clone()));
    };
    let mut dims = first.ty.dims.clone();
    dims.insert(dim.min(dims.len()), 1);
    let mut whole = dims.clone();
    whole[dim.min(first.rank())] = steps;
    let ty = cx.result_of(i, &whole)?;
    let parts: Vec<Tensor> =
        slices.into_iter().map(|slice| slice.with_dims(dims.iter().copied())).collect();
    if parts.iter().any(|part| part.dims() != &dims[..]) {
        return Err(cx.error("the region yields different shapes"));
    }
    Ok(concatenate(&parts, dim, ty))
}

/// `(%a) inits(%b) dimension=0 {…} : (T, U) -> (V, W)`.
fn parse_scan(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw =
        form::RawOp { operands: p.list("(", ")", Parser::operand)?, ..Default::default() };
    let inputs = raw.operands.len() as i64;
    p.cur.expect_word("inits")?;
    let inits = p.list("(", ")", Parser::operand)?;
    let sizes: Ints = [inputs, inits.len() as i64].into();
    let carries = inits.len() as i64;
    raw.operands.extend(inits);
    raw.attrs.push(("operandSegmentSizes".into(), Attr::DenseInts(DType::S32, sizes)));
    while p.cur.peek() != b'{' {
        if p.cur.eat_word("attributes") {
            raw.attrs.extend(p.dict()?);
            continue;
        }
        let name = p.cur.word("an attribute's name or a region")?;
        p.cur.expect("=")?;
        raw.attrs.push((name.into(), p.attr()?));
        p.cur.eat(",");
    }
    raw.regions = vec![p.region(&[])?];
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    let sizes: Ints = [raw.results.len() as i64 - carries, carries].into();
    raw.attrs.push(("resultSegmentSizes".into(), Attr::DenseInts(DType::S32, sizes)));
    Ok(raw)
}

fn print_scan(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    let sizes = form::take(&mut attrs, "operandSegmentSizes");
    form::take(&mut attrs, "resultSegmentSizes");
    let operands = p.graph().operands(node);
    let inputs = match sizes {
        Some(Attr::DenseInts(_, sizes)) => sizes.first().copied().unwrap_or(0) as usize,
        _ => 0,
    };
    let (inputs, inits) = operands.split_at(inputs.min(operands.len()));
    p.push("(");
    p.values(inputs);
    p.push(") inits(");
    p.values(inits);
    p.push(") dimension=");
    if let Some(dimension) = form::take(&mut attrs, "dimension") {
        p.short_attr(&dimension);
    }
    if !attrs.is_empty() {
        p.push(" attributes");
        p.attributes(&attrs);
    }
    p.push(" ");
    for region in p.graph().regions(node).to_vec() {
        p.region(region, true);
    }
    form::print_types(p, node, Types::Functional);
}
