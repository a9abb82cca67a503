//! The boundary to C++: the shim's functions and the safe types made of them. Everything that
//! crosses is owned on one side: values and tensors are fresh handles that are freed here,
//! messages are copied and freed, and exceptions were turned into messages on the other side.

#![expect(unsafe_code, reason = "calling C++ is unsafe by nature; each call says why it is right")]

mod context;
mod ranks;
mod raw;
mod tensor;
mod value;

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;

use super::Fault;

pub use context::{Autocast, Context, GradMode};
pub use ranks::{Group, Store};
pub use tensor::{Layout, Mapping, Tensor};
pub use value::{Alias, Op};

/// Copies and frees a message of the shim's.
///
/// # Safety
/// `text` must be a string that the shim allocated, and is not used afterwards.
unsafe fn take_text(text: *mut c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        raw::wf_text_free(text);
        copy
    }
}

/// Makes a call that reports through an error pointer.
fn checked<R>(call: impl FnOnce(raw::Error) -> R) -> Result<R, Fault> {
    let mut message = null_mut();
    let result = call(&raw mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: the shim left a message that it allocated, for the caller to free.
    Err(Fault(unsafe { take_text(message) }))
}

fn c_text(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault(format!("{text:?} holds a zero byte")))
}
