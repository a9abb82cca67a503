//! Several tensors side by side, element by element, in chunks and in parallel, with the same
//! result on any number of threads.

use rayon::prelude::*;

use crate::compare::{Decoder, Tensor, decoder};

/// Elements that are decoded at a time.
const CHUNK: usize = 8192;

/// A tensor as float64 values.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    data: &'a [u8],
    width: usize,
    decode: Decoder,
}

impl<'a> Values<'a> {
    /// None for types that cannot be compared.
    pub fn of(tensor: &Tensor<'a>) -> Option<Self> {
        let (width, decode) = decoder(tensor.dtype)?;
        Some(Self { data: tensor.data, width, decode })
    }

    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    fn read(&self, from: usize, values: &mut [f64]) {
        let bytes = from * self.width..(from + values.len()) * self.width;
        (self.decode)(self.data.get(bytes).unwrap_or_default(), values);
    }
}

/// Takes `each` over the elements of tensors of equal size and joins what the chunks gave, in
/// order.
pub(super) fn fold<const K: usize, A: Default + Send>(
    sides: [Values<'_>; K],
    each: impl Fn(&mut A, u64, [f64; K]) + Sync,
    join: impl Fn(A, A) -> A,
) -> A {
    let count = sides.iter().map(Values::len).min().unwrap_or(0);
    let one = |chunk: usize| {
        let (from, to) = (chunk * CHUNK, count.min((chunk + 1) * CHUNK));
        let columns = sides.map(|side| {
            let mut values = vec![0.0; to - from];
            side.read(from, &mut values);
            values
        });
        let mut found = A::default();
        for i in 0..to - from {
            let row = std::array::from_fn(|k| columns[k].get(i).copied().unwrap_or(f64::NAN));
            each(&mut found, (from + i) as u64, row);
        }
        found
    };
    let chunks: Vec<A> = (0..count.div_ceil(CHUNK)).into_par_iter().map(one).collect();
    chunks.into_iter().reduce(join).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Dtype;

    #[test]
    fn every_element_is_seen_once_and_in_order() {
        let numbers: Vec<u8> = (0..20_000i32).flat_map(i32::to_le_bytes).collect();
        let halves: Vec<u8> =
            (0..20_000).flat_map(|i| (f64::from(i) / 2.0).to_le_bytes()).collect();
        let shape = [20_000];
        let a = Values::of(&Tensor { dtype: Dtype::I32, shape: &shape, data: &numbers }).unwrap();
        let b = Values::of(&Tensor { dtype: Dtype::F64, shape: &shape, data: &halves }).unwrap();
        let seen: Vec<u64> = fold(
            [a, b],
            |seen: &mut Vec<u64>, i, [a, b]| {
                assert_eq!((a, b), (i as f64, i as f64 / 2.0));
                seen.push(i);
            },
            |mut a, b| {
                a.extend(b);
                a
            },
        );
        assert_eq!(seen, (0..20_000).collect::<Vec<u64>>());
    }
}
