//! The state around the calls.

use std::ffi::{CString, c_int};
use std::marker::PhantomData;

use super::super::ScalarType;
use super::{Fault, c_text, checked, raw};

/// libtorch as it is set up for this process.
pub struct Context(());

impl Context {
    /// Deterministic algorithms, and so many threads for one operator, one operator at a time;
    /// `float` is what floats are made as where neither the graph nor an operand says it.
    pub fn configure(threads: u32, tf32: bool, float: ScalarType) -> Result<Self, Fault> {
        let threads = c_int::try_from(threads).map_err(|_| Fault(format!("{threads} threads")))?;
        // SAFETY: sets libtorch's own state.
        checked(|error| unsafe {
            raw::wf_configure(threads, tf32.into(), float.c10() as c_int, error)
        })?;
        Ok(Self(()))
    }

    /// The version of the library that was loaded.
    pub fn version() -> String {
        let [major, minor, patch, ..] = raw::wf_version().to_be_bytes();
        format!("{major}.{minor}.{patch}")
    }

    pub fn threads() -> u32 {
        u32::try_from(raw::wf_threads()).unwrap_or(0)
    }

    /// Loads the CUDA half of libtorch, which registers itself; says how many devices it sees.
    pub fn load_cuda() -> Result<u32, Fault> {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        let name = "libtorch_cuda.so";
        // SAFETY: the initialisers of libtorch's own library, from the folder that libtorch
        // itself was loaded from; they expect to run once, before CUDA is used.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
        // Kernels are registered with addresses inside it: it must never be unloaded.
        std::mem::forget(library.map_err(|error| {
            let reason =
                std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            Fault(format!("libtorch's CUDA part cannot be loaded: {reason}"))
        })?);
        // SAFETY: asks the driver.
        let count = checked(|error| unsafe { raw::wf_cuda_devices(error) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Waits until a CUDA device is idle.
    pub fn synchronize(device: u32) -> Result<(), Fault> {
        let device = c_int::try_from(device).unwrap_or(c_int::MAX);
        // SAFETY: waits, nothing more.
        checked(|error| unsafe { raw::wf_cuda_synchronize(device, error) })
    }
}

/// Gradients recorded or not, until it is dropped; for the thread that made it.
pub struct GradMode {
    before: bool,
    this_thread: PhantomData<*const ()>,
}

impl GradMode {
    pub fn set(enabled: bool) -> Self {
        let before = raw::wf_grad_enabled() != 0;
        raw::wf_grad_set(enabled.into());
        Self { before, this_thread: PhantomData }
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        raw::wf_grad_set(self.before.into());
    }
}

/// An autocast region, until it is dropped; for the thread that made it.
pub struct Autocast {
    device: CString,
    before: raw::Autocast,
    this_thread: PhantomData<*const ()>,
}

impl Autocast {
    /// `dtype`: `None` keeps the one that is set for the device.
    pub fn enter(
        device: &str,
        enabled: bool,
        dtype: Option<ScalarType>,
        cache: bool,
    ) -> Result<Self, Fault> {
        let device = c_text(device)?;
        let dtype = dtype.map_or(-1, |dtype| dtype.c10() as c_int);
        let wanted = raw::Autocast { enabled: enabled.into(), dtype, cache: cache.into() };
        let mut before = raw::Autocast { enabled: 0, dtype: 0, cache: 0 };
        // SAFETY: a string that outlives the call, and room for the answer.
        checked(|error| unsafe {
            raw::wf_autocast_enter(device.as_ptr(), wanted, &raw mut before, error);
        })?;
        Ok(Self { device, before, this_thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: a string that outlives the call. It cannot fail where entering did not.
        let _ = checked(|error| unsafe {
            raw::wf_autocast_leave(self.device.as_ptr(), self.before, error);
        });
    }
}
