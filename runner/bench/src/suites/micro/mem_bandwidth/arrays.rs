//! The three arrays of one thread.

use super::kernels::{Isa, Operation, STEP, Stores};
use crate::suite::Unable;
use crate::suites::micro::buffer::Buffer;

/// Elements between the arrays: without them the same element of each would compete for the same
/// places of a cache, and a load would look like the store before it.
const APART: usize = 5 * STEP;

/// Arrays a, b and c, touched first by the thread that made them.
pub struct Arrays {
    buffer: Buffer,
    length: usize,
}

impl Arrays {
    /// Of so many elements each, rounded up.
    pub fn new(length: usize) -> Result<Self, Unable> {
        let length = length.next_multiple_of(STEP);
        let buffer = Buffer::new((3 * length + 2 * APART) * size_of::<f64>())?;
        let mut arrays = Self { buffer, length };
        let (a, b, c) = arrays.split();
        for i in 0..length {
            (a[i], b[i], c[i]) = (first(i), second(i), -1.0);
        }
        Ok(arrays)
    }

    pub fn length(&self) -> usize {
        self.length
    }

    fn split(&mut self) -> (&mut [f64], &mut [f64], &mut [f64]) {
        let (a, rest) = self.buffer.numbers().split_at_mut(self.length + APART);
        let (b, c) = rest.split_at_mut(self.length + APART);
        (&mut a[..self.length], &mut b[..self.length], &mut c[..self.length])
    }

    /// The operation so many times; the last one's sum.
    pub fn run(&mut self, isa: &Isa, operation: Operation, stores: Stores, passes: u64) -> f64 {
        let (a, b, c) = self.split();
        let mut sum = 0.0;
        for _ in 0..passes {
            sum = isa.run(operation, stores, c, a, b);
        }
        sum
    }

    /// Runs the operation anew and looks at every element.
    pub fn check(&mut self, isa: &Isa, operation: Operation, stores: Stores) -> Result<(), Unable> {
        let (a, b, c) = self.split();
        c.fill(-1.0);
        let sum = isa.run(operation, stores, c, a, b);
        let name = operation.name();
        if operation == Operation::Read {
            let wanted: f64 = (0..a.len()).map(first).sum();
            if sum != wanted {
                return Err(Unable::Wrong(format!("{name}: the sum is {sum}, wanted {wanted}")));
            }
            return Ok(());
        }
        let wrong = c.iter().enumerate().find_map(|(i, &found)| {
            let wanted = operation.wanted(first(i), second(i));
            (found != wanted).then(|| format!("{name}: element {i} is {found}, wanted {wanted}"))
        });
        wrong.map_or(Ok(()), |wrong| Err(Unable::Wrong(wrong)))
    }
}

// Small and whole, so that sums are exact in any order, and different from neighbours'.
fn first(i: usize) -> f64 {
    (i % 1021) as f64
}

fn second(i: usize) -> f64 {
    (i % 509) as f64 + 2.0
}

#[cfg(test)]
mod tests {
    use super::super::kernels::isa;
    use super::*;

    #[test]
    fn right_arrays_pass_and_a_changed_one_is_named() {
        let mut arrays = Arrays::new(1000).unwrap();
        assert_eq!(arrays.length(), 1024);
        for operation in Operation::ALL {
            for stores in [Stores::Cached, Stores::Streaming] {
                assert_eq!(arrays.check(isa(), operation, stores), Ok(()));
            }
        }
        arrays.split().0[77] += 1.0;
        let found = |arrays: &mut Arrays, operation| {
            arrays.check(isa(), operation, Stores::Cached).unwrap_err().to_string()
        };
        assert_eq!(found(&mut arrays, Operation::Scale), "scale: element 77 is 234, wanted 231");
        assert!(found(&mut arrays, Operation::Read).starts_with("read: the sum is "));
    }
}
