//! The process grid: where a process stands in it, and the test operations that run one.

use super::checks::{Closeness, expect};
use super::func::Symbol;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::parallel::{self, Program};
use crate::eval::{Cx, EvalResult, Num, Tensor, Value};
use crate::ir::{Attr, DType, Dict, NodeId, Ty, TypeId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

/// Operations that tell a process its place.
macro_rules! places {
    ($($(#[$meta:meta])* $name:ident $text:literal $method:ident;)*) => {$(
        payload! { $(#[$meta])* $name {} }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::Plain { words: &[], types: Types::Result };
            const ARITY: Arity = Arity::tensors(Count::Exactly(0), 1);

            fn check(&self, _: &mut Check<'_>) {}

            fn infer(&self, _: &Check<'_>) -> Infer {
                Infer::Types(vec![Ty::tensor([], DType::U32)])
            }

            fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                let id = cx.interpreter.process.$method() as i64;
                Ok(vec![Tensor::scalar(DType::U32, Num::I(id)).into()])
            }

            columns!(Opaque, Exact, Zero);
        }
    )*};
}

places! {
    PartitionId "stablehlo.partition_id" partition;
    ReplicaId "stablehlo.replica_id" replica;
}

payload! {
    /// Runs a grid of programs: a row per replica, a column per partition.
    RunParallel { programs: Vec<Vec<Symbol>>, infeed: Vec<Symbol> = Vec::new() }
}

impl RunParallel {
    /// The programs' argument or result types, one behind the other.
    fn types(&self, c: &Check<'_>, of: impl Fn(&crate::ir::Func) -> &[TypeId]) -> Vec<Ty> {
        let funcs = self.programs.iter().flatten().filter_map(|name| c.module.func(&name.0));
        funcs.flat_map(|func| of(func).iter().map(|id| c.module.ty(*id).clone())).collect()
    }

    /// The arguments of each program, taken from the operands in order.
    fn distribute(&self, cx: &Cx<'_, '_>) -> EvalResult<Vec<Program>> {
        let mut next = 0;
        let mut programs = Vec::new();
        for Symbol(name) in self.programs.iter().flatten() {
            let count = cx.module().func(name).map_or(0, |func| func.arguments.len());
            let arguments = (next..next + count).map(|i| cx.operand(i).cloned());
            programs.push(Program {
                function: name.clone(),
                arguments: arguments.collect::<Result<_, _>>()?,
            });
            next += count;
        }
        Ok(programs)
    }
}

impl OpDef for RunParallel {
    const NAME: &'static str = "interpreter.run_parallel";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(0),
        results: Count::AtLeast(0),
        regions: Count::Exactly(0),
        tensors: false,
    };

    fn check(&self, c: &mut Check<'_>) {
        let width = self.programs.first().map_or(0, Vec::len);
        let even = width > 0 && self.programs.iter().all(|row| row.len() == width);
        c.require(even, "", || "programs must be rows of equal length, none empty".into());
        for Symbol(name) in self.programs.iter().flatten().chain(&self.infeed) {
            let known = c.module.func(name).is_some();
            c.require(known, "", || format!("there is no function @{name}"));
        }
        for Symbol(name) in &self.infeed {
            let takes = c.module.func(name).is_some_and(|func| !func.arguments.is_empty());
            c.require(!takes, "", || format!("@{name} must take nothing to be an infeed"));
        }
        let arguments = self.types(c, |func| &func.arguments);
        let operands = c.operand_types().to_vec();
        let same = arguments.len() == operands.len()
            && operands.iter().zip(&arguments).all(|(a, b)| a.compatible(b));
        c.require(same, "", || {
            let (found, wanted) = (operands.len(), arguments.len());
            format!("{found} operands do not fit the programs' {wanted} arguments")
        });
        let (yielded, results) =
            (self.types(c, |func| &func.results).len(), c.result_types().len());
        c.require(yielded == results, "", || {
            format!("{results} results, but the programs yield {yielded}")
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(self.types(c, |func| &func.results))
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let grid = &cx.interpreter.process.grid;
        if grid.replicas * grid.partitions > 1 {
            return Err(cx.error("a process cannot run a grid of its own"));
        }
        let shape = (self.programs.len(), self.programs.first().map_or(0, Vec::len));
        let infeed = self.infeed.iter().map(|name| name.0.clone()).collect();
        let programs = self.distribute(cx)?;
        let results = parallel::run(cx.interpreter, shape, &programs, infeed, cx.depth() + 1)?;
        Ok(results.into_iter().flatten().collect())
    }

    columns!(Opaque, Exact, Missing("runs processes"));
}

payload! {
    /// Shows a value to whoever runs the program; here an observer sees every value anyway.
    Print {}
}

impl OpDef for Print {
    const NAME: &'static str = "interpreter.print";
    const FORM: Form = Form::Plain { words: &[], types: Types::Operands };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 0);

    fn check(&self, _: &mut Check<'_>) {}

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(Vec::new())
    }

    fn eval(&self, _: &mut Cx<'_, '_>) -> EvalResult {
        Ok(Vec::new())
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// Keeps a value under a name, for later expectations.
    Probe { probe_id: Box<str> }
}

impl OpDef for Probe {
    const NAME: &'static str = "interpreter.probe";
    const FORM: Form = Form::Custom { parse: parse_probe, print: print_probe };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, _: &mut Check<'_>) {}

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let value = cx.tensor(0)?.clone();
        let mut probes =
            cx.interpreter.probes.lock().map_err(|_| cx.error("the probes are lost"))?;
        probes.entry(self.probe_id.clone()).or_default().push(value.clone());
        Ok(vec![Value::Tensor(value)])
    }

    columns!(Opaque, Exact, Rule(|_, d| d.one(0, |_, g| g)));
}

payload! {
    /// Expects a value to be what a probe saw.
    ExpectSerializedEq { probe_id: Box<str>, iteration: i64 = 0 }
}

impl OpDef for ExpectSerializedEq {
    const NAME: &'static str = "check.expect_serialized_eq";
    const FORM: Form = Form::Custom { parse: parse_probe, print: print_probe };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 0);

    fn check(&self, c: &mut Check<'_>) {
        c.require(self.iteration >= 0, "", || format!("iter is {}", self.iteration));
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(Vec::new())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let probes = cx.interpreter.probes.lock().map_err(|_| cx.error("the probes are lost"))?;
        let seen = probes.get(&self.probe_id).map_or(&[][..], Vec::as_slice);
        let Some(wanted) = usize::try_from(self.iteration).ok().and_then(|i| seen.get(i)).cloned()
        else {
            return Err(cx.check_failed(format!(
                "probe {:?} saw {} values, there is no number {}",
                self.probe_id,
                seen.len(),
                self.iteration
            )));
        };
        drop(probes);
        expect(cx, cx.tensor(0)?, &wanted, Closeness::Equal)
    }

    columns!(Opaque, Exact, Zero);
}

/// `%x, probe_id = "name", iter = 0 : T`. The string is read here: an attribute would take the
/// type behind it for its own.
fn parse_probe(p: &mut Parser<'_>, info: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    p.cur.expect_word("probe_id")?;
    p.cur.expect("=")?;
    raw.attrs.push(("probe_id".into(), Attr::Str(p.cur.string()?)));
    if p.cur.eat(",") {
        p.cur.expect_word("iter")?;
        p.cur.expect("=")?;
        raw.attrs.push(("iteration".into(), Attr::Int(p.cur.integer()?, None)));
    }
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Same)?;
    if info.arity.results == Count::Exactly(0) {
        raw.results.clear();
    }
    Ok(raw)
}

fn print_probe(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    for (word, name) in [("probe_id", "probe_id"), ("iter", "iteration")] {
        if let Some(attr) = form::take(&mut attrs, name) {
            p.push(", ");
            p.push(word);
            p.push(" = ");
            p.short_attr(&attr);
        }
    }
    p.attributes(&attrs);
    form::print_types(p, node, Types::Operands);
}
