//! Norms, powers and products of matrices.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops;

use super::Lower;
use super::arithmetic::multiply;
use super::math::abs;
use super::matmul::matmul;
use super::reduce::{total, vector_norm};
use super::spectrum::singular_values;
use crate::cx::{Cx, Operand, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::chain_matmul", |cx| product(cx, "matrices")),
    ("aten::cross", cross),
    ("aten::linalg_cross", cross),
    ("aten::linalg_matrix_norm", |cx| {
        let order = order(cx)?;
        let rank = {
            let x = cx.tensor("self")?;
            cx.e.rank(x)
        };
        let dims = cx.ints("dim")?;
        let axes = dims.iter().map(|dim| axis(*dim, rank)).collect::<Res<Vec<_>>>()?;
        matrix_norm(cx, &order, &axes)
    }),
    ("aten::linalg_matrix_power", power),
    ("aten::linalg_multi_dot", |cx| product(cx, "tensors")),
    ("aten::linalg_norm", norm),
    ("aten::linalg_vander", |cx| {
        let x = cx.tensor("x")?;
        let columns = cx.maybe_int("N")?;
        vander(cx, x, columns, true)
    }),
    ("aten::matrix_power", power),
    ("aten::nuclear_norm", |cx| {
        let x = cx.tensor("self")?;
        let rank = cx.e.rank(x);
        let dims = if cx.given("dim") { cx.ints("dim")? } else { vec![0, 1] };
        let axes = dims.iter().map(|dim| axis(*dim, rank)).collect::<Res<Vec<_>>>()?;
        let &[rows, columns] = &axes[..] else { return refuse("takes the two axes of matrices") };
        let keep = cx.bool("keepdim")?;
        spectral(cx, &Order::Name("nuc".into()), [rows, columns], keep)
    }),
    ("aten::vander", |cx| {
        let x = cx.tensor("x")?;
        let (columns, rising) = (cx.maybe_int("N")?, cx.bool("increasing")?);
        vander(cx, x, columns, rising)
    }),
];

/// Which norm: of a number, or one that has a name.
enum Order {
    Number(f64),
    Name(Box<str>),
}

fn order(cx: &Cx<'_>) -> Res<Order> {
    Ok(match cx.str("ord") {
        Ok(name) => Order::Name(name),
        Err(_) => Order::Number(cx.number("ord")?.float()),
    })
}

/// The magnitudes in the wide type, and the type of the result.
fn sizes(cx: &mut Cx<'_>) -> Res<(V, DType)> {
    let x = cx.tensor("self")?;
    let asked = cx.dtype("dtype")?;
    let dtype = promote::to_float(asked.unwrap_or(cx.e.dtype(x)), cx.default);
    let x = cx.e.convert(x, dtype);
    let x = cx.e.convert(x, promote::wide(dtype));
    Ok((abs(&mut cx.e, x), dtype.part()))
}

fn norm(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let plain = cx.is_none("ord");
    let axes = match cx.maybe_ints("dim")? {
        Some(dims) => Some(dims.iter().map(|dim| axis(*dim, rank)).collect::<Res<Vec<_>>>()?),
        None => None,
    };
    // Without an order all elements make one vector.
    let all: Vec<usize> = (0..rank).collect();
    let keep = cx.bool("keepdim")?;
    let axes = axes.unwrap_or(all);
    if !plain && axes.len() == 2 {
        let order = order(cx)?;
        return matrix_norm(cx, &order, &axes);
    }
    let order = if plain { 2.0 } else { cx.number("ord")?.float() };
    let (size, dtype) = sizes(cx)?;
    let y = vector_norm(&mut cx.e, size, order, &axes, keep)?;
    Ok(cx.e.convert(y, dtype).into())
}

