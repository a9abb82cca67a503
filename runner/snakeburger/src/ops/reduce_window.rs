//! Reductions of sliding windows.

use std::sync::Arc;

use super::fold::{check_inputs, check_reducer, fold, joined_dims};
use super::window_grad;
use super::windows::{Sliding, Windows, check_list, check_padding};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult};
use crate::ir::{Ints, Literal, TensorTy, dims_compatible};
use crate::text::Form;

payload! {
    /// Combines the elements of each window.
    ReduceWindow {
        window_dimensions: Ints,
        window_strides: Option<Ints> = None,
        base_dilations: Option<Ints> = None,
        window_dilations: Option<Ints> = None,
        padding: Option<Arc<Literal>> = None,
    }
}

impl OpDef for ReduceWindow {
    const NAME: &'static str = "stablehlo.reduce_window";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(0),
        results: Count::AtLeast(0),
        regions: Count::Exactly(1),
        tensors: true,
    };

    fn check(&self, c: &mut Check<'_>) {
        let Some(inputs) = check_inputs(c, ["C1", "C2", "C3"]) else { return };
        let rank = inputs[0].rank();
        let lists = [
            ("window_dimensions", Some(&self.window_dimensions), ["C4", "C5"]),
            ("window_strides", self.window_strides.as_ref(), ["C6", "C7"]),
            ("base_dilations", self.base_dilations.as_ref(), ["C8", "C9"]),
            ("window_dilations", self.window_dilations.as_ref(), ["C10", "C11"]),
        ];
        for (name, list, numbers) in lists {
            check_list(c, name, list, rank, numbers);
        }
        check_padding(c, self.padding.as_ref(), rank, "C12");
        let elems = check_reducer(c, 0, "C13", &inputs);
        for (i, elem) in elems.iter().enumerate() {
            let (result, first) = (c.result(i), c.result(0));
            c.require(dims_compatible(&result.dims, &first.dims), "C14", || {
                format!("result {i} is {result}, result 0 is {first}")
            });
            c.require(result.elem == *elem, "C16", || {
                format!("result {i} is {result}, the body yields {elem}")
            });
        }
        self.check_shape(c, &inputs);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let n = c.operand_types().len() / 2;
        let dims = joined_dims(&c.operands(0)[..n]);
        match self.windows(dims.len()).and_then(|windows| windows.counts(&dims)) {
            None => Infer::Declared,
            Some(counts) => {
                let ty = |i| TensorTy::new(counts.iter().copied(), c.result(i).elem.clone()).into();
                Infer::Types((0..n).map(ty).collect())
            }
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let dims = cx.tensor(0)?.dims().to_vec();
        for i in 1..cx.operand_count() / 2 {
            if cx.tensor(i)?.dims() != dims {
                return Err(cx.error("the inputs differ in shape"));
            }
        }
        let sliding = self.windows(dims.len()).and_then(|windows| Sliding::new(windows, &dims));
        let Some(sliding) = sliding else {
            return Err(cx.error("the windows do not fit into 64-bit numbers"));
        };
        let results = fold(cx, sliding.counts(), &sliding)?;
        Ok(results.into_iter().map(Into::into).collect())
    }

    columns!(Reduce, Accumulated, Rule(window_grad::of_reduce_window));
}

impl ReduceWindow {
    pub(crate) fn windows(&self, rank: usize) -> Option<Windows> {
        Windows::new(
            rank,
            Some(&self.window_dimensions),
            self.window_strides.as_ref(),
            [self.base_dilations.as_ref(), self.window_dilations.as_ref()],
            self.padding.as_deref(),
        )
    }

    fn check_shape(&self, c: &mut Check<'_>, inputs: &[&TensorTy]) {
        let Some(windows) = self.windows(inputs[0].rank()) else { return };
        let result = c.result(0);
        match windows.counts(&joined_dims(inputs)) {
            None => c.fail("C15", "the number of windows does not fit into 64 bits"),
            Some(counts) => c.require(dims_compatible(&result.dims, &counts), "C15", || {
                format!("result 0 is {result}, there are {counts:?} windows")
            }),
        }
    }
}
