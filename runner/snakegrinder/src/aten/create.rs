//! Tensors out of nothing.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Number, Res, axis, refuse};
use warpforge_snakeburger::build::V;

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::arange", arange),
    ("aten::empty", |cx| filled(cx, "size", Number::Int(0))),
    ("aten::empty_like", |cx| filled_like(cx, Number::Int(0))),
    ("aten::empty_permuted", |cx| filled(cx, "size", Number::Int(0))),
    ("aten::empty_strided", |cx| filled(cx, "size", Number::Int(0))),
    ("aten::eye", eye),
    ("aten::fill", |cx| fill(cx)),
    ("aten::full", |cx| {
        let value = cx.number("fill_value")?;
        filled(cx, "size", value)
    }),
    ("aten::full_like", |cx| {
        let value = cx.number("fill_value")?;
        filled_like(cx, value)
    }),
    ("aten::linspace", linspace),
    ("aten::new_empty", |cx| filled_new(cx, Number::Int(0))),
    ("aten::new_full", |cx| {
        let value = cx.number("fill_value")?;
        filled_new(cx, value)
    }),
    ("aten::new_ones", |cx| filled_new(cx, Number::Int(1))),
    ("aten::new_zeros", |cx| filled_new(cx, Number::Int(0))),
    ("aten::one_hot", one_hot),
    ("aten::ones", |cx| filled(cx, "size", Number::Int(1))),
    ("aten::ones_like", |cx| filled_like(cx, Number::Int(1))),
    ("aten::scalar_tensor", |cx| {
        let value = cx.number("s")?;
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
        Ok(cx.e.full(&[], dtype, value.num()).into())
    }),
    ("aten::tril", |cx| triangle(cx, false)),
    ("aten::tril_indices", |cx| triangle_indices(cx, false)),
    ("aten::triu", |cx| triangle(cx, true)),
    ("aten::triu_indices", |cx| triangle_indices(cx, true)),
    ("aten::zero", |cx| filled_like(cx, Number::Int(0))),
    ("aten::zeros", |cx| filled(cx, "size", Number::Int(0))),
    ("aten::zeros_like", |cx| filled_like(cx, Number::Int(0))),
];

/// The type a number has by itself.
fn own_type(cx: &Cx<'_>, value: Number) -> DType {
    match value {
        Number::Bool(_) => DType::I1,
        Number::Int(_) => DType::S64,
        Number::Float(_) => cx.default,
        Number::Complex(..) => cx.default.complex_of().unwrap_or(DType::C64),
    }
}

fn filled(cx: &mut Cx<'_>, size: &str, value: Number) -> Res {
    let dims = cx.ints(size)?;
    let asked = cx.dtype("dtype")?;
    // `full` takes the number's type, `zeros` and `ones` the default one.
    let own = if cx.given("fill_value") { own_type(cx, value) } else { cx.default };
    Ok(cx.e.full(&dims, asked.unwrap_or(own), value.num()).into())
}

fn filled_like(cx: &mut Cx<'_>, value: Number) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.dtype("dtype").unwrap_or_default().unwrap_or(cx.e.dtype(x));
    let dims = cx.e.dims(x);
    Ok(cx.e.full(&dims, dtype, value.num()).into())
}

fn filled_new(cx: &mut Cx<'_>, value: Number) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
    let dims = cx.ints("size")?;
    Ok(cx.e.full(&dims, dtype, value.num()).into())
}

fn fill(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (dims, dtype) = (cx.e.dims(x), cx.e.dtype(x));
    let value = cx.operand("value")?;
    let value = cx.together(&[value], dtype)?[0];
    Ok(cx.e.broadcast_to(value, &dims).into())
}

