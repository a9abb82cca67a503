//! Building StableHLO: one method per kind of operation, each of which knows its result's type.
//!
//! What is built here is verified as a whole afterwards, so these methods assert nothing.

mod combine;
mod copy;
mod flow;
mod lookup;

use std::collections::HashMap;
use std::sync::Arc;

use crate::eval::{Num, Tensor};
use crate::ir::{
    Attr, DType, Dict, Dims, Func, Graph, Ints, Literal, Loc, LocId, Module, NewNode, RegionId,
    TensorTy, Ty, ValueId, Visibility,
};
use crate::ops::{self, Direction, Op};

pub use combine::{Fold, Window};

/// A value of the program being built.
pub type V = ValueId;

/// A region under construction, and the one around it.
#[derive(Clone, Copy)]
pub struct Open {
    inner: RegionId,
    outer: RegionId,
}

/// A module under construction, and the function that operations are appended to.
pub struct Emitter {
    module: Module,
    graph: Graph,
    region: RegionId,
    pub loc: LocId,
    /// Functions that say what composites mean; they follow `main` in the text.
    helpers: Vec<Func>,
    by_key: HashMap<String, Known>,
}

/// A function that composites of one kind share.
#[derive(Clone)]
struct Known {
    symbol: Box<str>,
    /// Which of the composite's operands it takes.
    takes: Vec<usize>,
}

impl Emitter {
    /// Starts `main` with arguments of these types.
    pub fn new(arguments: &[TensorTy]) -> Self {
        let mut module = Module::default();
        let mut graph = Graph::default();
        let types: Vec<_> =
            arguments.iter().map(|ty| module.types.intern(Ty::Tensor(ty.clone()))).collect();
        let region = graph.new_region(&types);
        Self {
            module,
            graph,
            region,
            loc: LocId::default(),
            helpers: Vec::new(),
            by_key: HashMap::new(),
        }
    }

    pub fn arguments(&self) -> Vec<V> {
        self.graph.arguments(Graph::BODY).collect()
    }

    /// Ends `main`; the arguments and results carry these attributes.
    pub fn finish(
        mut self,
        results: &[V],
        argument_attrs: Vec<Dict>,
        result_attrs: Vec<Dict>,
    ) -> Module {
        self.loc = LocId::default();
        let types: Vec<_> = results.iter().map(|value| self.graph.ty(*value)).collect();
        self.append(ops::FuncReturn {}.into(), results, &[], &[]);
        let arguments = self.arguments().iter().map(|value| self.graph.ty(*value)).collect();
        let main = Func {
            name: "main".into(),
            visibility: Visibility::Public,
            arguments,
            results: types,
            argument_attrs,
            result_attrs,
            attrs: Dict::new(),
            loc: LocId::default(),
            offset: u32::MAX,
            body: Some(self.graph),
        };
        // Names of helpers are made unique, and none is `main`.
        let _ = self.module.add(main);
        for helper in self.helpers {
            let _ = self.module.add(helper);
        }
        self.module
    }

    /// The location of a call: its node, its module, its line of source.
    pub fn locate(&mut self, node: &str, module: &str, source: Option<(&str, u32)>) {
        let file = source.map(|(file, line)| {
            self.module.locs.intern(Loc::File { file: file.into(), line, column: 0 })
        });
        let module = self.module.locs.intern(Loc::Name { name: module.into(), child: file });
        self.loc = self.module.locs.intern(Loc::Name { name: node.into(), child: Some(module) });
    }

    /// Marks the operation that makes a value as the result of a node.
    pub fn tap(&mut self, value: V, name: &str) {
        let crate::ir::Def::Result(node, index) = self.graph.def(value) else {
            return;
        };
        let results = self.graph.results(node).len();
        let node = self.graph.node_mut(node);
        let extra = node.extra.get_or_insert_default();
        let key: Box<str> = if results == 1 {
            "warpforge.tap".into()
        } else {
            format!("warpforge.tap{index}").into()
        };
        if !extra.iter().any(|(known, _)| *known == key) {
            extra.push((key, Attr::Str(name.into())));
        }
    }

    pub fn ty(&self, value: V) -> &TensorTy {
        match self.module.types.get(self.graph.ty(value)) {
            Ty::Tensor(ty) => ty,
            other => unreachable!("only tensors are built, not {other}"),
        }
    }

