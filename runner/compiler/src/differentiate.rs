//! Reverse-mode differentiation: a program becomes one that also yields gradients.
//!
//! The rules are the operations' own (a column of their definitions); here is the walk. It goes
//! back over the operations between the loss and what it is differentiated by, hands each rule the
//! cotangents of its results and adds up what values get from their several uses. Where nothing
//! flows nothing is written: a zero cotangent is no cotangent.

mod backward;
mod composites;
mod remat;

use warpforge_snakeburger::build::{Emitter, V};
use warpforge_snakeburger::diag::Diagnostic;
use warpforge_snakeburger::ir::{Attr, Dict, Module, TensorTy, lookup};
use warpforge_snakeburger::prune::prune;
use warpforge_snakeburger::verify::verify;

pub use backward::{backward, backward_from};
pub use remat::{peak_bytes, within};

/// What to differentiate, and by what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// The result of `main` that is the loss: a float of one element.
    pub loss: usize,
    /// The arguments of `main` to differentiate by, in the order of the gradients.
    pub wrt: Vec<usize>,
    pub remat: Remat,
}

/// Which values of the forward computation are computed again for the way back instead of kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Remat {
    /// Everything that is needed is kept.
    #[default]
    Keep,
    /// What modules make whose paths begin with one of these.
    Modules(Vec<String>),
    /// As many layers as it takes to keep within this many bytes; [`within`] names them. Only for
    /// whole programs.
    Budget(u64),
}

/// Why a program has no gradient.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the program has no function with a body")]
    Empty,
    #[error("there is no result {0} to differentiate")]
    NoResult(usize),
    #[error("result {0} is {1}: a loss is a float of one element")]
    NoLoss(usize, String),
    #[error("there is no argument {0} to differentiate by")]
    NoArgument(usize),
    #[error("argument {0} is {1}: there are derivatives by floats only")]
    NoFloat(usize, String),
    #[error("{op} at {location} has no derivative: it {why}")]
    NoDerivative { op: String, location: String, why: String },
    #[error("a budget of memory is for whole programs: name the modules to compute again")]
    Budget,
    /// What was built does not verify: our mistake.
    #[error("the derivative is wrong: {0}")]
    Wrong(String),
}

/// The program that yields what `main` does and then one gradient for each argument asked for.
pub fn differentiate(module: &Module, request: &Gradients) -> Result<Module, Error> {
    if let Remat::Budget(bytes) = request.remat {
        let keep = Gradients { remat: Remat::Keep, ..request.clone() };
        let remat = within(module, &keep, bytes)?;
        return differentiate(module, &Gradients { remat, ..keep });
    }
    let main = module.entry().filter(|func| func.body.is_some()).ok_or(Error::Empty)?;
    let arguments: Option<Vec<TensorTy>> =
        main.arguments.iter().map(|id| module.ty(*id).as_tensor().cloned()).collect();
    let arguments = arguments.ok_or(Error::Empty)?;
    let mut e = Emitter::new(&arguments);
    let values = e.arguments();
    let mut results = e.inline(module, &main.name, &values).ok_or(Error::Empty)?;
    let loss = *results.get(request.loss).ok_or(Error::NoResult(request.loss))?;
    let ty = e.ty(loss).clone();
    if ty.count() != Some(1) || !ty.elem.storage().is_float() {
        return Err(Error::NoLoss(request.loss, ty.to_string()));
    }
    let mut wrt = Vec::new();
    for i in &request.wrt {
        let value = *values.get(*i).ok_or(Error::NoArgument(*i))?;
        let dtype = e.dtype(value);
        if !dtype.is_float() && !dtype.is_complex() {
            return Err(Error::NoFloat(*i, e.ty(value).to_string()));
        }
        wrt.push(value);
    }
    let seed = e.like(loss, 1.0);
    let gradients = backward(&mut e, loss, seed, &wrt, &request.remat)?;
    let mut result_attrs = main.result_attrs.clone();
    result_attrs.resize(results.len(), Dict::new());
    for ((gradient, value), i) in gradients.into_iter().zip(&wrt).zip(&request.wrt) {
        results.push(gradient.unwrap_or_else(|| e.zeros_like(*value)));
        result_attrs.push(gradient_attrs(main.argument_attrs.get(*i), *i));
    }
    finish(e, &results, main.argument_attrs.clone(), result_attrs)
}

fn gradient_attrs(argument: Option<&Dict>, i: usize) -> Dict {
    let name = match argument.and_then(|dict| lookup(dict, "warpforge.name")) {
        Some(Attr::Str(name)) => name.clone(),
        _ => format!("input.{i}").into(),
    };
    vec![
        ("warpforge.name".into(), Attr::Str(name)),
        ("warpforge.kind".into(), Attr::Str("gradient".into())),
    ]
}

fn finish(
    e: Emitter,
    results: &[V],
    mut argument_attrs: Vec<Dict>,
    result_attrs: Vec<Dict>,
) -> Result<Module, Error> {
    argument_attrs.resize(e.arguments().len(), Dict::new());
    let module = prune(&e.finish(results, argument_attrs, result_attrs));
    let module = verify(module).map_err(|problems| {
        let first: Vec<String> =
            problems.iter().take(5).map(|Diagnostic { message, .. }| message.clone()).collect();
        Error::Wrong(first.join("; "))
    })?;
    Ok(module.into_module())
}