fn matrix_norm(cx: &mut Cx<'_>, order: &Order, axes: &[usize]) -> Res {
    let &[rows, columns] = axes else { return refuse("takes the two axes of matrices") };
    let keep = cx.bool("keepdim")?;
    let (size, dtype) = sizes(cx)?;
    let e = &mut cx.e;
    // The axis that is summed, and whether the largest or the smallest sum counts.
    let (over, fold) = match order {
        Order::Name(name) if &**name == "fro" => {
            let y = vector_norm(e, size, 2.0, axes, keep)?;
            return Ok(e.convert(y, dtype).into());
        }
        Order::Number(n) if *n == f64::INFINITY => (columns, Fold::Max),
        Order::Number(n) if *n == f64::NEG_INFINITY => (columns, Fold::Min),
        Order::Number(1.0) => (rows, Fold::Max),
        Order::Number(-1.0) => (rows, Fold::Min),
        order => return spectral(cx, order, [rows, columns], keep),
    };
    let sums = e.reduce_keep(size, Fold::Add, &[over]);
    let other = if over == rows { columns } else { rows };
    let y = total(e, sums, fold, &[other], true);
    let y = if keep {
        y
    } else {
        let dims = e.dims(y);
        let kept: Vec<i64> =
            (0..dims.len()).filter(|i| !axes.contains(i)).map(|i| dims[i]).collect();
        e.reshape(y, &kept)
    };
    Ok(e.convert(y, dtype).into())
}

/// Norms of the singular values.
fn spectral(cx: &mut Cx<'_>, order: &Order, [rows, columns]: [usize; 2], keep: bool) -> Res {
    let fold = match order {
        Order::Number(2.0) => Fold::Max,
        Order::Number(-2.0) => Fold::Min,
        Order::Name(name) if &**name == "nuc" => Fold::Add,
        _ => return refuse("is no norm of matrices"),
    };
    let x = cx.tensor("self")?;
    let (x, dtype) = cx.wide(x);
    if !dtype.is_float() {
        return refuse("needs the singular values of complex matrices");
    }
    let e = &mut cx.e;
    let mut dims = e.dims(x).to_vec();
    let others = (0..dims.len()).filter(|axis| *axis != rows && *axis != columns);
    let order: Vec<usize> = others.chain([rows, columns]).collect();
    let x = e.transpose(x, &order);
    let values = singular_values(e, x)?;
    let last = e.rank(values) - 1;
    let mut y = e.reduce(values, fold, &[last]);
    if keep {
        (dims[rows], dims[columns]) = (1, 1);
        y = e.reshape(y, &dims);
    }
    Ok(e.convert(y, dtype).into())
}

/// In the order that takes the fewest multiplications.
fn product(cx: &mut Cx<'_>, name: &str) -> Res {
    let mut list = cx.tensors(name)?;
    let Some(last) = list.len().checked_sub(1) else { return refuse("has no matrices") };
    let (first_vector, last_vector) = (cx.e.rank(list[0]) == 1, cx.e.rank(list[last]) == 1);
    if last == 0 {
        return Ok(list[0].into());
    }
    if first_vector {
        list[0] = cx.e.unsqueeze(list[0], &[0]);
    }
    if last_vector {
        list[last] = cx.e.unsqueeze(list[last], &[1]);
    }
    let mut sizes: Vec<i64> = list.iter().map(|matrix| cx.e.dims(*matrix)[0]).collect();
    sizes.push(cx.e.dims(list[last])[1]);
    let cuts = cuts(&sizes);
    let y = chain(&mut cx.e, &list, &cuts, 0, last)?;
    let dims = cx.e.dims(y);
    let mut kept = Vec::new();
    if !first_vector {
        kept.push(dims[0]);
    }
    if !last_vector {
        kept.push(dims[1]);
    }
    Ok(cx.e.reshape(y, &kept).into())
}

/// Where each part of a chain is best cut in two.
fn cuts(sizes: &[i64]) -> Vec<Vec<usize>> {
    let n = sizes.len() - 1;
    let mut cost = vec![vec![0i64; n]; n];
    let mut cut = vec![vec![0; n]; n];
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = i64::MAX;
            for k in i..j {
                let product = sizes[i].saturating_mul(sizes[k + 1]).saturating_mul(sizes[j + 1]);
                let sum = cost[i][k].saturating_add(cost[k + 1][j]).saturating_add(product);
                if sum < cost[i][j] {
                    (cost[i][j], cut[i][j]) = (sum, k);
                }
            }
        }
    }
    cut
}

