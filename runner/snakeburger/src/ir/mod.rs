//! The intermediate representation: modules, functions, graphs of operations, values and regions.
//!
//! Everything a function contains lives in a few flat arrays of its [`Graph`] and is named by a
//! 32-bit index, so a graph is compact, cheap to clone and free of reference counting. Types are
//! stored once per module. Regions hold one block each: StableHLO has no branches between blocks.

mod attr;
mod buffer;
mod dtype;
mod literal;
mod loc;
mod ty;

use rustc_hash::FxHashMap;

pub use attr::{Attr, AttrError, AttrValue, Dict, EnumAttr, Ints, lookup};
pub use buffer::{Buffer, Owner};
pub use dtype::{DType, Elem, Kind, Quant};
pub use literal::{Literal, int_from_bytes};
pub use loc::{Loc, LocId, LocTable};
pub use ty::{DYNAMIC, Dims, TensorTy, Ty, TypeId, TypeTable, dim_compatible, dims_compatible};

use crate::ops::Op;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind in one function"))
            }

            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A value of a graph: an operation's result or a region's argument.
    ValueId,
    /// An operation of a graph.
    NodeId,
    /// A region of a graph.
    RegionId,
}

/// A run of consecutive indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span32 {
    start: u32,
    len: u32,
}

impl Span32 {
    fn new(start: usize, len: usize) -> Self {
        let narrow =
            |n: usize| u32::try_from(n).expect("fewer than 2^32 of a kind in one function");
        Self { start: narrow(start), len: narrow(len) }
    }

    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// One operation: what it does, what it reads, what it yields.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub op: Op,
    operands: Span32,
    results: Span32,
    regions: Span32,
    pub loc: LocId,
    /// Where the operation starts in the text it was parsed from; `u32::MAX` if it was built.
    pub offset: u32,
    /// Attributes that are not part of the operation's meaning, such as `mhlo.sharding`.
    pub extra: Option<Box<Dict>>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Def {
    Result(NodeId, u32),
    Argument(RegionId, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueInfo {
    ty: TypeId,
    def: Def,
}

/// One block: its arguments and its operations in order, the last one its terminator.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    arguments: Span32,
    pub nodes: Vec<NodeId>,
}

/// What a new operation consists of, for [`Graph::push`].
pub struct NewNode<'a> {
    pub op: Op,
    pub operands: &'a [ValueId],
    pub results: &'a [TypeId],
    pub regions: &'a [RegionId],
    pub loc: LocId,
    pub offset: u32,
    pub extra: Option<Box<Dict>>,
}

/// A function's body. Region 0 is the body itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    values: Vec<ValueInfo>,
    regions: Vec<Region>,
    operand_pool: Vec<ValueId>,
    region_pool: Vec<RegionId>,
}

impl Graph {
    pub const BODY: RegionId = RegionId(0);

