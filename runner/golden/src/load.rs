//! A model made ready to run: read, its sizes fixed, its tensors where they are needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use warpforge_golden_protocol::{Device, Precision, Weights};
use warpforge_pt2::{
    Arg, Bytes, DimSpec, Input, InputKind, Mapped, Model, Recipe, ScalarType, WeightSource,
};

use crate::failure::{self, Failure, FailureKind};
use crate::torch::{Context, Fault, Layout, Library, Mapping, Tensor, Value};

/// Where a request runs, and in what.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub device: Device,
    pub precision: Precision,
    pub threads: u32,
    pub tf32: bool,
}

impl Machine {
    /// Sets libtorch up for it, as one request may have another set-up than the next.
    pub fn configure(self) -> Result<(), Failure> {
        Context::configure(self.threads, self.tf32, self.float()).map_err(failure::internal)?;
        Ok(())
    }

    /// Sets libtorch up for the first time.
    pub fn prepare(self) -> Result<(), Failure> {
        let device = |message: String| failure::failure(FailureKind::Device, message);
        self.configure()?;
        if let Device::Cuda(index) = self.device {
            let count = Context::load_cuda().map_err(|fault| device(fault.to_string()))?;
            if index >= count {
                let wanted = self.device;
                return Err(device(format!("there is no {wanted}: CUDA has {count} devices")));
            }
        }
        Ok(())
    }

    /// What floats are made as where nothing says it: in the oracle nothing is narrower than
    /// float64.
    pub fn float(self) -> ScalarType {
        if self.precision == Precision::F64 { ScalarType::F64 } else { ScalarType::F32 }
    }

    /// Waits until all is done that was begun.
    pub fn synchronize(self) -> Result<(), Failure> {
        match self.device {
            Device::Cpu => Ok(()),
            Device::Cuda(index) => Context::synchronize(index)
                .map_err(|fault| failure::failure(FailureKind::Device, fault)),
        }
    }
}

/// Reads a model that takes its weights from where the request says.
pub fn open(path: &Path, weights: &Weights) -> Result<Model, Failure> {
    let mut model = Model::open(path).map_err(failure::model)?;
    let source = match weights {
        Weights::Archive => WeightSource::Archive,
        Weights::Safetensors(path) => WeightSource::Safetensors(path.clone()),
        Weights::Recipe(path) => WeightSource::Recipe(Recipe::read(path).map_err(failure::model)?),
        Weights::StandardRecipe(seed) => Model::standard_recipe(*seed),
    };
    model.set_weights(&source).map_err(failure::model)?;
    Ok(model)
}

/// Sizes as the model's reader takes them.
pub fn dims(given: &BTreeMap<String, i64>) -> Vec<DimSpec> {
    given.iter().map(|(name, size)| DimSpec { name: name.clone(), size: *size }).collect()
}

/// The sizes that follow from given inputs.
pub fn dims_of(model: &Model, given: &BTreeMap<String, Tensor>) -> Vec<DimSpec> {
    let shapes: Vec<_> = user_tensors(model)
        .filter_map(|(position, _, input)| {
            Some((input.name.clone(), find(given, &input.name, position)?.1.shape()))
        })
        .collect();
    model.dims_of(shapes.iter().map(|(name, shape)| (&**name, &shape[..])))
}

/// The model with the number formats that the machine wants.
pub fn widen(model: Model, machine: Machine) -> Result<Model, Failure> {
    match machine.precision {
        Precision::F64 => model.widened().map_err(failure::model),
        _ => Ok(model),
    }
}

/// The inputs that a user gives, with their positions among all that are not the model's own,
/// and among all.
fn user_tensors(model: &Model) -> impl Iterator<Item = (usize, usize, &Input)> {
    let inputs = model.inputs.iter().enumerate();
    let user = inputs.filter(|(_, input)| input.kind == InputKind::User).enumerate();
    let user = user.map(|(position, (index, input))| (position, index, input));
    user.filter(|(.., input)| matches!(input.arg, Arg::Value(_)))
}

/// A given tensor by name, else by position.
fn find<'t>(
    given: &'t BTreeMap<String, Tensor>,
    name: &str,
    position: usize,
) -> Option<(&'t String, &'t Tensor)> {
    given.get_key_value(name).or_else(|| given.get_key_value(&format!("input.{position}")))
}

/// The given tensors in the graph's order, none missing and none too many.
fn user_inputs(
    model: &Model,
    given: &BTreeMap<String, Tensor>,
) -> Result<Vec<(usize, Tensor)>, Failure> {
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for (position, index, input) in user_tensors(model) {
        match find(given, &input.name, position) {
            Some((name, tensor)) => {
                used.insert(name);
                found.push((index, tensor.clone()));
            }
            None => missing.push(format!("{} (or input.{position})", input.name)),
        }
    }
    if !missing.is_empty() {
        return Err(failure::inputs(format!("inputs are missing: {}", missing.join(", "))));
    }
    let surplus: Vec<_> = given.keys().filter(|name| !used.contains(name)).cloned().collect();
    if !surplus.is_empty() {
        let names: Vec<_> = user_tensors(model).map(|(.., input)| &*input.name).collect();
        let (surplus, names) = (surplus.join(", "), names.join(", "));
        return Err(failure::inputs(format!("no inputs of the model: {surplus}; it has {names}")));
    }
    Ok(found)
}

