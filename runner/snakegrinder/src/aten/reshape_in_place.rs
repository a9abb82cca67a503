//! Changes of a tensor's own shape: the tensor becomes a view of what it was.

use super::{Lower, row};
use crate::cx::{Cx, Out, Res, refuse};
use crate::value::{SlotId, View};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::resize_", |cx| {
        let size = cx.ints("size")?;
        resize(cx, &size)
    }),
    ("aten::resize_as_", |cx| {
        let other = cx.tensor("the_template")?;
        let size = cx.e.dims(other).to_vec();
        resize(cx, &size)
    }),
    ("aten::set_", |_| refuse("gives a tensor the memory of another")),
    ("aten::squeeze_", |cx| reshaped(cx, "aten::squeeze")),
    ("aten::swapaxes_", |cx| reshaped(cx, "aten::swapaxes")),
    ("aten::swapdims_", |cx| reshaped(cx, "aten::swapdims")),
    ("aten::t_", |cx| reshaped(cx, "aten::t")),
    ("aten::transpose_", |cx| reshaped(cx, "aten::transpose")),
    ("aten::unsqueeze_", |cx| reshaped(cx, "aten::unsqueeze")),
];

/// The view that the operator's namesake takes.
fn reshaped(cx: &mut Cx<'_>, name: &str) -> Res {
    let slot = cx.slot("self")?;
    let Some(Out::Slot(view)) = row(name).map(|lower| lower(cx)).transpose()? else {
        return refuse("changes a shape to what is no view");
    };
    adopt(cx, slot, view)
}

fn adopt(cx: &mut Cx<'_>, slot: SlotId, view: SlotId) -> Res {
    match cx.slots.adopt(slot, view) {
        Some(()) => Ok(Out::Slot(slot)),
        None => refuse("changes a shape to what is no view of the tensor"),
    }
}

/// The first elements of the tensor's memory in another shape.
fn resize(cx: &mut Cx<'_>, size: &[i64]) -> Res {
    let slot = cx.slot("self")?;
    let value = cx.read(slot);
    let outer = cx.e.dims(value).to_vec();
    let (has, needs) = (outer.iter().product::<i64>(), size.iter().product::<i64>());
    if needs > has {
        return refuse("grows a tensor by elements that have no value");
    }
    if needs < has {
        let flat = cx.view(slot, View::Reshape { outer, inner: vec![has] });
        adopt(cx, slot, flat)?;
        let part = View::Slice { starts: vec![0], limits: vec![needs], strides: vec![1] };
        let part = cx.view(slot, part);
        adopt(cx, slot, part)?;
    }
    let value = cx.read(slot);
    let outer = cx.e.dims(value).to_vec();
    let shaped = cx.view(slot, View::Reshape { outer, inner: size.to_vec() });
    adopt(cx, slot, shaped)
}
