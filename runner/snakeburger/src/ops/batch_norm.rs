//! Batch normalisation, its statistics and its gradients.

use super::elementwise::FQ;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::build::Fold;
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Tensor, strides};
use crate::ir::{Elem, TensorTy, dim_compatible, dims_compatible};
use crate::num::format;
use crate::text::Form;

/// Whether two element types are equal but for scales and zero points.
fn same_baseline(a: &Elem, b: &Elem) -> bool {
    match (a, b) {
        (Elem::Quant(a), Elem::Quant(b)) => {
            (a.storage, a.storage_min, a.storage_max, a.expressed, a.axis)
                == (b.storage, b.storage_min, b.storage_max, b.expressed, b.axis)
        }
        _ => a == b,
    }
}

/// The constraints the three operations share: I1 and I2 ff. on the operands, C1 and C2. `wide`
/// are the operands and results of the first operand's rank, all others are vectors.
fn check_common(c: &mut Check<'_>, feature_index: i64) -> Option<i64> {
    let first = c.operand(0);
    for (i, ty) in c.operands(0).into_iter().enumerate() {
        let input = format!("I{}", i + 1);
        let per_axis = ty.elem.quant().is_some_and(|quant| quant.axis.is_some());
        c.require(FQ.allows(&ty.elem) && !per_axis, &input, || {
            format!("operand {i} is {ty}, it must be a float or quantized tensor")
        });
        c.require(same_baseline(&ty.elem, &first.elem), "C2", || {
            format!("operand {i} is {ty}, operand 0 is {first}")
        });
    }
    for i in 0..c.result_types().len() {
        let ty = c.result(i);
        c.require(same_baseline(&ty.elem, &first.elem), "C2", || {
            format!("result {i} is {ty}, operand 0 is {first}")
        });
    }
    let size = usize::try_from(feature_index).ok().and_then(|d| first.dims.get(d)).copied();
    c.require(size.is_some(), "C1", || {
        format!("feature_index {feature_index} is no dimension of {first}")
    });
    size
}

/// Requires a vector with one element per feature.
fn check_vector(c: &mut Check<'_>, constraint: &str, what: &str, ty: &TensorTy, size: i64) {
    let fits = ty.rank() == 1 && dim_compatible(ty.dims[0], size);
    c.require(fits, constraint, || format!("{what} is {ty}, there are {size} features"));
}

/// How elements map to features, and what the operations compute with.
struct Features {
    size: usize,
    stride: usize,
    count: usize,
    epsilon: f64,
}

impl Features {
    fn new(
        cx: &Cx<'_, '_>,
        feature_index: i64,
        epsilon: f32,
        vectors: &[usize],
    ) -> EvalResult<Self> {
        let operand = cx.tensor(0)?;
        let Some(size) = usize::try_from(feature_index).ok().and_then(|d| operand.dims().get(d))
        else {
            return Err(cx.error(format!("there is no dimension {feature_index}")));
        };
        for i in vectors {
            let vector = cx.tensor(*i)?;
            if vector.dims() != [*size] {
                return Err(cx.error(format!("{} for {size} features", vector.ty)));
            }
        }
        let stride = strides(operand.dims())[feature_index as usize].max(1);
        let epsilon = format::round_to(operand.ty.elem.expressed(), f64::from(epsilon));
        Ok(Self { size: *size as usize, stride, count: operand.count(), epsilon })
    }

    fn of(&self, i: usize) -> usize {
        i / self.stride % self.size
    }

    /// Elements per feature.
    fn share(&self) -> f64 {
        self.count as f64 / self.size as f64
    }

    /// The sum over each feature's elements.
    fn sums(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.size];
        for i in 0..self.count {
            sums[self.of(i)] += value(i);
        }
        sums
    }

    fn means(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let share = self.share();
        self.sums(value).into_iter().map(|sum| sum / share).collect()
    }

    /// The normalised operand, scaled and moved.
    fn normalise(
        &self,
        ty: TensorTy,
        operand: &[f64],
        [scale, offset, mean, variance]: [&[f64]; 4],
    ) -> Tensor {
        Tensor::quantize(ty, |i| {
            let f = self.of(i);
            let deviation = (variance[f] + self.epsilon).sqrt();
            scale[f] * ((operand[i] - mean[f]) / deviation) + offset[f]
        })
    }
}

payload! {
    /// Normalises with given statistics.
    BatchNormInference { epsilon: f32, feature_index: i64 }
}

