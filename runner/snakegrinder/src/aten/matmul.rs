//! Matrix products.

use warpforge_snakeburger::ir::DType;

use super::Lower;
use crate::cx::{Cx, Number, Operand, Res, attrs, broadcast, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::addbmm", |cx| {
        let (a, b) = (cx.tensor("batch1")?, cx.tensor("batch2")?);
        let product = cx.e.dot(a, b, &[], &[], &[0, 2], &[0, 1]);
        plus(cx, product)
    }),
    ("aten::addmm", |cx| {
        let (a, b) = (cx.tensor("mat1")?, cx.tensor("mat2")?);
        let product = cx.e.batched_matmul(a, b);
        plus(cx, product)
    }),
    ("aten::addmv", |cx| {
        let (a, b) = (cx.tensor("mat")?, cx.tensor("vec")?);
        let product = cx.e.dot(a, b, &[], &[], &[1], &[0]);
        plus(cx, product)
    }),
    ("aten::addr", |cx| {
        let (a, b) = (cx.tensor("vec1")?, cx.tensor("vec2")?);
        let product = cx.e.dot(a, b, &[], &[], &[], &[]);
        plus(cx, product)
    }),
    ("aten::baddbmm", |cx| {
        let (a, b) = (cx.tensor("batch1")?, cx.tensor("batch2")?);
        let product = cx.e.batched_matmul(a, b);
        plus(cx, product)
    }),
    ("aten::bilinear", bilinear),
    ("aten::bmm", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("mat2")?);
        Ok(cx.e.batched_matmul(a, b).into())
    }),
    ("aten::dot", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("tensor")?);
        Ok(cx.e.dot(a, b, &[], &[], &[0], &[0]).into())
    }),
    ("aten::einsum", einsum),
    ("aten::ger", outer),
    ("aten::inner", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
        let (i, j) = (cx.e.rank(a) - 1, cx.e.rank(b) - 1);
        Ok(cx.e.dot(a, b, &[], &[], &[i], &[j]).into())
    }),
    ("aten::kron", kron),
    ("aten::linalg_vecdot", |cx| {
        let (a, b) = (cx.operand("x")?, cx.operand("y")?);
        let dtype = cx.common(&[a, b]);
        let both = cx.together(&[a, b], promote::wide(dtype))?;
        let product = cx.e.mul(both[0], both[1]);
        let at = crate::cx::axis(cx.int("dim")?, cx.e.rank(product))?;
        let sum = cx.e.reduce(product, Fold::Add, &[at]);
        Ok(cx.e.convert(sum, dtype).into())
    }),
    ("aten::linear", linear),
    ("aten::matmul", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
        Ok(matmul(&mut cx.e, a, b)?.into())
    }),
    ("aten::linalg_matmul", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
        Ok(matmul(&mut cx.e, a, b)?.into())
    }),
    ("aten::mm", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("mat2")?);
        Ok(cx.e.batched_matmul(a, b).into())
    }),
    ("aten::mv", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("vec")?);
        Ok(cx.e.dot(a, b, &[], &[], &[1], &[0]).into())
    }),
    ("aten::outer", outer),
    ("aten::tensordot", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
        let (left, right) = (cx.e.rank(a), cx.e.rank(b));
        let axes = |name: &str, rank: usize| -> Res<Vec<usize>> {
            cx.ints(name)?.iter().map(|dim| crate::cx::axis(*dim, rank)).collect()
        };
        let (over_a, over_b) = (axes("dims_self", left)?, axes("dims_other", right)?);
        Ok(cx.e.dot(a, b, &[], &[], &over_a, &over_b).into())
    }),
    ("aten::vdot", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
        let a = if cx.e.dtype(a).is_complex() {
            cx.e.same(warpforge_snakeburger::ops::Conj {}, &[a])
        } else {
            a
        };
        Ok(cx.e.dot(a, b, &[], &[], &[0], &[0]).into())
    }),
];

/// `x · wᵀ + b`: a composite, as every backend has it whole.
fn linear(cx: &mut Cx<'_>) -> Res {
    let (x, weight) = (cx.tensor("input")?, cx.tensor("weight")?);
    let mut operands = vec![x, weight];
    operands.extend(cx.maybe_tensor("bias")?);
    Ok(linear_of(&mut cx.e, &operands)?.into())
}

