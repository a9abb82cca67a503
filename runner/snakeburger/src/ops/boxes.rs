//! Copying boxes of elements between tensors: what slices, pads, joins and gathers have in common.

use bytemuck::Pod;

use crate::eval::{Tensor, strides};
use crate::ir::TensorTy;

/// How a box is walked in two tensors at once: loops from the outside in, then neighbours.
pub(crate) struct Walk {
    loops: Vec<Loop>,
    /// How many elements lie side by side in both tensors.
    run: usize,
}

struct Loop {
    count: usize,
    to: isize,
    from: isize,
}

impl Walk {
    /// A box of these sizes; per dimension the distance of neighbours in either tensor.
    pub(crate) fn new(sizes: &[i64], to: &[isize], from: &[isize]) -> Self {
        let mut walk = Walk { loops: Vec::new(), run: 1 };
        for d in (0..sizes.len()).rev() {
            let (count, to, from) = (sizes[d].max(0) as usize, to[d], from[d]);
            let run = walk.run as isize;
            if count == 1 {
                continue;
            }
            if walk.loops.is_empty() && to == run && from == run {
                walk.run *= count;
            } else {
                walk.loops.push(Loop { count, to, from });
            }
        }
        walk.loops.reverse();
        walk
    }

    fn is_empty(&self) -> bool {
        self.run == 0 || self.loops.iter().any(|l| l.count == 0)
    }

    /// Copies one box for each pair of first elements: where to, where from.
    pub(crate) fn copy(&self, to: &mut Tensor, from: &Tensor, places: &[(isize, isize)]) {
        if self.is_empty() {
            return;
        }
        match to.storage().bytes() {
            1 => self.copy_as::<u8>(to, from, places),
            2 => self.copy_as::<u16>(to, from, places),
            4 => self.copy_as::<u32>(to, from, places),
            8 => self.copy_as::<u64>(to, from, places),
            _ => self.copy_as::<[u64; 2]>(to, from, places),
        }
    }

    fn copy_as<T: Pod>(&self, to: &mut Tensor, from: &Tensor, places: &[(isize, isize)]) {
        let (to, from): (&mut [T], &[T]) = (to.data.as_mut_slice(), from.data.as_slice());
        for (at, source) in places {
            copy_loops(&self.loops, self.run, to, *at, from, *source);
        }
    }
}

/// The depth is the number of dimensions with more than one element, so it is small.
fn copy_loops<T: Copy>(
    loops: &[Loop],
    run: usize,
    to: &mut [T],
    mut at: isize,
    from: &[T],
    mut source: isize,
) {
    let Some((first, inner)) = loops.split_first() else {
        let source = &from[source as usize..][..run];
        to[at as usize..][..run].copy_from_slice(source);
        return;
    };
    for _ in 0..first.count {
        if inner.is_empty() && run == 1 {
            to[at as usize] = from[source as usize];
        } else {
            copy_loops(inner, run, to, at, from, source);
        }
        at += first.to;
        source += first.from;
    }
}

/// Row-major strides for arithmetic that may go backwards.
pub(crate) fn steps(dims: &[i64]) -> Vec<isize> {
    strides(dims).into_iter().map(|stride| stride as isize).collect()
}

/// The element number of an index, which may lie outside if the box is empty.
pub(crate) fn place(index: &[i64], steps: &[isize]) -> isize {
    index
        .iter()
        .zip(steps)
        .fold(0, |at, (i, step)| at.wrapping_add((*i as isize).wrapping_mul(*step)))
}

/// A new tensor of the elements `start + i * stride`, per dimension.
pub(crate) fn take(operand: &Tensor, ty: TensorTy, start: &[i64], stride: &[i64]) -> Tensor {
    let own = steps(operand.dims());
    let from: Vec<isize> =
        own.iter().zip(stride).map(|(own, stride)| own.wrapping_mul(*stride as isize)).collect();
    let mut result = Tensor::zeros(ty);
    let walk = Walk::new(result.dims(), &steps(result.dims()), &from);
    walk.copy(&mut result, operand, &[(0, place(start, &own))]);
    result
}

/// Writes all of `part` into a tensor, its first element at `start`.
pub(crate) fn put(result: &mut Tensor, part: &Tensor, start: &[i64]) {
    let to = steps(result.dims());
    let walk = Walk::new(part.dims(), &to, &steps(part.dims()));
    walk.copy(result, part, &[(place(start, &to), 0)]);
}
