//! `io_uring`: operations are put into memory that the kernel reads, and it answers the same way.

#![expect(unsafe_code, reason = "the kernel reads and writes buffers it is told by address")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::slice;

use io_uring::{IoUring, Probe, opcode, types};

use super::memory::Memory;
use super::queue::{Queue, noisy};

/// The file and the buffers, by their index among those that the ring knows.
const FILE: types::Fixed = types::Fixed(0);
const BUFFERS: u16 = 0;

pub(super) struct Ring {
    kernel: IoUring,
    /// Its bytes are only reached through `base`: the kernel writes some while others are read.
    memory: Option<Memory>,
    base: *mut u8,
    block: usize,
    busy: Vec<bool>,
    /// Whether the kernel has the memory's pages at hand, and need not look them up every time.
    registered: bool,
}

impl Ring {
    /// None where the kernel has no `io_uring`, an old one, or does not let us. It registers its
    /// buffers, if it is to and may lock as much memory.
    pub fn open(
        file: &File,
        depth: usize,
        block: usize,
        register: bool,
    ) -> io::Result<Option<Self>> {
        let Some(ring) = usable(depth as u32) else { return Ok(None) };
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let mut memory = noisy(depth * block)?;
        let whole = [io::IoSliceMut::new(&mut memory)];
        // SAFETY: such a slice is laid out as the kernel's `iovec`. The memory outlives the ring, or
        // is never given to anybody else.
        let registered = register
            && unsafe {
                let whole = slice::from_raw_parts(whole.as_ptr().cast(), 1);
                ring.submitter().register_buffers(whole).is_ok()
            };
        let base = memory.as_mut_ptr();
        let busy = vec![false; depth];
        Ok(Some(Self { kernel: ring, memory: Some(memory), base, block, busy, registered }))
    }

    /// The first byte of a place's buffer.
    fn address(&self, place: usize) -> *mut u8 {
        assert!(!self.busy[place], "place {place} is busy");
        // SAFETY: `busy` has as many places as the memory has blocks.
        unsafe { self.base.add(place * self.block) }
    }
}

/// A ring that can read and write.
fn usable(depth: u32) -> Option<IoUring> {
    let ring = IoUring::new(depth).ok()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).ok()?;
    let known = [opcode::Read::CODE, opcode::Write::CODE].map(|code| probe.is_supported(code));
    known.iter().all(|known| *known).then_some(ring)
}

/// A signal may end a call before anything came of it; the next one takes up what it left.
fn or_interrupted(called: io::Result<usize>) -> io::Result<()> {
    match called {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

impl Queue for Ring {
    fn engine(&self) -> &'static str {
        if self.registered { "io_uring" } else { "io_uring-unregistered" }
    }

    fn buffer(&mut self, place: usize) -> &mut [u8] {
        // SAFETY: the block lies in our memory, and nobody else uses that of a place that is not
        // busy, as `address` made sure.
        unsafe { slice::from_raw_parts_mut(self.address(place), self.block) }
    }

    fn start(&mut self, place: usize, offset: u64, write: bool) -> io::Result<()> {
        let (address, length) = (self.address(place), self.block as u32);
        let entry = match (write, self.registered) {
            (true, true) => {
                opcode::WriteFixed::new(FILE, address, length, BUFFERS).offset(offset).build()
            }
            (false, true) => {
                opcode::ReadFixed::new(FILE, address, length, BUFFERS).offset(offset).build()
            }
            (true, false) => opcode::Write::new(FILE, address, length).offset(offset).build(),
            (false, false) => opcode::Read::new(FILE, address, length).offset(offset).build(),
        };
        let entry = entry.user_data(place as u64);
        // SAFETY: the buffer lives until `drop`, which waits for the operation; until it has
        // finished, `busy` keeps everybody else away from it.
        unsafe { self.kernel.submission().push(&entry) }.map_err(io::Error::other)?;
        self.busy[place] = true;
        // Of several, each goes to the device at once: it works while the next is made ready. A
        // single one is submitted by the call that waits for it.
        if self.busy.len() > 1 {
            or_interrupted(self.kernel.submit())?;
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<usize>) -> io::Result<()> {
        if self.kernel.completion().is_empty() {
            or_interrupted(self.kernel.submit_and_wait(1))?;
        }
        for completion in self.kernel.completion() {
            let place = completion.user_data() as usize;
            self.busy[place] = false;
            match usize::try_from(completion.result()) {
                Ok(length) if length == self.block => done.push(place),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(_) => return Err(io::Error::from_raw_os_error(-completion.result())),
            }
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.busy.contains(&true) {
            if or_interrupted(self.kernel.submit_and_wait(1)).is_err() {
                // The kernel may still write there, so it is never given to anybody else.
                std::mem::forget(self.memory.take());
                return;
            }
            for completion in self.kernel.completion() {
                self.busy[completion.user_data() as usize] = false;
            }
        }
    }
}
