//! One call while it is lowered: its arguments by name, and the program it is appended to.

use warpforge_pt2::{Node, ScalarType};
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{Attr, DType, Dict};

use crate::promote::{self, Part};
use crate::schema::{Formal, Schema};
use crate::value::{SlotId, Slots, Val, View};
use warpforge_snakeburger::build::{Emitter, V};

/// Why a call cannot be lowered, in words that continue its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why(pub String);

pub type Res<T = Out> = Result<T, Why>;

/// Refuses a call.
pub fn refuse<T>(why: impl Into<String>) -> Res<T> {
    Err(Why(why.into()))
}

/// What a call yields.
#[derive(Clone, Debug)]
pub enum Out {
    /// A new tensor.
    New(V),
    /// A tensor that is there already, or a view of one.
    Slot(SlotId),
    /// A list of tensors, or several results.
    Many(Vec<Out>),
    Val(Val),
    Nothing,
}

impl From<V> for Out {
    fn from(value: V) -> Self {
        Out::New(value)
    }
}

impl Out {
    pub fn many(values: impl IntoIterator<Item = V>) -> Self {
        Out::Many(values.into_iter().map(Out::New).collect())
    }
}

/// A number or a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Tensor(V),
    Number(Number),
}

/// A plain number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    pub fn float(self) -> f64 {
        match self {
            Number::Bool(b) => f64::from(u8::from(b)),
            Number::Int(n) => n as f64,
            Number::Float(x) | Number::Complex(x, _) => x,
        }
    }

    pub fn num(self) -> Num {
        match self {
            Number::Bool(b) => Num::B(b),
            Number::Int(n) => Num::I(n),
            Number::Float(x) => Num::F(x),
            Number::Complex(re, im) => Num::C((re, im).into_complex()),
        }
    }

    fn part(self) -> Part {
        match self {
            Number::Bool(_) => Part::Bool,
            Number::Int(_) => Part::Int,
            Number::Float(_) => Part::Float,
            Number::Complex(..) => Part::Complex,
        }
    }
}

trait IntoComplex {
    fn into_complex(self) -> num_complex::Complex64;
}

impl IntoComplex for (f64, f64) {
    fn into_complex(self) -> num_complex::Complex64 {
        num_complex::Complex64::new(self.0, self.1)
    }
}

/// The state of a lowering, and the call at hand.
pub struct Cx<'a> {
    pub e: Emitter,
    pub slots: Slots,
    pub node: &'a Node,
    pub schema: Option<&'static Schema>,
    /// The arguments as given, by their schema's names.
    pub args: Vec<(Box<str>, Val)>,
    /// What plain numbers become where floats are needed.
    pub default: DType,
    /// The program's argument that random numbers are drawn from: seed and step.
    pub random: Option<V>,
}

