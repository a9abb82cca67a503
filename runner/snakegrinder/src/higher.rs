//! Operators that take graphs: branches and loops.
//!
//! A subgraph sees what is passed to it and nothing else, so its tensors are its own; one that
//! changes what it was given is refused, as the change would have to leave the region.

use warpforge_pt2::{Arg, Graph, Node};
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use crate::cx::{Out, Res, refuse};
use crate::env::Env;
use crate::lower::{Walk, tensor_ty};
use crate::value::Val;
use warpforge_snakeburger::build::{Emitter, V};

/// The operators that are lowered here.
pub const NAMES: &[&str] = &["cond", "map_impl", "scan", "while_loop"];

impl Walk {
    pub fn higher(&mut self, name: &str, node: &Node, env: &Env) -> Res {
        let args: Vec<&Arg> = node.args.iter().map(|arg| &arg.arg).collect();
        match (name, &args[..]) {
            ("cond", [when, Arg::Graph(yes), Arg::Graph(no), given]) => {
                self.cond(env, when, [yes, no], given)
            }
            ("while_loop", [Arg::Graph(test), Arg::Graph(body), carried, extra]) => {
                self.while_loop(env, [test, body], carried, extra)
            }
            ("scan", [Arg::Graph(body), first, over, extra, ..]) => {
                let carried = self.values(env, first)?;
                self.scan(env, body, carried, over, extra)
            }
            ("map_impl", [Arg::Graph(body), over, extra]) => {
                self.scan(env, body, Vec::new(), over, extra)
            }
            _ => refuse("is no control flow that is known"),
        }
    }

    /// The tensors of a list of arguments.
    fn values(&mut self, env: &Env, list: &Arg) -> Res<Vec<V>> {
        let vals = vals(env, list)?;
        vals.into_iter()
            .map(|val| match val {
                Val::Tensor(slot) => Ok(self.read(slot)),
                _ => refuse("carries a number that is no tensor"),
            })
            .collect()
    }

    fn cond(&mut self, env: &Env, when: &Arg, branches: [&Graph; 2], given: &Arg) -> Res {
        let given = vals(env, given)?;
        // What the branches read is read before them: a view is taken outside or not at all.
        for val in &given {
            if let Val::Tensor(slot) = val {
                self.read(*slot);
            }
        }
        let when = match env.arg(when)? {
            Val::Bool(when) => return self.branch(branches[usize::from(!when)], &given),
            Val::Int(when) => return self.branch(branches[usize::from(when == 0)], &given),
            Val::Tensor(slot) => {
                let when = self.read(slot);
                let e = self.emitter();
                let when = e.convert(when, DType::I1);
                e.reshape(when, &[])
            }
            _ => return refuse("is decided by neither a number nor a tensor"),
        };
        let mut regions = Vec::new();
        let mut types = Vec::new();
        for branch in branches {
            let (open, _) = self.emitter().open(&[]);
            let yields = self.subgraph(branch, &given);
            let e = self.emitter();
            let values = yields.as_deref().unwrap_or_default();
            types = values.iter().map(|value| e.ty(*value).clone()).collect::<Vec<TensorTy>>();
            regions.push(e.close(open, values));
            yields?;
        }
        let outs = self.emitter().push_many(ops::If {}, &[when], &types, &regions);
        Ok(Out::many(outs))
    }

    /// A branch that is known to be taken.
    fn branch(&mut self, graph: &Graph, given: &[Val]) -> Res {
        let values = self.subgraph(graph, given)?;
        Ok(Out::many(values))
    }

    /// Lowers a graph on these inputs, where the program stands.
    fn subgraph(&mut self, graph: &Graph, given: &[Val]) -> Res<Vec<V>> {
        if graph.inputs.len() != given.len() {
            return refuse("has a subgraph that takes another number of values");
        }
        let mut env = Env::new(graph);
        let mut owned = Vec::new();
        for (input, val) in graph.inputs.iter().zip(given) {
            let Arg::Value(id) = input else { continue };
            let val = match val {
                Val::Tensor(slot) => {
                    let value = self.read(*slot);
                    let slot = self.slots().add(value);
                    owned.push(slot);
                    Val::Tensor(slot)
                }
                other => other.clone(),
            };
            env.set(*id, val);
        }
        self.depth += 1;
        let walked = self.graph(graph, &mut env);
        self.depth -= 1;
        if let Err(error) = walked {
            self.failed.get_or_insert(error);
            return refuse("has a subgraph that is lowered wrongly");
        }
        if owned.iter().any(|slot| self.slots().written(*slot)) {
            return refuse("has a subgraph that changes in place what it was given");
        }
        let mut values = Vec::new();
        for output in &graph.outputs {
            match env.arg(output)? {
                Val::Tensor(slot) => values.push(self.read(slot)),
                Val::None => {}
                _ => return refuse("has a subgraph that yields a number that is no tensor"),
            }
        }
        Ok(values)
    }

