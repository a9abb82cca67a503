//! The shim's functions, as its C++ files define them; keep the two alike. What each does is
//! said there.

use std::ffi::{c_char, c_int, c_void};

use torch_sys::C_tensor;

/// `c10::IValue`.
#[repr(C)]
pub struct Value([u8; 0]);

/// `c10::OperatorHandle`.
#[repr(C)]
pub struct Op([u8; 0]);

/// A counted reference to a `c10d::Store`.
#[repr(C)]
pub struct Store([u8; 0]);

/// A counted reference to a `c10d::ProcessGroupGloo`.
#[repr(C)]
pub struct Group([u8; 0]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Autocast {
    pub enabled: c_int,
    pub dtype: c_int,
    pub cache: c_int,
}

/// Where a function leaves its message.
pub type Error = *mut *mut c_char;

unsafe extern "C" {
    pub safe fn wf_version() -> u64;
    pub fn wf_text_free(text: *mut c_char);
    pub safe fn wf_none() -> *mut Value;
    pub safe fn wf_bool(value: c_int) -> *mut Value;
    pub safe fn wf_int(value: i64) -> *mut Value;
    pub safe fn wf_double(value: f64) -> *mut Value;
    pub safe fn wf_complex(re: f64, im: f64) -> *mut Value;
    pub fn wf_string(text: *const c_char, length: usize) -> *mut Value;
    pub fn wf_tensor(tensor: *const C_tensor) -> *mut Value;
    pub fn wf_device(text: *const c_char, length: usize, error: Error) -> *mut Value;
    pub fn wf_list(items: *const *mut Value, count: usize) -> *mut Value;
    pub fn wf_value_free(value: *mut Value);
    pub fn wf_kind(value: *const Value) -> c_int;
    pub fn wf_as_bool(value: *const Value, error: Error) -> c_int;
    pub fn wf_as_int(value: *const Value, error: Error) -> i64;
    pub fn wf_as_double(value: *const Value, error: Error) -> f64;
    pub fn wf_as_complex(value: *const Value, re: *mut f64, im: *mut f64);
    pub fn wf_as_text(value: *const Value) -> *mut c_char;
    pub fn wf_as_tensor(value: *const Value) -> *mut C_tensor;
    pub fn wf_list_length(value: *const Value) -> usize;
    pub fn wf_list_item(value: *const Value, index: usize) -> *mut Value;
    pub fn wf_type_name(value: *const Value) -> *mut c_char;
    pub fn wf_op_find(name: *const c_char, overload: *const c_char, error: Error) -> *const Op;
    pub fn wf_op_parameters(op: *const Op) -> usize;
    pub fn wf_op_results(op: *const Op) -> usize;
    pub fn wf_op_parameter_name(op: *const Op, index: usize) -> *const c_char;
    pub fn wf_op_parameter_default(op: *const Op, index: usize) -> *mut Value;
    pub fn wf_op_alias(op: *const Op, index: usize) -> c_int;
    pub fn wf_op_views(op: *const Op) -> c_int;
    pub fn wf_op_random(op: *const Op) -> c_int;
    pub fn wf_op_schema(op: *const Op) -> *mut c_char;
    pub fn wf_op_call(
        op: *const Op,
        arguments: *const *const Value,
        results: *mut *mut Value,
        error: Error,
    ) -> c_int;
    #[cfg(test)]
    pub fn wf_all_ops(error: Error) -> *mut c_char;
    pub fn wf_configure(threads: c_int, tf32: c_int, dtype: c_int, error: Error);
    pub safe fn wf_threads() -> c_int;
    pub fn wf_cuda_devices(error: Error) -> c_int;
    pub fn wf_cuda_synchronize(device: c_int, error: Error);
    pub safe fn wf_grad_enabled() -> c_int;
    pub safe fn wf_grad_set(enabled: c_int);
    pub fn wf_autocast_enter(
        device: *const c_char,
        wanted: Autocast,
        before: *mut Autocast,
        error: Error,
    );
    pub fn wf_autocast_leave(device: *const c_char, before: Autocast, error: Error);
    pub fn wf_from_blob(
        data: *mut c_void,
        sizes: *const i64,
        strides: *const i64,
        dims: usize,
        dtype: c_int,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        error: Error,
    ) -> *mut C_tensor;
    pub fn wf_tensor_defined(tensor: *const C_tensor) -> c_int;
    pub fn wf_tensor_dtype(tensor: *const C_tensor) -> c_int;
    pub fn wf_tensor_dims(tensor: *const C_tensor) -> usize;
    pub fn wf_tensor_sizes(tensor: *const C_tensor, sizes: *mut i64);
    pub fn wf_tensor_require_grad(tensor: *const C_tensor, required: c_int, error: Error);
    pub fn wf_tensor_tracked(tensor: *const C_tensor) -> c_int;
    pub fn wf_tensor_backward(tensor: *const C_tensor, error: Error);
    pub fn wf_tensor_grad(tensor: *const C_tensor) -> *mut C_tensor;
    pub fn wf_tensor_drop_grad(tensor: *const C_tensor, error: Error);
    pub fn wf_tensor_host(tensor: *const C_tensor, error: Error) -> *mut C_tensor;
    pub fn wf_tensor_data(tensor: *const C_tensor) -> *const c_void;
    pub fn wf_tensor_bytes(tensor: *const C_tensor) -> usize;
    pub fn wf_store_open(
        host: *const c_char,
        port: c_int,
        listener: c_int,
        timeout_ms: i64,
        error: Error,
    ) -> *mut Store;
    pub fn wf_store_free(store: *mut Store);
    pub fn wf_store_count(store: *const Store, key: *const c_char, error: Error) -> i64;
    pub fn wf_store_set(store: *const Store, key: *const c_char, text: *const c_char, error: Error);
    pub fn wf_store_get(
        store: *const Store,
        key: *const c_char,
        timeout_ms: i64,
        error: Error,
    ) -> *mut c_char;
    pub fn wf_group_new(
        store: *const Store,
        address: *const c_char,
        rank: c_int,
        ranks: c_int,
        timeout_ms: i64,
        error: Error,
    ) -> *mut Group;
    pub fn wf_group_free(group: *mut Group);
    pub fn wf_group_sum(
        group: *const Group,
        tensors: *const *const C_tensor,
        count: usize,
        error: Error,
    );
    pub fn wf_group_share(
        group: *const Group,
        tensors: *const *const C_tensor,
        count: usize,
        error: Error,
    );
    pub fn wf_group_barrier(group: *const Group, error: Error);
}
