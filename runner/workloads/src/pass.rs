//! Pass 2 on the reference interpreter: a program, a model's weights, inputs in; results out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
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
    let watch = Watch::new(module, &signature, options.taps.map(|path| (path, None)))?;
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
pub fn weight(model: &Model, name: &str) -> Result<Tensor, Error> {
    let stored = model.weights.get(name)?;
    let wanted = dtype(stored.dtype);
    let Some(elem) = wanted else {
        return Err(Error::Program(format!("{name} is of type {}", stored.dtype)));
    };
    let ty = TensorTy::new(stored.dims.iter().copied(), elem);
    let data = if stored.is_dense() && stored.dtype != ScalarType::Bool {
        Buffer::lent(Arc::new(Dense(stored)))
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
pub(crate) fn fit(tensor: Tensor, ty: &TensorTy) -> Option<Tensor> {
    if tensor.ty == *ty {
        return Some(tensor);
    }
    if tensor.ty.dims != ty.dims {
        return None;
    }
    let bytes = ty.count()? * ty.elem.storage().bytes();
    let later = Widened { from: tensor, ty: ty.clone(), made: OnceLock::new() };
    Some(Tensor { ty: ty.clone(), data: Buffer::made_later(Arc::new(later), bytes) })
}

/// A tensor in another type, converted when it is first read: the program lets go of an argument
/// after its last use, so that not all weights are in memory twice as wide at once.
struct Widened {
    from: Tensor,
    ty: TensorTy,
    made: OnceLock<Buffer>,
}

impl AsRef<[u8]> for Widened {
    fn as_ref(&self) -> &[u8] {
        let dtype = self.ty.elem.storage();
        let number = |i| -> Num { self.from.get(i).fit(dtype) };
        self.made.get_or_init(|| Tensor::from_nums(self.ty.clone(), number).data).bytes()
    }
}

/// A file for values, and which of the tapped ones go there; without a list all do.
pub type Tapped<'a> = (&'a Path, Option<&'a BTreeSet<String>>);

/// Counts operations and writes tapped values down as they are made.
pub struct Watch {
    taps: BTreeMap<ValueId, String>,
    stream: Option<Stream>,
    entry: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ops: BTreeMap<&'static str, u64>,
    failed: Option<Error>,
}

impl Watch {
    /// Of a name that is tapped more than once, as by each micro-batch, the first counts.
    pub fn new(
        module: &Module,
        signature: &Signature,
        tapped: Option<Tapped<'_>>,
    ) -> Result<Self, Error> {
        let entry = module.entry();
        let mut watch = Self {
            taps: BTreeMap::new(),
            stream: None,
            entry: entry.map(|func| func.name.to_string()).unwrap_or_default(),
            state: Mutex::default(),
        };
        let body = entry.and_then(|func| func.body.as_ref());
        let (Some((path, only)), Some(graph)) = (tapped, body) else { return Ok(watch) };
        let mut seen = BTreeSet::new();
        let mut types = Vec::new();
        for tap in &signature.taps {
            let wanted = only.is_none_or(|only| only.contains(&tap.name));
            if !wanted || !seen.insert(&tap.name) {
                continue;
            }
            if let Some(ty) = module.value_ty(graph, tap.value).as_tensor() {
                watch.taps.insert(tap.value, tap.name.clone());
                types.push((tap.name.as_str(), ty));
            }
        }
        watch.stream = Some(Stream::create(path, types)?);
        Ok(watch)
    }

    /// Closes the file; how often each operation was executed.
    pub fn finish(self) -> Result<BTreeMap<&'static str, u64>, Error> {
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
        if *func.name != *self.entry {
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