impl OpDef for BatchNormInference {
    const NAME: &'static str = "stablehlo.batch_norm_inference";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(5), 1);

    fn check(&self, c: &mut Check<'_>) {
        let Some(size) = check_common(c, self.feature_index) else { return };
        let names = [("C3", "scale"), ("C4", "offset"), ("C5", "mean"), ("C6", "variance")];
        for (i, (constraint, what)) in names.into_iter().enumerate() {
            check_vector(c, constraint, what, c.operand(i + 1), size);
        }
        check_same_shape(c, "C7", c.operand(0), c.result(0));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).with_elem(c.result(0).elem.clone()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let features = Features::new(cx, self.feature_index, self.epsilon, &[1, 2, 3, 4])?;
        let tensors = cx.tensors(0)?;
        let ty = cx.result_of(0, tensors[0].dims())?;
        let real: Vec<_> = tensors.iter().map(|tensor| tensor.real_values()).collect();
        let vectors = [&*real[1], &*real[2], &*real[3], &*real[4]];
        Ok(vec![features.normalise(ty, &real[0], vectors).into()])
    }

    columns!(Opaque, Accumulated, Rule(derive_inference));
}

fn check_same_shape(c: &mut Check<'_>, constraint: &str, a: &TensorTy, b: &TensorTy) {
    c.require(dims_compatible(&a.dims, &b.dims), constraint, || format!("{a} and {b} differ"));
}

payload! {
    /// Normalises with the batch's own statistics and returns them too.
    BatchNormTraining { epsilon: f32, feature_index: i64 }
}

impl OpDef for BatchNormTraining {
    const NAME: &'static str = "stablehlo.batch_norm_training";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 3);

    fn check(&self, c: &mut Check<'_>) {
        let Some(size) = check_common(c, self.feature_index) else { return };
        let vectors = [
            ("C3", "scale", c.operand(1)),
            ("C4", "offset", c.operand(2)),
            ("C5", "batch_mean", c.result(1)),
            ("C6", "batch_var", c.result(2)),
        ];
        for (constraint, what, ty) in vectors {
            check_vector(c, constraint, what, ty, size);
        }
        check_same_shape(c, "C7", c.operand(0), c.result(0));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        infer_three(c, self.feature_index)
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let features = Features::new(cx, self.feature_index, self.epsilon, &[1, 2])?;
        let tensors = cx.tensors(0)?;
        let vector = [features.size as i64];
        let types = [
            cx.result_of(0, tensors[0].dims())?,
            cx.result_of(1, &vector)?,
            cx.result_of(2, &vector)?,
        ];
        let real: Vec<_> = tensors.iter().map(|tensor| tensor.real_values()).collect();
        let mean = features.means(|i| real[0][i]);
        let variance = features.means(|i| (real[0][i] - mean[features.of(i)]).powi(2));
        let [output, mean_ty, variance_ty] = types;
        let vectors = [&*real[1], &*real[2], &*mean, &*variance];
        let output = features.normalise(output, &real[0], vectors);
        let mean = Tensor::quantize(mean_ty, |f| mean[f]);
        let variance = Tensor::quantize(variance_ty, |f| variance[f]);
        Ok(vec![output.into(), mean.into(), variance.into()])
    }

    columns!(Opaque, Accumulated, Rule(derive_training));
}

/// The operand's shape, then two vectors.
fn infer_three(c: &Check<'_>, feature_index: i64) -> Infer {
    let operand = c.operand(0);
    let Some(size) = operand.dims.get(feature_index as usize).copied() else {
        return Infer::Declared;
    };
    let vector = |i: usize| TensorTy::new([size], c.result(i).elem.clone()).into();
    let first = operand.with_elem(c.result(0).elem.clone()).into();
    Infer::Types(vec![first, vector(1), vector(2)])
}

payload! {
    /// The gradients of a normalisation's operand, scale and offset.
    BatchNormGrad { epsilon: f32, feature_index: i64 }
}

impl OpDef for BatchNormGrad {
    const NAME: &'static str = "stablehlo.batch_norm_grad";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(5), 3);