impl Cx<'_> {
    fn formal(&self, name: &str) -> Option<&'static Formal> {
        self.schema?.formals.iter().find(|formal| formal.name == name)
    }

    /// Whether an argument of this name was given.
    pub fn given(&self, name: &str) -> bool {
        self.args.iter().any(|(known, _)| &**known == name)
    }

    /// An argument, or its default.
    pub fn val(&self, name: &str) -> Res<Val> {
        if let Some((_, val)) = self.args.iter().find(|(known, _)| &**known == name) {
            return Ok(val.clone());
        }
        let Some(formal) = self.formal(name) else {
            return refuse(format!("has no argument {name}"));
        };
        match formal.default {
            Some(text) => parse_default(text),
            None => refuse(format!("lacks its argument {name}")),
        }
    }

    pub fn is_none(&self, name: &str) -> bool {
        matches!(self.val(name), Ok(Val::None) | Err(_))
    }

    // Tensors.

    pub fn slot(&self, name: &str) -> Res<SlotId> {
        match self.val(name)? {
            Val::Tensor(slot) => Ok(slot),
            other => refuse(format!("takes a tensor as {name}, not {other:?}")),
        }
    }

    pub fn read(&mut self, slot: SlotId) -> V {
        self.slots.read(&mut self.e, slot)
    }

    pub fn view(&mut self, slot: SlotId, view: View) -> SlotId {
        self.slots.view(&mut self.e, slot, view)
    }

    /// Changes a tensor in place: to its own element type and shape.
    pub fn write(&mut self, slot: SlotId, value: V) -> Res<()> {
        let old = self.read(slot);
        let (dims, dtype) = (self.e.dims(old), self.e.dtype(old));
        let value = self.e.convert(value, dtype);
        if self.e.rank(value) > dims.len() {
            return refuse("writes a value of more axes than the tensor has");
        }
        let value = self.e.broadcast_to(value, &dims);
        self.slots
            .write(&mut self.e, slot, value)
            .ok_or_else(|| Why("writes to an expanded tensor, whose elements share memory".into()))
    }

    pub fn tensor(&mut self, name: &str) -> Res<V> {
        let slot = self.slot(name)?;
        Ok(self.read(slot))
    }

    pub fn maybe_tensor(&mut self, name: &str) -> Res<Option<V>> {
        match self.val(name)? {
            Val::None => Ok(None),
            Val::Tensor(slot) => Ok(Some(self.read(slot))),
            other => refuse(format!("takes a tensor as {name}, not {other:?}")),
        }
    }

    pub fn slots_of(&self, name: &str) -> Res<Vec<SlotId>> {
        match self.val(name)? {
            Val::List(items) => items
                .iter()
                .map(|item| match item {
                    Val::Tensor(slot) => Ok(*slot),
                    other => refuse(format!("takes tensors as {name}, not {other:?}")),
                })
                .collect(),
            other => refuse(format!("takes tensors as {name}, not {other:?}")),
        }
    }

    pub fn tensors(&mut self, name: &str) -> Res<Vec<V>> {
        let slots = self.slots_of(name)?;
        Ok(slots.into_iter().map(|slot| self.read(slot)).collect())
    }

    /// A list in which tensors may be missing.
    pub fn maybe_tensors(&mut self, name: &str) -> Res<Vec<Option<V>>> {
        let Val::List(items) = self.val(name)? else {
            return refuse(format!("takes a list as {name}"));
        };
        items
            .into_iter()
            .map(|item| match item {
                Val::None => Ok(None),
                Val::Tensor(slot) => Ok(Some(self.read(slot))),
                other => refuse(format!("takes tensors as {name}, not {other:?}")),
            })
            .collect()
    }

    // Numbers.

    pub fn int(&self, name: &str) -> Res<i64> {
        as_int(&self.val(name)?).ok_or_else(|| Why(format!("takes an integer as {name}")))
    }

    pub fn maybe_int(&self, name: &str) -> Res<Option<i64>> {
        match self.val(name)? {
            Val::None => Ok(None),
            val => as_int(&val).map(Some).ok_or_else(|| Why(format!("takes an integer as {name}"))),
        }
    }

    pub fn ints(&self, name: &str) -> Res<Vec<i64>> {
        match self.val(name)? {
            Val::List(items) => items
                .iter()
                .map(|item| as_int(item).ok_or_else(|| Why(format!("takes integers as {name}"))))
                .collect(),
            val => match as_int(&val) {
                Some(n) => Ok(vec![n]),
                None => refuse(format!("takes integers as {name}")),
            },
        }
    }

    pub fn maybe_ints(&self, name: &str) -> Res<Option<Vec<i64>>> {
        if matches!(self.val(name)?, Val::None) { Ok(None) } else { self.ints(name).map(Some) }
    }

    /// A list of `n` integers; a single one stands for all.
    pub fn ints_n(&self, name: &str, n: usize) -> Res<Vec<i64>> {
        let ints = self.ints(name)?;
        match ints.len() {
            1 => Ok(vec![ints[0]; n]),
            len if len == n => Ok(ints),
            len => refuse(format!("takes {n} integers as {name}, not {len}")),
        }
    }

    pub fn float(&self, name: &str) -> Res<f64> {
        match self.number(name)? {
            Number::Complex(..) => refuse(format!("takes a real number as {name}")),
            number => Ok(number.float()),
        }
    }

    pub fn maybe_float(&self, name: &str) -> Res<Option<f64>> {
        if matches!(self.val(name)?, Val::None) { Ok(None) } else { self.float(name).map(Some) }
    }

    pub fn number(&self, name: &str) -> Res<Number> {
        as_number(&self.val(name)?).ok_or_else(|| Why(format!("takes a number as {name}")))
    }

    pub fn maybe_number(&self, name: &str) -> Res<Option<Number>> {
        if matches!(self.val(name)?, Val::None) { Ok(None) } else { self.number(name).map(Some) }
    }

    pub fn bool(&self, name: &str) -> Res<bool> {
        match self.val(name)? {
            Val::Bool(b) => Ok(b),
            Val::Int(n) => Ok(n != 0),
            _ => refuse(format!("takes true or false as {name}")),
        }
    }

    pub fn str(&self, name: &str) -> Res<Box<str>> {
        match self.val(name)? {
            Val::Str(text) => Ok(text),
            _ => refuse(format!("takes a string as {name}")),
        }
    }

    pub fn maybe_str(&self, name: &str) -> Res<Option<Box<str>>> {
        if matches!(self.val(name)?, Val::None) { Ok(None) } else { self.str(name).map(Some) }
    }

    /// An element type, if one was asked for.
    pub fn dtype(&self, name: &str) -> Res<Option<DType>> {
        match self.val(name)? {
            Val::None => Ok(None),
            Val::Type(ty) => element(ty).map(Some),
            // How schemas spell a default of int64.
            Val::Int(4) => Ok(Some(DType::S64)),
            _ => refuse(format!("takes an element type as {name}")),
        }
    }

    /// A number or a tensor.
    pub fn operand(&mut self, name: &str) -> Res<Operand> {
        match self.val(name)? {
            Val::Tensor(slot) => Ok(Operand::Tensor(self.read(slot))),
            val => as_number(&val)
                .map(Operand::Number)
                .ok_or_else(|| Why(format!("takes a tensor or a number as {name}"))),
        }
    }

    // Axes.

    /// The axes of an argument; none given means all.
    pub fn axes_or_all(&self, name: &str, rank: usize) -> Res<Vec<usize>> {
        match self.maybe_ints(name)? {
            Some(dims) if !dims.is_empty() => dims.iter().map(|dim| axis(*dim, rank)).collect(),
            _ => Ok((0..rank).collect()),
        }
    }

    // Types.

    pub fn part(&self, operand: Operand) -> Part {
        match operand {
            Operand::Tensor(value) if self.e.rank(value) == 0 => Part::Scalar(self.e.dtype(value)),
            Operand::Tensor(value) => Part::Tensor(self.e.dtype(value)),
            Operand::Number(number) => number.part(),
        }
    }

    /// The common element type of operands.
    pub fn common(&self, operands: &[Operand]) -> DType {
        let parts: Vec<Part> = operands.iter().map(|operand| self.part(*operand)).collect();
        promote::promote(&parts, self.default)
    }

    /// Operands in one element type and one shape.
    pub fn together(&mut self, operands: &[Operand], dtype: DType) -> Res<Vec<V>> {
        let shapes: Vec<Vec<i64>> = operands
            .iter()
            .map(|operand| match operand {
                Operand::Tensor(value) => self.e.dims(*value).to_vec(),
                Operand::Number(_) => Vec::new(),
            })
            .collect();
        let dims = broadcast(&shapes)?;
        operands
            .iter()
            .map(|operand| {
                Ok(match operand {
                    Operand::Tensor(value) => {
                        let value = self.e.convert(*value, dtype);
                        self.e.broadcast_to(value, &dims)
                    }
                    Operand::Number(number) => self.e.full(&dims, dtype, number.num()),
                })
            })
            .collect()
    }

    /// A float tensor in the type computations are done in, and the type the result shall have.
    pub fn wide(&mut self, value: V) -> (V, DType) {
        let dtype = promote::to_float(self.e.dtype(value), self.default);
        let value = self.e.convert(value, dtype);
        (self.e.convert(value, promote::wide(dtype)), dtype)
    }

    /// A composite of this node's operator.
    pub fn composite(
        &mut self,
        name: &str,
        attributes: Dict,
        operands: &[V],
        body: impl FnOnce(&mut Emitter, &[V]) -> Res<Vec<V>>,
    ) -> Res<Vec<V>> {
        self.e.composite(name, attributes, operands, body)
    }
}

