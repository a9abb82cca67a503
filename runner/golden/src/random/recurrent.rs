//! Recurrent networks with dropout between their layers: layer by layer, each by libtorch's own
//! operator, so that what is dropped between them is the shared draw.

use super::{Arguments, Draw, probability};
use crate::torch::{Fault, ScalarType, Tensor, Value};

impl Draw<'_> {
    pub(super) fn recurrent(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let (layers, p) = (arguments.int("num_layers")?, arguments.float("dropout")?);
        let call = |changes: &[(&str, Value)]| {
            let changed = |name: &str| changes.iter().find(|change| change.0 == name);
            let names = arguments.op.parameters().iter().zip(arguments.slots);
            let slots: Vec<_> = names
                .map(|(name, given)| changed(name).map(|change| &change.1).or(*given))
                .collect();
            arguments.op.invoke(&slots)
        };
        if layers < 2 {
            // libtorch drops nothing after the last layer.
            return call(&[]);
        }
        probability(p)?;
        let batch_first = arguments.get("batch_first").bool() == Some(true);
        let directions = 1 + i64::from(arguments.get("bidirectional").bool() == Some(true));
        let Value::List(weights) = arguments.get("params") else {
            return Err(arguments.missing("params"));
        };
        // Cells beside hidden states, or hidden states alone.
        let states = arguments.get("hx");
        let (listed, states) = match states {
            Value::List(states) => (true, states),
            state => (false, vec![state]),
        };
        let mut x = arguments.tensor("input")?;
        if batch_first {
            x = self.swapped(x)?;
        }
        let [time, batch, _] = x.shape()[..] else { return Err(arguments.missing("input")) };
        let hidden = states.first().and_then(Value::tensor).map(Tensor::shape);
        let hidden = hidden.and_then(|shape| shape.last().copied());
        let features = directions * hidden.ok_or_else(|| arguments.missing("hx"))?;
        let mask = self.mask(&[layers - 1, time, batch, features], p)?;
        let share = weights.len() / layers as usize;
        let mut lasts: Vec<Vec<Value>> = vec![Vec::new(); states.len()];
        for (layer, own) in (0..layers).zip(weights.chunks(share.max(1))) {
            let mut start = Vec::new();
            for state in &states {
                let from =
                    [state.clone(), 0.into(), (layer * directions).into(), directions.into()];
                start.push(Value::from(self.op("aten::narrow", "", &from)?));
            }
            let start = if listed { Value::List(start) } else { start.swap_remove(0) };
            let mut results = call(&[
                ("input", (&x).into()),
                ("hx", start),
                ("params", Value::List(own.to_vec())),
                ("num_layers", 1.into()),
                ("dropout", 0.0.into()),
                ("batch_first", false.into()),
            ])?
            .into_iter();
            let Some(Value::Tensor(output)) = results.next() else {
                return Err(Fault("a layer gave no output".into()));
            };
            x = output;
            lasts.iter_mut().zip(results).for_each(|(all, last)| all.push(last));
            if layer + 1 < layers {
                let kept =
                    self.op("aten::select", "int", &[(&mask).into(), 0.into(), layer.into()])?;
                let dtype = x.dtype().unwrap_or(ScalarType::F32);
                let mut kept = self.op("aten::to", "dtype", &[kept.into(), dtype.into()])?;
                if p < 1.0 {
                    kept = self.op("aten::div", "Scalar", &[kept.into(), (1.0 - p).into()])?;
                }
                x = self.op("aten::mul", "Tensor", &[x.into(), kept.into()])?;
            }
        }
        if batch_first {
            x = self.swapped(x)?;
        }
        let mut results = vec![Value::from(x)];
        for all in lasts {
            results.push(self.op("aten::cat", "", &[Value::List(all), 0.into()])?.into());
        }
        Ok(results)
    }

    fn swapped(&mut self, x: Tensor) -> Result<Tensor, Fault> {
        self.op("aten::transpose", "int", &[x.into(), 0.into(), 1.into()])
    }
}
