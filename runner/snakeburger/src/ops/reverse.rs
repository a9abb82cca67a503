//! Elements in the opposite order.

use super::boxes::take;
use super::indexing::{per_tensor, result_dims, same_elem};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult};
use crate::ir::Ints;
use crate::text::{Form, Types, Word};

payload! {
    /// Reverses the order of elements along some dimensions.
    Reverse { dimensions: Ints }
}

impl OpDef for Reverse {
    const NAME: &'static str = "stablehlo.reverse";
    const FORM: Form =
        Form::Plain { words: &[Word { text: "dims", attr: "dimensions" }], types: Types::Same };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        per_tensor(c, "I1", operand);
        same_elem(c, "C1", operand, c.result(0));
        result_dims(c, "C1", &operand.dims);
        c.dimensions("dimensions", &self.dimensions, operand.rank(), "C3", "C2");
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C1", vec![c.operand(0).clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, operand.dims())?;
        let reversed = |d: usize| self.dimensions.contains(&(d as i64));
        let dims = operand.dims().iter().enumerate();
        let (start, stride): (Vec<i64>, Vec<i64>) =
            dims.map(|(d, dim)| if reversed(d) { (dim - 1, -1) } else { (0, 1) }).unzip();
        Ok(vec![take(operand, ty, &start, &stride).into()])
    }

    columns!(Move, Exact, Rule(derive_reverse));
}

fn derive_reverse(op: &Reverse, d: &mut Derive<'_>) -> Derived {
    let axes: Vec<usize> = op.dimensions.iter().map(|axis| *axis as usize).collect();
    d.one(0, |e, g| e.reverse(g, &axes))
}