    /// The same inside a loop, given values; random numbers would repeat with every turn.
    fn turn(&mut self, graph: &Graph, values: &[V], extra: &[Val]) -> Res<Vec<V>> {
        let mut given: Vec<Val> = Vec::new();
        for value in values {
            given.push(Val::Tensor(self.slots().add(*value)));
        }
        given.extend(extra.iter().cloned());
        let random = self.random.take();
        let yields = self.subgraph(graph, &given);
        self.random = random;
        yields
    }

    /// What a loop reads but does not change, read before the loop.
    fn extra(&mut self, env: &Env, list: &Arg) -> Res<Vec<Val>> {
        let vals = vals(env, list)?;
        Ok(vals
            .into_iter()
            .map(|val| match val {
                Val::Tensor(slot) => {
                    let value = self.read(slot);
                    Val::Tensor(self.slots().add(value))
                }
                other => other,
            })
            .collect())
    }

    fn while_loop(&mut self, env: &Env, graphs: [&Graph; 2], carried: &Arg, extra: &Arg) -> Res {
        let start = self.values(env, carried)?;
        let extra = self.extra(env, extra)?;
        let types: Vec<TensorTy> =
            start.iter().map(|value| self.emitter().ty(*value).clone()).collect();
        let mut regions = Vec::new();
        for (i, graph) in graphs.into_iter().enumerate() {
            let (open, args) = self.emitter().open(&types);
            let yields = self.turn(graph, &args, &extra);
            let e = self.emitter();
            let mut values = yields.as_deref().unwrap_or_default().to_vec();
            if i == 0 {
                for value in &mut values {
                    let truth = e.convert(*value, DType::I1);
                    *value = e.reshape(truth, &[]);
                }
            }
            regions.push(e.close(open, &values));
            yields?;
        }
        let outs = self.emitter().push_many(ops::While {}, &start, &types, &regions);
        Ok(Out::many(outs))
    }

    /// Over the rows of some tensors: the graph takes what is carried and one row of each, and
    /// yields what is carried on and a row of each result.
    fn scan(&mut self, env: &Env, body: &Graph, carried: Vec<V>, over: &Arg, extra: &Arg) -> Res {
        let over = self.values(env, over)?;
        let extra = self.extra(env, extra)?;
        let Some(count) = over.first().map(|value| self.emitter().dims(*value)) else {
            return refuse("goes over no tensors");
        };
        let Some(count) = count.first().copied() else { return refuse("goes over a scalar") };
        let kept = carried.len();
        let mut start = vec![self.emitter().full(&[], DType::S64, Num::I(0))];
        start.extend(carried);
        for output in body.outputs.iter().skip(kept) {
            let Arg::Value(id) = output else { return refuse("collects what is no tensor") };
            let meta = body.value(*id).meta.as_ref();
            let Some(row) = meta.and_then(|meta| tensor_ty(meta).ok()) else {
                return refuse("collects rows of a size that is not known");
            };
            let dims: Vec<i64> = [count].iter().chain(row.dims.iter()).copied().collect();
            let dtype = row.elem.storage();
            start.push(self.emitter().full(&dims, dtype, Num::I(0).fit(dtype)));
        }
        let types: Vec<TensorTy> =
            start.iter().map(|value| self.emitter().ty(*value).clone()).collect();
        let e = self.emitter();
        let test = e.region(&types, |e, args| {
            let end = e.full(&[], DType::S64, Num::I(count));
            vec![e.compare(Direction::Lt, args[0], end)]
        });
        let (open, args) = self.emitter().open(&types);
        let yields = self.row(body, &args, kept, &over, &extra);
        let e = self.emitter();
        let region = e.close(open, yields.as_deref().unwrap_or_default());
        yields?;
        let outs = e.push_many(ops::While {}, &start, &types, &[test, region]);
        Ok(Out::many(outs.into_iter().skip(1)))
    }

    fn row(
        &mut self,
        body: &Graph,
        args: &[V],
        kept: usize,
        over: &[V],
        extra: &[Val],
    ) -> Res<Vec<V>> {
        let at = args[0];
        let mut given = args[1..=kept].to_vec();
        for value in over {
            given.push(self.emitter().pick_at(*value, 0, at));
        }
        let yields = self.turn(body, &given, extra)?;
        let e = self.emitter();
        let mut next = vec![e.shift(at, 1.0)];
        next.extend(&yields[..kept.min(yields.len())]);
        for (rows, row) in args[1 + kept..].iter().zip(yields.iter().skip(kept)) {
            next.push(put_row(e, *rows, *row, at));
        }
        Ok(next)
    }
}

fn vals(env: &Env, list: &Arg) -> Res<Vec<Val>> {
    match env.arg(list)? {
        Val::List(items) => Ok(items),
        _ => refuse("takes a list of tensors"),
    }
}

fn put_row(e: &mut Emitter, rows: V, row: V, at: V) -> V {
    let row = e.unsqueeze(row, &[0]);
    e.put_at(rows, row, 0, at)
}
