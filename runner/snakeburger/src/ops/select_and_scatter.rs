//! Scattering to the element that each window selects: the gradient of pooling.

use std::sync::Arc;

use super::fold::{Groups, Source, is_promotable, promote};
use super::window_grad;
use super::windows::{Sliding, Windows, check_list, check_padding};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Apply, Cx, EvalResult, Num, Tensor};
use crate::ir::{DType, Elem, Ints, Literal, TensorTy, Ty, dims_compatible};
use crate::text::Form;

payload! {
    /// Adds each source element to the place its window selects.
    SelectAndScatter {
        window_dimensions: Option<Ints> = None,
        window_strides: Option<Ints> = None,
        padding: Option<Arc<Literal>> = None,
    }
}

impl OpDef for SelectAndScatter {
    const NAME: &'static str = "stablehlo.select_and_scatter";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1).with_regions(2);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, source, init) = (c.operand(0), c.operand(1), c.operand(2));
        let rank = operand.rank();
        c.require(operand.elem == source.elem, "C1", || {
            format!("the operand is {operand}, the source {source}")
        });
        c.require(init.elem == operand.elem, "C3", || {
            format!("the operand is {operand}, the initial value {init}")
        });
        c.require(init.rank() == 0, "I3", || format!("the initial value is {init}, not a scalar"));
        let sizes = self.window_dimensions.as_ref();
        check_list(c, "window_dimensions", sizes, rank, ["C4", "C5"]);
        check_list(c, "window_strides", self.window_strides.as_ref(), rank, ["C6", "C7"]);
        check_padding(c, self.padding.as_ref(), rank, "C8");
        let elem = check_regions(c, operand);
        let result = c.result(0);
        c.require(dims_compatible(&result.dims, &operand.dims), "C11", || {
            format!("the operand is {operand}, the result {result}")
        });
        c.require(result.elem == elem, "C12", || {
            format!("the result is {result}, scatter yields {elem}")
        });
        let Some(windows) = self.windows(rank) else { return };
        let counts = windows.counts(&operand.dims);
        let fits = counts.as_ref().is_some_and(|counts| dims_compatible(&source.dims, counts));
        c.require(fits, "C2", || {
            format!("the source is {source}, there are {} windows", shown(counts.as_deref()))
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let ty = c.operand(0).with_elem(c.result(0).elem.clone());
        Infer::Types(vec![ty.into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?.clone();
        let windows = self.windows(operand.rank());
        let sliding = windows.and_then(|windows| Sliding::new(windows, operand.dims()));
        let Some(sliding) = sliding else {
            return Err(cx.error("the windows do not fit into 64-bit numbers"));
        };
        let (source, init) = (cx.tensor(1)?, cx.tensor(2)?);
        if source.dims() != sliding.counts() {
            let message = format!("{} for windows of shape {:?}", source.ty, sliding.counts());
            return Err(cx.error(message));
        }
        let ty = cx.result_of(0, operand.dims())?;
        let (source, init) = (promote(source, &ty.elem), promote(init, &ty.elem).get(0));
        cx.scalars(0, 2, 1)?;
        let selected =
            cx.each(0, source.count(), |select, i| choose(select, &operand, &sliding, i))?;
        cx.scalars(1, 2, 1)?;
        let empty = Tensor::from_nums(ty, |_| init);
        let filled = cx.each(1, 1, |scatter, _| {
            let mut result = empty.clone();
            for (i, place) in selected.iter().enumerate() {
                let Some(place) = *place else { continue };
                let mut sum = [result.get(place)];
                scatter.apply(&[sum[0], source.get(i)], &mut sum)?;
                result.set(place, sum[0]);
            }
            Ok(result)
        })?;
        Ok(filled.into_iter().map(Into::into).collect())
    }

    columns!(Opaque, Accumulated, Rule(window_grad::of_select_and_scatter));
}

impl SelectAndScatter {
    pub(crate) fn windows(&self, rank: usize) -> Option<Windows> {
        let (sizes, strides) = (self.window_dimensions.as_ref(), self.window_strides.as_ref());
        Windows::new(rank, sizes, strides, [None, None], self.padding.as_deref())
    }
}

fn shown(counts: Option<&[i64]>) -> String {
    counts.map_or_else(|| "too many".into(), |counts| format!("{counts:?}"))
}

/// Checks both regions and returns the element type `scatter` works in.
fn check_regions(c: &mut Check<'_>, operand: &TensorTy) -> Elem {
    let scalar = |elem: &Elem| Ty::Tensor(TensorTy::scalar(elem.clone()));
    let own = scalar(&operand.elem);
    let truth = scalar(&DType::I1.into());
    c.region_is(0, "C9", &[own.clone(), own], &[truth]);
    let yielded = c.region(1).results.first().and_then(|ty| ty.as_tensor());
    let elem = yielded.map_or_else(|| operand.elem.clone(), |ty| ty.elem.clone());
    let one = scalar(&elem);
    c.region_is(1, "C10", &[one.clone(), one.clone()], &[one]);
    c.require(is_promotable(&operand.elem, &elem), "C10", || {
        format!("{} cannot be promoted to {elem}", operand.elem)
    });
    elem
}

/// The element that a window selects; none if all of it is padding.
fn choose(
    select: &mut dyn Apply,
    operand: &Tensor,
    sliding: &Sliding,
    i: usize,
) -> EvalResult<Option<usize>> {
    let mut chosen: Option<(usize, Num)> = None;
    sliding.visit(i, &mut |source| {
        let Source::Run { start, .. } = source else { return Ok(()) };
        let value = operand.get(start);
        let Some((_, best)) = chosen else {
            chosen = Some((start, value));
            return Ok(());
        };
        let mut keep = [Num::B(true)];
        select.apply(&[best, value], &mut keep)?;
        if !keep[0].bool() {
            chosen = Some((start, value));
        }
        Ok(())
    })?;
    Ok(chosen.map(|(place, _)| place))
}
