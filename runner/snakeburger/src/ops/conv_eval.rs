//! How a convolution is computed: windows become rows of a matrix, which is multiplied with the
//! kernel.

use std::borrow::Cow;

use rayon::prelude::*;

use super::contract::{Domain, in_domain, permuted};
use super::convolution::Convolution;
use crate::eval::{Tensor, unravel};
use crate::ir::TensorTy;
use crate::num::matmul::Product;

/// The window along one spatial dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub stride: i64,
    pub padding: [i64; 2],
    /// Distance of neighbours of the input.
    pub base: i64,
    /// Distance of neighbours within the window.
    pub window: i64,
    pub reversed: bool,
}

impl Geometry {
    /// How many windows fit, as C25 says; `None` if the sizes overflow.
    pub fn count(&self, input: i64, kernel: i64) -> Option<i64> {
        let spread = |size: i64, distance: i64| match size {
            0 => Some(0),
            _ => (size - 1).checked_mul(distance)?.checked_add(1),
        };
        let dilated = spread(input, self.base)?;
        let padded = self.padding[0].checked_add(dilated)?.checked_add(self.padding[1])?;
        let window = spread(kernel, self.window)?;
        if padded <= 0 || window > padded {
            return Some(0);
        }
        (padded - window).checked_div(self.stride)?.checked_add(1)
    }

    /// Which input element lies under place `k` of window `o`, if any.
    fn source(&self, o: i64, k: i64, input: i64, kernel: i64) -> Option<usize> {
        let k = if self.reversed { kernel - 1 - k } else { k };
        let at = o * self.stride + k * self.window - self.padding[0];
        (at >= 0 && at % self.base == 0 && at / self.base < input)
            .then(|| (at / self.base) as usize)
    }
}

/// A convolution with its operands in a fixed order: batch, space, features; the kernel as space,
/// input features, output features.
struct Ordered<'a, T> {
    windows: &'a [Geometry],
    lhs: &'a [T],
    rhs: &'a [T],
    /// Spatial sizes of input, kernel and result.
    input: Vec<i64>,
    kernel: Vec<i64>,
    output: Vec<i64>,
    features: usize,
    outputs: usize,
    groups: usize,
    batches: usize,
}

pub(crate) fn convolve(
    conv: &Convolution,
    windows: &[Geometry],
    lhs: &Tensor,
    rhs: &Tensor,
    ty: TensorTy,
) -> Tensor {
    in_domain!(lhs, rhs, &ty, run(conv, windows, lhs, rhs, ty))
}

fn run<T: Domain>(
    conv: &Convolution,
    windows: &[Geometry],
    lhs: &Tensor,
    rhs: &Tensor,
    ty: TensorTy,
) -> Tensor {
    let numbers = &conv.dimension_numbers;
    let index = |list: Vec<i64>| -> Vec<usize> { list.iter().map(|d| *d as usize).collect() };
    let (input, kernel, output) =
        (index(numbers.input()), index(numbers.kernel()), index(numbers.output()));
    let sizes =
        |dims: &[i64], order: &[usize]| -> Vec<i64> { order.iter().map(|d| dims[*d]).collect() };
    let (left, right, out) =
        (sizes(lhs.dims(), &input), sizes(rhs.dims(), &kernel), sizes(&ty.dims, &output));
    let space = windows.len();
    let lhs_data = permuted(T::read(lhs), lhs.dims(), &input);
    let rhs_data = permuted(T::read(rhs), rhs.dims(), &kernel);
    let ordered = Ordered {
        windows,
        lhs: &lhs_data,
        rhs: &rhs_data,
        input: left[1..=space].to_vec(),
        kernel: right[..space].to_vec(),
        output: out[1..=space].to_vec(),
        features: left[space + 1] as usize,
        outputs: right[space + 1] as usize,
        groups: conv.feature_group_count as usize,
        batches: conv.batch_group_count as usize,
    };
    let data = ordered.run(out[0] as usize);
    let mut back = vec![0; output.len()];
    output.iter().enumerate().for_each(|(i, d)| back[*d] = i);
    T::write(ty, &permuted(Cow::Owned(data), &out, &back))
}

/// How many elements of the matrix of windows are made at a time.
const BLOCK: usize = 1 << 17;

