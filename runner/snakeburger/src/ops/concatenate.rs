//! Tensors joined along a dimension.

use super::boxes::put;
use super::indexing::{dim_at, per_tensor, result_dims, same_elem};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Tensor};
use crate::ir::{DYNAMIC, TensorTy, dim_compatible};
use crate::text::{Form, Types, Word};

payload! {
    /// Joins tensors along a dimension.
    Concatenate { dimension: i64 }
}

impl OpDef for Concatenate {
    const NAME: &'static str = "stablehlo.concatenate";
    const FORM: Form =
        Form::Plain { words: &[Word { text: "dim", attr: "dimension" }], types: Types::Functional };
    const ARITY: Arity = Arity::tensors(Count::AtLeast(0), 1);

    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        let inputs = c.operands(0);
        let Some(first) = inputs.first().copied() else {
            return c.fail("C3", "there is nothing to join");
        };
        c.require(dim_at(first, self.dimension).is_some(), "C4", || {
            format!("dimension {} is none of {first}", self.dimension)
        });
        for input in &inputs {
            per_tensor(c, "I1", input);
            same_elem(c, "C1", first, input);
            c.require(self.fits(first, input), "C2", || {
                format!("{first} and {input} may differ in dimension {} only", self.dimension)
            });
        }
        same_elem(c, "C5", first, c.result(0));
        if c.problem_count() == before {
            match self.joined(&inputs) {
                Some(dims) => result_dims(c, "C6", &dims),
                None => c.fail("C6", "the sizes add up to more than a dimension can have"),
            }
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match self.joined(&c.operands(0)) {
            Some(dims) => Infer::Types(vec![c.operand(0).with_dims(dims).into()]),
            None => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let inputs = cx.tensors(0)?;
        let types: Vec<&TensorTy> = inputs.iter().map(|input| &input.ty).collect();
        if let Some(other) = types.iter().find(|ty| !self.fits(types[0], ty)) {
            return Err(cx.error(format!("{} and {other} do not fit together", types[0])));
        }
        let dims = self.joined(&types).ok_or_else(|| cx.error("the result is too large"))?;
        let mut result = Tensor::zeros(cx.result_of(0, &dims)?);
        let mut start = vec![0; dims.len()];
        for input in inputs {
            put(&mut result, input, &start);
            start[self.dimension as usize] += input.dims()[self.dimension as usize];
        }
        Ok(vec![result.into()])
    }

    columns!(Move, Exact, Rule(derive_concatenate));
}

impl Concatenate {
    /// Whether two shapes differ in the joined dimension at most.
    fn fits(&self, a: &TensorTy, b: &TensorTy) -> bool {
        let same = |(d, (a, b)): (usize, (&i64, &i64))| {
            d as i64 == self.dimension || dim_compatible(*a, *b)
        };
        a.rank() == b.rank() && a.dims.iter().zip(&b.dims).enumerate().all(same)
    }

    /// The joined shape; a dimension is known if one input knows it, the joined one if all do.
    fn joined(&self, inputs: &[&TensorTy]) -> Option<Vec<i64>> {
        let mut dims = inputs.first()?.dims.to_vec();
        for input in &inputs[1..] {
            for (d, (dim, other)) in dims.iter_mut().zip(&input.dims).enumerate() {
                let unknown = *dim == DYNAMIC || *other == DYNAMIC;
                if d as i64 == self.dimension {
                    *dim = if unknown { DYNAMIC } else { dim.checked_add(*other)? };
                } else if *dim == DYNAMIC {
                    *dim = *other;
                }
            }
        }
        Some(dims)
    }
}

fn derive_concatenate(op: &Concatenate, d: &mut Derive<'_>) -> Derived {
    let axis = op.dimension as usize;
    let mut start = 0;
    for i in 0..d.operands().len() {
        let limit = start + d.e.dims(d.operand(i))[axis];
        d.one(i, |e, g| e.slice_axis(g, axis, start, limit, 1))?;
        start = limit;
    }
    Ok(())
}
