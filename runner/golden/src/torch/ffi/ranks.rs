//! Several processes: the store they meet at, and the group they exchange tensors in.

use std::ffi::c_int;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd as _;
use std::time::Duration;

use torch_sys::C_tensor;

use super::{Fault, Tensor, c_text, checked, raw, take_text};

/// Small texts by name that all ranks see. It ends when the rank that serves it does.
pub struct Store(*mut raw::Store);

// SAFETY: a reference that is counted atomically, to a store that locks around each of its calls.
unsafe impl Send for Store {}

fn milliseconds(time: Duration) -> i64 {
    // A limit of nothing would mean none.
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn number(value: u32) -> Result<c_int, Fault> {
    c_int::try_from(value).map_err(|_| Fault(format!("{value} is too large")))
}

impl Store {
    /// Serves a store at an address.
    pub fn serve(listener: TcpListener, timeout: Duration) -> Result<Self, Fault> {
        let at = listener.local_addr().map_err(|error| Fault(error.to_string()))?;
        Self::open(at, listener.into_raw_fd(), timeout)
    }

    /// Uses the store at an address, once it is there.
    pub fn connect(at: SocketAddr, timeout: Duration) -> Result<Self, Fault> {
        Self::open(at, -1, timeout)
    }

    fn open(at: SocketAddr, listener: c_int, timeout: Duration) -> Result<Self, Fault> {
        let host = c_text(&at.ip().to_string())?;
        let limit = milliseconds(timeout);
        // SAFETY: a string that outlives the call, and a socket that is given away.
        checked(|error| unsafe {
            raw::wf_store_open(host.as_ptr(), at.port().into(), listener, limit, error)
        })
        .map(Self)
    }

    /// How often this was asked for `key`, this time included.
    pub fn count(&self, key: &str) -> Result<i64, Fault> {
        let key = c_text(key)?;
        // SAFETY: a live handle and a string that outlives the call.
        checked(|error| unsafe { raw::wf_store_count(self.0, key.as_ptr(), error) })
    }

    pub fn set(&self, key: &str, text: &str) -> Result<(), Fault> {
        let (key, text) = (c_text(key)?, c_text(text)?);
        // SAFETY: a live handle and strings that outlive the call.
        checked(|error| unsafe { raw::wf_store_set(self.0, key.as_ptr(), text.as_ptr(), error) })
    }

    /// What `key` is set to, once it is.
    pub fn get(&self, key: &str, timeout: Duration) -> Result<String, Fault> {
        let key = c_text(key)?;
        let limit = milliseconds(timeout);
        // SAFETY: a live handle and a string that outlives the call; the text is fresh.
        unsafe {
            let get = |error| raw::wf_store_get(self.0, key.as_ptr(), limit, error);
            checked(get).map(|text| take_text(text))
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's own.
        unsafe { raw::wf_store_free(self.0) }
    }
}

/// The ranks, connected to one another. All of them must make the same calls in the same order.
pub struct Group(*mut raw::Group);

impl Group {
    /// `address` is this rank's own.
    pub fn new(
        store: &Store,
        address: &str,
        rank: u32,
        ranks: u32,
        timeout: Duration,
    ) -> Result<Self, Fault> {
        let (address, rank, ranks) = (c_text(address)?, number(rank)?, number(ranks)?);
        let limit = milliseconds(timeout);
        // SAFETY: a live handle and a string that outlives the call.
        checked(|error| unsafe {
            raw::wf_group_new(store.0, address.as_ptr(), rank, ranks, limit, error)
        })
        .map(Self)
    }

    /// Makes every tensor the sum of what the ranks have of it.
    pub fn sum(&self, tensors: &[Tensor]) -> Result<(), Fault> {
        let tensors = handles(tensors);
        // SAFETY: live handles, as many as it says.
        checked(|error| unsafe {
            raw::wf_group_sum(self.0, tensors.as_ptr(), tensors.len(), error);
        })
    }

    /// Makes every tensor what rank 0 has of it.
    pub fn share(&self, tensors: &[Tensor]) -> Result<(), Fault> {
        let tensors = handles(tensors);
        // SAFETY: live handles, as many as it says.
        checked(|error| unsafe {
            raw::wf_group_share(self.0, tensors.as_ptr(), tensors.len(), error);
        })
    }

    /// Waits until all ranks are here.
    pub fn barrier(&self) -> Result<(), Fault> {
        // SAFETY: a live handle.
        checked(|error| unsafe { raw::wf_group_barrier(self.0, error) })
    }
}

fn handles(tensors: &[Tensor]) -> Vec<*const C_tensor> {
    tensors.iter().map(Tensor::raw).collect()
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's own.
        unsafe { raw::wf_group_free(self.0) }
    }
}
