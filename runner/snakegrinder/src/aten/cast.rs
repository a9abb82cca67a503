//! Casts, copies and assertions.

use super::Lower;
use crate::cx::{Cx, Out, Res};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_assert_async", |_| Ok(Out::Nothing)),
    ("aten::_assert_scalar", |_| Ok(Out::Nothing)),
    ("aten::_assert_tensor_metadata", |_| Ok(Out::Nothing)),
    ("aten::_to_copy", copy),
    ("aten::clone", |cx| Ok(cx.tensor("self")?.into())),
    ("aten::copy", |cx| {
        let (to, from) = (cx.tensor("self")?, cx.tensor("src")?);
        let (dims, dtype) = (cx.e.dims(to), cx.e.dtype(to));
        let from = cx.e.convert(from, dtype);
        Ok(cx.e.broadcast_to(from, &dims).into())
    }),
    ("aten::copy_", |cx| {
        let to = cx.slot("self")?;
        let from = cx.tensor("src")?;
        cx.write(to, from)?;
        Ok(Out::Slot(to))
    }),
    ("aten::lift_fresh_copy", |cx| Ok(cx.tensor("self")?.into())),
    ("aten::sym_constrain_range", |_| Ok(Out::Nothing)),
    ("aten::sym_constrain_range_for_size", |_| Ok(Out::Nothing)),
    ("aten::sym_numel", |cx| {
        let x = cx.tensor("self")?;
        Ok(Out::Val(crate::value::Val::Int(cx.e.dims(x).iter().product())))
    }),
    ("aten::sym_size", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x);
        let at = crate::cx::axis(cx.int("dim")?, dims.len())?;
        Ok(Out::Val(crate::value::Val::Int(dims[at])))
    }),
    ("aten::to", to),
    ("aten::type_as", |cx| {
        let other = cx.tensor("other")?;
        let dtype = cx.e.dtype(other);
        cast(cx, dtype)
    }),
];

/// The tensor itself if nothing changes, as PyTorch has it.
fn cast(cx: &mut Cx<'_>, dtype: warpforge_snakeburger::ir::DType) -> Res {
    let slot = cx.slot("self")?;
    let x = cx.read(slot);
    if cx.e.dtype(x) == dtype {
        return Ok(Out::Slot(slot));
    }
    Ok(cx.e.convert(x, dtype).into())
}

fn to(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = if cx.given("other") {
        let other = cx.tensor("other")?;
        Some(cx.e.dtype(other))
    } else {
        cx.dtype("dtype").unwrap_or_default()
    };
    let dtype = dtype.unwrap_or(cx.e.dtype(x));
    if cx.bool("copy").unwrap_or(false) {
        return Ok(cx.e.convert(x, dtype).into());
    }
    cast(cx, dtype)
}

fn copy(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
    Ok(cx.e.convert(x, dtype).into())
}
