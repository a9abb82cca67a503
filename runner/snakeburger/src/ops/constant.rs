//! Constants and numbered tensors.

use std::sync::Arc;

use super::elementwise::{C, F, I, Q};
use super::{Arity, Check, Count, Fusion, Infer, OpDef, Scalar, Tolerance};
use crate::eval::{Cx, EvalResult, LaneFn, Num, Tensor, strides};
use crate::ir::{Attr, DType, Dict, Literal, NodeId};
use crate::text::{Form, Parse, Parser, Printer, Types, Word, form};

payload! {
    /// A constant tensor.
    Constant { value: Arc<Literal> }
}

impl OpDef for Constant {
    const NAME: &'static str = "stablehlo.constant";
    const FORM: Form = Form::Custom { parse: parse_constant, print: print_constant };
    const ARITY: Arity = Arity::tensors(Count::Exactly(0), 1);

    fn check(&self, c: &mut Check<'_>) {
        let wanted = self.value.ty.clone().into();
        c.result_is(0, "C1", &wanted);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![self.value.ty.clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        cx.allow(&self.value.ty)?;
        Ok(vec![Tensor::from_literal(&self.value).into()])
    }

    fn lane(&self, _: &[DType], _: DType) -> Option<LaneFn> {
        let value = Tensor::from_literal(&self.value).get(0);
        Some(Box::new(move |_| value))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Constant)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Zero);
}

fn parse_constant(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    form::attributes(p, &mut raw)?;
    let at = p.cur.at;
    let value = p.attr()?;
    let Attr::Dense(literal) = &value else {
        return p.cur.fail_at(at, "expected a constant such as dense<1.0> : tensor<2xf32>");
    };
    raw.results.push(p.module.types.intern(literal.ty.clone().into()));
    raw.attrs.push(("value".into(), value));
    Ok(raw)
}

fn print_constant(p: &mut Printer<'_>, _: NodeId, mut attrs: Dict) {
    let value = form::take(&mut attrs, "value");
    p.attributes(&attrs);
    p.push(" ");
    if let Some(value) = value {
        p.attr(&value);
    }
}

payload! {
    /// Numbers along one dimension.
    Iota { iota_dimension: i64 }
}

impl OpDef for Iota {
    const NAME: &'static str = "stablehlo.iota";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "dim", attr: "iota_dimension" }],
        types: Types::Result,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(0), 1);

    fn check(&self, c: &mut Check<'_>) {
        let ty = c.result(0);
        let kinds = I.or(F).or(C).or(Q);
        c.require(kinds.allows(&ty.elem), "O1", || format!("the result {ty} must be {kinds}"));
        c.require((0..ty.rank() as i64).contains(&self.iota_dimension), "C1", || {
            format!("iota_dimension {} is no dimension of {ty}", self.iota_dimension)
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let ty = cx.result_ty(0)?.clone();
        cx.allow(&ty)?;
        Ok(vec![numbered(ty, self.iota_dimension as usize).into()])
    }

    columns!(Move, Exact, Zero);
}

/// The index along one dimension, as elements of the type.
pub(crate) fn numbered(ty: crate::ir::TensorTy, dim: usize) -> Tensor {
    let stride = strides(&ty.dims)[dim].max(1);
    let size = ty.dims[dim].max(1) as usize;
    let at = |i: usize| i / stride % size;
    if ty.elem.quant().is_some() {
        return Tensor::quantize(ty, |i| at(i) as f64);
    }
    let storage = ty.elem.storage();
    Tensor::from_nums(ty, |i| Num::I(at(i) as i64).convert(storage))
}
