//! Loops, branches and slices whose place is known only when the program runs.

use crate::eval::Num;
use crate::ir::{DType, TensorTy};
use crate::ops::{self, Direction};

use super::{Emitter, V};

impl Emitter {
    /// Runs `body` for 0, 1, … below `count`: it gets the counter and the state, and says what
    /// the state is next.
    pub fn count<E>(
        &mut self,
        count: i64,
        state: &[V],
        body: impl FnOnce(&mut Self, V, &[V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let zero = self.full(&[], DType::S64, Num::I(0));
        let start: Vec<V> = [zero].iter().chain(state).copied().collect();
        let types: Vec<TensorTy> = start.iter().map(|value| self.ty(*value).clone()).collect();
        let condition = self.region(&types, |e, args| {
            let end = e.full(&[], DType::S64, Num::I(count));
            vec![e.compare(Direction::Lt, args[0], end)]
        });
        let mut failed = None;
        let body = self.region(&types, |e, args| match body(e, args[0], &args[1..]) {
            Ok(state) => {
                let next = e.shift(args[0], 1.0);
                [next].into_iter().chain(state).collect()
            }
            Err(error) => {
                failed = Some(error);
                args.to_vec()
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(self.push_many(ops::While {}, &start, &types, &[condition, body]).split_off(1))
    }

    /// The part of an axis that starts at a computed place.
    pub fn slice_at(&mut self, value: V, axis: usize, place: V, size: i64) -> V {
        let mut sizes = self.dims(value);
        sizes[axis] = size;
        let ty = self.ty(value).with_dims(sizes.iter().copied());
        let mut operands = vec![value];
        operands.extend(self.places(sizes.len(), axis, place));
        self.push(ops::DynamicSlice { slice_sizes: sizes.iter().copied().collect() }, &operands, ty)
    }

    /// The value with one part of an axis replaced.
    pub fn put_at(&mut self, value: V, part: V, axis: usize, place: V) -> V {
        let mut operands = vec![value, part];
        let rank = self.rank(value);
        operands.extend(self.places(rank, axis, place));
        self.same(ops::DynamicUpdateSlice {}, &operands)
    }

    fn places(&mut self, rank: usize, axis: usize, place: V) -> Vec<V> {
        let dtype = self.dtype(place);
        let zero = self.full(&[], dtype, Num::I(0));
        (0..rank).map(|i| if i == axis { place } else { zero }).collect()
    }

    /// One element of an axis, which disappears.
    pub fn pick_at(&mut self, value: V, axis: usize, place: V) -> V {
        let part = self.slice_at(value, axis, place, 1);
        let mut dims = self.dims(part).to_vec();
        dims.remove(axis);
        self.reshape(part, &dims)
    }
}
