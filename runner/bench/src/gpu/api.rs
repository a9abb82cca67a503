//! What the CUDA driver and HIP offer alike, as plainly as they offer it. [`Device`] makes
//! something safe of it.
//!
//! [`Device`]: super::device::Device

#![expect(unsafe_code, reason = "addresses and kernels of a device are the caller's to get right")]

use std::time::Duration;

use super::format::Format;
use crate::suite::Unable;
use crate::system::GpuVendor;

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    pub vendor: GpuVendor,
    /// As the driver counts those that are visible.
    pub index: u32,
    pub name: String,
    pub uuid: String,
    /// Such as `0000:01:00.0`.
    pub pci: String,
    /// Whether its matrix units take single precision with fewer mantissa bits.
    pub tf32: bool,
    pub bf16: bool,
    /// The eight-bit format of its matrix units.
    pub fp8: Option<Format>,
}

/// How a product of matrices is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// Sums in single precision of products as exact as their factors.
    Full,
    /// Factors of single precision cut to tf32.
    Tf32,
}

/// A product of two square matrices, row by row: `c[i][j]` is the sum over `k` of
/// `a[i][k] · b[j][k]`, so that every sum runs along memory. An operand that lies `across` is
/// `a[k][i]` or `b[k][j]` instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub size: usize,
    pub across: [bool; 2],
    pub operand: Format,
    pub product: Format,
    pub arithmetic: Arithmetic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToDevice,
    ToHost,
    Within,
}

/// The kernels of `kernels.cu`, in the order of [`KERNELS`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    Fill,
    Copy,
    Triad,
    Gather,
    Differ,
}

pub(super) const KERNELS: [&std::ffi::CStr; 5] = [c"fill", c"copy", c"triad", c"gather", c"differ"];
pub(super) const SOURCE: &std::ffi::CStr =
    match std::ffi::CStr::from_bytes_with_nul(concat!(include_str!("kernels.cu"), "\0").as_bytes())
    {
        Ok(text) => text,
        Err(_) => unreachable!(),
    };
/// Threads of a block, as the kernels have it.
pub(super) const BLOCK: u32 = 256;

/// What a product of matrices may use besides, as PyTorch lets it or more.
pub(super) const WORKSPACE: usize = 64 << 20;
/// So many ways of computing a product are asked for.
pub(super) const ALGORITHMS: usize = 8;

pub(super) type Done<T = ()> = Result<T, Unable>;

/// A call of a vendor's library that failed.
pub(super) fn failed(call: &str, reason: impl std::fmt::Display) -> Unable {
    Unable::Failed(format!("{call} failed: {reason}"))
}

/// One GPU's driver. There are two queues, whose work is done in order and apart from each other's.
/// Whatever is queued is done some time before [`wait`](Self::wait) or [`stop`](Self::stop) returns.
pub(super) trait Api: Send + Sync {
    fn about(&self) -> &About;

    /// Makes it the GPU that this thread's calls mean. All calls but those of a [`Plan`] begin with it.
    fn bind(&self) -> Done;

    /// Compiles the kernels; before that none can be launched.
    fn compile(&mut self) -> Done;

    /// Bytes that can still be had.
    fn free_memory(&self) -> Done<usize>;

    fn alloc(&self, bytes: usize) -> Done<u64>;

    /// # Safety
    /// The address is from [`alloc`](Self::alloc) and used no more.
    unsafe fn free(&self, address: u64);

    /// Memory of the host that stays where it is, so that the device reads it by itself.
    fn alloc_pinned(&self, bytes: usize) -> Done<u64>;

    /// # Safety
    /// The address is from [`alloc_pinned`](Self::alloc_pinned) and used no more.
    unsafe fn free_pinned(&self, address: u64);

    /// # Safety
    /// Both ranges exist, on the sides that `way` says, until the copy is done.
    unsafe fn copy(&self, queue: usize, way: Way, to: u64, from: u64, bytes: usize) -> Done;

    /// # Safety
    /// The arguments are the kernel's, and the memory they point to exists until it is done.
    unsafe fn launch(&self, kernel: Kernel, blocks: u32, arguments: &mut [u64]) -> Done;

    /// Sets a mark before whatever is queued from now on, in both queues.
    fn start(&self) -> Done;

    /// Waits until everything is done, and says how long that took since the mark.
    fn stop(&self) -> Done<Duration>;

    fn wait(&self) -> Done;

    /// Makes ready for a product of matrices.
    ///
    /// # Safety
    /// `self` outlives the plan, and so do [`WORKSPACE`] bytes of device memory at `workspace`.
    unsafe fn plan(&self, shape: &Shape, workspace: u64) -> Done<Box<dyn Plan>>;
}

/// A product of matrices that the vendor's library has made itself ready for.
pub(super) trait Plan: Send {
    /// How many ways of computing it there are, the one thought best first.
    fn algorithms(&self) -> usize;

    /// Queues it.
    ///
    /// # Safety
    /// The GPU is this thread's, and the addresses are of matrices of the plan's shape, until it is done.
    unsafe fn multiply(&self, algorithm: usize, a: u64, b: u64, c: u64) -> Done;
}
