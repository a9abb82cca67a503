//! Matrix products in the three domains the interpreter computes in.

use num_complex::Complex64;
use rayon::prelude::*;

/// Below this many multiplications the plain loop is as fast, and adds in the order of the
/// specification's `reduce`.
const SMALL: usize = 1 << 12;

/// Two matrices to multiply, `m` × `k` and `k` × `n` in row-major order, or their transposes.
pub struct Product<'a, T> {
    pub m: usize,
    pub k: usize,
    pub n: usize,
    pub lhs: &'a [T],
    pub rhs: &'a [T],
    /// The left matrix is stored as `k` × `m`.
    pub lhs_transposed: bool,
    /// The right matrix is stored as `n` × `k`.
    pub rhs_transposed: bool,
}

impl<T> Product<'_, T> {
    /// Steps in the left matrix's storage along `m` and along `k`.
    fn lhs_steps(&self) -> (usize, usize) {
        if self.lhs_transposed { (1, self.m) } else { (self.k, 1) }
    }

    /// Steps in the right matrix's storage along `k` and along `n`.
    fn rhs_steps(&self) -> (usize, usize) {
        if self.rhs_transposed { (1, self.k) } else { (self.n, 1) }
    }

    fn check(&self, out: &[T]) {
        assert_eq!(self.lhs.len(), self.m * self.k);
        assert_eq!(self.rhs.len(), self.k * self.n);
        assert_eq!(out.len(), self.m * self.n);
    }

    fn is_small(&self) -> bool {
        self.m.saturating_mul(self.k).saturating_mul(self.n) <= SMALL
    }

    /// The plain loop: every sum in the order of `k`. `out` are rows of the result from `first` on.
    fn plain(&self, first: usize, out: &mut [T], mut add_product: impl FnMut(&mut T, T, T))
    where
        T: Copy,
    {
        if self.n == 0 || self.k == 0 {
            return;
        }
        let (lhs_m, lhs_k) = self.lhs_steps();
        let (rhs_k, rhs_n) = self.rhs_steps();
        for (i, row) in out.chunks_exact_mut(self.n).enumerate() {
            for p in 0..self.k {
                let x = self.lhs[(first + i) * lhs_m + p * lhs_k];
                for (j, sum) in row.iter_mut().enumerate() {
                    add_product(sum, x, self.rhs[p * rhs_k + j * rhs_n]);
                }
            }
        }
    }
}

/// Numbers that matrices can be made of.
pub trait Field: Copy + Default + Send + Sync + 'static {
    /// Writes the product into `out`, which holds zeros; on several threads if `parallel`.
    fn product(product: &Product<'_, Self>, out: &mut [Self], parallel: bool);
}

impl Field for f64 {
    fn product(product: &Product<'_, f64>, out: &mut [f64], parallel: bool) {
        product.check(out);
        if product.is_small() {
            product.plain(0, out, |sum, x, y| *sum += x * y);
        } else {
            fast(product, out, 1.0, parallel);
        }
    }
}

impl Field for Complex64 {
    fn product(product: &Product<'_, Complex64>, out: &mut [Complex64], parallel: bool) {
        product.check(out);
        if product.is_small() {
            product.plain(0, out, |sum, x, y| *sum += x * y);
        } else {
            fast(product, out, Complex64::new(1.0, 0.0), parallel);
        }
    }
}

/// Integers wrap, which commutes with cutting the result to a narrower type.
impl Field for i64 {
    fn product(product: &Product<'_, i64>, out: &mut [i64], parallel: bool) {
        product.check(out);
        let Product { m, n, .. } = *product;
        let rows = if parallel { m.div_ceil(rayon::current_num_threads() * 4) } else { m };
        if n == 0 || m == 0 {
            return;
        }
        out.par_chunks_mut(rows * n).enumerate().for_each(|(i, out)| {
            product.plain(i * rows, out, |sum, x, y| *sum = sum.wrapping_add(x.wrapping_mul(y)));
        });
    }
}

/// The blocked kernel; sums are taken in an order of its own.
#[expect(unsafe_code, reason = "the kernel takes pointers and strides")]
fn fast<T: Field>(product: &Product<'_, T>, out: &mut [T], one: T, parallel: bool) {
    product.check(out);
    let Product { m, k, n, lhs, rhs, .. } = *product;
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let (lhs_m, lhs_k) = product.lhs_steps();
    let (rhs_k, rhs_n) = product.rhs_steps();
    let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the lengths were checked above, so that row i < m, column j < n and p < k stay
    // within `out` at i * n + j, `lhs` at i * lhs_m + p * lhs_k and `rhs` at p * rhs_k + j * rhs_n;
    // `out` is borrowed mutably and overlaps neither input; T is f64 or Complex64, which the
    // kernel knows by type.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            lhs.as_ptr(),
            lhs_k as isize,
            lhs_m as isize,
            rhs.as_ptr(),
            rhs_n as isize,
            rhs_k as isize,
            T::default(),
            one,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_agrees_with_the_plain_loop() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (17, 33, 9), (1, 64, 70), (64, 0, 3)] {
            let lhs: Vec<f64> = (0..m * k).map(|i| (i % 7) as f64 - 3.0).collect();
            let rhs: Vec<f64> = (0..k * n).map(|i| (i % 5) as f64 - 2.0).collect();
            for (lhs_transposed, rhs_transposed) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let (lhs, rhs) = (&lhs[..], &rhs[..]);
                let product = Product { m, k, n, lhs, rhs, lhs_transposed, rhs_transposed };
                let (mut plain, mut quick) = (vec![0.0; m * n], vec![0.0; m * n]);
                product.plain(0, &mut plain, |sum, x, y| *sum += x * y);
                fast(&product, &mut quick, 1.0, true);
                let sides = (lhs_transposed, rhs_transposed);
                assert_eq!(plain, quick, "{m} x {k} x {n}, transposed: {sides:?}");
                // The first element, by the definition.
                let at = |p: usize| {
                    let x = lhs[if lhs_transposed { p * m } else { p }];
                    x * rhs[if rhs_transposed { p } else { p * n }]
                };
                assert_eq!(plain[0], (0..k).map(at).sum::<f64>());
            }
        }
    }
}