/// Attributes of a composite.
pub fn attrs<const N: usize>(list: [(&str, Attr); N]) -> Dict {
    list.into_iter().map(|(name, attr)| (name.into(), attr)).collect()
}

pub fn attr_f(value: f64) -> Attr {
    Attr::Float(value, Some(DType::F64))
}

pub fn attr_i(value: i64) -> Attr {
    Attr::Int(i128::from(value), Some(DType::S64))
}

pub fn attr_ints(values: &[i64]) -> Attr {
    Attr::DenseInts(DType::S64, values.into())
}

pub fn element(ty: ScalarType) -> Res<DType> {
    promote::dtype(ty).ok_or_else(|| Why(format!("uses the element type {ty}")))
}

/// An axis counted from the front; a tensor without axes has axis 0 and -1 all the same.
pub fn axis(dim: i64, rank: usize) -> Res<usize> {
    let size = rank.max(1) as i64;
    if (-size..size).contains(&dim) {
        Ok(dim.rem_euclid(size) as usize)
    } else {
        refuse(format!("names axis {dim} of a tensor of {rank}"))
    }
}

/// The shape that shapes aligned from the right have in common.
pub fn broadcast(shapes: &[Vec<i64>]) -> Res<Vec<i64>> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut dims = vec![1i64; rank];
    for shape in shapes {
        for (size, known) in shape.iter().rev().zip(dims.iter_mut().rev()) {
            if *known == 1 {
                *known = *size;
            } else if *size != 1 && *size != *known {
                return refuse(format!("combines shapes {shapes:?}, which do not fit"));
            }
        }
    }
    Ok(dims)
}

