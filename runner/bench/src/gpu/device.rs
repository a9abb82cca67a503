//! A GPU and its memory, safely: lengths are checked, memory outlives the work that uses it, and
//! nothing on the host is looked at before the device is done with it.

#![expect(unsafe_code, reason = "keeps the promises that a driver's calls ask for")]

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use memmap2::MmapMut;

use super::api::{About, Api, BLOCK, Done, Kernel, Plan, Shape, WORKSPACE, Way};
use super::format::Format;
use crate::suite::Unable;

/// What is copied, added up or read on the device comes in multiples of this.
pub(crate) const GRAIN: usize = 64 << 10;
/// What a block of the kernels `copy` and `triad` does.
const SMALL: usize = 4 << 10;

/// One GPU. Clones are the same GPU.
#[derive(Clone)]
pub(crate) struct Device {
    api: Arc<dyn Api>,
}

/// Memory of a GPU.
pub(crate) struct Memory {
    api: Arc<dyn Api>,
    address: u64,
    bytes: usize,
}

/// Memory of the host that a GPU copies to and from.
pub(crate) struct Host {
    api: Arc<dyn Api>,
    address: u64,
    bytes: usize,
    /// Where it is pageable; pinned memory is the driver's.
    pages: Option<MmapMut>,
}

/// Where two buffers differ, by words of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub words: u64,
    pub first: u64,
}

impl Device {
    pub(super) fn new(api: impl Api + 'static) -> Self {
        Self { api: Arc::new(api) }
    }

    pub fn about(&self) -> &About {
        self.api.about()
    }

    pub fn memory(&self, bytes: usize) -> Done<Memory> {
        let free = self.api.free_memory()?;
        if bytes > free {
            let GpuText(gpu) = GpuText::of(self.about());
            return Err(Unable::Failed(format!(
                "{gpu} has {} MiB free, and {} MiB are needed",
                free >> 20,
                bytes >> 20
            )));
        }
        Ok(Memory { api: self.api.clone(), address: self.api.alloc(bytes)?, bytes })
    }

    pub fn pinned(&self, bytes: usize) -> Done<Host> {
        let address = self.api.alloc_pinned(bytes)?;
        // SAFETY: so many bytes were just given to us.
        unsafe { ptr::write_bytes(address as *mut u8, 1, bytes) };
        Ok(Host { api: self.api.clone(), address, bytes, pages: None })
    }

    /// From the start of a page on: drivers write a fifth more slowly to memory that begins within
    /// a cache line, as an allocator's large blocks do.
    pub fn pageable(&self, bytes: usize) -> Done<Host> {
        let mut pages = MmapMut::map_anon(bytes).map_err(|error| {
            Unable::Failed(format!("cannot get {} MiB of memory: {error}", bytes >> 20))
        })?;
        pages.fill(1);
        let address = pages.as_mut_ptr() as u64;
        Ok(Host { api: self.api.clone(), address, bytes, pages: Some(pages) })
    }

    /// Queues `work` and returns when the device has done it, with the time that it took there.
    pub fn timed(&self, work: impl FnOnce() -> Done) -> Done<Duration> {
        self.api.start()?;
        work()?;
        self.api.stop()
    }

    pub fn wait(&self) -> Done {
        self.api.wait()
    }

    /// Fills memory with noise of a format.
    pub fn fill(&self, to: &Memory, format: Format, seed: u64) -> Done {
        let count = (to.bytes / format.bytes()) as u64;
        let blocks = count.div_ceil(u64::from(BLOCK)) as u32;
        let Format { exponent, mantissa, bias } = format;
        let mut arguments =
            [to.address, count, seed, u64::from(exponent), u64::from(mantissa), u64::from(bias)];
        // SAFETY: the kernel writes `count` elements, which is what there is room for.
        unsafe { self.api.launch(Kernel::Fill, blocks, &mut arguments) }
    }

    /// By the driver's own copy.
    pub fn copy(&self, to: &Memory, from: &Memory) -> Done {
        assert_eq!(to.bytes, from.bytes, "a copy is as long as what is copied");
        // SAFETY: both are that long, and freeing memory waits for the device.
        unsafe { self.api.copy(0, Way::Within, to.address, from.address, to.bytes) }
    }

    /// By a kernel.
    pub fn copy_by_kernel(&self, to: &Memory, from: &Memory) -> Done {
        assert_eq!(to.bytes, from.bytes, "a copy is as long as what is copied");
        let blocks = to.blocks(SMALL);
        // SAFETY: the blocks cover both buffers and no more.
        unsafe { self.api.launch(Kernel::Copy, blocks, &mut [to.address, from.address]) }
    }

    /// `a = b + 0.75 · c` in single precision.
    pub fn triad(&self, a: &Memory, b: &Memory, c: &Memory) -> Done {
        assert!(a.bytes == b.bytes && b.bytes == c.bytes, "all three are equally long");
        let blocks = a.blocks(SMALL);
        // SAFETY: the blocks cover the buffers and no more.
        unsafe { self.api.launch(Kernel::Triad, blocks, &mut [a.address, b.address, c.address]) }
    }

    /// Reads everything, and adds the exclusive or of all words to the word at the start of `to`.
    pub fn gather(&self, to: &Memory, from: &Memory) -> Done {
        assert!(to.bytes >= 4, "there is room for a word");
        let blocks = from.blocks(GRAIN);
        // SAFETY: the blocks cover the buffer and no more, and there is room for the result.
        unsafe { self.api.launch(Kernel::Gather, blocks, &mut [to.address, from.address]) }
    }