/// The composite itself, of input, weight and perhaps a bias.
pub fn linear_of(e: &mut Emitter, operands: &[V]) -> Res<V> {
    let outs = e.composite("aten.linear", attrs([]), operands, |e, args| {
        let dtype = e.dtype(args[0]);
        let last = e.rank(args[0]) - 1;
        let over = [e.rank(args[1]) - 1];
        let Some(bias) = args.get(2) else {
            return Ok(vec![e.dot(args[0], args[1], &[], &[], &[last], &over)]);
        };
        // The sum is rounded once: product and bias meet in the wide type.
        let wide = promote::wide(dtype);
        let args: Vec<V> = [args[0], args[1], *bias].iter().map(|v| e.convert(*v, wide)).collect();
        let product = e.dot(args[0], args[1], &[], &[], &[last], &over);
        let dims = e.dims(product);
        let bias = e.broadcast_to(args[2], &dims);
        let sum = e.add(product, bias);
        Ok(vec![e.convert(sum, dtype)])
    })?;
    Ok(outs[0])
}

/// `beta · self + alpha · product`.
fn plus(cx: &mut Cx<'_>, product: V) -> Res {
    let (beta, alpha) = (cx.number("beta")?, cx.number("alpha")?);
    let dtype = cx.e.dtype(product);
    let wide = promote::wide(dtype);
    let dims = cx.e.dims(product);
    let mut product = cx.e.convert(product, wide);
    if alpha.float() != 1.0 {
        product = cx.e.scale(product, alpha.float());
    }
    // With beta zero, `self` is ignored, NaNs and all.
    if beta.float() == 0.0 {
        return Ok(cx.e.convert(product, dtype).into());
    }
    let x = cx.tensor("self")?;
    let x = cx.e.convert(x, wide);
    let mut x = cx.e.broadcast_to(x, &dims);
    if !matches!(beta, Number::Int(1)) && beta.float() != 1.0 {
        x = cx.e.scale(x, beta.float());
    }
    let sum = cx.e.add(x, product);
    Ok(cx.e.convert(sum, dtype).into())
}

/// NumPy's rules: vectors gain an axis and lose it again, batches broadcast.
pub fn matmul(e: &mut Emitter, a: V, b: V) -> Res<V> {
    let (left, right) = (e.dims(a).to_vec(), e.dims(b).to_vec());
    match (left.len(), right.len()) {
        (0, _) | (_, 0) => refuse("takes no scalars"),
        (1, 1) => Ok(e.dot(a, b, &[], &[], &[0], &[0])),
        (m, 1) => Ok(e.dot(a, b, &[], &[], &[m - 1], &[0])),
        (1, n) => {
            let product = {
                let a = e.reshape(a, &[1, left[0]]);
                matmul(e, a, b)?
            };
            let mut dims = right;
            dims.remove(n - 2);
            Ok(e.reshape(product, &dims))
        }
        (_, 2) => Ok(e.dot(a, b, &[], &[], &[left.len() - 1], &[0])),
        (m, n) => {
            let batch = broadcast(&[left[..m - 2].to_vec(), right[..n - 2].to_vec()])?;
            let with =
                |matrix: &[i64]| -> Vec<i64> { batch.iter().chain(matrix).copied().collect() };
            let (a_dims, b_dims) = (with(&left[m - 2..]), with(&right[n - 2..]));
            let (a, b) = (e.broadcast_to(a, &a_dims), e.broadcast_to(b, &b_dims));
            Ok(e.batched_matmul(a, b))
        }
    }
}

fn outer(cx: &mut Cx<'_>) -> Res {
    let name = if cx.given("vec2") { "vec2" } else { "other" };
    let both = [cx.operand("self")?, cx.operand(name)?];
    let dtype = cx.common(&both);
    let (Operand::Tensor(a), Operand::Tensor(b)) = (both[0], both[1]) else {
        return refuse("takes vectors");
    };
    let (a, b) = (cx.e.convert(a, dtype), cx.e.convert(b, dtype));
    let dims = [cx.e.dims(a)[0], cx.e.dims(b)[0]];
    let (a, b) = (cx.e.broadcast_in(a, &dims, &[0]), cx.e.broadcast_in(b, &dims, &[1]));
    Ok(cx.e.mul(a, b).into())
}

