//! Derivatives of gathers and scatters: each is the other's.

use super::gather::Gather;
use super::reduce_grad::fold_of;
use super::scatter::Scatter;
use super::{And, Direction, GatherDims, ScatterDims};
use crate::build::{Emitter, Fold, V};
use crate::derive::{Derive, Derived};
use crate::eval::Num;
use crate::ir::{Ints, RegionId};

/// Adds each window to where it was taken from.
pub(crate) fn of_gather(op: &Gather, d: &mut Derive<'_>) -> Derived {
    let (x, indices) = (d.operand(0), d.operand(1));
    let numbers = &op.dimension_numbers;
    d.one(0, |e, g| {
        let zeros = e.zeros_like(x);
        if e.dims(g).contains(&0) {
            return zeros;
        }
        let dims = e.dims(x);
        let room: Vec<i64> = numbers
            .start_index_map
            .iter()
            .map(|axis| dims[*axis as usize] - op.slice_sizes[*axis as usize])
            .collect();
        // A gather moves windows inside that reach out; a scatter would leave them out.
        let indices = inside(e, indices, &room, numbers.index_vector_dim as usize);
        e.scatter(zeros, indices, g, scatter_dims(numbers), Some(Fold::Add))
    })
}

fn scatter_dims(numbers: &GatherDims) -> ScatterDims {
    ScatterDims {
        update_window_dims: numbers.offset_dims.clone(),
        inserted_window_dims: numbers.collapsed_slice_dims.clone(),
        input_batching_dims: numbers.operand_batching_dims.clone(),
        scatter_indices_batching_dims: numbers.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: numbers.start_index_map.clone(),
        index_vector_dim: numbers.index_vector_dim,
    }
}

/// The largest start of each component, in the indices' shape.
fn limits(e: &mut Emitter, indices: V, room: &[i64], vector: usize) -> V {
    let (dims, dtype) = (e.dims(indices), e.dtype(indices));
    if let [only] = room {
        return e.full(&dims, dtype, Num::I(*only).fit(dtype));
    }
    let limits = e.ints(room, &[room.len() as i64], dtype);
    e.broadcast_in(limits, &dims, &[vector])
}

fn inside(e: &mut Emitter, indices: V, room: &[i64], vector: usize) -> V {
    let zero = e.zeros_like(indices);
    let high = limits(e, indices, room, vector);
    e.same(super::Clamp {}, &[zero, indices, high])
}

/// How a scatter combines old and new elements.
enum Kind {
    Set,
    Fold(Fold),
}

fn kind(e: &Emitter, region: RegionId) -> Option<Kind> {
    let graph = e.graph();
    let new = graph.arguments(region).nth(1);
    if let [yielded] = graph.yields(region)
        && Some(*yielded) == new
    {
        return Some(Kind::Set);
    }
    fold_of(e, region).map(Kind::Fold)
}

/// What a scatter's rule works with.
struct Plan {
    numbers: ScatterDims,
    /// The sizes of the windows, by the operand's dimensions.
    windows: Vec<i64>,
    indices: V,
}

pub(crate) fn of_scatter(op: &Scatter, d: &mut Derive<'_>) -> Derived {
    let region = d.regions()[0];
    let Some(kind) = kind(d.e, region).filter(|_| d.operands().len() == 3) else {
        return Err("scatters by a function that has no derivative here".into());
    };
    let (x, indices, updates) = (d.operand(0), d.operand(1), d.operand(2));
    let plan = Plan::new(d.e, op, x, indices, updates);
    let y = d.result(0);
    if d.e.dims(updates).contains(&0) {
        d.one(0, |_, g| g)?;
        return d.one(2, |e, _| e.zeros_like(updates));
    }
    match kind {
        Kind::Set => {
            d.one(0, |e, g| {
                let zeros = e.zeros_like(updates);
                plan.put(e, g, zeros, None)
            })?;
            d.one(2, |e, g| plan.take(e, g))
        }
        Kind::Fold(Fold::Add) => {
            d.one(0, |_, g| g)?;
            d.one(2, |e, g| plan.take(e, g))
        }
        Kind::Fold(Fold::Mul) => {
            d.one(0, |e, g| {
                let zero = e.compare_to(Direction::Eq, x, 0.0);
                let one = e.like(x, 1.0);
                let filled = e.select(zero, one, x);
                // The product of the updates alone, where there was no zero to begin with.
                let product = plan.put(e, filled, updates, Some(Fold::Mul));
                let others = e.div(product, filled);
                e.mul(g, others)
            })?;
            d.one(2, |e, g| plan.factors(e, x, updates, y, g))
        }
        Kind::Fold(_) => {
            let chosen = plan.take(d.e, y);
            let (own, new) = (d.e.equal(x, y), d.e.equal(updates, chosen));
            let (own, new) = (d.e.in_type_of(own, x), d.e.in_type_of(new, x));
            let count = plan.put(d.e, own, new, Some(Fold::Add));
            d.one(0, |e, g| {
                let share = e.div(g, count);
                e.mul(share, own)
            })?;
            d.one(2, |e, g| {
                let share = e.div(g, count);
                let share = plan.take(e, share);
                e.mul(share, new)
            })
        }
    }
}

