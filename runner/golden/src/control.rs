//! Control flow: the higher-order operators that keep their subgraphs.

use warpforge_pt2::{Arg, Graph, Node};

use crate::failure::{self, Failure, FailureKind};
use crate::interp::Interpreter;
use crate::torch::{Fault, Tensor, Value};

impl Interpreter {
    pub(crate) fn control_flow(
        &mut self,
        name: &str,
        node: &Node,
        values: &[Option<Value>],
    ) -> Result<Vec<Value>, Failure> {
        let args: Vec<_> = node.args.iter().map(|arg| &arg.arg).collect();
        let failed = |fault: Fault| failure::at(node, FailureKind::Op, fault);
        let list = |arg: &Arg| self.value(arg, values).map(listed).map_err(failed);
        match (name, &args[..]) {
            ("cond", [predicate, Arg::Graph(yes), Arg::Graph(no), operands]) => {
                let predicate = self.value(predicate, values).map_err(failed)?;
                let operands = list(operands)?;
                let chosen = if self.truth(&predicate).map_err(failed)? { yes } else { no };
                self.function(chosen, operands, None)
            }
            ("while_loop", [Arg::Graph(condition), Arg::Graph(body), carried, additional]) => {
                let (carried, additional) = (list(carried)?, list(additional)?);
                self.while_loop(node, condition, body, carried, &additional)
            }
            ("map_impl", [Arg::Graph(body), over, additional]) => {
                let (over, additional) = (list(over)?, list(additional)?);
                self.scan(node, body, Vec::new(), &over, &additional)
            }
            ("scan", [Arg::Graph(body), carried, over, additional]) => {
                let (carried, over, additional) = (list(carried)?, list(over)?, list(additional)?);
                self.scan(node, body, carried, &over, &additional)
            }
            ("cond" | "while_loop" | "map_impl" | "scan", _) => {
                let message = "its arguments are not of the known form";
                Err(failure::at(node, FailureKind::Model, message))
            }
            _ => {
                let message = "this higher-order operator is not known";
                Err(failure::at(node, FailureKind::Unsupported, message))
            }
        }
    }

    fn while_loop(
        &mut self,
        node: &Node,
        condition: &Graph,
        body: &Graph,
        mut carried: Vec<Value>,
        additional: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        loop {
            let all = || carried.iter().chain(additional).cloned().collect::<Vec<_>>();
            let go_on = self.function(condition, all(), None)?;
            let go_on = go_on.first().ok_or_else(|| Fault("its condition gives nothing".into()));
            let go_on = go_on.and_then(|value| self.truth(value));
            if !go_on.map_err(|fault| failure::at(node, FailureKind::Op, fault))? {
                return Ok(carried);
            }
            carried = self.function(body, all(), None)?;
        }
    }

    /// Runs the body for each slice along the first axis; what it carries comes first among its
    /// results, and the others are stacked.
    fn scan(
        &mut self,
        node: &Node,
        body: &Graph,
        mut carried: Vec<Value>,
        over: &[Value],
        additional: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        let failed = |fault: Fault| failure::at(node, FailureKind::Op, fault);
        let length = over.first().and_then(Value::tensor).map(Tensor::shape);
        let length = length.and_then(|shape| shape.first().copied()).unwrap_or(0);
        if length == 0 {
            return Err(failed(Fault("it has nothing to go over".into())));
        }
        let mut stacks: Vec<Vec<Value>> = Vec::new();
        for index in 0..length {
            let mut inputs = carried.clone();
            for whole in over {
                let slice = [whole.clone(), Value::Int(0), Value::Int(index)];
                let slice = self.library().tensor("aten::select", "int", &slice);
                inputs.push(slice.map_err(failed)?.into());
            }
            inputs.extend(additional.iter().cloned());
            let mut results = self.function(body, inputs, None)?;
            let rest = results.split_off(carried.len().min(results.len()));
            carried = results;
            stacks.resize_with(rest.len(), Vec::new);
            stacks.iter_mut().zip(rest).for_each(|(stack, value)| stack.push(value));
        }
        for stack in stacks {
            let stack = self.library().tensor("aten::stack", "", &[Value::List(stack)]);
            carried.push(stack.map_err(failed)?.into());
        }
        Ok(carried)
    }

    fn truth(&mut self, value: &Value) -> Result<bool, Fault> {
        let value = match value {
            Value::Tensor(_) => {
                let item = self.library().find("aten::item", "");
                let item = item.map_err(|unknown| Fault(unknown.to_string()))?;
                item.call(std::slice::from_ref(value), &[])?.pop().unwrap_or(Value::None)
            }
            other => other.clone(),
        };
        value.bool().ok_or_else(|| Fault(format!("{} is no condition", value.kind())))
    }
}

fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::List(items) => items,
        other => vec![other],
    }
}