pub fn as_int(val: &Val) -> Option<i64> {
    match val {
        Val::Int(n) => Some(*n),
        Val::Bool(b) => Some(i64::from(*b)),
        Val::Float(x) if x.fract() == 0.0 => Some(*x as i64),
        _ => None,
    }
}

pub fn as_number(val: &Val) -> Option<Number> {
    match val {
        Val::Int(n) => Some(Number::Int(*n)),
        Val::Float(x) => Some(Number::Float(*x)),
        Val::Bool(b) => Some(Number::Bool(*b)),
        Val::Complex(re, im) => Some(Number::Complex(*re, *im)),
        _ => None,
    }
}

/// A default as a schema spells it.
fn parse_default(text: &str) -> Res<Val> {
    let text = text.trim();
    Ok(match text {
        "None" => Val::None,
        "True" => Val::Bool(true),
        "False" => Val::Bool(false),
        "inf" => Val::Float(f64::INFINITY),
        "-inf" => Val::Float(f64::NEG_INFINITY),
        "[]" => Val::List(Vec::new()),
        _ if text.starts_with('"') => Val::Str(text.trim_matches('"').into()),
        _ if text.starts_with('[') => {
            let items = text.trim_matches(['[', ']']).split(',');
            Val::List(items.map(parse_default).collect::<Res<_>>()?)
        }
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => Val::Int(n),
            (_, Ok(x)) => Val::Float(x),
            _ => return refuse(format!("has a default that is not understood: {text}")),
        },
    })
}
