//! Comparison, logic and choice.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction, Op};

use super::Lower;
use crate::cx::{Cx, Operand, Res};
use warpforge_snakeburger::build::V;

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::clamp", |cx| clamp(cx, "min", "max")),
    ("aten::clamp_max", |cx| clamp(cx, "", "max")),
    ("aten::clamp_min", |cx| clamp(cx, "min", "")),
    ("aten::clip", |cx| clamp(cx, "min", "max")),
    ("aten::eq", |cx| compare(cx, Direction::Eq)),
    ("aten::ge", |cx| compare(cx, Direction::Ge)),
    ("aten::greater", |cx| compare(cx, Direction::Gt)),
    ("aten::greater_equal", |cx| compare(cx, Direction::Ge)),
    ("aten::gt", |cx| compare(cx, Direction::Gt)),
    ("aten::isclose", isclose),
    ("aten::isfinite", |cx| test(cx, ops::IsFinite {}, true)),
    ("aten::isinf", |cx| test(cx, ops::IsInf {}, false)),
    ("aten::isnan", |cx| {
        let x = cx.tensor("self")?;
        Ok(cx.e.compare(Direction::Ne, x, x).into())
    }),
    ("aten::isneginf", |cx| test(cx, ops::IsNegInf {}, false)),
    ("aten::isposinf", |cx| test(cx, ops::IsPosInf {}, false)),
    ("aten::le", |cx| compare(cx, Direction::Le)),
    ("aten::less", |cx| compare(cx, Direction::Lt)),
    ("aten::less_equal", |cx| compare(cx, Direction::Le)),
    ("aten::logical_and", |cx| logic(cx, ops::And {})),
    ("aten::logical_not", |cx| {
        let x = truth(cx, "self")?;
        Ok(cx.e.same(ops::Not {}, &[x]).into())
    }),
    ("aten::logical_or", |cx| logic(cx, ops::Or {})),
    ("aten::logical_xor", |cx| logic(cx, ops::Xor {})),
    ("aten::lt", |cx| compare(cx, Direction::Lt)),
    ("aten::masked_fill", masked_fill),
    ("aten::ne", |cx| compare(cx, Direction::Ne)),
    ("aten::not_equal", |cx| compare(cx, Direction::Ne)),
    ("aten::where", choose),
];

fn compare(cx: &mut Cx<'_>, direction: Direction) -> Res {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = cx.common(&both);
    let both = cx.together(&both, dtype)?;
    Ok(cx.e.compare(direction, both[0], both[1]).into())
}

fn test(cx: &mut Cx<'_>, op: impl Into<Op>, of_integers: bool) -> Res {
    let x = cx.tensor("self")?;
    let ty = cx.e.ty(x).with_elem(DType::I1);
    if !cx.e.dtype(x).is_float() {
        let value = warpforge_snakeburger::eval::Num::B(of_integers);
        return Ok(cx.e.full(&ty.dims, DType::I1, value).into());
    }
    Ok(cx.e.push(op, &[x], ty).into())
}

fn truth(cx: &mut Cx<'_>, name: &str) -> Res<V> {
    let x = cx.tensor(name)?;
    Ok(cx.e.convert(x, DType::I1))
}

fn logic(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let both = [Operand::Tensor(truth(cx, "self")?), Operand::Tensor(truth(cx, "other")?)];
    let both = cx.together(&both, DType::I1)?;
    Ok(cx.e.same(op, &both).into())
}

/// `where(condition, self, other)`; the other two may be numbers.
fn choose(cx: &mut Cx<'_>) -> Res {
    let condition = cx.tensor("condition")?;
    let condition = cx.e.convert(condition, DType::I1);
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = cx.common(&both);
    pick(cx, condition, both[0], both[1], dtype)
}

fn pick(cx: &mut Cx<'_>, condition: V, a: Operand, b: Operand, dtype: DType) -> Res {
    let shapes = [Operand::Tensor(condition), a, b];
    let dims: Vec<Vec<i64>> = shapes
        .iter()
        .map(|operand| match operand {
            Operand::Tensor(value) => cx.e.dims(*value).to_vec(),
            Operand::Number(_) => Vec::new(),
        })
        .collect();
    let dims = crate::cx::broadcast(&dims)?;
    let both = cx.together(&[a, b], dtype)?;
    let condition = cx.e.broadcast_to(condition, &dims);
    let (a, b) = (cx.e.broadcast_to(both[0], &dims), cx.e.broadcast_to(both[1], &dims));
    Ok(cx.e.select(condition, a, b).into())
}

fn masked_fill(cx: &mut Cx<'_>) -> Res {
    let (x, mask) = (cx.tensor("self")?, cx.tensor("mask")?);
    let mask = cx.e.convert(mask, DType::I1);
    let value = cx.operand("value")?;
    let dtype = cx.e.dtype(x);
    pick(cx, mask, value, Operand::Tensor(x), dtype)
}

fn clamp(cx: &mut Cx<'_>, low: &str, high: &str) -> Res {
    let x = cx.tensor("self")?;
    let mut all = vec![Operand::Tensor(x)];
    let mut bounds = Vec::new();
    for (name, upper) in [(low, false), (high, true)] {
        if !name.is_empty() && !cx.is_none(name) {
            let bound = cx.operand(name)?;
            all.push(bound);
            bounds.push((bound, upper));
        }
    }
    let dtype = cx.common(&all);
    let mut value = cx.e.convert(x, dtype);
    if dtype.is_float() {
        return clamp_floats(cx, value, &bounds, dtype);
    }
    for (bound, upper) in bounds {
        let both = cx.together(&[Operand::Tensor(value), bound], dtype)?;
        value = if upper { cx.e.min(both[0], both[1]) } else { cx.e.max(both[0], both[1]) };
    }
    Ok(value.into())
}

/// One operation for both bounds: what is not given is infinite, and the bounds themselves pass
/// in the derivative.
fn clamp_floats(cx: &mut Cx<'_>, x: V, bounds: &[(Operand, bool)], dtype: DType) -> Res {
    let mut all = vec![Operand::Tensor(x)];
    all.extend(bounds.iter().map(|(bound, _)| *bound));
    let all = cx.together(&all, dtype)?;
    let (mut low, mut high) =
        (cx.e.like(all[0], f64::NEG_INFINITY), cx.e.like(all[0], f64::INFINITY));
    for ((_, upper), bound) in bounds.iter().zip(&all[1..]) {
        *(if *upper { &mut high } else { &mut low }) = *bound;
    }
    Ok(cx.e.same(ops::Clamp {}, &[low, all[0], high]).into())
}

fn isclose(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = cx.common(&both);
    let both = cx.together(&both, dtype)?;
    let same = cx.e.compare(Direction::Eq, both[0], both[1]);
    let difference = cx.e.sub(both[0], both[1]);
    let (size, scale) = (cx.e.same(ops::Abs {}, &[difference]), cx.e.same(ops::Abs {}, &[both[1]]));
    let bound = cx.e.scale(scale, cx.float("rtol")?);
    let bound = cx.e.shift(bound, cx.float("atol")?);
    let close = cx.e.compare(Direction::Le, size, bound);
    let finite = cx.e.push(ops::IsFinite {}, &[size], cx.e.ty(size).with_elem(DType::I1));
    let close = cx.e.same(ops::And {}, &[close, finite]);
    Ok(cx.e.same(ops::Or {}, &[same, close]).into())
}
