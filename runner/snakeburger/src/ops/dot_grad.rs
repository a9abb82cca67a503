//! Derivatives of sums of products: each operand's cotangent is one such sum again, with at most
//! one transposition after it.

use super::dot::{Dot, DotGeneral};
use super::{DotDims, Precision};
use crate::build::{Emitter, V};
use crate::derive::{Derive, Derived};
use crate::ir::Ints;

/// One side of the product: its batching, contracting and free dimensions.
struct Side {
    batch: Vec<usize>,
    over: Vec<usize>,
    free: Vec<usize>,
}

impl Side {
    fn new(rank: usize, batch: &[i64], over: &[i64]) -> Self {
        let list = |ints: &[i64]| -> Vec<usize> { ints.iter().map(|d| *d as usize).collect() };
        let (batch, over) = (list(batch), list(over));
        let free = (0..rank).filter(|d| !batch.contains(d) && !over.contains(d)).collect();
        Self { batch, over, free }
    }
}

pub(crate) fn of_dot_general(op: &DotGeneral, d: &mut Derive<'_>) -> Derived {
    products(d, &op.dot_dimension_numbers, &op.precision_config)
}

/// The last dimension with the first or only one.
pub(crate) fn of_dot(op: &Dot, d: &mut Derive<'_>) -> Derived {
    let last = d.e.rank(d.operand(0)) as i64 - 1;
    let numbers = DotDims {
        lhs_batching_dimensions: Ints::default(),
        rhs_batching_dimensions: Ints::default(),
        lhs_contracting_dimensions: [last].into(),
        rhs_contracting_dimensions: [0].into(),
    };
    products(d, &numbers, &op.precision_config)
}

fn products(d: &mut Derive<'_>, numbers: &DotDims, precision: &[Precision]) -> Derived {
    let ranks = [0, 1].map(|i| d.e.rank(d.operand(i)));
    let sides = [
        Side::new(ranks[0], &numbers.lhs_batching_dimensions, &numbers.lhs_contracting_dimensions),
        Side::new(ranks[1], &numbers.rhs_batching_dimensions, &numbers.rhs_contracting_dimensions),
    ];
    let batch = sides[0].batch.len();
    // The result's dimensions: batching, free of the left, free of the right.
    let starts = [batch, batch + sides[0].free.len()];
    for i in 0..2 {
        let (own, other) = (&sides[i], &sides[1 - i]);
        let partner = d.operand(1 - i);
        let dtype = d.e.dtype(d.operand(i));
        let over: Vec<usize> = (0..other.free.len()).map(|k| starts[1 - i] + k).collect();
        d.one(i, |e, g| {
            let partner = e.conj(partner);
            let partner = e.in_type_of(partner, g);
            let cotangent = product(e, g, partner, own, other, &over, precision);
            e.convert(cotangent, dtype)
        })?;
    }
    Ok(())
}

/// The sum over the partner's free dimensions, laid out as the operand is.
fn product(
    e: &mut Emitter,
    g: V,
    partner: V,
    own: &Side,
    other: &Side,
    over: &[usize],
    precision: &[Precision],
) -> V {
    let batch: Vec<usize> = (0..own.batch.len()).collect();
    // What is left of the partner are the dimensions it was contracted over, in its own order;
    // each stands for the operand's dimension that it met.
    let mut met: Vec<(usize, usize)> =
        other.over.iter().copied().zip(own.over.iter().copied()).collect();
    met.sort_unstable();
    let met: Vec<usize> = met.into_iter().map(|(_, own)| own).collect();
    let ahead = [&own.batch[..], &own.free, &met].concat();
    let behind = [&own.batch[..], &met, &own.free].concat();
    let straight = behind.windows(2).all(|pair| pair[0] < pair[1]);
    let (product, axes) = if straight {
        (e.dot_by(partner, g, [&other.batch, &batch], [&other.free, over], precision), behind)
    } else {
        (e.dot_by(g, partner, [&batch, &other.batch], [over, &other.free], precision), ahead)
    };
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|i| axes[*i]);
    e.transpose(product, &order)
}
