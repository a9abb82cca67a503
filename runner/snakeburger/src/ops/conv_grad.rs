//! Derivatives of convolutions: both operands' cotangents are convolutions again. Strides and
//! dilations of the base change places, and padding makes up for what does not fit.

use super::conv_eval::Geometry;
use super::convolution::Convolution;
use super::{ConvDims, Padding};
use crate::build::{Emitter, V};
use crate::derive::{Derive, Derived};
use crate::ir::{Dims, TensorTy};

/// A convolution and the sizes along its spatial dimensions.
struct Plan<'a> {
    op: &'a Convolution,
    windows: Vec<Geometry>,
    lhs: TensorTy,
    rhs: TensorTy,
    out: Dims,
}

pub(crate) fn of_convolution(op: &Convolution, d: &mut Derive<'_>) -> Derived {
    let (lhs, rhs) = (d.operand(0), d.operand(1));
    let plan = Plan {
        op,
        windows: op.geometry(d.e.rank(lhs), None),
        lhs: d.e.ty(lhs).clone(),
        rhs: d.e.ty(rhs).clone(),
        out: d.e.dims(d.result(0)),
    };
    let turned = plan.turned();
    d.one(0, |e, g| {
        if e.dims(g).contains(&0) {
            return e.zeros_like(lhs);
        }
        let kernel = e.conj(rhs);
        let kernel = e.in_type_of(kernel, g);
        // The kernel is met from the other side, unless it was turned before.
        let again: Vec<usize> =
            plan.kernel_axes().into_iter().filter(|axis| !turned.contains(axis)).collect();
        let kernel = if again.is_empty() { kernel } else { e.reverse(kernel, &again) };
        let cotangent = plan.by_input(e, g, kernel);
        e.in_type_of(cotangent, lhs)
    })?;
    d.one(1, |e, g| {
        if e.dims(g).contains(&0) {
            return e.zeros_like(rhs);
        }
        let input = e.conj(lhs);
        let input = e.in_type_of(input, g);
        let cotangent = plan.by_kernel(e, g, input);
        let cotangent = if turned.is_empty() { cotangent } else { e.reverse(cotangent, &turned) };
        e.in_type_of(cotangent, rhs)
    })
}

fn dilated(size: i64, dilation: i64) -> i64 {
    if size == 0 { 0 } else { (size - 1) * dilation + 1 }
}