fn check(input: &Input, tensor: &Tensor, machine: Machine) -> Result<(), Failure> {
    let Some(meta) = &input.meta else { return Ok(()) };
    let converted = machine.precision != Precision::AsExported && meta.dtype.is_float();
    if meta.dims().is_some_and(|dims| dims != tensor.shape())
        || (!converted && tensor.dtype() != Some(meta.dtype))
    {
        let sizes: Vec<_> = meta.sizes.iter().map(ToString::to_string).collect();
        let wanted = format!("{} [{}]", meta.dtype, sizes.join(", "));
        return Err(failure::inputs(format!("{} is {tensor:?}, not {wanted}", input.name)));
    }
    Ok(())
}

/// Brings tensors to where and what the machine wants.
pub struct Loader<'a> {
    library: &'a mut Library,
    machine: Machine,
    maps: HashMap<PathBuf, Mapping>,
    /// Tied weights are one tensor.
    groups: HashMap<usize, Tensor>,
}

impl<'a> Loader<'a> {
    pub fn new(library: &'a mut Library, machine: Machine) -> Self {
        Self { library, machine, maps: HashMap::new(), groups: HashMap::new() }
    }

    /// The tensors a user gives, by the index of their input.
    pub fn user(
        &mut self,
        model: &Model,
        given: &BTreeMap<String, Tensor>,
    ) -> Result<Vec<(usize, Tensor)>, Failure> {
        let mut found = Vec::new();
        for (index, tensor) in user_inputs(model, given)? {
            let input = &model.inputs[index];
            let tensor = self.convert(tensor, input).map_err(failure::internal)?;
            check(input, &tensor, self.machine)?;
            found.push((index, tensor));
        }
        Ok(found)
    }

    /// A tensor of the model's own, and a number that those tied to it have in common.
    pub fn stored(&mut self, model: &Model, input: &Input) -> Result<(Tensor, usize), Failure> {
        let group = model.weights.group(&input.name).unwrap_or(usize::MAX);
        if let Some(tensor) = self.groups.get(&group) {
            return Ok((tensor.clone(), group));
        }
        let stored = model.weights.get(&input.name).map_err(failure::model)?;
        let bad = |fault: Fault| failure::model(format!("weight {}: {fault}", input.name));
        let layout = Layout {
            dtype: stored.dtype,
            shape: &stored.dims,
            strides: (&stored.strides[..]).into(),
        };
        let skip = stored.offset * stored.dtype.bytes();
        let tensor = match &stored.bytes {
            Bytes::Mapped { file, range } => {
                let map = self.map(file)?;
                Tensor::mapped(&map, (range.start + skip).min(range.end)..range.end, &layout)
            }
            Bytes::Owned(bytes) => Tensor::from_bytes(bytes.get(skip..).unwrap_or(&[]), &layout),
        };
        let tensor = self.convert(tensor.map_err(bad)?, input).map_err(bad)?;
        let tracked = input.meta.as_ref().is_some_and(|meta| meta.requires_grad);
        if input.kind == InputKind::Parameter && tracked {
            tensor.require_grad(true).map_err(bad)?;
        }
        self.groups.insert(group, tensor.clone());
        Ok((tensor, group))
    }

    /// A private mapping of a file that is mapped read-only already: operators may write.
    fn map(&mut self, file: &Mapped) -> Result<Mapping, Failure> {
        if let Some(map) = self.maps.get(file.path()) {
            return Ok(map.clone());
        }
        let opened = std::fs::File::open(file.path()).and_then(|file| Mapping::open(&file));
        let map = opened.map_err(|error| failure::io(file.path(), error))?;
        self.maps.insert(file.path().to_owned(), map.clone());
        Ok(map)
    }

    fn convert(&mut self, tensor: Tensor, input: &Input) -> Result<Tensor, Fault> {
        let stored = tensor.dtype().or(input.meta.as_ref().map(|meta| meta.dtype));
        let float = stored.is_some_and(ScalarType::is_float);
        let wanted = match (self.machine.precision, stored) {
            (Precision::F64, Some(dtype)) => Some(dtype.widest()),
            (Precision::F32, _) if float => Some(ScalarType::F32),
            (Precision::Bf16, _) if float => Some(ScalarType::BF16),
            _ => None,
        };
        let dtype = wanted.or(stored).unwrap_or(ScalarType::F32);
        let device = self.machine.device;
        if Some(dtype) == stored && device == Device::Cpu {
            return Ok(tensor);
        }
        let device = Value::Device(device.to_string());
        self.library.tensor("aten::to", "device", &[tensor.into(), device, dtype.into()])
    }
}