    /// An empty graph with room for this many operations.
    pub(crate) fn with_room(operations: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(operations),
            values: Vec::with_capacity(operations),
            operand_pool: Vec::with_capacity(operations * 2),
            ..Self::default()
        }
    }

    /// Gives back what was reserved and not needed.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.values.shrink_to_fit();
        self.operand_pool.shrink_to_fit();
        self.region_pool.shrink_to_fit();
        self.regions.shrink_to_fit();
        self.regions.iter_mut().for_each(|region| region.nodes.shrink_to_fit());
    }

    /// Starts a region with arguments of the given types. The first one made is the body, which
    /// most operations belong to.
    pub fn new_region(&mut self, arguments: &[TypeId]) -> RegionId {
        let id = RegionId::new(self.regions.len());
        let first = self.values.len();
        for (i, ty) in arguments.iter().enumerate() {
            self.values.push(ValueInfo { ty: *ty, def: Def::Argument(id, i as u32) });
        }
        let arguments = Span32::new(first, arguments.len());
        let room = if id == Self::BODY { self.nodes.capacity() } else { 0 };
        self.regions.push(Region { arguments, nodes: Vec::with_capacity(room) });
        id
    }

    /// Appends an operation to a region.
    pub fn push(&mut self, region: RegionId, new: NewNode<'_>) -> NodeId {
        let id = NodeId::new(self.nodes.len());
        let operands = Span32::new(self.operand_pool.len(), new.operands.len());
        self.operand_pool.extend_from_slice(new.operands);
        let regions = Span32::new(self.region_pool.len(), new.regions.len());
        self.region_pool.extend_from_slice(new.regions);
        let results = Span32::new(self.values.len(), new.results.len());
        for (i, ty) in new.results.iter().enumerate() {
            self.values.push(ValueInfo { ty: *ty, def: Def::Result(id, i as u32) });
        }
        let (loc, offset, extra) = (new.loc, new.offset, new.extra);
        self.nodes.push(Node { op: new.op, operands, results, regions, loc, offset, extra });
        self.regions[region.index()].nodes.push(id);
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Every operation, in the order of creation.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId::new(i), node))
    }

    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.iter_mut()
    }

    /// The type of every value, for passes that change types.
    pub fn types_mut(&mut self) -> impl Iterator<Item = &mut TypeId> {
        self.values.iter_mut().map(|value| &mut value.ty)
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    pub fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.index()]
    }

    pub fn arguments(&self, id: RegionId) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        self.region(id).arguments.range().map(ValueId::new)
    }

    pub fn operands(&self, id: NodeId) -> &[ValueId] {
        &self.operand_pool[self.node(id).operands.range()]
    }

    pub fn results(&self, id: NodeId) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        self.node(id).results.range().map(ValueId::new)
    }

    pub fn regions(&self, id: NodeId) -> &[RegionId] {
        &self.region_pool[self.node(id).regions.range()]
    }

    pub fn ty(&self, value: ValueId) -> TypeId {
        self.values[value.index()].ty
    }

    pub fn set_ty(&mut self, value: ValueId, ty: TypeId) {
        self.values[value.index()].ty = ty;
    }

    pub fn def(&self, value: ValueId) -> Def {
        self.values[value.index()].def
    }

    /// The last operation of a region, which yields the region's results.
    pub fn terminator(&self, id: RegionId) -> Option<NodeId> {
        self.region(id).nodes.last().copied()
    }

    /// What a region yields.
    pub fn yields(&self, id: RegionId) -> &[ValueId] {
        self.terminator(id).map_or(&[], |node| self.operands(node))
    }
}

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Default,
    Public,
    Private,
    Nested,
}

/// A named function; without a body it is a declaration.
#[derive(Clone, Debug)]
pub struct Func {
    pub name: Box<str>,
    pub visibility: Visibility,
    pub arguments: Vec<TypeId>,
    pub results: Vec<TypeId>,
    pub argument_attrs: Vec<Dict>,
    pub result_attrs: Vec<Dict>,
    pub attrs: Dict,
    pub loc: LocId,
    pub offset: u32,
    pub body: Option<Graph>,
}

/// A program: functions that may call each other.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub name: Option<Box<str>>,
    pub attrs: Dict,
    pub types: TypeTable,
    pub locs: LocTable,
    funcs: Vec<Func>,
    by_name: FxHashMap<Box<str>, usize>,
}

impl Module {
    /// Adds a function; gives it back if one of that name is there already.
    pub fn add(&mut self, func: Func) -> Result<(), Box<Func>> {
        if self.by_name.contains_key(&func.name) {
            return Err(Box::new(func));
        }
        self.by_name.insert(func.name.clone(), self.funcs.len());
        self.funcs.push(func);
        Ok(())
    }

    pub fn func(&self, name: &str) -> Option<&Func> {
        self.by_name.get(name).map(|i| &self.funcs[*i])
    }

    pub fn funcs(&self) -> &[Func] {
        &self.funcs
    }

    pub fn funcs_mut(&mut self) -> &mut [Func] {
        &mut self.funcs
    }

    /// The function a run starts with: `main`, else the first one with a body.
    pub fn entry(&self) -> Option<&Func> {
        self.func("main").or_else(|| self.funcs.iter().find(|f| f.body.is_some()))
    }

    pub fn ty(&self, id: TypeId) -> &Ty {
        self.types.get(id)
    }

    /// The type of a value of one of this module's graphs.
    pub fn value_ty(&self, graph: &Graph, value: ValueId) -> &Ty {
        self.types.get(graph.ty(value))
    }
}
