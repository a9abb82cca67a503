//! When values are used for the last time, so that their memory goes as soon as it can.

use crate::ir::{Def, Graph, NodeId, RegionId, ValueId};

/// For each operation of a function: the values nobody needs after it.
///
/// A value ends in the region that defines it: one that a loop's body reads lives until the loop
/// is over, however often the body runs.
pub(crate) struct Lifetimes {
    /// The values that end, ordered by the operation they end with.
    ends: Vec<ValueId>,
    /// Where each operation's part of `ends` starts; one more entry than there are operations.
    starts: Vec<u32>,
    used: Vec<bool>,
    /// Whether a value is used inside a region below its own.
    captured: Vec<bool>,
}

impl Lifetimes {
    pub fn new(graph: &Graph) -> Self {
        let places = Places::new(graph);
        let mut captured = vec![false; graph.value_count()];
        let last = places.last_uses(graph, &mut captured);
        let used = last.iter().map(Option::is_some).collect();
        let mut pairs: Vec<(NodeId, ValueId)> = Vec::new();
        for (i, last) in last.into_iter().enumerate() {
            let value = ValueId(i as u32);
            match (last, graph.def(value)) {
                (Some(node), _) | (None, Def::Result(node, _)) => pairs.push((node, value)),
                (None, Def::Argument(..)) => {}
            }
        }
        pairs.sort_unstable();
        let mut starts = vec![0; graph.node_count() + 1];
        for (node, _) in &pairs {
            starts[node.index() + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        Self { ends: pairs.into_iter().map(|(_, value)| value).collect(), starts, used, captured }
    }

    /// The values whose last use is this operation, and its own results that nobody uses.
    pub fn ends(&self, node: NodeId) -> &[ValueId] {
        let range = self.starts[node.index()] as usize..self.starts[node.index() + 1] as usize;
        &self.ends[range]
    }

    /// Whether an operation that is given this value, and none inside it, is the last to see it.
    pub fn can_move(&self, node: NodeId, value: ValueId) -> bool {
        !self.captured[value.index()] && self.ends(node).contains(&value)
    }

    pub fn is_used(&self, value: ValueId) -> bool {
        self.used[value.index()]
    }
}

/// Where operations and regions stand.
struct Places {
    /// The region of each operation and its place there.
    nodes: Vec<(RegionId, usize)>,
    /// The operation that holds each region; none for the body.
    owners: Vec<Option<NodeId>>,
}

impl Places {
    fn new(graph: &Graph) -> Self {
        let mut places = Self {
            nodes: vec![(Graph::BODY, 0); graph.node_count()],
            owners: vec![None; graph.region_count()],
        };
        for region in (0..graph.region_count()).map(|i| RegionId(i as u32)) {
            for (place, node) in graph.region(region).nodes.iter().enumerate() {
                places.nodes[node.index()] = (region, place);
                for inner in graph.regions(*node) {
                    places.owners[inner.index()] = Some(*node);
                }
            }
        }
        places
    }

    /// The last operation of each value's own region that uses it, by itself or inside it.
    fn last_uses(&self, graph: &Graph, captured: &mut [bool]) -> Vec<Option<NodeId>> {
        let mut last: Vec<Option<NodeId>> = vec![None; graph.value_count()];
        for (node, _) in graph.nodes() {
            for value in graph.operands(node) {
                let Some(user) = self.user_in(self.home(graph, *value), node) else { continue };
                captured[value.index()] |= user != node;
                let best = &mut last[value.index()];
                if best.is_none_or(|best| self.place(best) < self.place(user)) {
                    *best = Some(user);
                }
            }
        }
        last
    }

    fn place(&self, node: NodeId) -> usize {
        self.nodes[node.index()].1
    }

    fn home(&self, graph: &Graph, value: ValueId) -> RegionId {
        match graph.def(value) {
            Def::Result(node, _) => self.nodes[node.index()].0,
            Def::Argument(region, _) => region,
        }
    }

    /// The operation of region `home` that is `node` or contains it.
    fn user_in(&self, home: RegionId, mut node: NodeId) -> Option<NodeId> {
        loop {
            let region = self.nodes[node.index()].0;
            if region == home {
                return Some(node);
            }
            node = self.owners[region.index()]?;
        }
    }
}
