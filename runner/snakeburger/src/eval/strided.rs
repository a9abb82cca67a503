//! Copies whose source is walked with a fixed step along each dimension: transposes, broadcasts
//! and whatever else only moves elements.

use rayon::prelude::*;
use smallvec::SmallVec;

/// A dimension of the result: its size, and the step its index makes in the source.
pub(crate) type Move = (usize, usize);

/// About how many elements one task of a parallel copy takes.
const TASK: usize = 1 << 14;

/// How many source rows a transposing copy reads side by side, so that each cache line it fetches
/// is used up before it goes.
const TILE: usize = 32;

/// Fills `out` in row-major order of the dimensions in `moves`; every element they reach must be
/// in `source`.
pub(crate) fn copy<T: Copy + Send + Sync>(source: &[T], out: &mut [T], moves: &[Move]) {
    let moves = merged(moves);
    let Some(((_, step), rest)) = moves.split_first() else {
        return out.iter_mut().for_each(|out| *out = source[0]);
    };
    if out.is_empty() {
        return;
    }
    let block: usize = rest.iter().map(|(size, _)| size).product();
    let rows = TASK.div_ceil(block);
    out.par_chunks_mut(rows * block).enumerate().for_each(|(task, out)| {
        copy_rows(source, task * rows * step, out, out.len() / block, *step, rest);
    });
}

/// Drops dimensions of one element and joins neighbours that are one run in the source.
fn merged(moves: &[Move]) -> SmallVec<[Move; 6]> {
    let mut joined = SmallVec::<[Move; 6]>::new();
    for (size, step) in moves.iter().copied().filter(|(size, _)| *size != 1) {
        match joined.last_mut() {
            Some(outer) if outer.1 == size * step => *outer = (outer.0 * size, step),
            _ => joined.push((size, step)),
        }
    }
    joined
}

/// Copies `rows` rows that start `step` apart, each with the dimensions in `rest`.
fn copy_rows<T: Copy>(
    source: &[T],
    at: usize,
    out: &mut [T],
    rows: usize,
    step: usize,
    rest: &[Move],
) {
    let block = out.len() / rows.max(1);
    match rest {
        [] => copy_run(source, at, out, step),
        // Rows lie closer together than the elements within one: go through both by tiles.
        [(size, inner)] if *inner > step && step > 0 => {
            for first in (0..*size).step_by(TILE) {
                let width = TILE.min(size - first);
                for (row, out) in out.chunks_exact_mut(block).enumerate() {
                    let at = at + row * step + first * inner;
                    copy_run(source, at, &mut out[first..first + width], *inner);
                }
            }
        }
        [(size, inner), deeper @ ..] => {
            for (row, out) in out.chunks_exact_mut(block).enumerate() {
                copy_rows(source, at + row * step, out, *size, *inner, deeper);
            }
        }
    }
}

fn copy_run<T: Copy>(source: &[T], at: usize, out: &mut [T], step: usize) {
    match step {
        0 => out.fill(source[at]),
        1 => out.copy_from_slice(&source[at..at + out.len()]),
        _ => {
            let from = source[at..].iter().step_by(step);
            out.iter_mut().zip(from).for_each(|(out, value)| *out = *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by the definition: the index of each element taken apart.
    fn plain(source: &[u32], count: usize, moves: &[Move]) -> Vec<u32> {
        let place = |mut i: usize| {
            let mut at = 0;
            for (size, step) in moves.iter().rev() {
                at += i % size * step;
                i /= size;
            }
            at
        };
        (0..count).map(|i| source[place(i)]).collect()
    }

    proptest! {
        #[test]
        fn copies_agree_with_the_definition(
            sizes in prop::collection::vec(0usize..40, 0..4),
            keys in prop::collection::vec(any::<u8>(), 4),
            repeated in prop::collection::vec(any::<bool>(), 4),
        ) {
            let mut order: Vec<usize> = (0..sizes.len()).collect();
            order.sort_by_key(|d| keys[*d]);
            let mut steps = vec![0; sizes.len()];
            let mut step = 1;
            for d in order.into_iter().rev().filter(|d| !repeated[*d]) {
                steps[d] = step;
                step *= sizes[d];
            }
            let source: Vec<u32> = (0..step as u32).collect();
            let moves: Vec<Move> = sizes.iter().copied().zip(steps).collect();
            let count = sizes.iter().product();
            let mut out = vec![0; count];
            copy(&source, &mut out, &moves);
            prop_assert_eq!(out, plain(&source, count, &moves));
        }
    }
}
