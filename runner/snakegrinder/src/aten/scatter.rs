//! Values written along an axis to where indices say, replacing or combined with what is there.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::index::{along, with_axis};
use crate::cx::{Cx, Operand, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::index_add", index_add),
    ("aten::index_copy", |cx| {
        let rows = rows(cx)?;
        let source = source(cx, &rows)?;
        let y = rows.put(&mut cx.e, rows.x, source, None);
        Ok(cx.e.reshape(y, &rows.dims).into())
    }),
    ("aten::index_fill", index_fill),
    ("aten::index_reduce", |cx| {
        let rows = rows(cx)?;
        let source = source(cx, &rows)?;
        let (how, own) = (cx.str("reduce")?, cx.bool("include_self")?);
        let put = |e: &mut Emitter, x, values, fold| rows.put(e, x, values, fold);
        let y = combine(&mut cx.e, rows.x, source, &how, own, &put)?;
        Ok(cx.e.reshape(y, &rows.dims).into())
    }),
    ("aten::scatter", scatter),
    ("aten::scatter_add", |cx| scatter_by(cx, "sum", true)),
    ("aten::scatter_reduce", |cx| {
        let (how, own) = (cx.str("reduce")?, cx.bool("include_self")?);
        scatter_by(cx, &how, own)
    }),
];

/// What is written along an axis by a list of indices.
struct Rows {
    x: V,
    at: usize,
    index: V,
    dims: Vec<i64>,
}

impl Rows {
    fn put(&self, e: &mut Emitter, x: V, values: V, fold: Option<Fold>) -> V {
        e.scatter_at(x, &[self.at], &[self.index], self.at, values, fold)
    }
}

fn rows(cx: &mut Cx<'_>) -> Res<Rows> {
    let (x, index) = (cx.tensor("self")?, cx.tensor("index")?);
    let dims = cx.e.dims(x).to_vec();
    let x = with_axis(&mut cx.e, x);
    let at = axis(cx.int("dim")?, cx.e.rank(x))?;
    let count: i64 = cx.e.dims(index).iter().product();
    let index = cx.e.reshape(index, &[count]);
    let index = cx.e.wrap(index, cx.e.dims(x)[at]);
    Ok(Rows { x, at, index, dims })
}

/// What is written, in the tensor's type; one for each index along the axis.
fn source(cx: &mut Cx<'_>, rows: &Rows) -> Res<V> {
    let source = cx.tensor("source")?;
    let mut dims = cx.e.dims(rows.x);
    dims[rows.at] = cx.e.dims(rows.index)[0];
    if cx.e.dims(source).iter().product::<i64>() != dims.iter().product::<i64>() {
        return refuse(format!("writes {} where {dims:?} belongs", cx.e.ty(source)));
    }
    let dtype = cx.e.dtype(rows.x);
    let source = cx.e.convert(source, dtype);
    Ok(cx.e.reshape(source, &dims))
}

fn index_add(cx: &mut Cx<'_>) -> Res {
    let rows = rows(cx)?;
    let source = source(cx, &rows)?;
    let alpha = cx.number("alpha")?.float();
    let dtype = cx.e.dtype(rows.x);
    let e = &mut cx.e;
    let wide = promote::wide(dtype);
    let (x, mut source) = (e.convert(rows.x, wide), e.convert(source, wide));
    if alpha != 1.0 {
        source = e.scale(source, alpha);
    }
    let fold = if dtype.is_bool() { Fold::Or } else { Fold::Add };
    let y = rows.put(e, x, source, Some(fold));
    let y = e.convert(y, dtype);
    Ok(e.reshape(y, &rows.dims).into())
}

fn index_fill(cx: &mut Cx<'_>) -> Res {
    let rows = rows(cx)?;
    let value = cx.operand("value")?;
    let dtype = cx.e.dtype(rows.x);
    let mut dims = cx.e.dims(rows.x);
    dims[rows.at] = cx.e.dims(rows.index)[0];
    let value = match value {
        Operand::Number(number) => cx.e.full(&dims, dtype, number.num()),
        Operand::Tensor(value) => {
            let value = cx.e.convert(value, dtype);
            let value = cx.e.reshape(value, &[]);
            cx.e.broadcast_to(value, &dims)
        }
    };
    let y = rows.put(&mut cx.e, rows.x, value, None);
    Ok(cx.e.reshape(y, &rows.dims).into())
}

