//! A loaded model: its graph, what goes in and comes out, and its weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::dtype::ScalarType;
use crate::error::{Error, Result};
use crate::graph::{Arg, Graph, TensorMeta};
use crate::schema;
use crate::symbols::{self, DimSpec, Expr, Symbol};
use crate::weights::{WeightSource, Weights};
use crate::{Recipe, read};

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub dims: Vec<DimSpec>,
    pub weights: WeightSource,
}

/// An exported model.
#[derive(Clone, Debug)]
pub struct Model {
    pub path: PathBuf,
    /// The torch that exported it.
    pub torch_version: String,
    /// In the order of the graph's inputs.
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub graph: Graph,
    /// Sizes that are still open.
    pub symbols: Vec<Symbol>,
    pub weights: Weights,
    /// What plain numbers become where a float tensor is needed: PyTorch's default type.
    pub default_float: ScalarType,
}

/// One input of the graph.
#[derive(Clone, Debug)]
pub struct Input {
    pub kind: InputKind,
    /// A parameter's or buffer's full name, a user input's name in the graph.
    pub name: Box<str>,
    /// The graph's value, or the constant that was fixed at export.
    pub arg: Arg,
    pub meta: Option<TensorMeta>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    Parameter,
    Buffer {
        persistent: bool,
    },
    /// A tensor the model holds without naming it.
    Constant,
    User,
}

/// One output of the graph.
#[derive(Clone, Debug)]
pub struct Output {
    pub kind: OutputKind,
    pub name: Box<str>,
    pub arg: Arg,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputKind {
    User,
    Loss,
    /// The new content of a buffer or parameter.
    Mutation(Box<str>),
    /// The new content of a user input.
    InputMutation(Box<str>),
    Gradient(Box<str>),
}

impl Model {
    /// Reads a model with its open sizes left open.
    pub fn open(path: &Path) -> Result<Self> {
        let archive = Archive::open(path)?;
        let models: Vec<&str> = archive
            .names()
            .filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json"))
            .collect();
        let [name] = models[..] else {
            return match models.len() {
                0 => Err(Error::Missing { path: path.into(), member: "models/model.json".into() }),
                count => Err(Error::Graphs { count, names: models.join(", ") }),
            };
        };
        let member = format!("models/{name}.json");
        let versioned: schema::Versioned = archive.json(&member)?;
        let version = versioned.schema_version;
        if version.major != 8 || !(0..=17).contains(&version.minor) {
            return Err(Error::Schema { major: version.major, minor: version.minor });
        }
        let program: schema::ExportedProgram = archive.json(&member)?;
        let weights = Weights::open(&archive, name)?;
        let graph = read::graph(&program.graph_module.graph)?;
        let inputs = inputs(&program.graph_module.signature, &graph)?;
        check_stored(&inputs, &weights)?;
        let sources = &program.graph_module.graph.outputs;
        let outputs = outputs(&program.graph_module.signature, &graph, sources)?;
        let symbols = open_sizes(&program, &inputs);
        Ok(Self {
            path: path.to_path_buf(),
            torch_version: program.torch_version,
            inputs,
            outputs,
            graph,
            symbols,
            weights,
            default_float: ScalarType::F32,
        })
    }

    /// Reads a model to be run: every size known, the weights from where the options say.
    pub fn load(path: &Path, options: &Options) -> Result<Self> {
        let mut model = Self::open(path)?;
        model.weights.set_source(&options.weights)?;
        model.specialise(&options.dims)?;
        Ok(model)
    }

    /// Fixes the open sizes, or says which have no value.
    pub fn specialise(&mut self, dims: &[DimSpec]) -> Result<()> {
        let values = symbols::assign(&self.symbols, dims)?;
        symbols::unassigned(&self.symbols, &values)?;
        self.bind(&values);
        Ok(())
    }

    /// The sizes that follow from given inputs: `(input name, its sizes)`.
    pub fn dims_of<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a [i64])>,
    ) -> Vec<DimSpec> {
        let mut specs = Vec::new();
        for (name, dims) in given {
            for symbol in &self.symbols {
                for (input, axis) in &symbol.places {
                    if &**input == name && *axis < dims.len() {
                        let name = symbol.name.to_string();
                        specs.push(DimSpec { name, size: dims[*axis] });
                    }
                }
            }
        }
        specs
    }

    pub fn set_weights(&mut self, source: &WeightSource) -> Result<()> {
        self.weights.set_source(source)
    }

    /// The recipe for a model that came without weights.
    pub fn standard_recipe(seed: u64) -> WeightSource {
        WeightSource::Recipe(Recipe::standard(seed))
    }

    fn bind(&mut self, values: &BTreeMap<Box<str>, i64>) {
        let bind = |meta: &mut TensorMeta| {
            meta.sizes.iter_mut().for_each(|size| *size = size.bind(values));
        };
        self.inputs.iter_mut().filter_map(|input| input.meta.as_mut()).for_each(bind);
        self.graph.values.iter_mut().filter_map(|value| value.meta.as_mut()).for_each(bind);
        self.symbols.retain(|symbol| !values.contains_key(&symbol.name));
    }

    /// The inputs a user gives, in order; constants fixed at export are not among them.
    pub fn user_inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs
            .iter()
            .filter(|input| input.kind == InputKind::User && matches!(input.arg, Arg::Value(_)))
    }
}