    pub fn dims(&self, value: V) -> Dims {
        self.ty(value).dims.clone()
    }

    pub fn rank(&self, value: V) -> usize {
        self.ty(value).rank()
    }

    pub fn dtype(&self, value: V) -> DType {
        self.ty(value).elem.storage()
    }

    fn append(
        &mut self,
        op: Op,
        operands: &[V],
        results: &[TensorTy],
        regions: &[RegionId],
    ) -> Vec<V> {
        let results: Vec<_> =
            results.iter().map(|ty| self.module.types.intern(Ty::Tensor(ty.clone()))).collect();
        let (loc, offset) = (self.loc, u32::MAX);
        let new = NewNode { op, operands, results: &results, regions, loc, offset, extra: None };
        let id = self.graph.push(self.region, new);
        self.graph.results(id).collect()
    }

    /// Appends an operation with one result.
    pub fn push(&mut self, op: impl Into<Op>, operands: &[V], result: TensorTy) -> V {
        self.append(op.into(), operands, &[result], &[])[0]
    }

    pub fn push_many(
        &mut self,
        op: impl Into<Op>,
        operands: &[V],
        results: &[TensorTy],
        regions: &[RegionId],
    ) -> Vec<V> {
        self.append(op.into(), operands, results, regions)
    }

    /// Builds a region: `body` gets its arguments and says what it yields.
    pub fn region(
        &mut self,
        arguments: &[TensorTy],
        body: impl FnOnce(&mut Self, &[V]) -> Vec<V>,
    ) -> RegionId {
        let (open, values) = self.open(arguments);
        let yields = body(self, &values);
        self.close(open, &yields)
    }

    /// Begins a region, to which everything goes until it is closed.
    pub fn open(&mut self, arguments: &[TensorTy]) -> (Open, Vec<V>) {
        let types: Vec<_> =
            arguments.iter().map(|ty| self.module.types.intern(Ty::Tensor(ty.clone()))).collect();
        let inner = self.graph.new_region(&types);
        let outer = std::mem::replace(&mut self.region, inner);
        (Open { inner, outer }, self.graph.arguments(inner).collect())
    }

    /// Ends a region with what it yields.
    pub fn close(&mut self, open: Open, yields: &[V]) -> RegionId {
        self.append(ops::Return {}.into(), yields, &[], &[]);
        self.region = open.outer;
        open.inner
    }

