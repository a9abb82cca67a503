//! Values across the boundary, and the operators that take and give them.

use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::super::Value;
use super::{Fault, Tensor, c_text, checked, raw, take_text};

/// A value on the other side.
struct Boxed(*mut raw::Value);

impl Drop for Boxed {
    fn drop(&mut self) {
        // SAFETY: owned, and freed only here.
        unsafe { raw::wf_value_free(self.0) }
    }
}

impl Boxed {
    fn new(value: &Value) -> Result<Self, Fault> {
        Ok(Self(match value {
            Value::None => raw::wf_none(),
            Value::Bool(value) => raw::wf_bool((*value).into()),
            Value::Int(value) => raw::wf_int(*value),
            Value::Float(value) => raw::wf_double(*value),
            Value::Complex(re, im) => raw::wf_complex(*re, *im),
            // SAFETY: the text outlives the call, which copies it.
            Value::Str(text) => unsafe { raw::wf_string(text.as_ptr().cast(), text.len()) },
            Value::Device(text) => {
                // SAFETY: as above.
                checked(|error| unsafe { raw::wf_device(text.as_ptr().cast(), text.len(), error) })?
            }
            // SAFETY: a live handle; the call counts one more reference.
            Value::Tensor(tensor) => unsafe { raw::wf_tensor(tensor.raw()) },
            Value::List(items) => {
                let items = items.iter().map(Self::new).collect::<Result<Vec<_>, _>>()?;
                let raw: Vec<_> = items.iter().map(|item| item.0).collect();
                // SAFETY: that many live values; the list takes copies.
                unsafe { raw::wf_list(raw.as_ptr(), raw.len()) }
            }
        }))
    }

    fn read(&self) -> Result<Value, Fault> {
        let raw = self.0;
        // SAFETY: a live value; each accessor is called for its own kind only, and what it
        // returns is fresh. The numbers are those of the shim's `Kind`.
        unsafe {
            Ok(match raw::wf_kind(raw) {
                0 => Value::None,
                1 => Value::Bool(checked(|error| raw::wf_as_bool(raw, error))? != 0),
                2 => Value::Int(checked(|error| raw::wf_as_int(raw, error))?),
                3 => Value::Float(checked(|error| raw::wf_as_double(raw, error))?),
                4 => {
                    let (mut re, mut im) = (0.0, 0.0);
                    raw::wf_as_complex(raw, &raw mut re, &raw mut im);
                    Value::Complex(re, im)
                }
                5 => Value::Str(take_text(raw::wf_as_text(raw))),
                6 => Value::Device(take_text(raw::wf_as_text(raw))),
                7 => Value::Tensor(Tensor::own(raw::wf_as_tensor(raw))),
                8 => {
                    let item = |index| Self(raw::wf_list_item(raw, index)).read();
                    Value::List((0..raw::wf_list_length(raw)).map(item).collect::<Result<_, _>>()?)
                }
                _ => {
                    return Err(Fault(format!(
                        "a value of type {}",
                        take_text(raw::wf_type_name(raw))
                    )));
                }
            })
        }
    }
}

/// What a schema says of an argument's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    None,
    /// A result may share it.
    Share,
    Write,
}

/// An operator of the dispatcher. Its handle lives as long as the process.
#[derive(Clone)]
pub struct Op {
    raw: *const raw::Op,
    parameters: Arc<[String]>,
    random: bool,
}

impl Op {
    pub(in super::super) fn find(name: &str, overload: &str) -> Option<Self> {
        let (name, overload) = (c_text(name).ok()?, c_text(overload).ok()?);
        // SAFETY: two strings that outlive the call.
        let raw =
            checked(|error| unsafe { raw::wf_op_find(name.as_ptr(), overload.as_ptr(), error) });
        let raw = raw.ok().filter(|raw| !raw.is_null())?;
        // SAFETY: a live handle, indices below its count, names that live as long as it.
        let parameters = unsafe {
            let name = |index| CStr::from_ptr(raw::wf_op_parameter_name(raw, index));
            (0..raw::wf_op_parameters(raw))
                .map(|index| name(index).to_string_lossy().into())
                .collect()
        };
        // SAFETY: a live handle.
        let random = unsafe { raw::wf_op_random(raw) != 0 };
        Some(Self { raw, parameters, random })
    }

    /// The names of its parameters, in order.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// What the parameter is when it is left out.
    pub fn default(&self, index: usize) -> Option<Value> {
        assert!(index < self.parameters.len(), "parameter {index} of {}", self.schema());
        // SAFETY: a live handle and an index below its count; what it returns is fresh.
        let raw = unsafe { raw::wf_op_parameter_default(self.raw, index) };
        if raw.is_null() { None } else { Boxed(raw).read().ok() }
    }

    pub fn alias(&self, index: usize) -> Alias {
        if index >= self.parameters.len() {
            return Alias::None;
        }
        // SAFETY: a live handle and an index below its count.
        match unsafe { raw::wf_op_alias(self.raw, index) } {
            0 => Alias::None,
            1 => Alias::Share,
            _ => Alias::Write,
        }
    }

    /// Whether a result may share the memory of an argument.
    pub fn gives_views(&self) -> bool {
        // SAFETY: a live handle.
        unsafe { raw::wf_op_views(self.raw) != 0 }
    }

    /// Whether it draws random numbers, with some arguments at least.
    pub fn is_random(&self) -> bool {
        self.random
    }

    /// `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`
    pub fn schema(&self) -> String {
        // SAFETY: a live handle; the text is fresh.
        unsafe { take_text(raw::wf_op_schema(self.raw)) }
    }

    /// Calls it with one argument per parameter, `None` for the schema's default.
    pub fn invoke(&self, arguments: &[Option<&Value>]) -> Result<Vec<Value>, Fault> {
        assert_eq!(arguments.len(), self.parameters.len(), "arguments of {}", self.schema());
        let boxed = |value: Option<&Value>| value.map(Boxed::new).transpose();
        let boxed = arguments.iter().copied().map(boxed).collect::<Result<Vec<_>, _>>()?;
        let raw: Vec<*const raw::Value> = boxed
            .iter()
            .map(|value| value.as_ref().map_or(null(), |value| value.0.cast_const()))
            .collect();
        // SAFETY: a live handle.
        let mut results = vec![null_mut(); unsafe { raw::wf_op_results(self.raw) }];
        // SAFETY: one live value or null per parameter, room for every result, and nothing
        // that is called here unwinds into Rust.
        checked(|error| unsafe {
            raw::wf_op_call(self.raw, raw.as_ptr(), results.as_mut_ptr(), error)
        })?;
        // Owned before any is read, so that none is lost when reading one fails.
        let results: Vec<_> = results.into_iter().map(Boxed).collect();
        results.iter().map(Boxed::read).collect()
    }

    /// Every operator there is, as `name.overload`.
    #[cfg(test)]
    pub fn all() -> Vec<String> {
        // SAFETY: the text is fresh.
        let text = checked(|error| unsafe { raw::wf_all_ops(error) })
            .map(|text| unsafe { take_text(text) });
        text.expect("the list of operators").lines().map(str::to_owned).collect()
    }
}
