//! Copying operations into the program being built: a region of its own, a function it calls, a
//! function of another program.

use rustc_hash::FxHashMap;

use super::{Emitter, V};
use crate::eval::{Num, Tensor};
use crate::ir::{
    Attr, Def, Dict, Func, Graph, Loc, LocId, Module, NewNode, NodeId, RegionId, TensorTy, Ty,
    TypeId, Visibility,
};
use crate::ops::{self, Op, Symbol};

/// Marks an operation that nothing flows back through.
const STOP: &str = "warpforge.stop_gradient";

/// One operation, out of the graph it is copied from.
struct Piece {
    op: Op,
    operands: Vec<V>,
    results: Vec<(V, TypeId)>,
    regions: Vec<RegionId>,
    loc: LocId,
    extra: Option<Box<Dict>>,
}

fn piece(graph: &Graph, id: NodeId) -> Piece {
    let node = graph.node(id);
    Piece {
        op: node.op.clone(),
        operands: graph.operands(id).to_vec(),
        results: graph.results(id).map(|value| (value, graph.ty(value))).collect(),
        regions: graph.regions(id).to_vec(),
        loc: node.loc,
        extra: node.extra.clone(),
    }
}

/// Another program: what its types, locations and functions are called here.
struct Foreign<'m> {
    module: &'m Module,
    types: FxHashMap<TypeId, TypeId>,
    locs: FxHashMap<LocId, LocId>,
    symbols: FxHashMap<Box<str>, Box<str>>,
}

/// Where operations come from.
enum Source<'a> {
    /// The graph that is being built.
    Own,
    Graph(&'a Graph),
}

impl Emitter {
    /// The function that is being built.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The region that operations are appended to.
    pub fn here(&self) -> RegionId {
        self.region
    }

    /// A function that composites are made of.
    pub fn function(&self, name: &str) -> Option<&Func> {
        self.helpers.iter().find(|func| &*func.name == name)
    }