    /// Calls a composite: `body` says what it means, once for all calls that are alike.
    pub fn composite<E>(
        &mut self,
        name: &str,
        attributes: Dict,
        operands: &[V],
        body: impl FnOnce(&mut Self, &[V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let key = self.key(name, &attributes, operands);
        self.composed(name, attributes, operands, key, body, false)
    }

    /// The same, but operands that the meaning does not use are left out, and so is what it
    /// computes in vain. Calls are alike if also their `variants` are.
    pub fn lean_composite<E>(
        &mut self,
        name: &str,
        attributes: Dict,
        variant: &str,
        operands: &[V],
        body: impl FnOnce(&mut Self, &[V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let key = format!("{} {variant}", self.key(name, &attributes, operands));
        self.composed(name, attributes, operands, key, body, true)
    }

    fn key(&self, name: &str, attributes: &Dict, operands: &[V]) -> String {
        let types: Vec<&TensorTy> = operands.iter().map(|value| self.ty(*value)).collect();
        format!("{name} {attributes:?} {types:?}")
    }

    fn composed<E>(
        &mut self,
        name: &str,
        attributes: Dict,
        operands: &[V],
        key: String,
        body: impl FnOnce(&mut Self, &[V]) -> Result<Vec<V>, E>,
        lean: bool,
    ) -> Result<Vec<V>, E> {
        let known = if let Some(known) = self.by_key.get(&key) {
            known.clone()
        } else {
            let types: Vec<TensorTy> =
                operands.iter().map(|value| self.ty(*value).clone()).collect();
            let known = self.helper(name, &types, body, lean)?;
            self.by_key.insert(key, known.clone());
            known
        };
        let helper = self.helpers.iter().find(|func| func.name == known.symbol);
        let results: Vec<TensorTy> = helper
            .iter()
            .flat_map(|func| &func.results)
            .filter_map(|id| self.module.types.get(*id).as_tensor().cloned())
            .collect();
        let composite_attributes = (!attributes.is_empty()).then_some(ops::Attributes(attributes));
        let decomposition = ops::Symbol(known.symbol);
        let op =
            ops::Composite { name: name.into(), composite_attributes, decomposition, version: 0 };
        let operands: Vec<V> = known.takes.iter().map(|i| operands[*i]).collect();
        Ok(self.push_many(op, &operands, &results, &[]))
    }

    fn helper<E>(
        &mut self,
        name: &str,
        arguments: &[TensorTy],
        body: impl FnOnce(&mut Self, &[V]) -> Result<Vec<V>, E>,
        lean: bool,
    ) -> Result<Known, E> {
        let types: Vec<_> =
            arguments.iter().map(|ty| self.module.types.intern(Ty::Tensor(ty.clone()))).collect();
        let mut graph = Graph::default();
        let region = graph.new_region(&types);
        let outer = (
            std::mem::replace(&mut self.graph, graph),
            std::mem::replace(&mut self.region, region),
            std::mem::take(&mut self.loc),
        );
        let values = self.arguments();
        let results = body(self, &values);
        let results = match results {
            Ok(results) => results,
            Err(error) => {
                (self.graph, self.region, self.loc) = outer;
                return Err(error);
            }
        };
        let result_types: Vec<_> = results.iter().map(|value| self.graph.ty(*value)).collect();
        self.loc = LocId::default();
        self.append(ops::FuncReturn {}.into(), &results, &[], &[]);
        let mut graph;
        (graph, self.region, self.loc) = {
            let built = std::mem::replace(&mut self.graph, outer.0);
            (built, outer.1, outer.2)
        };
        let mut takes: Vec<usize> = (0..types.len()).collect();
        if lean {
            (graph, takes) = crate::prune::with_arguments(&graph, &self.module.types);
        }
        let symbol = self.unused(name);
        self.helpers.push(Func {
            name: symbol.clone(),
            visibility: Visibility::Private,
            argument_attrs: vec![Dict::new(); takes.len()],
            result_attrs: vec![Dict::new(); results.len()],
            arguments: takes.iter().map(|i| types[*i]).collect(),
            results: result_types,
            attrs: Dict::new(),
            loc: LocId::default(),
            offset: u32::MAX,
            body: Some(graph),
        });
        Ok(Known { symbol, takes })
    }

    /// A function's name that is not taken yet.
    fn unused(&self, name: &str) -> Box<str> {
        let taken = |name: &str| name == "main" || self.function(name).is_some();
        let mut found: Box<str> = name.into();
        let mut n = 0;
        while taken(&found) {
            n += 1;
            found = format!("{name}_{n}").into();
        }
        found
    }

    // Constants.

    /// A tensor of one repeated number.
    pub fn full(&mut self, dims: &[i64], dtype: DType, value: Num) -> V {
        let data = Tensor::scalar(dtype, value.fit(dtype)).data;
        let ty = TensorTy::new(dims.iter().copied(), dtype);
        let value = Arc::new(Literal { ty: ty.clone(), data, splat: true });
        self.push(ops::Constant { value }, &[], ty)
    }

    pub fn float(&mut self, dims: &[i64], dtype: DType, value: f64) -> V {
        self.full(dims, dtype, Num::F(value))
    }

    /// A number of the same type as another value.
    pub fn like(&mut self, value: V, number: f64) -> V {
        let ty = self.ty(value).clone();
        let number = match ty.elem.storage() {
            dtype if dtype.is_int() => Num::I(number as i64),
            _ => Num::F(number),
        };
        self.full(&ty.dims, ty.elem.storage(), number)
    }

    pub fn ints(&mut self, values: &[i64], dims: &[i64], dtype: DType) -> V {
        let ty = TensorTy::new(dims.iter().copied(), dtype);
        let data = Tensor::from_ints(ty.clone(), |i| values[i]).data;
        let value = Arc::new(Literal { ty: ty.clone(), data, splat: false });
        self.push(ops::Constant { value }, &[], ty)
    }

    pub fn floats(&mut self, values: &[f64], dims: &[i64], dtype: DType) -> V {
        let ty = TensorTy::new(dims.iter().copied(), dtype);
        let data = Tensor::from_floats(ty.clone(), |i| values[i]).data;
        let value = Arc::new(Literal { ty: ty.clone(), data, splat: false });
        self.push(ops::Constant { value }, &[], ty)
    }

    pub fn iota(&mut self, dims: &[i64], dtype: DType, axis: usize) -> V {
        let ty = TensorTy::new(dims.iter().copied(), dtype);
        self.push(ops::Iota { iota_dimension: axis as i64 }, &[], ty)
    }

    // Elementwise.

    /// An operation whose result has its first operand's type.
    pub fn same(&mut self, op: impl Into<Op>, operands: &[V]) -> V {
        let ty = self.ty(operands[0]).clone();
        self.push(op, operands, ty)
    }

    pub fn add(&mut self, a: V, b: V) -> V {
        self.same(ops::Add {}, &[a, b])
    }

    pub fn sub(&mut self, a: V, b: V) -> V {
        self.same(ops::Subtract {}, &[a, b])
    }

    pub fn mul(&mut self, a: V, b: V) -> V {
        self.same(ops::Multiply {}, &[a, b])
    }

    pub fn div(&mut self, a: V, b: V) -> V {
        self.same(ops::Divide {}, &[a, b])
    }

    pub fn max(&mut self, a: V, b: V) -> V {
        self.same(ops::Maximum {}, &[a, b])
    }

    pub fn min(&mut self, a: V, b: V) -> V {
        self.same(ops::Minimum {}, &[a, b])
    }

    pub fn neg(&mut self, a: V) -> V {
        self.same(ops::Negate {}, &[a])
    }

    pub fn scale(&mut self, a: V, factor: f64) -> V {
        let factor = self.like(a, factor);
        self.mul(a, factor)
    }

    pub fn shift(&mut self, a: V, summand: f64) -> V {
        let summand = self.like(a, summand);
        self.add(a, summand)
    }

    pub fn compare(&mut self, direction: Direction, a: V, b: V) -> V {
        let ty = self.ty(a).with_elem(DType::I1);
        let op = ops::Compare { comparison_direction: direction, compare_type: None };
        self.push(op, &[a, b], ty)
    }

    /// Compares with a number.
    pub fn compare_to(&mut self, direction: Direction, a: V, number: f64) -> V {
        let number = self.like(a, number);
        self.compare(direction, a, number)
    }

    pub fn select(&mut self, condition: V, a: V, b: V) -> V {
        let ty = self.ty(a).clone();
        self.push(ops::Select {}, &[condition, a, b], ty)
    }

    pub fn convert(&mut self, value: V, dtype: DType) -> V {
        let ty = self.ty(value);
        if ty.elem.storage() == dtype {
            return value;
        }
        let from = ty.elem.storage();
        // PyTorch takes any number but zero for true.
        if dtype == DType::I1 && !from.is_bool() {
            let zero = self.like(value, 0.0);
            return self.compare(Direction::Ne, value, zero);
        }
        // The real part of a complex number is what a cast to a real type keeps.
        if from.is_complex() && !dtype.is_complex() {
            let real = self.ty(value).with_elem(from.part());
            let real = self.push(ops::Real {}, &[value], real);
            return self.convert(real, dtype);
        }
        let ty = self.ty(value).with_elem(dtype);
        self.push(ops::Convert {}, &[value], ty)
    }

    // Shapes.

    pub fn reshape(&mut self, value: V, dims: &[i64]) -> V {
        let ty = self.ty(value);
        if ty.dims[..] == *dims {
            return value;
        }
        let ty = ty.with_dims(dims.iter().copied());
        self.push(ops::Reshape {}, &[value], ty)
    }

    pub fn transpose(&mut self, value: V, permutation: &[usize]) -> V {
        if permutation.iter().enumerate().all(|(i, axis)| i == *axis) {
            return value;
        }
        let ty = self.ty(value);
        let ty = ty.with_dims(permutation.iter().map(|axis| ty.dims[*axis]));
        let permutation = permutation.iter().map(|axis| *axis as i64).collect();
        self.push(ops::Transpose { permutation }, &[value], ty)
    }

    /// Exchanges two axes.
    pub fn swap(&mut self, value: V, a: usize, b: usize) -> V {
        let mut permutation: Vec<usize> = (0..self.rank(value)).collect();
        permutation.swap(a, b);
        self.transpose(value, &permutation)
    }

    /// Puts the value's axes at these places of a larger shape and repeats it along the others.
    pub fn broadcast_in(&mut self, value: V, dims: &[i64], axes: &[usize]) -> V {
        let ty = self.ty(value);
        if ty.dims[..] == *dims && axes.iter().enumerate().all(|(i, axis)| i == *axis) {
            return value;
        }
        let ty = ty.with_dims(dims.iter().copied());
        let broadcast_dimensions = axes.iter().map(|axis| *axis as i64).collect();
        self.push(ops::BroadcastInDim { broadcast_dimensions }, &[value], ty)
    }

    /// Repeats a value to a shape its own is aligned to from the right.
    pub fn broadcast_to(&mut self, value: V, dims: &[i64]) -> V {
        let skip = dims.len() - self.rank(value);
        let axes: Vec<usize> = (skip..dims.len()).collect();
        self.broadcast_in(value, dims, &axes)
    }

    /// Puts axes of size one at these places of the result.
    pub fn unsqueeze(&mut self, value: V, at: &[usize]) -> V {
        let mut dims: Vec<i64> = self.dims(value).to_vec();
        let mut at = at.to_vec();
        at.sort_unstable();
        for axis in at {
            dims.insert(axis, 1);
        }
        self.reshape(value, &dims)
    }

    pub fn slice(&mut self, value: V, starts: &[i64], limits: &[i64], strides: &[i64]) -> V {
        let ty = self.ty(value);
        let whole = starts.iter().all(|n| *n == 0)
            && limits == &ty.dims[..]
            && strides.iter().all(|n| *n == 1);
        if whole {
            return value;
        }
        let dims = starts.iter().zip(limits).zip(strides);
        let ty = ty.with_dims(dims.map(|((start, limit), step)| (limit - start + step - 1) / step));
        let op = ops::Slice {
            start_indices: starts.into(),
            limit_indices: limits.into(),
            strides: strides.into(),
        };
        self.push(op, &[value], ty)
    }

    /// Elements `start`, `start + step`, … below `limit` of one axis.
    pub fn slice_axis(&mut self, value: V, axis: usize, start: i64, limit: i64, step: i64) -> V {
        let mut limits: Vec<i64> = self.dims(value).to_vec();
        let (mut starts, mut strides) = (vec![0; limits.len()], vec![1; limits.len()]);
        (starts[axis], limits[axis], strides[axis]) = (start, limit, step);
        self.slice(value, &starts, &limits, &strides)
    }

    pub fn concat(&mut self, values: &[V], axis: usize) -> V {
        if let [only] = values {
            return *only;
        }
        let mut dims = self.dims(values[0]);
        dims[axis] = values.iter().map(|value| self.ty(*value).dims[axis]).sum();
        let ty = self.ty(values[0]).with_dims(dims);
        self.push(ops::Concatenate { dimension: axis as i64 }, values, ty)
    }

    /// Pads with a number; negative amounts cut.
    pub fn pad(&mut self, value: V, low: &[i64], high: &[i64], inside: &[i64], with: Num) -> V {
        if low.iter().chain(high).chain(inside).all(|n| *n == 0) {
            return value;
        }
        let ty = self.ty(value).clone();
        let with = self.full(&[], ty.elem.storage(), with);
        let dims = (0..ty.rank())
            .map(|i| low[i] + high[i] + ty.dims[i] + (ty.dims[i] - 1).max(0) * inside[i]);
        let ty = ty.with_dims(dims.collect::<Vec<_>>());
        let op = ops::Pad {
            edge_padding_low: low.into(),
            edge_padding_high: high.into(),
            interior_padding: inside.into(),
        };
        self.push(op, &[value, with], ty)
    }

    pub fn reverse(&mut self, value: V, axes: &[usize]) -> V {
        let dimensions: Ints = axes.iter().map(|axis| *axis as i64).collect();
        self.same(ops::Reverse { dimensions }, &[value])
    }
}
