//! Samples, orders and slopes, drawn from the shared generator.

use super::{Arguments, Draw, Law, count, words};
use crate::torch::{Fault, ScalarType, Value};

impl Draw<'_> {
    /// As PyTorch without replacement: the largest quotients of weights and exponential numbers.
    /// With it, a uniform number among the running sums in float64.
    pub(super) fn multinomial(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let weights = arguments.tensor("self")?;
        let n = arguments.int("num_samples")?;
        let mut shape = weights.shape();
        let last: Value = (-1_i64).into();
        if n == 1 || arguments.get("replacement").bool() != Some(true) {
            let dtype = weights.dtype().unwrap_or(ScalarType::F32);
            let q = self.numbers(&shape, dtype, Law::Exponential(1.0))?;
            let ratio = self.op("aten::div", "Tensor", &[weights.into(), q.into()])?;
            let order = [ratio.into(), true.into(), last.clone(), true.into()];
            let places = self.op("aten::argsort", "stable", &order)?;
            let first = [places.into(), last, 0_i64.into(), n.into()];
            return Ok(vec![self.op("aten::narrow", "", &first)?.into()]);
        }
        let classes = shape.last().copied().unwrap_or(1);
        if let Some(last) = shape.last_mut() {
            *last = n;
        }
        let u = self.numbers(&shape, ScalarType::F64, Law::Uniform(0.0, 1.0))?;
        let wide = self.op("aten::to", "dtype", &[weights.into(), ScalarType::F64.into()])?;
        let sums = self.op("aten::cumsum", "", &[wide.into(), last.clone()])?;
        let end = [(&sums).into(), last, (classes - 1).into(), 1_i64.into()];
        let whole = self.op("aten::narrow", "", &end)?;
        let point = self.op("aten::mul", "Tensor", &[u.into(), whole.into()])?;
        let search = [sums.into(), point.into(), false.into(), true.into()];
        let place = self.op("aten::searchsorted", "Tensor", &search)?;
        let capped = [place.into(), Value::None, (classes - 1).into()];
        Ok(vec![self.op("aten::clamp", "", &capped)?.into()])
    }

    /// The numbers below `n` in the order of their random bits.
    pub(super) fn permutation(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let n = arguments.int("n")?;
        let mut keyed: Vec<(u32, i64)> = words(self.stream, count(&[n])).zip(0_i64..).collect();
        keyed.sort_by_key(|(key, _)| *key);
        let bytes: Vec<u8> = keyed.iter().flat_map(|(_, place)| place.to_le_bytes()).collect();
        let places = self.tensor(&bytes, ScalarType::I64, &[n])?;
        let dtype = arguments.dtype().unwrap_or(ScalarType::I64);
        Ok(vec![self.op("aten::to", "dtype", &[places.into(), dtype.into()])?.into()])
    }

    /// Leaky rectifiers whose slopes are drawn.
    pub(super) fn slopes(
        &mut self,
        arguments: &Arguments<'_>,
        in_place: bool,
    ) -> Result<Vec<Value>, Fault> {
        let x = arguments.tensor("self")?;
        let law = Law::Uniform(arguments.float("lower")?, arguments.float("upper")?);
        let dtype = x.dtype().unwrap_or(ScalarType::F32);
        let slope = self.numbers(&x.shape(), dtype, law)?;
        let below = self.op("aten::mul", "Tensor", &[(&x).into(), slope.into()])?;
        let positive = self.op("aten::gt", "Scalar", &[(&x).into(), 0.0.into()])?;
        let result =
            self.op("aten::where", "self", &[positive.into(), (&x).into(), below.into()])?;
        if in_place {
            return Ok(vec![self.op("aten::copy_", "", &[x.into(), result.into()])?.into()]);
        }
        Ok(vec![result.into()])
    }
}