/// `start + i · step`, computed as PyTorch does: in f64 for floats, exactly for integers.
fn arange(cx: &mut Cx<'_>) -> Res {
    let start = if cx.given("start") { cx.number("start")? } else { Number::Int(0) };
    let step = if cx.given("step") { cx.number("step")? } else { Number::Int(1) };
    let end = cx.number("end")?;
    let float = [start, end, step].iter().any(|n| matches!(n, Number::Float(_)));
    let dtype = cx.dtype("dtype")?.unwrap_or(if float { cx.default } else { DType::S64 });
    if step.float() == 0.0 {
        return refuse("counts in steps of zero");
    }
    let count = ((end.float() - start.float()) / step.float()).ceil().max(0.0) as i64;
    if dtype.is_float() {
        let (start, step) = (start.float(), step.float());
        // Plain counting stays readable; anything else is written out.
        if start == 0.0 && step == 1.0 && count <= 1 << 24 {
            return Ok(cx.e.iota(&[count], dtype, 0).into());
        }
        let values: Vec<f64> = (0..count).map(|i| start + i as f64 * step).collect();
        return Ok(cx.e.floats(&values, &[count], dtype).into());
    }
    let (start, step) = (start.float() as i64, step.float() as i64);
    let mut x = cx.e.iota(&[count], dtype, 0);
    if step != 1 {
        x = cx.e.scale(x, step as f64);
    }
    if start != 0 {
        x = cx.e.shift(x, start as f64);
    }
    Ok(x.into())
}

fn linspace(cx: &mut Cx<'_>) -> Res {
    let (start, end, steps) = (cx.float("start")?, cx.float("end")?, cx.int("steps")?);
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
    let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
    // Counted from the nearer end, so that both ends are exact.
    let values: Vec<f64> = (0..steps)
        .map(|i| {
            if i < steps / 2 {
                start + step * i as f64
            } else {
                end - step * (steps - 1 - i) as f64
            }
        })
        .collect();
    let values = if steps == 1 { vec![start] } else { values };
    Ok(cx.e.floats(&values, &[steps], dtype).into())
}

fn eye(cx: &mut Cx<'_>) -> Res {
    let rows = cx.int("n")?;
    let columns = cx.int("m").unwrap_or(rows);
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
    let (i, j) =
        (cx.e.iota(&[rows, columns], DType::S64, 0), cx.e.iota(&[rows, columns], DType::S64, 1));
    let same = cx.e.compare(Direction::Eq, i, j);
    Ok(from_mask(cx, same, dtype).into())
}

fn from_mask(cx: &mut Cx<'_>, mask: V, dtype: DType) -> V {
    cx.e.convert(mask, dtype)
}

/// Elements on one side of a diagonal; zero elsewhere.
fn triangle(cx: &mut Cx<'_>, upper: bool) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x);
    let rank = dims.len();
    if rank < 2 {
        return refuse("takes a matrix");
    }
    let shape = [dims[rank - 2], dims[rank - 1]];
    let (i, j) = (cx.e.iota(&shape, DType::S64, 0), cx.e.iota(&shape, DType::S64, 1));
    let edge = cx.e.shift(i, cx.int("diagonal")? as f64);
    let kept = cx.e.compare(if upper { Direction::Ge } else { Direction::Le }, j, edge);
    let kept = cx.e.broadcast_to(kept, &dims);
    let dtype = cx.e.dtype(x);
    let zero = cx.e.full(&dims, dtype, Num::I(0).fit(dtype));
    Ok(cx.e.select(kept, x, zero).into())
}

fn triangle_indices(cx: &mut Cx<'_>, upper: bool) -> Res {
    let (rows, columns, offset) = (cx.int("row")?, cx.int("col")?, cx.int("offset")?);
    let dtype = cx.dtype("dtype")?.unwrap_or(DType::S64);
    let inside = |i: i64, j: i64| if upper { j >= i + offset } else { j <= i + offset };
    let places: Vec<(i64, i64)> = (0..rows)
        .flat_map(|i| (0..columns).map(move |j| (i, j)))
        .filter(|(i, j)| inside(*i, *j))
        .collect();
    let flat: Vec<i64> =
        places.iter().map(|(i, _)| *i).chain(places.iter().map(|(_, j)| *j)).collect();
    Ok(cx.e.ints(&flat, &[2, places.len() as i64], dtype).into())
}

fn one_hot(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let classes = cx.int("num_classes")?;
    if classes < 0 {
        return refuse("needs num_classes: how many there are depends on the values");
    }
    let mut dims = cx.e.dims(x).to_vec();
    let rank = dims.len();
    dims.push(classes);
    let axes: Vec<usize> = (0..rank).collect();
    let x = cx.e.convert(x, DType::S64);
    let x = cx.e.broadcast_in(x, &dims, &axes);
    let class = cx.e.iota(&dims, DType::S64, axis(-1, rank + 1)?);
    let same = cx.e.compare(Direction::Eq, x, class);
    Ok(cx.e.push(ops::Convert {}, &[same], cx.e.ty(x).clone()).into())
}
