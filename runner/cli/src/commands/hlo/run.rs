//! `warpforge hlo run`: evaluate a program.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::bail;
use warpforge_snakeburger::diag::{Diagnostic, Source};
use warpforge_snakeburger::eval::{Interpreter, Num, Tensor, Value};
use warpforge_snakeburger::ir::{Attr, DType, Func, Module, TensorTy, Ty, lookup};
use warpforge_snakeburger::widen;

use super::load_one;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::tensors::{self, Named};
use crate::trace::Trace;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge hlo run model.mlir --inputs x.safetensors --outputs y.safetensors
  warpforge hlo run model.mlir --inputs x.npy --precision f64
  warpforge hlo run model.mlir --inputs weights.safetensors --inputs x.safetensors
  warpforge hlo run model.mlir --inputs x.safetensors --trace trace/

Inputs are named arg0, arg1, … by position, or input.0, input.1, …, or by what a program made by
`warpforge compile` calls its arguments; outputs result0, result1, …";

/// Evaluate a program with the reference interpreter
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A StableHLO text file
    file: PathBuf,

    /// Arguments: safetensors files, or a .npy file for a function of one argument
    #[arg(long, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// Where to write the results as safetensors; without it they are printed in short
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,

    /// The function to call [default: main, else the first]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,

    /// What runs the program
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,

    /// How it is run
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,

    /// Evaluate every float in this format instead of the declared one
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    /// Save every intermediate value and its statistics into DIR
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Backend {
    /// The reference interpreter
    #[default]
    Reference,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Tier {
    /// Every operation on its own, in the most accurate way
    #[default]
    Correctness,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Precision {
    F64,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let Backend::Reference = args.backend;
    let Tier::Correctness = args.tier;
    let (text, module) = load_one(&args.file)?;
    let module = match args.precision {
        None => module,
        Some(Precision::F64) => widen::to_f64(module)
            .map_err(|error| Misuse::new(error.to_string(), "run it without --precision"))?,
    };
    let func = entry(&module, args.entry.as_deref())?;
    let arguments = arguments(&module, func, args)?;
    let trace = args.trace.as_deref().map(|folder| Trace::new(&module, folder)).transpose()?;
    let mut interpreter = Interpreter::new(&module);
    interpreter.observer = trace.as_ref().map(|trace| trace as _);
    let start = Instant::now();
    let results = interpreter.call(&func.name, arguments).map_err(|error| {
        let name = args.file.display().to_string();
        let diagnostic = Diagnostic { offset: error.offset, message: error.message };
        anyhow::Error::msg(Source::new(&name, &text).render(&diagnostic))
    });
    let results = match results {
        Ok(results) => results,
        Err(error) => {
            writeln!(ui.out(), "{error}")?;
            return Ok(Exit::Fail);
        }
    };
    let elapsed = start.elapsed();
    if let Some(trace) = trace {
        trace.finish()?;
    }
    finish(args, ui, &results)?;
    ui.note(&format!(
        "@{} ran in {:.3} s on the reference interpreter",
        func.name,
        elapsed.as_secs_f64()
    ))?;
    Ok(Exit::Pass)
}

fn entry<'m>(module: &'m Module, name: Option<&str>) -> anyhow::Result<&'m Func> {
    let found = match name {
        Some(name) => module.func(name),
        None => module.entry(),
    };
    found.ok_or_else(|| {
        let names: Vec<String> = module.funcs().iter().map(|f| format!("@{}", f.name)).collect();
        let wanted = name.unwrap_or("main");
        Misuse::new(
            format!("there is no function @{wanted}"),
            format!("the file has {}", names.join(", ")),
        )
        .into()
    })
}