fn inputs(signature: &schema::GraphSignature, graph: &Graph) -> Result<Vec<Input>> {
    if signature.input_specs.len() != graph.inputs.len() {
        return Err(Error::Graph(format!(
            "the graph has {} inputs, its signature {}",
            graph.inputs.len(),
            signature.input_specs.len()
        )));
    }
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    for (spec, arg) in signature.input_specs.iter().zip(&graph.inputs) {
        let own = || match arg {
            Arg::Value(id) => graph.name(*id).to_owned(),
            _ => format!("input_{}", inputs.len()),
        };
        let (kind, name) = match spec {
            schema::InputSpec::Parameter { parameter_name, .. } => {
                (InputKind::Parameter, parameter_name.clone())
            }
            schema::InputSpec::Buffer { buffer_name, persistent, .. } => {
                (InputKind::Buffer { persistent: *persistent }, buffer_name.clone())
            }
            schema::InputSpec::TensorConstant { tensor_constant_name, .. } => {
                (InputKind::Constant, tensor_constant_name.clone())
            }
            schema::InputSpec::UserInput { .. } => (InputKind::User, own()),
            schema::InputSpec::ConstantInput { name, .. } => (InputKind::User, name.clone()),
            schema::InputSpec::CustomObj { custom_obj_name } => {
                return Err(Error::Graph(format!(
                    "the model holds a TorchScript object ({custom_obj_name}), which only Python can read"
                )));
            }
            schema::InputSpec::Token {} => {
                return Err(Error::Graph("the model takes an effect token".into()));
            }
        };
        let meta = match arg {
            Arg::Value(id) => graph.value(*id).meta.clone(),
            _ => None,
        };
        if meta.is_none() && matches!(arg, Arg::Value(_)) {
            let why = "is a number left open at export; give it a fixed value there";
            return Err(Error::Graph(format!("the input {name} {why}")));
        }
        inputs.push(Input { kind, name: name.into(), arg: arg.clone(), meta });
    }
    Ok(inputs)
}

/// Every parameter, buffer and constant must be described, with the graph's own type.
fn check_stored(inputs: &[Input], weights: &Weights) -> Result<()> {
    for input in inputs.iter().filter(|input| input.kind != InputKind::User) {
        let Some((dtype, dims)) = weights.shape(&input.name) else {
            let from = "the archive's list of weights".into();
            return Err(Error::NoWeight { name: input.name.to_string(), from });
        };
        let Some(meta) = &input.meta else { continue };
        if meta.dtype != dtype || meta.dims().is_some_and(|sizes| sizes != dims) {
            let sizes: Vec<String> = meta.sizes.iter().map(ToString::to_string).collect();
            let why = format!(
                "the graph wants {} [{}], the archive holds {dtype} {dims:?}",
                meta.dtype,
                sizes.join(", ")
            );
            return Err(Error::Weight { name: input.name.to_string(), why });
        }
    }
    Ok(())
}

fn outputs(
    signature: &schema::GraphSignature,
    graph: &Graph,
    sources: &[schema::Argument],
) -> Result<Vec<Output>> {
    if signature.output_specs.len() != graph.outputs.len() {
        return Err(Error::Graph("the graph's outputs are not those of its signature".into()));
    }
    let mut outputs = Vec::with_capacity(graph.outputs.len());
    for (i, (spec, arg)) in signature.output_specs.iter().zip(&graph.outputs).enumerate() {
        use schema::OutputSpec as O;
        let kind = match spec {
            O::UserOutput { .. } => OutputKind::User,
            O::LossOutput { .. } => OutputKind::Loss,
            O::BufferMutation { buffer_name: name, .. }
            | O::ParameterMutation { parameter_name: name, .. } => {
                OutputKind::Mutation(name.as_str().into())
            }
            O::UserInputMutation { user_input_name, .. } => {
                OutputKind::InputMutation(user_input_name.as_str().into())
            }
            O::GradientToParameter { parameter_name: name, .. }
            | O::GradientToUserInput { user_input_name: name, .. } => {
                OutputKind::Gradient(name.as_str().into())
            }
            O::Token {} => continue,
        };
        // The signature's own word for it: a value that a dissolved region made is called
        // otherwise inside.
        let name = match (read::argument_name(&sources[i]), arg) {
            (Some(name), _) => name.into(),
            (None, Arg::Value(id)) => graph.name(*id).into(),
            (None, _) => format!("output_{i}").into(),
        };
        outputs.push(Output { kind, name, arg: arg.clone() });
    }
    Ok(outputs)
}

fn open_sizes(program: &schema::ExportedProgram, inputs: &[Input]) -> Vec<Symbol> {
    let mut symbols: BTreeMap<Box<str>, Symbol> = BTreeMap::new();
    let graph = &program.graph_module.graph;
    for (input, source) in inputs.iter().zip(&graph.inputs) {
        let Some(meta) = &input.meta else { continue };
        let schema::Argument::AsTensor(tensor) = source else { continue };
        let stated = graph.tensor_values.get(&tensor.name).map(|meta| &meta.sizes);
        for (axis, size) in meta.sizes.iter().enumerate() {
            let example = stated.and_then(|sizes| example(sizes.get(axis)?));
            size.symbols(&mut |name| {
                let range = program.range_constraints.get(name);
                let symbol = symbols.entry(name.into()).or_insert_with(|| Symbol {
                    name: name.into(),
                    min: range.and_then(|range| range.min_val),
                    max: range.and_then(|range| range.max_val),
                    example: None,
                    places: Vec::new(),
                });
                if matches!(size, Expr::Symbol(_)) {
                    symbol.example = symbol.example.or(example);
                    symbol.places.push((input.name.clone(), axis));
                }
            });
        }
    }
    symbols.into_values().collect()
}

fn example(size: &schema::SymInt) -> Option<i64> {
    match size {
        schema::SymInt::AsExpr(expr) => match &expr.hint {
            Some(schema::Hint::AsInt(n)) => Some(*n),
            _ => None,
        },
        schema::SymInt::AsInt(_) => None,
    }
}
