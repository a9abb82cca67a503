//! Shapes that are values: made of them, read from tensors, set on tensors.

use super::boxes::{put, take};
use super::constant::numbered;
use super::elementwise::{C, F, I, Q};
use super::indexing::{dim_at, index_list, per_tensor, result_dims, same_elem, shape_operand};
use super::shape::derive_reshape;
use super::shape::{broadcast, check_broadcast, check_reshape};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Num, Tensor};
use crate::ir::{DType, DYNAMIC, Ints, TensorTy};
use crate::text::{Form, Types, Word};

payload! {
    /// A reshape to a shape that is known at run time only.
    DynamicReshape {}
}

impl OpDef for DynamicReshape {
    const NAME: &'static str = "stablehlo.dynamic_reshape";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        check_reshape(c);
        index_list(c, 1, "I2", "C4", c.result(0).rank());
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, &shape_operand(cx, 1)?)?;
        if ty.count() != Some(operand.count()) {
            return Err(cx.error(format!("{} and {ty} differ in size", operand.ty)));
        }
        Ok(vec![Tensor { ty, data: operand.data.clone() }.into()])
    }

    columns!(Move, Exact, Rule(|_, d| derive_reshape(d)));
}

payload! {
    /// A broadcast to a shape that is known at run time only.
    DynamicBroadcastInDim {
        broadcast_dimensions: Ints,
        known_expanding_dimensions: Ints = Ints::default(),
        known_nonexpanding_dimensions: Ints = Ints::default(),
    }
}

impl OpDef for DynamicBroadcastInDim {
    const NAME: &'static str = "stablehlo.dynamic_broadcast_in_dim";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "dims", attr: "broadcast_dimensions" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        check_broadcast(c, &self.broadcast_dimensions, ["C1", "C2", "C3", "C4", "C5", "C6"]);
        index_list(c, 1, "I2", "C7", c.result(0).rank());
        let (expanding, fixed) =
            (&self.known_expanding_dimensions, &self.known_nonexpanding_dimensions);
        let names = ["known_expanding_dimensions", "known_nonexpanding_dimensions"];
        c.unique(&names.join(" and "), &[&expanding[..], &fixed[..]].concat(), "C8");
        let operand = c.operand(0);
        for (name, list, number) in [(names[0], expanding, "C9"), (names[1], fixed, "C10")] {
            for dim in list {
                c.require(dim_at(operand, *dim).is_some(), number, || {
                    format!("{name} holds {dim}, which is no dimension of {operand}")
                });
            }
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, &shape_operand(cx, 1)?)?;
        for (size, place) in operand.dims().iter().zip(&self.broadcast_dimensions) {
            if *size != 1 && Some(*size) != dim_at(&ty, *place) {
                return Err(cx.error(format!("{} cannot be broadcast to {ty}", operand.ty)));
            }
        }
        Ok(vec![broadcast(operand, &self.broadcast_dimensions, &ty).into()])
    }

    columns!(Move, Exact, Missing("has a shape that is not known"));
}

payload! {
    /// A broadcast along new leading dimensions; newer programs use `broadcast_in_dim`.
    Broadcast { broadcast_sizes: Ints }
}

impl Broadcast {
    fn dims(&self, operand: &TensorTy) -> Vec<i64> {
        self.broadcast_sizes.iter().chain(&operand.dims).copied().collect()
    }
}

impl OpDef for Broadcast {
    const NAME: &'static str = "stablehlo.broadcast";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "sizes", attr: "broadcast_sizes" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    // The specification does not have this operation, so its constraints have no numbers.
    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        per_tensor(c, "", operand);
        same_elem(c, "", operand, c.result(0));
        for size in self.broadcast_sizes.iter().filter(|size| **size < 0) {
            c.fail("", format!("broadcast_sizes holds {size}, which is no size"));
        }
        result_dims(c, "", &self.dims(operand));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let operand = c.operand(0);
        Infer::Types(vec![operand.with_dims(self.dims(operand)).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, &self.dims(&operand.ty))?;
        let first = self.broadcast_sizes.len() as i64;
        let dims: Vec<i64> = (first..ty.rank() as i64).collect();
        Ok(vec![broadcast(operand, &dims, &ty).into()])
    }

