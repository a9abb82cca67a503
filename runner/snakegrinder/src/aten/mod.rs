//! ATen operators: one row each, which names the function that lowers it.
//!
//! A name that ends in `_` and has no row of its own is its namesake in place: the result is
//! written to `self`. Overloads share a row and differ by the arguments they have.

mod activation;
mod arithmetic;
mod assemble;
mod attention;
mod bessel;
mod cast;
mod compare;
mod conv;
mod create;
mod distance;
mod embedding;
mod fourier;
mod grouped;
mod index;
mod linalg;
mod loss;
mod loss_class;
mod math;
mod matmul;
mod norm;
mod order;
mod patches;
mod pool;
mod random;
mod random_more;
mod recurrent;
mod reduce;
mod resample;
mod reshape_in_place;
mod sample;
mod scan;
mod scatter;
mod shape;
mod solve;
mod special;
mod spectrogram;
mod spectrum;
mod statistics;
mod views;

use std::collections::HashMap;
use std::sync::LazyLock;

use warpforge_pt2::{Call, Node};

use crate::cx::{Cx, Out, Res, refuse};

/// Lowers one call.
pub type Lower = fn(&mut Cx<'_>) -> Res;

/// The families of operators; each lists its rows.
const FAMILIES: &[(&str, &[(&str, Lower)])] = &[
    ("Activations", activation::ROWS),
    ("Arithmetic", arithmetic::ROWS),
    ("Assembly", assemble::ROWS),
    ("Attention", attention::ROWS),
    ("Bessel functions", bessel::ROWS),
    ("Casts and copies", cast::ROWS),
    ("Comparison and choice", compare::ROWS),
    ("Convolution", conv::ROWS),
    ("Creation", create::ROWS),
    ("Distances", distance::ROWS),
    ("Embedding", embedding::ROWS),
    ("Fourier transforms", fourier::ROWS),
    ("Grouped products", grouped::ROWS),
    ("Indexing", index::ROWS),
    ("Linear algebra", linalg::ROWS),
    ("Linear equations", solve::ROWS),
    ("Losses of classes", loss_class::ROWS),
    ("Losses", loss::ROWS),
    ("Matrix products", matmul::ROWS),
    ("Normalisation", norm::ROWS),
    ("Order", order::ROWS),
    ("Patches", patches::ROWS),
    ("Pooling", pool::ROWS),
    ("Random integers and distributions", random_more::ROWS),
    ("Random numbers", random::ROWS),
    ("Recurrent layers", recurrent::ROWS),
    ("Reductions", reduce::ROWS),
    ("Resizing", resample::ROWS),
    ("Running totals", scan::ROWS),
    ("Sampling", sample::ROWS),
    ("Scatter", scatter::ROWS),
    ("Shapes in place", reshape_in_place::ROWS),
    ("Shapes", shape::ROWS),
    ("Singular values", spectrum::ROWS),
    ("Special functions", special::ROWS),
    ("Spectrograms and windows", spectrogram::ROWS),
    ("Statistics", statistics::ROWS),
    ("Views", views::ROWS),
];

fn row(name: &str) -> Option<Lower> {
    static ALL: LazyLock<HashMap<&str, Lower>> =
        LazyLock::new(|| FAMILIES.iter().flat_map(|(_, rows)| rows.iter().copied()).collect());
    ALL.get(name).copied()
}

/// The families and their operators, for the coverage page.
pub fn families() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    FAMILIES.iter().map(|(family, rows)| (*family, rows.iter().map(|(name, _)| *name).collect()))
}

/// Every operator that has a row, as `aten::name`.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter().map(|(name, _)| *name))
}

/// Whether a call draws random numbers.
pub fn is_random(call: &Call) -> bool {
    matches!(call, Call::Op { name, .. }
        if random::DRAWS.contains(&&**name) || random_more::DRAWS.contains(&&**name))
}

/// Whether a call draws random numbers, by its operator or by its arguments.
pub fn draws(node: &Node) -> bool {
    is_random(&node.call) || recurrent::draws(node)
}

/// Whether an operator only looks at values and complains.
pub fn is_check(name: &str) -> bool {
    name.starts_with("aten::_assert_") || name.starts_with("aten::sym_constrain_range")
}

/// Whether a call writes to its first argument and yields it.
pub fn writes(call: &Call) -> bool {
    matches!(call, Call::Op { name, .. } if name.ends_with('_') && !name.ends_with("__"))
}

/// Whether a call yields memory that nobody has written to.
pub fn is_uninitialised(call: &Call) -> bool {
    let bare = |name: &str| name.starts_with("aten::empty") || name == "aten::new_empty";
    matches!(call, Call::Op { name, .. } if bare(name))
}

/// Whether an operator can be lowered, in place or not.
pub fn is_known(call: &Call) -> bool {
    match call {
        Call::Op { name, .. } => row(name).is_some() || in_place(name).is_some(),
        Call::Python(_) => true,
        Call::HigherOrder(name) => crate::higher::NAMES.contains(&&**name),
    }
}

/// The functional namesake of an operator that works in place.
fn in_place(name: &str) -> Option<Lower> {
    let stem = name.strip_suffix('_').filter(|stem| !stem.ends_with('_'))?;
    row(stem)
}

pub(crate) fn lower(cx: &mut Cx<'_>, name: &str) -> Res {
    if let Some(lower) = row(name) {
        return lower(cx);
    }
    if index::OPEN.contains(&name) {
        return refuse("yields a shape that depends on values");
    }
    let Some(lower) = in_place(name) else {
        return refuse("has no lowering");
    };
    let target = cx.slot("self")?;
    let value = match lower(cx)? {
        Out::New(value) => value,
        Out::Slot(slot) => cx.read(slot),
        _ => return refuse("yields more than one value in place"),
    };
    cx.write(target, value)?;
    Ok(Out::Slot(target))
}