impl<T: Domain> Ordered<'_, T> {
    /// The result in the order batch, space, features.
    fn run(&self, batch: usize) -> Vec<T> {
        let places: usize = self.output.iter().map(|d| *d as usize).product();
        let rows = batch * places;
        let mut out = vec![T::default(); rows * self.outputs];
        let taps = self.taps();
        let depth = taps * (self.features / self.groups);
        if out.is_empty() || depth == 0 {
            return out;
        }
        let parts = self.groups * self.batches;
        let width = self.outputs / parts;
        let kernels: Vec<Vec<T>> = (0..parts).map(|g| self.kernel_part(g, width)).collect();
        let fits = (BLOCK / depth).clamp(1, rows);
        // Enough blocks to keep every thread busy.
        let block = fits.min(rows.div_ceil(rayon::current_num_threads() * 2)).max(1);
        out.par_chunks_mut(block * self.outputs).enumerate().for_each(|(i, out)| {
            self.block(i * block, out, batch, places, depth, &kernels);
        });
        out
    }

    fn taps(&self) -> usize {
        self.kernel.iter().map(|d| *d as usize).product()
    }

    /// The kernel of one group: taps and input features by output features.
    fn kernel_part(&self, group: usize, width: usize) -> Vec<T> {
        let rows = self.rhs.chunks_exact(self.outputs);
        rows.flat_map(|row| row[group * width..(group + 1) * width].iter().copied()).collect()
    }

    /// Some rows of the result, beginning with `first`.
    fn block(
        &self,
        first: usize,
        out: &mut [T],
        batch: usize,
        places: usize,
        depth: usize,
        kernels: &[Vec<T>],
    ) {
        let count = out.len() / self.outputs;
        let width = self.outputs / kernels.len();
        let mut windows = vec![T::default(); count * depth];
        let mut products = vec![T::default(); count * width];
        for (group, rhs) in kernels.iter().enumerate() {
            for (r, window) in windows.chunks_exact_mut(depth).enumerate() {
                let (row, place) = ((first + r) / places, (first + r) % places);
                // A batch group reads its own part of the batch, a feature group its features.
                let (row, group) =
                    if self.batches > 1 { (row + group * batch, 0) } else { (row, group) };
                self.window(window, row, place, group);
            }
            products.fill(T::default());
            let product = Product {
                m: count,
                k: depth,
                n: width,
                lhs: &windows,
                rhs,
                lhs_transposed: false,
                rhs_transposed: false,
            };
            T::product(&product, &mut products, false);
            for (out, sums) in out.chunks_exact_mut(self.outputs).zip(products.chunks_exact(width))
            {
                out[group * width..(group + 1) * width].copy_from_slice(sums);
            }
        }
    }

    /// What lies under one window: for each tap the features there, zero where nothing is.
    fn window(&self, out: &mut [T], row: usize, place: usize, group: usize) {
        let width = self.features / self.groups;
        let input: usize = self.input.iter().map(|d| *d as usize).product();
        let place = unravel(place, &self.output);
        for (tap, out) in out.chunks_exact_mut(width).enumerate() {
            match self.source(&place, tap) {
                None => out.fill(T::default()),
                Some(at) => {
                    let start = (row * input + at) * self.features + group * width;
                    out.copy_from_slice(&self.lhs[start..start + width]);
                }
            }
        }
    }

    /// The place of the input under a tap of the window at a place of the result.
    fn source(&self, place: &[i64], mut tap: usize) -> Option<usize> {
        let (mut at, mut stride) = (0, 1);
        for d in (0..self.windows.len()).rev() {
            let size = self.kernel[d] as usize;
            let k = (tap % size) as i64;
            tap /= size;
            let i = self.windows[d].source(place[d], k, self.input[d], self.kernel[d])?;
            at += i * stride;
            stride *= self.input[d] as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eval::{Num, ravel};
    use crate::ir::DType;
    use crate::ops::convolution::ConvDims;

    #[derive(Clone, Debug)]
    struct Case {
        windows: Vec<Geometry>,
        input: Vec<i64>,
        kernel: Vec<i64>,
        batch: i64,
        features: i64,
        outputs: i64,
        groups: i64,
        batches: i64,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let window = (1i64..3, [-1i64..3, -1i64..3], 1i64..3, 1i64..3, any::<bool>()).prop_map(
            |(stride, padding, base, window, reversed)| Geometry {
                stride,
                padding,
                base,
                window,
                reversed,
            },
        );
        let space = prop::collection::vec((window, 0i64..5, 0i64..4), 0..3);
        (space, 1i64..3, 1i64..3, 1i64..3, 1i64..4, any::<bool>()).prop_map(
            |(space, batch, features, outputs, count, by_batch)| Case {
                windows: space.iter().map(|s| s.0).collect(),
                input: space.iter().map(|s| s.1).collect(),
                kernel: space.iter().map(|s| s.2).collect(),
                batch,
                features,
                outputs: outputs * count,
                groups: if by_batch { 1 } else { count },
                batches: if by_batch { count } else { 1 },
            },
        )
    }

    /// Batch first, then features, then space; the kernel with its output features first.
    fn numbers(space: usize) -> ConvDims {
        let spatial: crate::ir::Ints = (2..2 + space as i64).collect();
        ConvDims {
            input_batch_dimension: 0,
            input_feature_dimension: 1,
            input_spatial_dimensions: spatial.clone(),
            kernel_input_feature_dimension: 1,
            kernel_output_feature_dimension: 0,
            kernel_spatial_dimensions: spatial.clone(),
            output_batch_dimension: 0,
            output_feature_dimension: 1,
            output_spatial_dimensions: spatial,
        }
    }

    fn filled(dims: &[i64], dtype: DType) -> Tensor {
        let ty = TensorTy::new(dims.iter().copied(), dtype);
        Tensor::from_nums(ty, |i| Num::I((i * 5 % 11) as i64 - 5).convert(dtype))
    }

    /// One element of the result, straight from the definition.
    fn naive(case: &Case, lhs: &Tensor, rhs: &Tensor, index: &[i64]) -> i64 {
        let (row, out, place) = (index[0], index[1], &index[2..]);
        let per_group = case.outputs / (case.groups * case.batches);
        let group = out / per_group;
        let (row, group) =
            if case.batches > 1 { (row + group * case.batch, 0) } else { (row, group) };
        let taps: i64 = case.kernel.iter().product();
        let mut total = 0;
        for tap in 0..taps as usize {
            let k = unravel(tap, &case.kernel);
            for f in 0..case.features {
                let mut at = vec![row, group * case.features + f];
                for (d, window) in case.windows.iter().enumerate() {
                    let step = if window.reversed { case.kernel[d] - 1 - k[d] } else { k[d] };
                    let padded = place[d] * window.stride + step * window.window;
                    let dilated = padded - window.padding[0];
                    let hit = dilated >= 0 && dilated % window.base == 0;
                    at.push(if hit { dilated / window.base } else { -1 });
                }
                if at.iter().zip(lhs.dims()).all(|(i, size)| (0..*size).contains(i)) {
                    let weight = [&[out, f][..], &k].concat();
                    total += lhs.get(ravel(&at, lhs.dims())).int()
                        * rhs.get(ravel(&weight, rhs.dims())).int();
                }
            }
        }
        total
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn convolutions_agree_with_the_definition(case in cases()) {
            let conv = Convolution {
                window_strides: None,
                padding: None,
                lhs_dilation: None,
                rhs_dilation: None,
                window_reversal: None,
                dimension_numbers: numbers(case.windows.len()),
                feature_group_count: case.groups,
                batch_group_count: case.batches,
                precision_config: Vec::new(),
            };
            let left = [&[case.batch * case.batches, case.features * case.groups][..], &case.input];
            let right = [&[case.outputs, case.features][..], &case.kernel];
            for dtype in [DType::S16, DType::F32, DType::C64] {
                let (lhs, rhs) = (filled(&left.concat(), dtype), filled(&right.concat(), dtype));
                let dims = conv.result_dims(lhs.dims(), rhs.dims(), Some(&case.windows));
                let ty = TensorTy::new(dims.iter().copied(), dtype);
                let found = convolve(&conv, &case.windows, &lhs, &rhs, ty);
                for i in 0..found.count() {
                    let wanted = naive(&case, &lhs, &rhs, &unravel(i, &dims));
                    prop_assert_eq!(found.get(i).int(), wanted, "{} at {}", dtype, i);
                }
            }
        }
    }
}
