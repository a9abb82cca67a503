//! Matrices put together of smaller tensors: stacks, blocks, diagonals, combinations.

use warpforge_snakeburger::eval::Num;

use super::Lower;
use super::shape::join;
use crate::cx::{Cx, Operand, Out, Res, refuse};
use crate::value::View;
use warpforge_snakeburger::build::V;

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::block_diag", block_diag),
    ("aten::cartesian_prod", cartesian_prod),
    ("aten::column_stack", |cx| {
        let mut tensors = cx.tensors("tensors")?;
        for t in &mut tensors {
            if cx.e.rank(*t) < 2 {
                let count: i64 = cx.e.dims(*t).iter().product();
                *t = cx.e.reshape(*t, &[count, 1]);
            }
        }
        Ok(join(cx, &tensors, 1)?.into())
    }),
    ("aten::diag", diag),
    ("aten::diagflat", |cx| {
        let x = cx.tensor("self")?;
        let count: i64 = cx.e.dims(x).iter().product();
        let line = cx.e.reshape(x, &[count]);
        let offset = cx.int("offset")?;
        on_diagonal(cx, line, offset)
    }),
    ("aten::dstack", |cx| {
        let mut tensors = cx.tensors("tensors")?;
        for t in &mut tensors {
            let dims = match cx.e.dims(*t)[..] {
                [] => vec![1, 1, 1],
                [n] => vec![1, n, 1],
                [m, n] => vec![m, n, 1],
                ref dims => dims.to_vec(),
            };
            *t = cx.e.reshape(*t, &dims);
        }
        Ok(join(cx, &tensors, 2)?.into())
    }),
    ("aten::logspace", logspace),
    ("aten::row_stack", |cx| {
        let mut tensors = cx.tensors("tensors")?;
        for t in &mut tensors {
            if cx.e.rank(*t) < 2 {
                let count: i64 = cx.e.dims(*t).iter().product();
                *t = cx.e.reshape(*t, &[1, count]);
            }
        }
        Ok(join(cx, &tensors, 0)?.into())
    }),
];

/// A matrix of zeros but for a diagonal.
fn on_diagonal(cx: &mut Cx<'_>, line: V, offset: i64) -> Res {
    let (size, dtype) = (cx.e.dims(line)[0] + offset.abs(), cx.e.dtype(line));
    let empty = cx.e.zeros(&[size, size], dtype);
    let whole = cx.slots.add(empty);
    let part = cx.view(whole, View::Diagonal { offset, first: 0, second: 1 });
    cx.write(part, line)?;
    Ok(Out::New(cx.read(whole)))
}

/// Of a line the matrix that has it as a diagonal; of a matrix its diagonal.
fn diag(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let offset = cx.int("diagonal")?;
    match cx.e.rank(x) {
        1 => on_diagonal(cx, x, offset),
        2 => {
            let copy = cx.slots.add(x);
            let part = cx.view(copy, View::Diagonal { offset, first: 0, second: 1 });
            Ok(Out::New(cx.read(part)))
        }
        _ => refuse(format!("takes the diagonal of {}", cx.e.ty(x))),
    }
}

/// Matrices along the diagonal of a larger one.
fn block_diag(cx: &mut Cx<'_>) -> Res {
    let tensors = cx.tensors("tensors")?;
    let operands: Vec<Operand> = tensors.iter().map(|t| Operand::Tensor(*t)).collect();
    let dtype = cx.common(&operands);
    let mut blocks = Vec::new();
    for t in tensors {
        let dims = match cx.e.dims(t)[..] {
            [] => [1, 1],
            [n] => [1, n],
            [m, n] => [m, n],
            _ => return refuse(format!("puts {} on a diagonal", cx.e.ty(t))),
        };
        let block = cx.e.convert(t, dtype);
        blocks.push((cx.e.reshape(block, &dims), dims[1]));
    }
    let width: i64 = blocks.iter().map(|(_, columns)| columns).sum();
    let mut before = 0;
    let mut rows = Vec::new();
    for (block, columns) in blocks {
        let (low, high) = ([0, before], [0, width - before - columns]);
        rows.push(cx.e.pad(block, &low, &high, &[0, 0], Num::I(0).fit(dtype)));
        before += columns;
    }
    if rows.is_empty() {
        return refuse("puts nothing on a diagonal");
    }
    Ok(cx.e.concat(&rows, 0).into())
}

/// Every combination of one element of each tensor, one a row.
fn cartesian_prod(cx: &mut Cx<'_>) -> Res {
    let tensors = cx.tensors("tensors")?;
    if let [only] = tensors[..] {
        return Ok(only.into());
    }
    if tensors.iter().any(|t| cx.e.rank(*t) != 1) {
        return refuse("combines tensors that are no lists");
    }
    let dims: Vec<i64> = tensors.iter().map(|t| cx.e.dims(*t)[0]).collect();
    let count: i64 = dims.iter().product();
    let columns: Vec<V> = tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let grid = cx.e.broadcast_in(*t, &dims, &[i]);
            cx.e.reshape(grid, &[count, 1])
        })
        .collect();
    Ok(join(cx, &columns, 1)?.into())
}

/// Powers of a base with exponents evenly apart.
fn logspace(cx: &mut Cx<'_>) -> Res {
    let (start, end, steps) = (cx.float("start")?, cx.float("end")?, cx.int("steps")?);
    let base = cx.float("base")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
    let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
    let power = |i: i64| {
        let near = i < steps / 2 || steps == 1;
        let exponent =
            if near { start + step * i as f64 } else { end - step * (steps - 1 - i) as f64 };
        base.powf(exponent)
    };
    let values: Vec<f64> = (0..steps).map(power).collect();
    if dtype.is_int() {
        let whole: Vec<i64> = values.iter().map(|x| *x as i64).collect();
        return Ok(cx.e.ints(&whole, &[steps], dtype).into());
    }
    Ok(cx.e.floats(&values, &[steps], dtype).into())
}