    fn check(&self, c: &mut Check<'_>) {
        let Some(size) = check_common(c, self.feature_index) else { return };
        check_same_shape(c, "C3", c.operand(0), c.operand(4));
        check_same_shape(c, "C3", c.operand(0), c.result(0));
        let scale = c.operand(1);
        for ty in [c.operand(2), c.operand(3), c.result(1), c.result(2)] {
            check_same_shape(c, "C4", scale, ty);
        }
        check_vector(c, "C5", "scale", scale, size);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        infer_three(c, self.feature_index)
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let features = Features::new(cx, self.feature_index, self.epsilon, &[1, 2, 3])?;
        let tensors = cx.tensors(0)?;
        if tensors[0].dims() != tensors[4].dims() {
            return Err(cx.error(format!("{} and {} differ", tensors[0].ty, tensors[4].ty)));
        }
        let vector = [features.size as i64];
        let operand_ty = cx.result_of(0, tensors[0].dims())?;
        let (scale_ty, offset_ty) = (cx.result_of(1, &vector)?, cx.result_of(2, &vector)?);
        let real: Vec<_> = tensors.iter().map(|tensor| tensor.real_values()).collect();
        let [operand, scale, mean, variance, grad] = [0, 1, 2, 3, 4].map(|i| &*real[i]);
        let centered = |i: usize| operand[i] - mean[features.of(i)];
        let spread = |f: usize| variance[f] + features.epsilon;
        let sums = features.sums(|i| grad[i]);
        let products = features.sums(|i| grad[i] * centered(i));
        let share = features.share();
        let grad_operand = Tensor::quantize(operand_ty, |i| {
            let f = features.of(i);
            let rest = grad[i] * share - sums[f] - products[f] * centered(i) / spread(f);
            scale[f] / spread(f).sqrt() / share * rest
        });
        let grad_scale = Tensor::quantize(scale_ty, |f| products[f] / spread(f).sqrt());
        let grad_offset = Tensor::quantize(offset_ty, |f| sums[f]);
        Ok(vec![grad_operand.into(), grad_scale.into(), grad_offset.into()])
    }

    columns!(Opaque, Accumulated, Missing("has no second derivative here"));
}

fn derive_training(op: &BatchNormTraining, d: &mut Derive<'_>) -> Derived {
    let Some(g) = d.cotangent(0) else { return Err("is differentiated by its statistics".into()) };
    if d.cotangent(1).is_some() || d.cotangent(2).is_some() {
        return Err("is differentiated by its statistics".into());
    }
    let (x, scale) = (d.operand(0), d.operand(1));
    let operands = [x, scale, d.result(1), d.result(2), g];
    let (wide, channel) = (d.e.ty(x).clone(), d.e.ty(scale).clone());
    let grad = BatchNormGrad { epsilon: op.epsilon, feature_index: op.feature_index };
    let all = d.e.push_many(grad, &operands, &[wide, channel.clone(), channel], &[]);
    for (i, value) in all.into_iter().enumerate() {
        if d.wants(i) {
            d.give(i, value);
        }
    }
    Ok(())
}

/// `(x - mean) · rsqrt(variance + ε) · scale + offset`.
fn derive_inference(op: &BatchNormInference, d: &mut Derive<'_>) -> Derived {
    let g = d.g()?;
    let [x, scale, mean, variance] = [0, 1, 3, 4].map(|i| d.operand(i));
    let axis = op.feature_index as usize;
    let e = &mut *d.e;
    let dims = e.dims(x);
    let others: Vec<usize> = (0..dims.len()).filter(|other| *other != axis).collect();
    let mean = e.broadcast_in(mean, &dims, &[axis]);
    let low = e.sub(x, mean);
    let shifted = e.shift(variance, f64::from(op.epsilon));
    let rsqrt = e.same(super::Rsqrt::default(), &[shifted]);
    let factor = e.mul(scale, rsqrt);
    let product = e.mul(g, low);
    let (sum, products) = (e.reduce(g, Fold::Add, &others), e.reduce(product, Fold::Add, &others));
    let spread = e.broadcast_in(factor, &dims, &[axis]);
    let by_x = e.mul(g, spread);
    let by_scale = e.mul(products, rsqrt);
    let by_mean = e.mul(sum, factor);
    let by_mean = e.neg(by_mean);
    let by_variance = e.div(factor, shifted);
    let by_variance = e.mul(by_variance, products);
    let by_variance = e.scale(by_variance, -0.5);
    for (i, value) in [by_x, by_scale, sum, by_mean, by_variance].into_iter().enumerate() {
        if d.wants(i) {
            d.give(i, value);
        }
    }
    Ok(())
}
