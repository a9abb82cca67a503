//! One node of the program alone, on golden's inputs: the surest way to tell whether it is the
//! one that went wrong.

use std::collections::HashMap;

use warpforge_parity::file::TensorFile;
use warpforge_pt2::{Model, ScalarType};
use warpforge_snakeburger::eval::{Interpreter, Tensor, Value};
use warpforge_snakeburger::extract::{Piece, piece};
use warpforge_snakeburger::ir::{Buffer, Def, Func, Module, TensorTy, ValueId};
use warpforge_snakegrinder::dtype;

use crate::pass::{Options, argument};
use crate::program::{Signature, Tap};
use crate::tensors::Named;

/// What it takes to run any tapped node by itself.
pub struct Isolation<'a> {
    module: &'a Module,
    model: &'a Model,
    inputs: &'a Named,
    signature: &'a Signature,
    by_value: HashMap<ValueId, usize>,
    golden: &'a Option<TensorFile>,
    seed: u64,
}

/// A node cut out of the program, with what it reads and what golden says it makes.
pub struct Alone {
    pub piece: Piece,
    /// Named by tap or weight, in the order of the piece's arguments.
    pub arguments: Vec<(String, Tensor)>,
    pub golden: Tensor,
}

impl<'a> Isolation<'a> {
    pub fn new(
        module: &'a Module,
        model: &'a Model,
        inputs: &'a Named,
        signature: &'a Signature,
        golden: &'a Option<TensorFile>,
        seed: u64,
    ) -> Self {
        let taps = signature.taps.iter().enumerate();
        let by_value = taps.map(|(i, tap)| (tap.value, i)).collect();
        Self { module, model, inputs, signature, by_value, golden, seed }
    }

    /// The norm-relative error of a node's result on golden's inputs.
    pub fn error(&mut self, node: usize) -> Option<f64> {
        let alone = self.alone(node)?;
        let result = alone.run()?;
        norm_relative(&result, &alone.golden)
    }

    pub fn place(&self, tap: &Tap) -> Option<usize> {
        self.by_value.get(&tap.value).copied()
    }

    /// Cuts a node out: from the nearest tapped values before it that golden has.
    pub fn alone(&self, node: usize) -> Option<Alone> {
        let func = self.module.entry()?;
        let target = self.signature.taps.get(node)?;
        let has_golden = |value: ValueId| {
            let tap = self.tap(value);
            tap.is_some_and(|tap| self.golden_value(&tap.name).is_some())
        };
        let piece = piece(self.module, func, &[target.value], has_golden)?;
        let arguments: Option<Vec<(String, Tensor)>> =
            piece.inputs.iter().map(|value| self.value(func, *value)).collect();
        let golden = self.golden_value(&target.name)?;
        Some(Alone { arguments: arguments?, piece, golden })
    }

    fn value(&self, func: &Func, value: ValueId) -> Option<(String, Tensor)> {
        if let Some(tap) = self.tap(value) {
            return Some((tap.name.clone(), self.golden_value(&tap.name)?));
        }
        let graph = func.body.as_ref()?;
        let Def::Argument(_, i) = graph.def(value) else { return None };
        let slot = self.signature.arguments.get(i as usize)?;
        let ty = self.module.value_ty(graph, value).as_tensor()?;
        let options = Options { seed: self.seed, step: 0, taps: None };
        let tensor = argument(slot, ty, self.model, self.inputs, &options).ok()?;
        Some((slot.names[0].clone(), tensor))
    }

    fn tap(&self, value: ValueId) -> Option<&Tap> {
        self.by_value.get(&value).map(|i| &self.signature.taps[*i])
    }

    fn golden_value(&self, name: &str) -> Option<Tensor> {
        read(self.golden.as_ref()?, name)
    }
}

/// A tensor of a mapped file, copied.
pub fn read(file: &TensorFile, name: &str) -> Option<Tensor> {
    let stored = file.tensor(name)?;
    let elem = dtype(ScalarType::from_file(stored.dtype)?)?;
    let ty = TensorTy::new(stored.shape.iter().map(|dim| *dim as i64), elem);
    Some(Tensor { ty, data: Buffer::from_slice(stored.data) })
}

impl Alone {
    /// The piece's result.
    pub fn run(&self) -> Option<Tensor> {
        let values = self.arguments.iter().map(|(_, tensor)| Value::Tensor(tensor.clone()));
        let results = Interpreter::new(&self.piece.module).call("main", values.collect()).ok()?;
        match results.into_iter().next() {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }
}

/// ‖a − b‖ / ‖b‖; nothing if their types differ.
pub fn norm_relative(a: &Tensor, b: &Tensor) -> Option<f64> {
    if a.ty != b.ty {
        return None;
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for i in 0..a.count() {
        let (x, y) = (a.get(i).complex(), b.get(i).complex());
        if x == y || (!x.is_finite() && !y.is_finite()) {
            norm += if y.is_finite() { y.norm_sqr() } else { 0.0 };
            continue;
        }
        difference += (x - y).norm_sqr();
        norm += y.norm_sqr();
    }
    Some(if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() })
}