impl Plan<'_> {
    fn kernel_axes(&self) -> Vec<usize> {
        let spatial = &self.op.dimension_numbers.kernel_spatial_dimensions;
        spatial.iter().map(|axis| *axis as usize).collect()
    }

    /// The kernel's axes that the convolution itself turns.
    fn turned(&self) -> Vec<usize> {
        let axes = self.kernel_axes();
        axes.into_iter().zip(&self.windows).filter(|(_, w)| w.reversed).map(|(a, _)| a).collect()
    }

    /// Sizes of input, kernel and output along a spatial dimension, with their holes.
    fn sizes(&self, i: usize) -> [i64; 3] {
        let numbers = &self.op.dimension_numbers;
        let window = &self.windows[i];
        let at = |dims: &Dims, axis: i64| dims[axis as usize];
        [
            dilated(at(&self.lhs.dims, numbers.input_spatial_dimensions[i]), window.base),
            dilated(at(&self.rhs.dims, numbers.kernel_spatial_dimensions[i]), window.window),
            dilated(at(&self.out, numbers.output_spatial_dimensions[i]), window.stride),
        ]
    }

    /// The output's cotangent, spread by the stride, meets the turned kernel.
    fn by_input(&self, e: &mut Emitter, g: V, kernel: V) -> V {
        let numbers = &self.op.dimension_numbers;
        let groups = self.op.feature_group_count.max(self.op.batch_group_count);
        let (into, out) =
            (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension);
        let kernel = regroup(e, kernel, out as usize, into as usize, groups);
        let padding = (0..self.windows.len())
            .map(|i| {
                let [input, kernel, output] = self.sizes(i);
                let low = kernel - self.windows[i].padding[0] - 1;
                [low, input + kernel - 1 - output - low]
            })
            .collect();
        let op = Convolution {
            window_strides: Some(self.windows.iter().map(|w| w.base).collect()),
            padding: Some(Padding(padding)),
            lhs_dilation: Some(self.windows.iter().map(|w| w.stride).collect()),
            rhs_dilation: self.op.rhs_dilation.clone(),
            window_reversal: None,
            dimension_numbers: ConvDims {
                input_batch_dimension: numbers.output_batch_dimension,
                input_feature_dimension: numbers.output_feature_dimension,
                input_spatial_dimensions: numbers.output_spatial_dimensions.clone(),
                kernel_input_feature_dimension: out,
                kernel_output_feature_dimension: into,
                kernel_spatial_dimensions: numbers.kernel_spatial_dimensions.clone(),
                output_batch_dimension: numbers.input_batch_dimension,
                output_feature_dimension: numbers.input_feature_dimension,
                output_spatial_dimensions: numbers.input_spatial_dimensions.clone(),
            },
            feature_group_count: groups,
            batch_group_count: 1,
            precision_config: self.op.precision_config.clone(),
        };
        let (batch, feature) =
            (numbers.input_batch_dimension as usize, numbers.input_feature_dimension as usize);
        let mut dims = self.lhs.dims.to_vec();
        let parts = self.op.batch_group_count;
        dims[batch] /= parts;
        dims[feature] *= parts;
        let ty = e.ty(g).with_dims(dims);
        let y = e.push(op, &[g, kernel], ty);
        regroup(e, y, feature, batch, parts)
    }

    /// Batch and features change places: the input meets the output's cotangent.
    fn by_kernel(&self, e: &mut Emitter, g: V, input: V) -> V {
        let numbers = &self.op.dimension_numbers;
        let padding = (0..self.windows.len())
            .map(|i| {
                let [input, kernel, output] = self.sizes(i);
                let low = self.windows[i].padding[0];
                [low, output - input + kernel - low - 1]
            })
            .collect();
        let op = Convolution {
            window_strides: self.op.rhs_dilation.clone(),
            padding: Some(Padding(padding)),
            lhs_dilation: self.op.lhs_dilation.clone(),
            rhs_dilation: Some(self.windows.iter().map(|w| w.stride).collect()),
            window_reversal: None,
            dimension_numbers: ConvDims {
                input_batch_dimension: numbers.input_feature_dimension,
                input_feature_dimension: numbers.input_batch_dimension,
                input_spatial_dimensions: numbers.input_spatial_dimensions.clone(),
                kernel_input_feature_dimension: numbers.output_batch_dimension,
                kernel_output_feature_dimension: numbers.output_feature_dimension,
                kernel_spatial_dimensions: numbers.output_spatial_dimensions.clone(),
                output_batch_dimension: numbers.kernel_input_feature_dimension,
                output_feature_dimension: numbers.kernel_output_feature_dimension,
                output_spatial_dimensions: numbers.kernel_spatial_dimensions.clone(),
            },
            feature_group_count: self.op.batch_group_count,
            batch_group_count: self.op.feature_group_count,
            precision_config: self.op.precision_config.clone(),
        };
        let ty = e.ty(g).with_dims(self.rhs.dims.iter().copied());
        e.push(op, &[input, g], ty)
    }
}

/// Moves the groups that an axis is made of in front of another axis's elements.
fn regroup(e: &mut Emitter, value: V, from: usize, to: usize, groups: i64) -> V {
    if groups == 1 {
        return value;
    }
    let mut dims = e.dims(value).to_vec();
    dims[from] /= groups;
    let mut split = dims.clone();
    split.insert(from, groups);
    let parts = e.reshape(value, &split);
    // Axes of the split tensor without the groups, which go right before the target.
    let mut order: Vec<usize> = (0..split.len()).filter(|axis| *axis != from).collect();
    order.insert(to, from);
    let moved = e.transpose(parts, &order);
    dims[to] *= groups;
    e.reshape(moved, &dims)
}
