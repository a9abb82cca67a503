//! Who looks on while a graph runs: progress, nodes' results and nodes' times.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use warpforge_golden_protocol::{NodeTime, Taps};
use warpforge_pt2::Node;

use crate::failure::Failure;
use crate::files::Writer;
use crate::interp::Observer;
use crate::load::Machine;
use crate::progress::Progress;
use crate::torch::Tensor;

/// Writes the wanted intermediate results down as they come.
pub struct Recorder {
    writer: Writer,
    /// `None` for all.
    wanted: Option<BTreeSet<String>>,
}

impl Recorder {
    /// `None` where nothing is wanted.
    pub fn new(path: PathBuf, taps: &Taps) -> Result<Option<Self>, Failure> {
        let wanted = match taps {
            Taps::None => return Ok(None),
            Taps::All => None,
            Taps::Nodes(names) => Some(names.iter().cloned().collect()),
        };
        Ok(Some(Self { writer: Writer::create(path)?, wanted }))
    }

    fn add(&mut self, node: &str, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let wanted = |wanted: &BTreeSet<String>| wanted.contains(name) || wanted.contains(node);
        if self.wanted.as_ref().is_none_or(wanted) {
            self.writer.add(name, tensor)?;
        }
        Ok(())
    }

    pub fn finish(self) -> Result<PathBuf, Failure> {
        self.writer.finish()
    }
}

/// Looks on while the graph runs.
pub struct Watch<'a> {
    pub progress: Progress<'a>,
    pub taps: Option<Recorder>,
    machine: Machine,
    node: Option<(String, Instant)>,
    /// Where every node is timed.
    pub nodes: Option<Vec<NodeTime>>,
}

impl<'a> Watch<'a> {
    pub fn new(progress: Progress<'a>, taps: Option<Recorder>, machine: Machine) -> Self {
        Self { progress, taps, machine, node: None, nodes: None }
    }
}

impl Observer for Watch<'_> {
    fn begin(&mut self, index: usize, node: &Node) -> Result<(), Failure> {
        self.progress.node(index, &node.name);
        if self.nodes.is_some() || self.taps.is_some() {
            self.node = Some((node.name.to_string(), Instant::now()));
        }
        Ok(())
    }

    fn made(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let (Some(taps), Some((node, _))) = (&mut self.taps, &self.node) else { return Ok(()) };
        taps.add(node, name, tensor)
    }

    fn end(&mut self, node: &Node) -> Result<(), Failure> {
        let Some(nodes) = &mut self.nodes else { return Ok(()) };
        self.machine.synchronize()?;
        let seconds = self.node.take().map_or(0.0, |(_, start)| start.elapsed().as_secs_f64());
        nodes.push(NodeTime { name: node.name.to_string(), op: node.call.to_string(), seconds });
        Ok(())
    }
}
