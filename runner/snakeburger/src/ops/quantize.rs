//! Between floats and quantized elements.

use super::elementwise::FQ;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Tensor};
use crate::ir::dims_compatible;
use crate::text::Form;

payload! {
    /// Quantizes floats, or quantized elements anew.
    UniformQuantize {}
}

impl OpDef for UniformQuantize {
    const NAME: &'static str = "stablehlo.uniform_quantize";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        c.require(FQ.allows(&operand.elem), "I1", || format!("{operand} must be {FQ}"));
        c.require(dims_compatible(&operand.dims, &result.dims), "C1", || {
            format!("the operand is {operand}, the result {result}")
        });
        let expressed = result.elem.quant().map(|quant| quant.expressed);
        c.require(expressed == Some(operand.elem.expressed()), "C2", || {
            format!("{operand} cannot be quantized to {result}")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, operand.dims())?;
        let values = operand.real_values();
        Ok(vec![Tensor::quantize(ty, |i| values[i]).into()])
    }

    columns!(Opaque, Exact, Missing("rounds to few values"));
}

payload! {
    /// The floats that quantized elements stand for.
    UniformDequantize {}
}

impl OpDef for UniformDequantize {
    const NAME: &'static str = "stablehlo.uniform_dequantize";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        c.require(operand.elem.quant().is_some(), "I1", || format!("{operand} must be quantized"));
        c.require(dims_compatible(&operand.dims, &result.dims), "C1", || {
            format!("the operand is {operand}, the result {result}")
        });
        c.require(result.dtype() == Some(operand.elem.expressed()), "C2", || {
            format!("{operand} does not express {result}")
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let operand = c.operand(0);
        Infer::Types(vec![operand.with_elem(operand.elem.expressed()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, operand.dims())?;
        let values = operand.real_values();
        Ok(vec![Tensor::from_floats(ty, |i| values[i]).into()])
    }

    columns!(Opaque, Exact, Zero);
}