    /// Adds to `found` where two buffers differ; see [`found`](Self::found).
    pub fn differ(&self, found: &Memory, a: &Memory, b: &Memory) -> Done {
        assert!(a.bytes == b.bytes && found.bytes >= 16, "both are equally long");
        let words = (a.bytes / 4) as u64;
        let blocks = words.div_ceil(u64::from(BLOCK)).min(1 << 14) as u32;
        let mut arguments = [found.address, a.address, b.address, words];
        // SAFETY: the kernel reads `words` words of both, and writes two numbers to `found`.
        unsafe { self.api.launch(Kernel::Differ, blocks, &mut arguments) }
    }

    /// A place for [`differ`](Self::differ) to add to.
    pub fn nothing_found(&self) -> Done<Memory> {
        let found = self.memory(16)?;
        found.write(&[0_u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat())?;
        Ok(found)
    }

    /// What [`differ`](Self::differ) has found so far.
    pub fn found(found: &Memory) -> Done<Option<Difference>> {
        let bytes = found.read(0, 16)?;
        let number = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | *b as u64);
        let (words, first) = (number(0), number(8));
        Ok((words > 0).then_some(Difference { words, first }))
    }

    pub fn plan(&self, shape: Shape) -> Done<Multiplication> {
        let workspace = self.memory(WORKSPACE)?;
        // SAFETY: the plan is dropped before the workspace and the device, which it is kept with.
        let plan = unsafe { self.api.plan(&shape, workspace.address) }?;
        Ok(Multiplication { plan, shape, _workspace: workspace, api: self.api.clone() })
    }

    /// Queues a copy to the device.
    pub fn upload(&self, queue: usize, to: &Memory, from: &Host) -> Done {
        assert_eq!(to.bytes, from.bytes, "a copy is as long as what is copied");
        // SAFETY: both are that long; either waits for the device before it goes or is looked at.
        unsafe { self.api.copy(queue, Way::ToDevice, to.address, from.address, to.bytes) }
    }

    /// Queues a copy to the host.
    pub fn download(&self, queue: usize, to: &mut Host, from: &Memory) -> Done {
        assert_eq!(to.bytes, from.bytes, "a copy is as long as what is copied");
        // SAFETY: both are that long; either waits for the device before it goes or is looked at.
        unsafe { self.api.copy(queue, Way::ToHost, to.address, from.address, to.bytes) }
    }
}

/// How a GPU is named in messages.
pub(super) struct GpuText(pub String);

impl GpuText {
    pub fn of(about: &About) -> Self {
        Self(format!("GPU {} ({}, {})", about.index, about.name, about.uuid))
    }
}

impl Memory {
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// How many blocks of so many bytes it has; there is no rest.
    fn blocks(&self, each: usize) -> u32 {
        assert_eq!(self.bytes % each, 0, "buffers come in whole blocks");
        (self.bytes / each) as u32
    }

    /// Part of it, once the device is done.
    pub fn read(&self, from: usize, bytes: usize) -> Done<Vec<u8>> {
        assert!(from + bytes <= self.bytes, "what is read is there");
        let mut read = vec![0; bytes];
        let (to, from) = (read.as_mut_ptr() as u64, self.address + from as u64);
        // SAFETY: there is as much on both sides, and the copy is waited for.
        let queued = unsafe { self.api.copy(0, Way::ToHost, to, from, bytes) };
        self.api.wait().and(queued).map(|()| read)
    }

    /// Writes its beginning.
    pub fn write(&self, bytes: &[u8]) -> Done {
        assert!(bytes.len() <= self.bytes, "there is room for what is written");
        let from = bytes.as_ptr() as u64;
        // SAFETY: there is as much on both sides, and the copy is waited for.
        let queued = unsafe { self.api.copy(0, Way::ToDevice, self.address, from, bytes.len()) };
        self.api.wait().and(queued)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody else has the address, and drivers let what uses it end first.
        unsafe { self.api.free(self.address) }
    }
}

impl Host {
    /// What is in it, once the device is done.
    pub fn bytes(&mut self) -> Done<&mut [u8]> {
        self.api.wait()?;
        // SAFETY: the memory is ours, as long as this, was written when it was made, and the
        // device is done with it; whatever is queued next takes `self` again.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A device that has failed copies no more.
        let _ = self.api.wait();
        if self.pages.is_none() {
            // SAFETY: it was made so, and the device is done with it.
            unsafe { self.api.free_pinned(self.address) }
        }
    }
}

/// A product of matrices that can be queued. Fields are dropped in their order.
pub(crate) struct Multiplication {
    plan: Box<dyn Plan>,
    pub shape: Shape,
    _workspace: Memory,
    api: Arc<dyn Api>,
}

impl Multiplication {
    pub fn algorithms(&self) -> usize {
        self.plan.algorithms()
    }

    pub fn multiply(&self, algorithm: usize, a: &Memory, b: &Memory, c: &Memory) -> Done {
        let Shape { size, operand, product, .. } = self.shape;
        let operands = size * size * operand.bytes();
        assert!(a.bytes >= operands && b.bytes >= operands, "the operands are whole");
        assert!(c.bytes >= size * size * product.bytes(), "there is room for the product");
        self.api.bind()?;
        // SAFETY: the matrices have the plan's shape.
        unsafe { self.plan.multiply(algorithm, a.address, b.address, c.address) }
    }
}