fn chain(e: &mut Emitter, list: &[V], cuts: &[Vec<usize>], from: usize, to: usize) -> Res<V> {
    if from == to {
        return Ok(list[from]);
    }
    let at = cuts[from][to];
    let (a, b) = (chain(e, list, cuts, from, at)?, chain(e, list, cuts, at + 1, to)?);
    matmul(e, a, b)
}

/// By squaring.
fn power(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let n = cx.int("n")?;
    let dims = cx.e.dims(x).to_vec();
    let rank = dims.len();
    if rank < 2 || dims[rank - 1] != dims[rank - 2] {
        return refuse("takes square matrices");
    }
    if n < 0 {
        return refuse("takes the inverse's power");
    }
    let e = &mut cx.e;
    if n == 0 {
        let (i, j) = (e.iota(&dims, DType::S64, rank - 2), e.iota(&dims, DType::S64, rank - 1));
        let same = e.compare(ops::Direction::Eq, i, j);
        let dtype = e.dtype(x);
        return Ok(e.convert(same, dtype).into());
    }
    let (mut result, mut square, mut rest) = (None, x, n);
    loop {
        if rest % 2 == 1 {
            result = Some(match result {
                Some(result) => e.batched_matmul(result, square),
                None => square,
            });
        }
        rest /= 2;
        if rest == 0 {
            return Ok(result.unwrap_or(x).into());
        }
        square = e.batched_matmul(square, square);
    }
}

fn cross(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = cx.common(&both);
    let both = cx.together(&both, dtype)?;
    let dims = cx.e.dims(both[0]).to_vec();
    let at = match cx.maybe_int("dim")? {
        Some(dim) => axis(dim, dims.len())?,
        None => match dims.iter().position(|size| *size == 3) {
            Some(at) => at,
            None => return refuse("has no axis of three"),
        },
    };
    let e = &mut cx.e;
    let mut part = |x: V, i: i64| e.slice_axis(x, at, i, i + 1, 1);
    let a: Vec<V> = (0..3).map(|i| part(both[0], i)).collect();
    let b: Vec<V> = (0..3).map(|i| part(both[1], i)).collect();
    let mut parts = Vec::new();
    for (i, j) in [(1, 2), (2, 0), (0, 1)] {
        let (left, right) = (multiply(e, a[i], b[j]), multiply(e, a[j], b[i]));
        parts.push(e.sub(left, right));
    }
    Ok(e.concat(&parts, at).into())
}

/// Powers from 0 up along a new last axis, made by repeated multiplication as PyTorch makes them.
fn vander(cx: &mut Cx<'_>, x: V, columns: Option<i64>, rising: bool) -> Res {
    let dims = cx.e.dims(x).to_vec();
    let Some(size) = dims.last() else { return refuse("takes vectors") };
    let columns = columns.unwrap_or(*size);
    let common = cx.common(&[Operand::Tensor(x)]);
    // Integers overflow late as int64.
    let dtype = if common.is_int() || common.is_bool() { DType::S64 } else { common };
    let dtype = if cx.node.call.to_string().contains("linalg") { common } else { dtype };
    let e = &mut cx.e;
    let x = e.convert(x, dtype);
    let at = dims.len();
    if columns <= 0 {
        let shape: Vec<i64> = dims.iter().copied().chain([0]).collect();
        return Ok(e.full(&shape, dtype, Num::I(0).fit(dtype)).into());
    }
    let mut power = e.full(&dims, dtype, Num::I(1).fit(dtype));
    let mut parts = Vec::new();
    for i in 0..columns {
        if i > 0 {
            power = if i == 1 { x } else { e.mul(power, x) };
        }
        parts.push(e.unsqueeze(power, &[at]));
    }
    if !rising {
        parts.reverse();
    }
    Ok(e.concat(&parts, at).into())
}
