//! Pass 2 on the reference interpreter: a program, a model's weights, inputs in; results out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use warpforge_pt2::{Model, ScalarType};
use warpforge_snakeburger::eval::{Interpreter, Num, Observer, Tensor, Value};
use warpforge_snakeburger::ir::{Buffer, Func, Graph, Module, TensorTy, Ty, ValueId};
use warpforge_snakegrinder::dtype;

use crate::error::Error;
use crate::program::{Signature, Slot};
use crate::tensors::{Named, Stream};

/// How the program is run.
pub struct Options<'a> {
    pub seed: u64,
    pub step: u32,
    /// Where every tapped value is written to.
    pub taps: Option<&'a Path>,
}

/// What a run gave.
pub struct Outcome {
    pub outputs: Named,
    /// New contents of buffers, by name.
    pub mutated: Named,
    pub seconds: f64,
    /// How often each operation was executed, nested calls included.
    pub ops: BTreeMap<&'static str, u64>,
}

/// Runs `main`.
pub fn run(
    module: &Module,
    model: &Model,
    inputs: &Named,
    options: &Options<'_>,
) -> Result<Outcome, Error> {
    let func = module.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
    let signature = Signature::of(module, func);
    let arguments = arguments(module, func, &signature, model, inputs, options)?;
    let watch = Watch::new(module, func, &signature, options.taps)?;
    let mut interpreter = Interpreter::new(module);
    interpreter.observer = Some(&watch);
    let start = Instant::now();
    let results =
        interpreter.call(&func.name, arguments).map_err(|error| Error::Program(error.message))?;
    let seconds = start.elapsed().as_secs_f64();
    drop(interpreter);
    let ops = watch.finish()?;
    let mut outcome = Outcome { outputs: Named::new(), mutated: Named::new(), seconds, ops };
    for (slot, result) in signature.results.iter().zip(results) {
        let Value::Tensor(tensor) = result else { continue };
        let to = if slot.kind == "mutated" { &mut outcome.mutated } else { &mut outcome.outputs };
        to.insert(slot.names[0].clone(), tensor);
    }
    Ok(outcome)
}

fn arguments(
    module: &Module,
    func: &Func,
    signature: &Signature,
    model: &Model,
    inputs: &Named,
    options: &Options<'_>,
) -> Result<Vec<Value>, Error> {
    let mut values = Vec::with_capacity(signature.arguments.len());
    for (slot, ty) in signature.arguments.iter().zip(&func.arguments) {
        let Ty::Tensor(ty) = module.ty(*ty) else {
            return Err(Error::Program(format!("argument {} is no tensor", slot.names[0])));
        };
        values.push(Value::Tensor(argument(slot, ty, model, inputs, options)?));
    }
    Ok(values)
}

/// The value of one argument.
pub fn argument(
    slot: &Slot,
    ty: &TensorTy,
    model: &Model,
    inputs: &Named,
    options: &Options<'_>,
) -> Result<Tensor, Error> {
    let name = &slot.names[0];
    let tensor = match slot.kind.as_str() {
        "random" => {
            let state = [options.seed as i64, i64::from(options.step)];
            return Ok(Tensor::from_ints(ty.clone(), |i| state[i]));
        }
        "input" => inputs
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Inputs(format!("there is no input {name}")))?,
        _ => weight(model, name)?,
    };
    fit(tensor, ty).ok_or_else(|| {
        Error::Program(format!("argument {name} is {ty}, which the model's own does not fit"))
    })
}

/// A stored tensor, left in its file where its elements lie in order.
fn weight(model: &Model, name: &str) -> Result<Tensor, Error> {
    let stored = model.weights.get(name)?;
    let wanted = dtype(stored.dtype);
    let Some(elem) = wanted else {
        return Err(Error::Program(format!("{name} is of type {}", stored.dtype)));
    };
    let ty = TensorTy::new(stored.dims.iter().copied(), elem);
    let data = if stored.is_dense() && stored.dtype != ScalarType::Bool {
        Buffer::lent(std::sync::Arc::new(Dense(stored)))
    } else {
        Buffer::from_slice(&stored.elements())
    };
    Ok(Tensor { ty, data })
}

struct Dense(warpforge_pt2::Tensor);

impl AsRef<[u8]> for Dense {
    fn as_ref(&self) -> &[u8] {
        let size = self.0.dtype.bytes();
        &self.0.bytes.as_slice()[self.0.offset * size..][..self.0.count() * size]
    }
}

/// The tensor in the argument's type: a program in float64 takes the same weights, widened.
fn fit(tensor: Tensor, ty: &TensorTy) -> Option<Tensor> {
    if tensor.ty == *ty {
        return Some(tensor);
    }
    if tensor.ty.dims != ty.dims {
        return None;
    }
    let dtype = ty.elem.storage();
    Some(Tensor::from_nums(ty.clone(), |i| -> Num { tensor.get(i).fit(dtype) }))
}

/// Counts operations and writes tapped values down as they are made.
struct Watch {
    taps: BTreeMap<ValueId, String>,
    stream: Option<Stream>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ops: BTreeMap<&'static str, u64>,
    failed: Option<Error>,
}

impl Watch {
    fn new(
        module: &Module,
        func: &Func,
        signature: &Signature,
        path: Option<&Path>,
    ) -> Result<Self, Error> {
        let taps = signature.taps.iter().map(|tap| (tap.value, tap.name.clone())).collect();
        let stream = match (path, &func.body) {
            (Some(path), Some(graph)) => {
                let types: Vec<(&str, &TensorTy)> = signature
                    .taps
                    .iter()
                    .filter_map(|tap| {
                        let ty = module.value_ty(graph, tap.value).as_tensor()?;
                        Some((tap.name.as_str(), ty))
                    })
                    .collect();
                Some(Stream::create(path, types)?)
            }
            _ => None,
        };
        Ok(Self { taps, stream, state: Mutex::default() })
    }

    fn finish(self) -> Result<BTreeMap<&'static str, u64>, Error> {
        let state = self.state.into_inner().unwrap_or_default();
        if let Some(error) = state.failed {
            return Err(error);
        }
        if let Some(stream) = self.stream {
            stream.finish()?;
        }
        Ok(state.ops)
    }
}

impl Observer for Watch {
    fn value(&self, func: &Func, graph: &Graph, id: ValueId, value: &Value) {
        let Ok(mut state) = self.state.lock() else { return };
        if let warpforge_snakeburger::ir::Def::Result(node, 0) = graph.def(id) {
            *state.ops.entry(graph.node(node).op.name()).or_default() += 1;
        }
        if &*func.name != "main" {
            return;
        }
        if let (Some(stream), Some(name), Value::Tensor(tensor)) =
            (&self.stream, self.taps.get(&id), value)
            && let Err(error) = stream.put(name, tensor)
        {
            state.failed.get_or_insert(error);
        }
    }
}