/// The arguments from the inputs file, checked against the function's types.
fn arguments(module: &Module, func: &Func, args: &Args) -> anyhow::Result<Vec<Value>> {
    let mut named = Named::new();
    for path in &args.inputs {
        named.extend(tensors::read(path)?);
    }
    let mut values = Vec::new();
    for (i, ty) in func.arguments.iter().enumerate() {
        let declared = match module.ty(*ty) {
            Ty::Token => {
                values.push(Value::Token);
                continue;
            }
            Ty::Tensor(declared) => declared,
            other => bail!("argument {i} is a {other}, which no file can hold"),
        };
        let own = own_names(func, i);
        let by_place = [format!("arg{i}"), format!("input.{i}"), String::new()];
        let mut candidates = own.iter().chain(&by_place);
        let Some(tensor) = candidates.find_map(|name| named.remove(name)) else {
            let message = format!("argument {i} ({declared}) of @{} is not given", func.name);
            let name = own.first().cloned().unwrap_or_else(|| format!("arg{i}"));
            return Err(Misuse::new(message, format!("put it into --inputs FILE as {name}")).into());
        };
        // Tied weights may stand in the file under each of their names.
        for name in &own {
            named.remove(name);
        }
        values.push(Value::Tensor(fit(tensor, declared, i)?));
    }
    if let Some(name) = named.keys().next() {
        let help =
            format!("@{} takes {} arguments: arg0, arg1, …", func.name, func.arguments.len());
        return Err(
            Misuse::new(format!("the inputs hold {name:?}, which is no argument"), help).into()
        );
    }
    Ok(values)
}

/// What a compiled model calls an argument.
fn own_names(func: &Func, i: usize) -> Vec<String> {
    let attr = func.argument_attrs.get(i).and_then(|attrs| lookup(attrs, "warpforge.name"));
    match attr {
        Some(Attr::Str(names)) => names.split(' ').map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// A tensor as the declared type: of the same storage, or widened by --precision.
fn fit(tensor: Tensor, declared: &TensorTy, i: usize) -> anyhow::Result<Tensor> {
    let same_shape = warpforge_snakeburger::ir::dims_compatible(tensor.dims(), &declared.dims);
    let ty = declared.with_dims(tensor.dims().iter().copied());
    let storage = declared.elem.storage();
    if same_shape && tensor.storage() == storage {
        return Ok(Tensor { ty, data: tensor.data });
    }
    if same_shape && tensor.storage().is_float() && storage.is_float() {
        let floats = tensor.floats();
        return Ok(Tensor::from_floats(ty, |at| floats[at]));
    }
    let message = format!("argument {i} is {declared}, the file holds {}", tensor.ty);
    Err(Misuse::new(message, "give a tensor of the declared shape and type").into())
}

fn finish(args: &Args, ui: &mut Ui, results: &[Value]) -> anyhow::Result<()> {
    let mut named = Named::new();
    for (i, value) in results.iter().enumerate() {
        if let Value::Tensor(tensor) = value {
            named.insert(format!("result{i}"), tensor.clone());
        }
    }
    if let Some(path) = &args.outputs {
        return tensors::write(path, &named);
    }
    for (i, value) in results.iter().enumerate() {
        match value {
            Value::Tensor(tensor) => {
                writeln!(ui.out(), "result{i}: {} = {}", tensor.ty, short(tensor))?
            }
            other => writeln!(ui.out(), "result{i}: {}", other.ty())?,
        }
    }
    Ok(())
}

/// The first few elements, for people.
fn short(tensor: &Tensor) -> String {
    const SHOWN: usize = 8;
    let text = |i: usize| match (tensor.storage(), tensor.get(i)) {
        // The shortest text that reads back as the same f32, not as the same f64.
        (DType::F32, Num::F(value)) => format!("{:?}", value as f32),
        (_, value) => value.to_string(),
    };
    let shown = (0..tensor.count().min(SHOWN)).map(text);
    let shown: Vec<String> = shown.collect();
    let more = if tensor.count() > SHOWN { ", …" } else { "" };
    format!("[{}{more}]", shown.join(", "))
}