    /// The name of the module that a location says an operation comes from.
    pub fn module_path(&self, loc: LocId) -> Option<&str> {
        match self.module.locs.get(loc) {
            Loc::Name { child: Some(child), .. } => match self.module.locs.get(*child) {
                Loc::Name { name, .. } => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// A location as text.
    pub fn location(&self, loc: LocId) -> String {
        self.module.locs.text(loc)
    }

    /// The value itself, but nothing flows back through it.
    pub fn stop_gradient(&mut self, value: V) -> V {
        let same = self.same(ops::OptimizationBarrier {}, &[value]);
        if let Def::Result(node, _) = self.graph.def(same) {
            let extra = self.graph.node_mut(node).extra.get_or_insert_default();
            extra.push((STOP.into(), Attr::Unit));
        }
        same
    }

    /// Whether an operation is such a stop.
    pub fn stops_gradient(&self, node: NodeId) -> bool {
        let extra = self.graph.node(node).extra.as_ref();
        extra.is_some_and(|extra| extra.iter().any(|(name, _)| &**name == STOP))
    }

    /// The number that all elements of a value are, if that is known.
    pub fn splat(&self, value: V) -> Option<f64> {
        let Def::Result(node, _) = self.graph.def(value) else { return None };
        match &self.graph.node(node).op {
            Op::Constant(constant) if constant.value.splat || constant.value.ty.rank() == 0 => {
                let (elem, data) = (constant.value.ty.elem.clone(), constant.value.data.clone());
                match (Tensor { ty: TensorTy::scalar(elem), data }).get(0) {
                    Num::F(number) => Some(number),
                    Num::I(number) => Some(number as f64),
                    _ => None,
                }
            }
            Op::BroadcastInDim(_) | Op::Reshape(_) => self.splat(self.graph.operands(node)[0]),
            _ => None,
        }
    }

    /// Appends what a region of this function does, with other arguments; gives what it yields.
    /// What it reads from around it stays the same.
    pub fn replay(&mut self, region: RegionId, arguments: &[V]) -> Vec<V> {
        let mut values: FxHashMap<V, V> =
            self.graph.arguments(region).zip(arguments.iter().copied()).collect();
        let nodes = self.graph.region(region).nodes.clone();
        self.copy(&Source::Own, &nodes, &mut values, &mut None).unwrap_or_default()
    }

    /// Appends copies of operations, which read other values where the map says so; it then also
    /// says what became of their results. The copies are not results of nodes: they have no taps.
    pub fn again(&mut self, nodes: &[NodeId], values: &mut FxHashMap<V, V>) {
        for id in nodes {
            let mut piece = piece(&self.graph, *id);
            piece.extra = None;
            self.copy_one(&Source::Own, piece, values, &mut None);
        }
    }

    /// Appends the body of a function that composites are made of.
    pub fn expand(&mut self, function: &str, arguments: &[V]) -> Option<Vec<V>> {
        let graph = self.function(function)?.body.clone()?;
        self.body_of(&graph, arguments, &mut None)
    }

    /// Appends the body of a function of another program, and takes over the functions it calls.
    /// Attributes and locations of its operations stay.
    pub fn inline(&mut self, module: &Module, function: &str, arguments: &[V]) -> Option<Vec<V>> {
        let graph = module.func(function)?.body.as_ref()?;
        self.body_of(graph, arguments, &mut Some(Foreign::new(module)))
    }

    fn body_of(
        &mut self,
        graph: &Graph,
        arguments: &[V],
        foreign: &mut Option<Foreign<'_>>,
    ) -> Option<Vec<V>> {
        let mut values: FxHashMap<V, V> =
            graph.arguments(Graph::BODY).zip(arguments.iter().copied()).collect();
        let nodes = &graph.region(Graph::BODY).nodes;
        self.copy(&Source::Graph(graph), nodes, &mut values, foreign)
    }

    /// Copies all but the terminator, whose operands are what comes out.
    fn copy(
        &mut self,
        source: &Source<'_>,
        nodes: &[NodeId],
        values: &mut FxHashMap<V, V>,
        foreign: &mut Option<Foreign<'_>>,
    ) -> Option<Vec<V>> {
        let (last, nodes) = nodes.split_last()?;
        for id in nodes {
            let piece = self.fetch(source, *id);
            self.copy_one(source, piece, values, foreign);
        }
        let yields = self.fetch(source, *last).operands;
        Some(yields.iter().map(|value| values.get(value).copied().unwrap_or(*value)).collect())
    }

    fn fetch(&self, source: &Source<'_>, id: NodeId) -> Piece {
        match source {
            Source::Own => piece(&self.graph, id),
            Source::Graph(graph) => piece(graph, id),
        }
    }

    fn copy_one(
        &mut self,
        source: &Source<'_>,
        mut from: Piece,
        values: &mut FxHashMap<V, V>,
        foreign: &mut Option<Foreign<'_>>,
    ) {
        let mut regions = Vec::with_capacity(from.regions.len());
        for region in &from.regions {
            regions.push(self.copy_region(source, *region, values, foreign));
        }
        let mut types: Vec<TypeId> = from.results.iter().map(|(_, ty)| *ty).collect();
        if let Some(foreign) = foreign {
            for ty in &mut types {
                *ty = self.type_of(foreign, *ty);
            }
            from.loc = self.loc_of(foreign, from.loc);
            from.op = self.op_of(foreign, from.op);
        }
        let operands: Vec<V> =
            from.operands.iter().map(|v| values.get(v).copied().unwrap_or(*v)).collect();
        let new = NewNode {
            op: from.op,
            operands: &operands,
            results: &types,
            regions: &regions,
            loc: from.loc,
            offset: u32::MAX,
            extra: from.extra,
        };
        let node = self.graph.push(self.region, new);
        let made = self.graph.results(node);
        values.extend(from.results.iter().map(|(old, _)| *old).zip(made));
    }

    fn copy_region(
        &mut self,
        source: &Source<'_>,
        region: RegionId,
        values: &mut FxHashMap<V, V>,
        foreign: &mut Option<Foreign<'_>>,
    ) -> RegionId {
        let (old, nodes): (Vec<(V, TypeId)>, Vec<NodeId>) = {
            let graph = match source {
                Source::Own => &self.graph,
                Source::Graph(graph) => graph,
            };
            let old = graph.arguments(region).map(|value| (value, graph.ty(value)));
            (old.collect(), graph.region(region).nodes.clone())
        };
        let mut types: Vec<TypeId> = old.iter().map(|(_, ty)| *ty).collect();
        if let Some(foreign) = foreign {
            for ty in &mut types {
                *ty = self.type_of(foreign, *ty);
            }
        }
        let inner = self.graph.new_region(&types);
        values.extend(old.iter().map(|(old, _)| *old).zip(self.graph.arguments(inner)));
        let outer = std::mem::replace(&mut self.region, inner);
        for id in nodes {
            let piece = self.fetch(source, id);
            self.copy_one(source, piece, values, foreign);
        }
        self.region = outer;
        inner
    }

    fn type_of(&mut self, foreign: &mut Foreign<'_>, id: TypeId) -> TypeId {
        let types = &mut self.module.types;
        let ty = || foreign.module.types.get(id).clone();
        *foreign.types.entry(id).or_insert_with(|| types.intern(ty()))
    }

    fn loc_of(&mut self, foreign: &mut Foreign<'_>, id: LocId) -> LocId {
        if let Some(known) = foreign.locs.get(&id) {
            return *known;
        }
        let loc = match foreign.module.locs.get(id).clone() {
            Loc::Name { name, child } => {
                Loc::Name { name, child: child.map(|child| self.loc_of(foreign, child)) }
            }
            Loc::CallSite { callee, caller } => Loc::CallSite {
                callee: self.loc_of(foreign, callee),
                caller: self.loc_of(foreign, caller),
            },
            Loc::Fused(parts) => {
                Loc::Fused(parts.iter().map(|part| self.loc_of(foreign, *part)).collect())
            }
            other => other,
        };
        let new = self.module.locs.intern(loc);
        foreign.locs.insert(id, new);
        new
    }

    /// The operation with the functions it names taken over.
    fn op_of(&mut self, foreign: &mut Foreign<'_>, op: Op) -> Op {
        match op {
            Op::Composite(mut op) => {
                op.decomposition = Symbol(self.take_over(foreign, &op.decomposition.0));
                Op::Composite(op)
            }
            Op::Call(mut op) => {
                op.callee = Symbol(self.take_over(foreign, &op.callee.0));
                Op::Call(op)
            }
            other => other,
        }
    }

    /// Makes a function of another program one of this; the same one is taken over once.
    fn take_over(&mut self, foreign: &mut Foreign<'_>, name: &str) -> Box<str> {
        if let Some(known) = foreign.symbols.get(name) {
            return known.clone();
        }
        let Some(func) = foreign.module.func(name) else { return name.into() };
        let module = foreign.module;
        let types = func.arguments.iter().map(|id| module.types.get(*id).clone());
        let arguments: Vec<TypeId> = types.map(|ty| self.module.types.intern(ty)).collect();
        let body = func.body.as_ref().map(|graph| {
            let mut inner = Graph::default();
            let region = inner.new_region(&arguments);
            let outer = (
                std::mem::replace(&mut self.graph, inner),
                std::mem::replace(&mut self.region, region),
            );
            let values = self.arguments();
            let mut lent = Some(std::mem::replace(foreign, Foreign::new(module)));
            let results = self.body_of(graph, &values, &mut lent).unwrap_or_default();
            if let Some(lent) = lent {
                *foreign = lent;
            }
            let loc = std::mem::take(&mut self.loc);
            self.append(ops::FuncReturn {}.into(), &results, &[], &[]);
            self.loc = loc;
            let built = std::mem::replace(&mut self.graph, outer.0);
            self.region = outer.1;
            built
        });
        let results = func.results.iter().map(|id| module.types.get(*id).clone());
        let results = results.collect::<Vec<Ty>>();
        let mut taken = Func {
            name: func.name.clone(),
            visibility: Visibility::Private,
            arguments,
            results: results.into_iter().map(|ty| self.module.types.intern(ty)).collect(),
            argument_attrs: func.argument_attrs.clone(),
            result_attrs: func.result_attrs.clone(),
            attrs: func.attrs.clone(),
            loc: LocId::default(),
            offset: u32::MAX,
            body,
        };
        let alike = |own: &&Func| {
            own.arguments == taken.arguments
                && own.body == taken.body
                && own.name.starts_with(&*taken.name)
        };
        let symbol = if let Some(own) = self.helpers.iter().find(alike) {
            own.name.clone()
        } else {
            taken.name = self.unused(&taken.name);
            let name = taken.name.clone();
            self.helpers.push(taken);
            name
        };
        foreign.symbols.insert(name.into(), symbol.clone());
        symbol
    }
}

impl<'m> Foreign<'m> {
    fn new(module: &'m Module) -> Self {
        let (types, locs) = (FxHashMap::default(), FxHashMap::default());
        Self { module, types, locs, symbols: FxHashMap::default() }
    }
}