/// What a scatter writes: as large as the index.
fn updates(cx: &mut Cx<'_>, x: V, index: V) -> Res<V> {
    let (dims, dtype) = (cx.e.dims(index), cx.e.dtype(x));
    if !cx.given("src") {
        return Ok(match cx.operand("value")? {
            Operand::Number(number) => cx.e.full(&dims, dtype, number.num()),
            Operand::Tensor(value) => {
                let value = cx.e.convert(value, dtype);
                let value = cx.e.reshape(value, &[]);
                cx.e.broadcast_to(value, &dims)
            }
        });
    }
    let src = cx.tensor("src")?;
    let src = with_axis(&mut cx.e, src);
    let whole = cx.e.dims(src);
    if whole.len() != dims.len() || whole.iter().zip(&dims).any(|(whole, part)| whole < part) {
        return refuse(format!("scatters {} by {}", cx.e.ty(src), cx.e.ty(index)));
    }
    let rank = dims.len();
    let src = cx.e.slice(src, &vec![0; rank], &dims, &vec![1; rank]);
    Ok(cx.e.convert(src, dtype))
}

fn scatter(cx: &mut Cx<'_>) -> Res {
    if cx.given("reduce") {
        let how = cx.str("reduce")?;
        return scatter_by(cx, &how, true);
    }
    let own = cx.slot("self")?;
    let own = cx.read(own);
    let (x, at, index, _) = along(cx)?;
    let values = updates(cx, x, index)?;
    let y = cx.e.scatter_along(x, at, index, values, None);
    let dims = cx.e.dims(own);
    Ok(cx.e.reshape(y, &dims).into())
}

fn scatter_by(cx: &mut Cx<'_>, how: &str, own: bool) -> Res {
    let whole = cx.tensor("self")?;
    let (x, at, index, _) = along(cx)?;
    let values = updates(cx, x, index)?;
    let put = |e: &mut Emitter, x, values, fold| e.scatter_along(x, at, index, values, fold);
    let y = combine(&mut cx.e, x, values, how, own, &put)?;
    let dims = cx.e.dims(whole);
    Ok(cx.e.reshape(y, &dims).into())
}

/// Writes values into a tensor, combining them with what is there by a fold.
type Put<'a> = dyn Fn(&mut Emitter, V, V, Option<Fold>) -> V + 'a;

/// Combines what is there with values that `put` places; `own` says whether what was there counts
/// where something is written.
fn combine(e: &mut Emitter, x: V, values: V, how: &str, own: bool, put: &Put<'_>) -> Res<V> {
    let dtype = e.dtype(x);
    let (fold, mean) = match how {
        "sum" | "add" if dtype.is_bool() => (Fold::Or, false),
        "sum" | "add" => (Fold::Add, false),
        "mean" => (Fold::Add, true),
        "prod" | "multiply" if dtype.is_bool() => (Fold::And, false),
        "prod" | "multiply" => (Fold::Mul, false),
        "amax" => (Fold::Max, false),
        "amin" => (Fold::Min, false),
        _ => return refuse(format!("reduces by {how:?}")),
    };
    let (dims, written) = (e.dims(x), e.dims(values));
    let wide = promote::wide(dtype);
    let (mut x, values) = (e.convert(x, wide), e.convert(values, wide));
    if !own {
        let hit = e.full(&dims, DType::I1, Num::B(false));
        let yes = e.full(&written, DType::I1, Num::B(true));
        let hit = put(e, hit, yes, None);
        let start = e.neutral(fold, wide);
        let start = e.broadcast_to(start, &dims);
        x = e.select(hit, start, x);
    }
    let mut y = put(e, x, values, Some(fold));
    if mean {
        let counts = e.full(&dims, DType::S64, Num::I(i64::from(own)));
        let ones = e.full(&written, DType::S64, Num::I(1));
        let counts = put(e, counts, ones, Some(Fold::Add));
        let one = e.like(counts, 1.0);
        let counts = e.max(counts, one);
        let counts = e.convert(counts, wide);
        y = if wide.is_int() { floor_divide(e, y, counts) } else { e.div(y, counts) };
    }
    Ok(e.convert(y, dtype))
}

/// The quotient of integers, rounded down; the divisor is positive.
fn floor_divide(e: &mut Emitter, a: V, b: V) -> V {
    let quotient = e.div(a, b);
    let rest = e.same(ops::Remainder {}, &[a, b]);
    let below = e.compare_to(Direction::Lt, rest, 0.0);
    let lower = e.shift(quotient, -1.0);
    e.select(below, lower, quotient)
}
