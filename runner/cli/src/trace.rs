//! Saving every intermediate of an evaluation with its statistics.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context as _;
use serde::Serialize;
use warpforge_snakeburger::eval::{Observer, Tensor, Value};
use warpforge_snakeburger::ir::{Def, Func, Graph, Module, ValueId};

use crate::tensors::{self, Named};

/// A folder that fills with one file per value, and `trace.jsonl` with a line for each.
pub struct Trace<'m> {
    module: &'m Module,
    folder: PathBuf,
    state: Mutex<State>,
}

struct State {
    index: BufWriter<File>,
    count: usize,
    failure: Option<anyhow::Error>,
}

/// One line of `trace.jsonl`.
#[derive(Serialize)]
struct Line<'a> {
    /// The value's name: its function and its printed name.
    name: String,
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
    #[serde(rename = "type")]
    ty: String,
    file: String,
    #[serde(flatten)]
    statistics: Statistics,
}

/// What the values look like; NaNs are counted and left out of the rest.
#[derive(Debug, PartialEq, Serialize)]
struct Statistics {
    elements: usize,
    nans: usize,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
}

impl<'m> Trace<'m> {
    pub fn new(module: &'m Module, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let index = BufWriter::new(File::create(folder.join("trace.jsonl"))?);
        let state = Mutex::new(State { index, count: 0, failure: None });
        Ok(Self { module, folder: folder.to_owned(), state })
    }

    /// Flushes the index; an error of any write comes out here.
    pub fn finish(self) -> anyhow::Result<()> {
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let mut index = state.index;
        index.flush()?;
        Ok(())
    }

    fn save(
        &self,
        state: &mut State,
        func: &Func,
        graph: &Graph,
        id: ValueId,
        tensor: &Tensor,
    ) -> anyhow::Result<()> {
        let Def::Result(node, i) = graph.def(id) else { return Ok(()) };
        let node = graph.node(node);
        let name = format!("{}.{}.{i}", func.name, node.op.name().replace('.', "_"));
        let file = format!("{:06}.{name}.safetensors", state.count);
        state.count += 1;
        tensors::write(&self.folder.join(&file), &Named::from([(name.clone(), tensor.clone())]))?;
        let line = Line {
            name,
            operation: node.op.name(),
            location: self.module.locs.name(node.loc),
            ty: tensor.ty.to_string(),
            file,
            statistics: statistics(tensor),
        };
        serde_json::to_writer(&mut state.index, &line)?;
        state.index.write_all(b"\n")?;
        Ok(())
    }
}

impl Observer for Trace<'_> {
    fn value(&self, func: &Func, graph: &Graph, id: ValueId, value: &Value) {
        let Value::Tensor(tensor) = value else { return };
        let Ok(mut state) = self.state.lock() else { return };
        if state.failure.is_none()
            && let Err(error) = self.save(&mut state, func, graph, id, tensor)
        {
            state.failure = Some(error);
        }
    }
}

fn statistics(tensor: &Tensor) -> Statistics {
    let values = tensor.real_values();
    let numbers: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    let fold = |f: fn(f64, f64) -> f64| numbers.iter().copied().reduce(f);
    let mean = (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
    Statistics {
        elements: values.len(),
        nans: values.len() - numbers.len(),
        min: fold(f64::min),
        max: fold(f64::max),
        mean,
    }
}
