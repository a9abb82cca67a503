//! Operators by name: looked up once, called with positional and named arguments.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Fault, Op, Value};

/// A name that no operator of the loaded libtorch has.
#[derive(Debug, thiserror::Error)]
#[error("libtorch has no operator {name}.{overload}")]
pub struct Unknown {
    pub name: String,
    pub overload: String,
}

/// The operators that were asked for so far.
#[derive(Default)]
pub struct Library {
    known: HashMap<(String, String), Option<Op>>,
}

impl Library {
    /// `name` as in `aten::add`; `overload` as in `Tensor`, `default` and the empty one being
    /// the same.
    pub fn find(&mut self, name: &str, overload: &str) -> Result<Op, Unknown> {
        let overload = if overload == "default" { "" } else { overload };
        let op = match self.known.entry((name.to_owned(), overload.to_owned())) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(Op::find(name, overload)).clone(),
        };
        let default = if overload.is_empty() { "default" } else { overload };
        op.ok_or_else(|| Unknown { name: name.to_owned(), overload: default.to_owned() })
    }

    /// Calls an operator that every libtorch has and that gives one tensor, for this crate's
    /// own use.
    pub fn tensor(
        &mut self,
        name: &str,
        overload: &str,
        arguments: &[Value],
    ) -> Result<super::Tensor, Fault> {
        match self.call(name, overload, arguments)?.into_iter().next() {
            Some(Value::Tensor(tensor)) => Ok(tensor),
            _ => Err(Fault(format!("{name} gave no tensor"))),
        }
    }

    /// The same for one that gives a list of tensors.
    pub fn tensors(
        &mut self,
        name: &str,
        overload: &str,
        arguments: &[Value],
    ) -> Result<Vec<super::Tensor>, Fault> {
        let none = || Fault(format!("{name} gave no tensors"));
        let results = self.call(name, overload, arguments)?;
        let Some(Value::List(items)) = results.into_iter().next() else { return Err(none()) };
        items.iter().map(|item| item.tensor().cloned().ok_or_else(none)).collect()
    }

    /// The same for one that changes its arguments.
    pub fn apply(&mut self, name: &str, overload: &str, arguments: &[Value]) -> Result<(), Fault> {
        self.call(name, overload, arguments).map(drop)
    }

    fn call(
        &mut self,
        name: &str,
        overload: &str,
        arguments: &[Value],
    ) -> Result<Vec<Value>, Fault> {
        let op = self.find(name, overload).map_err(|unknown| Fault(unknown.to_string()))?;
        op.call(arguments, &[])
    }
}

impl Op {
    /// Puts arguments into the order of the schema; what is not given stays open, for the
    /// schema's default.
    pub fn bind<'v>(
        &self,
        positional: &'v [Value],
        named: &'v [(String, Value)],
    ) -> Result<Vec<Option<&'v Value>>, Fault> {
        let parameters = self.parameters();
        let mut slots = vec![None; parameters.len()];
        if positional.len() > slots.len() {
            let given = positional.len();
            return Err(Fault(format!("{given} arguments for {}", self.schema())));
        }
        for (slot, value) in slots.iter_mut().zip(positional) {
            *slot = Some(value);
        }
        for (name, value) in named {
            let Some(index) = parameters.iter().position(|parameter| parameter == name) else {
                return Err(Fault(format!("no parameter {name} in {}", self.schema())));
            };
            if slots[index].replace(value).is_some() {
                return Err(Fault(format!("{name} is given twice for {}", self.schema())));
            }
        }
        Ok(slots)
    }

    pub fn call(
        &self,
        positional: &[Value],
        named: &[(String, Value)],
    ) -> Result<Vec<Value>, Fault> {
        self.invoke(&self.bind(positional, named)?)
    }
}
