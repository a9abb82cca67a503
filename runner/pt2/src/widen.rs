//! The model in float64: the oracle both passes' errors are measured against.

use crate::dtype::ScalarType;
use crate::error::{Error, Result};
use crate::graph::{Arg, Call, Graph};
use crate::model::Model;

impl Model {
    /// The same model with every float type replaced by the widest of its family, in the types
    /// of its values and in the arguments of its calls. Autocast regions lose their meaning.
    ///
    /// Stored weights keep their type; who runs the model converts them.
    pub fn widened(&self) -> Result<Self> {
        let mut model = self.clone();
        widen_graph(&mut model.graph)?;
        model.default_float = ScalarType::F64;
        for meta in model.inputs.iter_mut().filter_map(|input| input.meta.as_mut()) {
            meta.dtype = meta.dtype.widest();
        }
        Ok(model)
    }
}

fn widen_graph(graph: &mut Graph) -> Result<()> {
    let is_float = |dtype: ScalarType| dtype.is_float() || dtype.is_complex();
    let values = graph.values.iter();
    let floats: Vec<bool> =
        values.map(|value| value.meta.as_ref().is_some_and(|meta| is_float(meta.dtype))).collect();
    for meta in graph.values.iter_mut().filter_map(|value| value.meta.as_mut()) {
        meta.dtype = meta.dtype.widest();
    }
    for node in &mut graph.nodes {
        if let Call::Op { name, overload } = &node.call
            && matches!((&**name, &**overload), ("aten::view", "dtype"))
            && node.makes().into_iter().chain(node.reads()).any(|id| floats[id.index()])
        {
            return Err(Error::Widen(format!(
                "{} ({}) looks at the bits of a float, which float64 does not share",
                node.name, node.call
            )));
        }
        node.mode.autocast = None;
        for arg in &mut node.args {
            widen_arg(&mut arg.arg)?;
        }
    }
    Ok(())
}

fn widen_arg(arg: &mut Arg) -> Result<()> {
    match arg {
        Arg::ScalarType(dtype) => *dtype = dtype.widest(),
        Arg::List(items) => items.iter_mut().try_for_each(widen_arg)?,
        Arg::Graph(graph) => widen_graph(graph)?,
        _ => {}
    }
    Ok(())
}
