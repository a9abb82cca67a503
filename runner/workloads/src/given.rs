//! A model's inputs: from a file by name or position, or drawn from a seed.

use std::collections::HashSet;

use warpforge_pt2::random::Stream;
use warpforge_pt2::{Arg, Call, Graph, Model, Node, ValueId};
use warpforge_snakeburger::eval::{Num, Tensor};
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakegrinder::dtype;

use crate::error::Error;
use crate::tensors::Named;

/// Drawn inputs take numbers no step of a run does.
const STEP: u32 = u32::MAX;

/// The inputs by the graph's names, each of the type the model wants.
///
/// `given` may name them so, or `input.N` by position. The model's sizes must be known.
pub fn from_file(model: &Model, given: &Named) -> Result<Named, Error> {
    let mut inputs = Named::new();
    let mut used = HashSet::new();
    let mut missing = Vec::new();
    for (i, input) in model.user_inputs().enumerate() {
        let by_position = format!("input.{i}");
        let found = given.get_key_value(&*input.name).or_else(|| given.get_key_value(&by_position));
        let Some((key, tensor)) = found else {
            missing.push(format!("{} (or {by_position})", input.name));
            continue;
        };
        used.insert(key.clone());
        let wanted = input_type(model, &input.name)?;
        if tensor.ty != wanted {
            return Err(Error::Inputs(format!(
                "input {} is {}, the model wants {wanted}",
                input.name, tensor.ty
            )));
        }
        inputs.insert(input.name.to_string(), tensor.clone());
    }
    if !missing.is_empty() {
        return Err(Error::Inputs(format!("inputs are missing: {}", missing.join(", "))));
    }
    let extra: Vec<&str> =
        given.keys().filter(|name| !used.contains(*name)).map(String::as_str).collect();
    if !extra.is_empty() {
        return Err(Error::Inputs(format!("the model has no inputs called {}", extra.join(", "))));
    }
    Ok(inputs)
}

fn input_type(model: &Model, name: &str) -> Result<TensorTy, Error> {
    let input = model.user_inputs().find(|input| &*input.name == name);
    let meta = input.and_then(|input| input.meta.as_ref());
    let ty = meta.and_then(|meta| Some(TensorTy::new(meta.dims()?, dtype(meta.dtype)?)));
    ty.ok_or_else(|| Error::Inputs(format!("input {name} has no tensor type that is known")))
}

/// Inputs of the right shapes and kinds: floats of the standard normal distribution, integers
/// below whatever the model indexes with them, else zeros and ones.
pub fn drawn(model: &Model, seed: u64) -> Result<Named, Error> {
    let mut inputs = Named::new();
    for (i, input) in model.user_inputs().enumerate() {
        let ty = input_type(model, &input.name)?;
        let stream = Stream { seed, step: STEP, ordinal: i as u32 };
        let dtype = ty.elem.storage();
        let bound = match input.arg {
            Arg::Value(id) => bound(&model.graph, id).unwrap_or(2),
            _ => 2,
        };
        // A mask that hides is a special case; the plain one sees everything.
        let mask = input.name.contains("mask");
        let tensor = Tensor::from_nums(ty, |i| {
            let i = i as u64;
            let num = match dtype {
                _ if mask && !dtype.is_float() => Num::I(1),
                DType::I1 => Num::B(stream.bits(i) & 1 == 1),
                dtype if dtype.is_int() => Num::I(i64::from(stream.bits(i)).rem_euclid(bound)),
                _ => Num::F(stream.normal(i)),
            };
            num.fit(dtype)
        });
        inputs.insert(input.name.to_string(), tensor);
    }
    Ok(inputs)
}

/// The smallest size that a value is used as an index into, followed through casts and views.
fn bound(graph: &Graph, value: ValueId) -> Option<i64> {
    let mut same = HashSet::from([value]);
    let mut smallest: Option<i64> = None;
    for node in &graph.nodes {
        let Call::Op { name, .. } = &node.call else { continue };
        let reads = |arg: &str| {
            let mut found = false;
            if let Some(arg) = node.arg(arg) {
                arg.each_value(&mut |id| found |= same.contains(&id));
            }
            found
        };
        let size = match name.trim_start_matches("aten::") {
            "embedding" | "embedding_bag" if reads("indices") => size_of(graph, node, "weight", 0),
            "cross_entropy_loss" | "nll_loss" | "nll_loss_nd" if reads("target") => {
                size_of(graph, node, "self", 1)
            }
            "index" | "index_put" | "index_put_" if reads("indices") => indexed(graph, node, &same),
            "index_select" | "gather" | "scatter" | "index_add" if reads("index") => {
                let dim = match node.arg("dim") {
                    Some(Arg::Int(dim)) => *dim,
                    _ => 0,
                };
                size_of(graph, node, "self", dim)
            }
            "one_hot" if reads("self") => match node.arg("num_classes") {
                Some(Arg::Int(n)) => Some(*n),
                _ => None,
            },
            _ => None,
        };
        smallest = smallest.into_iter().chain(size).min();
        if reads("self") && passes_on(name) {
            same.extend(node.makes());
        }
    }
    smallest.filter(|size| *size > 0)
}

fn passes_on(name: &str) -> bool {
    matches!(
        name.trim_start_matches("aten::"),
        "to" | "_to_copy"
            | "view"
            | "reshape"
            | "unsqueeze"
            | "squeeze"
            | "expand"
            | "contiguous"
            | "flatten"
            | "slice"
            | "select"
            | "transpose"
            | "permute"
            | "clone"
            | "alias"
            | "split"
            | "unbind"
            | "chunk"
            | "detach"
            | "clamp"
            | "narrow"
    )
}

fn size_of(graph: &Graph, node: &Node, arg: &str, dim: i64) -> Option<i64> {
    let Some(Arg::Value(id)) = node.arg(arg) else { return None };
    let dims = graph.value(*id).meta.as_ref()?.dims()?;
    let rank = dims.len() as i64;
    // Classes of an unbatched target are the only axis.
    let at = if dim < 0 { dim + rank } else { dim.min(rank - 1) };
    dims.get(usize::try_from(at).ok()?).copied()
}

/// The axis of `self` that the value's place in the list of indices stands for.
fn indexed(graph: &Graph, node: &Node, same: &HashSet<ValueId>) -> Option<i64> {
    let Some(Arg::List(indices)) = node.arg("indices") else { return None };
    let at = indices.iter().position(|arg| matches!(arg, Arg::Value(id) if same.contains(id)))?;
    size_of(graph, node, "self", at as i64)
}
