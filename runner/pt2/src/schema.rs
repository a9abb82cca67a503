//! `models/*.json` as PyTorch's export schema has it: plain data, read and turned into a
//! [`crate::Graph`] at once. Unions are objects of one key.

#![allow(clippy::enum_variant_names, reason = "variants have the schema's names")]

use std::collections::{BTreeMap, HashMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
pub struct ExportedProgram {
    pub graph_module: GraphModule,
    #[serde(default)]
    pub range_constraints: HashMap<String, RangeConstraint>,
    #[serde(default)]
    pub torch_version: String,
}

/// Read before the rest, whose form depends on it.
#[derive(Deserialize)]
pub struct Versioned {
    pub schema_version: SchemaVersion,
}

#[derive(Deserialize)]
pub struct SchemaVersion {
    pub major: i64,
    pub minor: i64,
}

#[derive(Deserialize)]
pub struct RangeConstraint {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

#[derive(Deserialize)]
pub struct GraphModule {
    pub graph: Graph,
    pub signature: GraphSignature,
}

#[derive(Deserialize)]
pub struct GraphSignature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

/// What an input is; which value it is follows from its position.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSpec {
    UserInput {},
    Parameter { parameter_name: String },
    Buffer { buffer_name: String, persistent: bool },
    TensorConstant { tensor_constant_name: String },
    CustomObj { custom_obj_name: String },
    Token {},
    ConstantInput { name: String },
}

/// What an output is; which value it is follows from its position.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSpec {
    UserOutput {},
    LossOutput {},
    BufferMutation { buffer_name: String },
    ParameterMutation { parameter_name: String },
    UserInputMutation { user_input_name: String },
    GradientToParameter { parameter_name: String },
    GradientToUserInput { user_input_name: String },
    Token {},
}

#[derive(Deserialize)]
pub struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    pub tensor_values: HashMap<String, TensorMeta>,
}

#[derive(Deserialize)]
pub struct Node {
    pub target: String,
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: HashMap<String, String>,
    pub name: Option<String>,
}

#[derive(Deserialize)]
pub struct NamedArgument {
    pub name: String,
    pub arg: Argument,
    pub kind: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    AsNone(IgnoredAny),
    AsTensor(TensorArgument),
    AsTensors(Vec<TensorArgument>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(Sym<i64>),
    AsSymInts(Vec<Sym<i64>>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(Device),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymBool(Sym<bool>),
    AsSymBools(Vec<Sym<bool>>),
    AsGraph(GraphArgument),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsCustomObj(CustomObj),
    AsOperator(String),
    AsSymFloat(Sym<Float>),
    AsSymFloats(Vec<Sym<Float>>),
    AsOptionalTensor(OptionalTensor),
    AsComplex(Complex),
    AsNestedTensors(Vec<Vec<TensorArgument>>),
    AsIntLists(Vec<Vec<i64>>),
    AsStringToArgument(HashMap<String, Argument>),
}

#[derive(Deserialize)]
pub struct TensorArgument {
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionalTensor {
    AsTensor(TensorArgument),
    AsNone(IgnoredAny),
}

/// A scalar that is known, or the name of the value it will have.
#[derive(Deserialize)]
pub enum Sym<T> {
    #[serde(rename = "as_name")]
    Name(String),
    #[serde(rename = "as_int", alias = "as_bool", alias = "as_float")]
    Known(T),
}

#[derive(Deserialize)]
pub struct GraphArgument {
    pub name: String,
    pub graph: Graph,
}

#[derive(Deserialize)]
pub struct CustomObj {
    pub class_fqn: String,
}

#[derive(Deserialize)]
pub struct Device {
    pub r#type: String,
    pub index: Option<i64>,
}

#[derive(Deserialize)]
pub struct Complex {
    pub real: Float,
    pub imag: Float,
}

#[derive(Clone, Deserialize)]
pub struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<SymInt>,
    pub requires_grad: bool,
    pub strides: Vec<SymInt>,
    pub storage_offset: SymInt,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymInt {
    AsInt(i64),
    AsExpr(SymExpr),
}

#[derive(Clone, Deserialize)]
pub struct SymExpr {
    pub expr_str: String,
    pub hint: Option<Hint>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    AsInt(i64),
    AsBool(IgnoredAny),
    AsFloat(IgnoredAny),
}

#[derive(Deserialize)]
pub struct PayloadConfig {
    pub config: BTreeMap<String, PayloadMeta>,
}

#[derive(Deserialize)]
pub struct PayloadMeta {
    pub path_name: String,
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}

/// A number that JSON may lack: infinities and NaN are written as words.
#[derive(Clone, Copy, Debug)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Word(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Word(word) => match word.as_str() {
                "Infinity" => Ok(Self(f64::INFINITY)),
                "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" => Ok(Self(f64::NAN)),
                _ => Err(serde::de::Error::custom(format!("{word:?} is no number"))),
            },
        }
    }
}