fn kron(cx: &mut Cx<'_>) -> Res {
    let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
    let rank = cx.e.rank(a).max(cx.e.rank(b));
    let fill = |e: &Emitter, v: V| {
        let mut dims = e.dims(v).to_vec();
        while dims.len() < rank {
            dims.insert(0, 1);
        }
        dims
    };
    let (left, right) = (fill(&cx.e, a), fill(&cx.e, b));
    let wide: Vec<i64> = left.iter().zip(&right).flat_map(|(m, n)| [*m, *n]).collect();
    let (a, b) = (cx.e.reshape(a, &left), cx.e.reshape(b, &right));
    let even: Vec<usize> = (0..rank).map(|i| 2 * i).collect();
    let odd: Vec<usize> = (0..rank).map(|i| 2 * i + 1).collect();
    let (a, b) = (cx.e.broadcast_in(a, &wide, &even), cx.e.broadcast_in(b, &wide, &odd));
    let product = cx.e.mul(a, b);
    let dims: Vec<i64> = left.iter().zip(&right).map(|(m, n)| m * n).collect();
    Ok(cx.e.reshape(product, &dims).into())
}

/// `yₖ = x₁ᵀ Aₖ x₂ + bₖ`.
fn bilinear(cx: &mut Cx<'_>) -> Res {
    let (a, b, weight) = (cx.tensor("input1")?, cx.tensor("input2")?, cx.tensor("weight")?);
    let bias = cx.maybe_tensor("bias")?;
    let batch: Vec<i64> = cx.e.dims(a)[..cx.e.rank(a) - 1].to_vec();
    let n: i64 = batch.iter().product();
    let (i, j) = (cx.e.dims(weight)[1], cx.e.dims(weight)[2]);
    let (a, b) = (cx.e.reshape(a, &[n, i]), cx.e.reshape(b, &[n, j]));
    let half = cx.e.dot(a, weight, &[], &[], &[1], &[1]);
    let y = cx.e.dot(half, b, &[0], &[0], &[2], &[1]);
    let mut dims = batch;
    dims.push(cx.e.dims(weight)[0]);
    let mut y = cx.e.reshape(y, &dims);
    if let Some(bias) = bias {
        let bias = cx.e.broadcast_to(bias, &dims);
        y = cx.e.add(y, bias);
    }
    Ok(y.into())
}

/// Each operand's axes by letter; operands are multiplied one after another, and a letter is
/// summed as soon as nothing later needs it.
fn einsum(cx: &mut Cx<'_>) -> Res {
    let equation: String = cx.str("equation")?.chars().filter(|c| !c.is_whitespace()).collect();
    let tensors = cx.tensors("tensors")?;
    let operands: Vec<Operand> = tensors.iter().map(|t| Operand::Tensor(*t)).collect();
    let dtype = cx.common(&operands);
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs.to_owned(), Some(output.to_owned())),
        None => (equation.clone(), None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != tensors.len() {
        return refuse(format!("has {} terms for {} tensors", inputs.len(), tensors.len()));
    }
    // Axes behind an ellipsis get capital letters past the alphabet, counted from the right.
    let dots = |rank: usize| -> Vec<char> {
        (0..rank).rev().filter_map(|i| char::from_u32(0x100 + i as u32)).collect()
    };
    let mut most = 0;
    let mut terms: Vec<(V, Vec<char>)> = Vec::new();
    for (text, tensor) in inputs.iter().zip(&tensors) {
        let rank = cx.e.rank(*tensor);
        let letters: Vec<char> = match text.split_once("...") {
            Some((before, after)) => {
                let hidden = rank - before.len() - after.len();
                most = most.max(hidden);
                before.chars().chain(dots(hidden)).chain(after.chars()).collect()
            }
            None => text.chars().collect(),
        };
        if letters.len() != rank {
            return refuse(format!("names {} axes of a tensor of {rank}", letters.len()));
        }
        let tensor = cx.e.convert(*tensor, dtype);
        terms.push(diagonals(&mut cx.e, tensor, letters));
    }
    let wanted: Vec<char> = if let Some(text) = output {
        let (before, after) = text.split_once("...").unwrap_or((&text, ""));
        let hidden = if text.contains("...") { dots(most) } else { Vec::new() };
        before.chars().chain(hidden).chain(after.chars()).collect()
    } else {
        // Without an arrow: the hidden axes, then the letters that occur once, sorted.
        let all: Vec<char> = inputs.iter().flat_map(|text| text.chars()).collect();
        let single = |c: &&char| **c != '.' && all.iter().filter(|d| d == c).count() == 1;
        let mut once: Vec<char> = all.iter().filter(single).copied().collect();
        once.sort_unstable();
        dots(most).into_iter().chain(once).collect()
    };
    let mut rest = terms.into_iter();
    let Some(mut left) = rest.next() else { return refuse("has no tensors") };
    let rest: Vec<(V, Vec<char>)> = rest.collect();
    for (i, right) in rest.iter().enumerate() {
        let later = |c: &char| {
            wanted.contains(c) || rest[i + 1..].iter().any(|(_, letters)| letters.contains(c))
        };
        left = contract(&mut cx.e, left, right.clone(), &later);
    }
    let (mut value, mut letters) = left;
    let gone: Vec<usize> = (0..letters.len()).filter(|i| !wanted.contains(&letters[*i])).collect();
    if !gone.is_empty() {
        let wide = promote::wide(dtype);
        value = cx.e.convert(value, wide);
        value = cx.e.reduce(value, Fold::Add, &gone);
        value = cx.e.convert(value, dtype);
        letters.retain(|c| wanted.contains(c));
    }
    let order: Option<Vec<usize>> =
        wanted.iter().map(|c| letters.iter().position(|d| d == c)).collect();
    let Some(order) = order else { return refuse("yields an axis that no tensor has") };
    Ok(cx.e.transpose(value, &order).into())
}

