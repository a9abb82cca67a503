//! Derivatives: what an operation's rule is given and what it gives back.
//!
//! A rule takes the cotangents of an operation's results (how much the loss changes with each)
//! and appends what makes the cotangents of its operands. Whoever walks the program backward, adds
//! up what a value gets from its several uses and decides which values matter is the [`Driver`];
//! rules know nothing but their own operation. Of complex numbers the cotangent is the conjugate
//! one, as in PyTorch: the derivative of a holomorphic function enters as its conjugate.

use crate::build::{Emitter, V};
use crate::ir::{DType, Dict, NodeId, RegionId};
use crate::ops::{self, Direction};

/// Why an operation has no derivative.
pub type Why = String;

/// What a rule returns; what it has to say it has said to [`Derive::give`].
pub type Derived = Result<(), Why>;

/// The derivative of an operation.
pub enum Derivative<O> {
    /// How cotangents flow back.
    Rule(fn(&O, &mut Derive<'_>) -> Derived),
    /// Nothing flows back: truths, integers, steps, constants.
    Zero,
    /// There is none here, for this reason.
    Missing(&'static str),
}

impl<O> Derivative<O> {
    pub fn flows(&self) -> bool {
        !matches!(self, Derivative::Zero)
    }

    pub fn apply(self, op: &O, d: &mut Derive<'_>) -> Derived {
        match self {
            Derivative::Rule(rule) => rule(op, d),
            Derivative::Zero => Ok(()),
            Derivative::Missing(why) => Err(why.to_owned()),
        }
    }
}

/// Whoever walks backward, for rules of operations that hold or call other operations.
pub trait Driver {
    /// Walks the operations of the region that is being built backward: from values with their
    /// cotangents to the cotangents of others, none where nothing flows.
    fn pull(&mut self, e: &mut Emitter, seeds: &[(V, V)], wrt: &[V])
    -> Result<Vec<Option<V>>, Why>;

    /// The derivative of a call: operands' places and their cotangents.
    fn call(&mut self, e: &mut Emitter, call: &Called<'_>) -> Result<Vec<(usize, V)>, Why>;

    /// Whether a value's cotangent is wanted.
    fn wants(&self, value: V) -> bool;
}

/// A call of a function of the module: a composite, with its name and attributes, or a plain one.
pub struct Called<'a> {
    pub name: &'a str,
    pub attributes: &'a Dict,
    pub function: &'a str,
    pub operands: &'a [V],
    pub results: &'a [V],
    pub wanted: &'a [bool],
    pub cotangents: &'a [Option<V>],
}

/// One operation on the way back.
pub struct Derive<'a> {
    pub e: &'a mut Emitter,
    pub driver: &'a mut dyn Driver,
    pub node: NodeId,
    operands: Vec<V>,
    results: Vec<V>,
    wanted: Vec<bool>,
    cotangents: Vec<Option<V>>,
    gifts: Vec<(V, V)>,
    own: Vec<V>,
}

impl<'a> Derive<'a> {
    /// `operands` and `results` stand for the node's own where these are computed anew.
    pub fn new(
        e: &'a mut Emitter,
        node: NodeId,
        [operands, results]: [Vec<V>; 2],
        cotangents: Vec<Option<V>>,
        driver: &'a mut dyn Driver,
    ) -> Self {
        let own = e.graph().operands(node).to_vec();
        let wanted = own.iter().map(|value| driver.wants(*value)).collect();
        Self { e, driver, node, operands, results, wanted, cotangents, gifts: Vec::new(), own }
    }

    /// What the rule gave: values and their cotangents.
    pub fn into_gifts(self) -> Vec<(V, V)> {
        self.gifts
    }

    pub fn operand(&self, i: usize) -> V {
        self.operands[i]
    }

    pub fn operands(&self) -> &[V] {
        &self.operands
    }

    pub fn result(&self, i: usize) -> V {
        self.results[i]
    }

    pub fn results(&self) -> &[V] {
        &self.results
    }

    pub fn regions(&self) -> Vec<RegionId> {
        self.e.graph().regions(self.node).to_vec()
    }

    /// Whether the cotangent of an operand is wanted.
    pub fn wants(&self, i: usize) -> bool {
        self.wanted.get(i).copied().unwrap_or(false)
    }

    pub fn wanted(&self) -> &[bool] {
        &self.wanted
    }

    /// A result's cotangent; none is a zero that nobody wrote down.
    pub fn cotangent(&self, i: usize) -> Option<V> {
        self.cotangents[i]
    }

    pub fn cotangents(&self) -> &[Option<V>] {
        &self.cotangents
    }

    /// The cotangent of the only result.
    pub fn g(&self) -> Result<V, Why> {
        self.cotangents.first().copied().flatten().ok_or_else(|| "has no cotangent".into())
    }

    /// Adds to an operand's cotangent.
    pub fn give(&mut self, i: usize, cotangent: V) {
        self.gifts.push((self.own[i], cotangent));
    }

    /// Adds to the cotangent of a value that a region of the operation reads.
    pub fn give_to(&mut self, value: V, cotangent: V) {
        self.gifts.push((value, cotangent));
    }

    /// Differentiates the operation as the call of a function.
    pub fn call(&mut self, name: &str, attributes: &Dict, function: &str) -> Derived {
        let (operands, results) = (&self.operands, &self.results);
        let (wanted, cotangents) = (&self.wanted, &self.cotangents);
        let call = Called { name, attributes, function, operands, results, wanted, cotangents };
        for (i, cotangent) in self.driver.call(self.e, &call)? {
            self.give(i, cotangent);
        }
        Ok(())
    }

    /// Gives an operand what `make` makes of the cotangent, if it is wanted.
    pub fn one(&mut self, i: usize, make: impl FnOnce(&mut Emitter, V) -> V) -> Derived {
        if self.wants(i) {
            let g = self.g()?;
            let cotangent = make(self.e, g);
            self.give(i, cotangent);
        }
        Ok(())
    }
}

impl Emitter {
    /// The conjugate; real numbers are their own.
    pub fn conj(&mut self, value: V) -> V {
        if self.dtype(value).is_complex() { self.same(ops::Conj {}, &[value]) } else { value }
    }

    /// The value where a truth holds, else zero, whatever the value is there.
    pub fn where_else_zero(&mut self, truth: V, value: V) -> V {
        let zero = self.zeros_like(value);
        self.select(truth, value, zero)
    }

    pub fn where_then_zero(&mut self, truth: V, value: V) -> V {
        let zero = self.zeros_like(value);
        self.select(truth, zero, value)
    }

    pub fn zeros_like(&mut self, value: V) -> V {
        let ty = self.ty(value).clone();
        self.zeros(&ty.dims, ty.elem.storage())
    }

    /// `1` where two values are equal, as numbers of their type.
    pub fn equal(&mut self, a: V, b: V) -> V {
        self.compare(Direction::Eq, a, b)
    }

    /// The value in the real or complex type of another.
    pub fn in_type_of(&mut self, value: V, like: V) -> V {
        let dtype: DType = self.dtype(like);
        self.convert(value, dtype)
    }
}