impl Plan {
    fn new(e: &Emitter, op: &Scatter, x: V, indices: V, updates: V) -> Self {
        let numbers = op.scatter_dimension_numbers.clone();
        let sizes = e.dims(updates);
        let mut sizes = numbers.update_window_dims.iter().map(|axis| sizes[*axis as usize]);
        let dropped = |axis: i64| {
            numbers.inserted_window_dims.contains(&axis)
                || numbers.input_batching_dims.contains(&axis)
        };
        let windows = (0..e.rank(x) as i64)
            .map(|axis| if dropped(axis) { 1 } else { sizes.next().unwrap_or(1) })
            .collect();
        Self { numbers, windows, indices }
    }

    fn put(&self, e: &mut Emitter, x: V, updates: V, fold: Option<Fold>) -> V {
        e.scatter(x, self.indices, updates, self.numbers.clone(), fold)
    }

    /// What stands where updates were written, zero for those that reached out and were not.
    fn take(&self, e: &mut Emitter, x: V) -> V {
        let numbers = &self.numbers;
        let op = Gather {
            dimension_numbers: GatherDims {
                offset_dims: numbers.update_window_dims.clone(),
                collapsed_slice_dims: numbers.inserted_window_dims.clone(),
                operand_batching_dims: numbers.input_batching_dims.clone(),
                start_indices_batching_dims: numbers.scatter_indices_batching_dims.clone(),
                start_index_map: numbers.scatter_dims_to_operand_dims.clone(),
                index_vector_dim: numbers.index_vector_dim,
            },
            slice_sizes: self.windows.clone().into(),
            indices_are_sorted: false,
        };
        let places = self.update_dims(e);
        let ty = e.ty(x).with_dims(places.iter().copied());
        let taken = e.push(op, &[x, self.indices], ty);
        let written = self.written(e, x, &places);
        e.where_else_zero(written, taken)
    }

    fn vector(&self) -> usize {
        self.numbers.index_vector_dim as usize
    }

    fn update_dims(&self, e: &Emitter) -> Vec<i64> {
        let batch: Vec<i64> = e
            .dims(self.indices)
            .iter()
            .enumerate()
            .filter(|(axis, _)| *axis != self.vector())
            .map(|(_, size)| *size)
            .collect();
        let dropped: Ints =
            [&self.numbers.inserted_window_dims[..], &self.numbers.input_batching_dims]
                .concat()
                .into();
        let mut windows = (0..self.windows.len())
            .filter(|axis| !dropped.contains(&(*axis as i64)))
            .map(|axis| self.windows[axis]);
        let rank = batch.len() + self.numbers.update_window_dims.len();
        let mut batch = batch.into_iter();
        (0..rank as i64)
            .map(|axis| {
                let window = self.numbers.update_window_dims.contains(&axis);
                if window { windows.next() } else { batch.next() }.unwrap_or(1)
            })
            .collect()
    }

    /// Whether each update lies inside, in the updates' shape.
    fn written(&self, e: &mut Emitter, x: V, places: &[i64]) -> V {
        let dims = e.dims(x);
        let room: Vec<i64> = self
            .numbers
            .scatter_dims_to_operand_dims
            .iter()
            .map(|axis| dims[*axis as usize] - self.windows[*axis as usize])
            .collect();
        let high = limits(e, self.indices, &room, self.vector());
        let above = e.compare_to(Direction::Ge, self.indices, 0.0);
        let below = e.compare(Direction::Le, self.indices, high);
        let mut fits = e.same(And {}, &[above, below]);
        if self.vector() < e.rank(fits) {
            fits = e.reduce(fits, Fold::And, &[self.vector()]);
        }
        let axes: Vec<usize> = (0..places.len())
            .filter(|axis| !self.numbers.update_window_dims.contains(&(*axis as i64)))
            .collect();
        e.broadcast_in(fits, places, &axes)
    }

    /// Of a product: everything else that was multiplied in, zeros apart.
    fn factors(&self, e: &mut Emitter, x: V, updates: V, y: V, g: V) -> V {
        let zero = e.compare_to(Direction::Eq, updates, 0.0);
        let zeros = e.in_type_of(zero, updates);
        let none = e.zeros_like(x);
        let counts = self.put(e, none, zeros, Some(Fold::Add));
        let counts = self.take(e, counts);
        let single = e.compare_to(Direction::Eq, counts, 1.0);
        let single = e.same(And {}, &[single, zero]);
        let one = e.like(updates, 1.0);
        let filled = e.select(single, one, updates);
        let product = self.put(e, x, filled, Some(Fold::Mul));
        let alone = e.mul(g, product);
        let alone = self.take(e, alone);
        let whole = e.mul(g, y);
        let whole = self.take(e, whole);
        let divisor = e.select(zero, one, updates);
        let rest = e.div(whole, divisor);
        e.select(single, alone, rest)
    }
}