/// Takes the diagonal where a term names one letter twice.
fn diagonals(e: &mut Emitter, mut value: V, mut letters: Vec<char>) -> (V, Vec<char>) {
    while let Some(second) = (0..letters.len()).find(|i| letters[..*i].contains(&letters[*i])) {
        let first = letters.iter().position(|c| *c == letters[second]).unwrap_or(0);
        let dims = e.dims(value);
        let (i, j) = (e.iota(&dims, DType::S64, first), e.iota(&dims, DType::S64, second));
        let on = e.compare(warpforge_snakeburger::ops::Direction::Eq, i, j);
        let zero = e.like(value, 0.0);
        let kept = e.select(on, value, zero);
        value = e.reduce(kept, Fold::Add, &[second]);
        letters.remove(second);
    }
    (value, letters)
}

fn contract(
    e: &mut Emitter,
    (a, left): (V, Vec<char>),
    (b, right): (V, Vec<char>),
    later: &dyn Fn(&char) -> bool,
) -> (V, Vec<char>) {
    // A letter of one operand only, needed by nothing else, is summed before the product.
    let (a, left) = presum(e, a, left, &right, later);
    let (b, right) = presum(e, b, right, &left, later);
    let place = |letters: &[char], c: char| letters.iter().position(|d| *d == c).unwrap_or(0);
    let shared: Vec<char> = left.iter().copied().filter(|c| right.contains(c)).collect();
    // Axes of size one broadcast: they are not paired but dropped.
    let (mut a, mut b, mut left, mut right) = (a, b, left, right);
    for c in &shared {
        let (m, n) = (e.dims(a)[place(&left, *c)], e.dims(b)[place(&right, *c)]);
        if m == n {
            continue;
        }
        let (value, letters) = if m == 1 { (&mut a, &mut left) } else { (&mut b, &mut right) };
        let at = place(letters, *c);
        let mut dims = e.dims(*value).to_vec();
        dims.remove(at);
        *value = e.reshape(*value, &dims);
        letters.remove(at);
    }
    let shared: Vec<char> = left.iter().copied().filter(|c| right.contains(c)).collect();
    let (batch, over): (Vec<char>, Vec<char>) = shared.into_iter().partition(|c| later(c));
    let places = |letters: &[char], chosen: &[char]| -> Vec<usize> {
        chosen.iter().map(|c| place(letters, *c)).collect()
    };
    let value = e.dot(
        a,
        b,
        &places(&left, &batch),
        &places(&right, &batch),
        &places(&left, &over),
        &places(&right, &over),
    );
    let free = |letters: &[char]| -> Vec<char> {
        letters.iter().copied().filter(|c| !batch.contains(c) && !over.contains(c)).collect()
    };
    let letters = batch.iter().copied().chain(free(&left)).chain(free(&right)).collect();
    (value, letters)
}

fn presum(
    e: &mut Emitter,
    value: V,
    letters: Vec<char>,
    other: &[char],
    later: &dyn Fn(&char) -> bool,
) -> (V, Vec<char>) {
    let alone = |c: &char| !other.contains(c) && !later(c);
    let gone: Vec<usize> = (0..letters.len()).filter(|i| alone(&letters[*i])).collect();
    if gone.is_empty() {
        return (value, letters);
    }
    let value = e.reduce(value, Fold::Add, &gone);
    (value, letters.into_iter().filter(|c| !alone(c)).collect())
}