    columns!(Move, Exact, Missing("has no rule; use broadcast_in_dim"));
}

payload! {
    /// Numbers along one dimension of a shape that is known at run time only.
    DynamicIota { iota_dimension: i64 }
}

impl OpDef for DynamicIota {
    const NAME: &'static str = "stablehlo.dynamic_iota";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "dim", attr: "iota_dimension" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let result = c.result(0);
        let kinds = I.or(F).or(C).or(Q);
        c.require(kinds.allows(&result.elem), "O1", || {
            format!("the result {result} must be {kinds}")
        });
        per_tensor(c, "O1", result);
        c.require((0..result.rank() as i64).contains(&self.iota_dimension), "C1", || {
            format!("iota_dimension {} is no dimension of {result}", self.iota_dimension)
        });
        index_list(c, 0, "I1", "C2", result.rank());
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let ty = cx.result_of(0, &shape_operand(cx, 0)?)?;
        Ok(vec![numbered(ty, self.iota_dimension as usize).into()])
    }

    columns!(Move, Exact, Zero);
}

payload! {
    /// The size of a dimension.
    GetDimensionSize { dimension: i64 }
}

/// `%x, %y, dim = 0 : (T, U) -> V`.
const BY_DIMENSION: Form =
    Form::Plain { words: &[Word { text: "dim", attr: "dimension" }], types: Types::Functional };

impl OpDef for GetDimensionSize {
    const NAME: &'static str = "stablehlo.get_dimension_size";
    const FORM: Form = BY_DIMENSION;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        c.require(dim_at(operand, self.dimension).is_some(), "C1", || {
            format!("{} is no dimension of {operand}", self.dimension)
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![TensorTy::scalar(DType::S32).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = &cx.tensor(0)?.ty;
        let size = dim_at(operand, self.dimension)
            .ok_or_else(|| cx.error(format!("{} is no dimension of {operand}", self.dimension)))?;
        if i32::try_from(size).is_err() {
            return Err(cx.error(format!("the size {size} does not fit into 32 bits")));
        }
        Ok(vec![Tensor::scalar(DType::S32, Num::I(size)).into()])
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// A tensor with one dimension made shorter or, with elements that nothing defines, longer.
    SetDimensionSize { dimension: i64 }
}

impl OpDef for SetDimensionSize {
    const NAME: &'static str = "stablehlo.set_dimension_size";
    const FORM: Form = BY_DIMENSION;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    // The specification does not have this operation, so its constraints have no numbers.
    fn check(&self, c: &mut Check<'_>) {
        let (operand, size, result) = (c.operand(0), c.operand(1), c.result(0));
        per_tensor(c, "", operand);
        same_elem(c, "", operand, result);
        c.require(size.rank() == 0 && size.dtype() == Some(DType::S32), "", || {
            format!("the size is {size}, it must be tensor<i32>")
        });
        let Some(d) = dim_at(operand, self.dimension).map(|_| self.dimension as usize) else {
            return c.fail("", format!("{} is no dimension of {operand}", self.dimension));
        };
        let mut dims = operand.dims.clone();
        dims[d] = DYNAMIC;
        result_dims(c, "", &dims);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let size = shape_operand(cx, 1)?[0];
        let mut dims = operand.dims().to_vec();
        let d = self.dimension as usize;
        let longer = size > dims[d];
        dims[d] = size;
        let ty = cx.result_of(0, &dims)?;
        let origin = vec![0; dims.len()];
        if longer {
            let mut result = Tensor::zeros(ty);
            put(&mut result, operand, &origin);
            return Ok(vec![result.into()]);
        }
        Ok(vec![take(operand, ty, &origin, &vec![1; dims.len()]).into()])
    }

    columns!(Move, Exact, Missing("has a shape that is not known"));
}
