//! Reads and writes of which several are under way at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use super::content::noise;
use super::memory::Memory;
use super::ring::Ring;

/// A fixed number of places, each with a buffer and at most one operation.
pub(super) trait Queue {
    /// How it speaks with the kernel.
    fn engine(&self) -> &'static str;

    /// The buffer of a place with nothing under way.
    fn buffer(&mut self, place: usize) -> &mut [u8];

    /// Begins to read into a place's buffer, or to write it. It may be held back until
    /// [`wait`](Self::wait).
    fn start(&mut self, place: usize, offset: u64, write: bool) -> io::Result<()>;

    /// Waits until something is finished, and adds its places to `done`. None may have come if
    /// a signal did.
    fn wait(&mut self, done: &mut Vec<usize>) -> io::Result<()>;
}

/// The best there is: `io_uring` where the kernel has it and lets us, else threads.
pub(super) fn open(file: &File, depth: usize, block: usize) -> io::Result<Box<dyn Queue>> {
    match Ring::open(file, depth, block, true)? {
        Some(ring) => Ok(Box::new(ring)),
        None => Ok(Box::new(Threads::open(file, depth, block)?)),
    }
}

/// An operation with its buffer, on its way to a thread or back.
struct Parcel {
    place: usize,
    memory: Memory,
    offset: u64,
    write: bool,
    result: io::Result<()>,
}

impl Parcel {
    fn carry_out(&mut self, file: &File) {
        self.result = match self.write {
            true => file.write_all_at(&self.memory, self.offset),
            false => file.read_exact_at(&mut self.memory, self.offset),
        };
    }
}

/// One thread for each place. A single place needs none: it is served by who starts it.
pub(super) struct Threads {
    file: Arc<File>,
    buffers: Vec<Option<Memory>>,
    orders: Option<mpsc::Sender<Parcel>>,
    finished: mpsc::Receiver<Parcel>,
    finish: mpsc::Sender<Parcel>,
    hired: Vec<JoinHandle<()>>,
}

impl Threads {
    pub fn open(file: &File, depth: usize, block: usize) -> io::Result<Self> {
        let file = Arc::new(file.try_clone()?);
        let buffers = (0..depth).map(|_| noisy(block).map(Some)).collect::<io::Result<_>>()?;
        let (finish, finished) = mpsc::channel();
        let mut threads = Self { file, buffers, orders: None, finished, finish, hired: Vec::new() };
        if depth > 1 {
            threads.hire(depth)?;
        }
        Ok(threads)
    }

    fn hire(&mut self, count: usize) -> io::Result<()> {
        let (orders, waiting) = mpsc::channel::<Parcel>();
        let waiting = Arc::new(Mutex::new(waiting));
        self.orders = Some(orders);
        for _ in 0..count {
            let (file, waiting) = (Arc::clone(&self.file), Arc::clone(&waiting));
            let finish = self.finish.clone();
            let body = move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(mut parcel) = next() {
                    parcel.carry_out(&file);
                    if finish.send(parcel).is_err() {
                        return;
                    }
                }
            };
            self.hired.push(thread::Builder::new().spawn(body)?);
        }
        Ok(())
    }
}

impl Queue for Threads {
    fn engine(&self) -> &'static str {
        "threads"
    }

    fn buffer(&mut self, place: usize) -> &mut [u8] {
        self.buffers[place].as_mut().unwrap_or_else(|| unreachable!("place {place} is busy"))
    }

    fn start(&mut self, place: usize, offset: u64, write: bool) -> io::Result<()> {
        let memory = self.buffers[place].take();
        let memory = memory.unwrap_or_else(|| unreachable!("place {place} is busy"));
        let mut parcel = Parcel { place, memory, offset, write, result: Ok(()) };
        if self.orders.is_none() {
            parcel.carry_out(&self.file);
        }
        let to = self.orders.as_ref().unwrap_or(&self.finish);
        to.send(parcel).map_err(|_| io::Error::other("the threads have ended"))
    }

    fn wait(&mut self, done: &mut Vec<usize>) -> io::Result<()> {
        let first = self.finished.recv().map_err(io::Error::other)?;
        for parcel in std::iter::once(first).chain(self.finished.try_iter()) {
            self.buffers[parcel.place] = Some(parcel.memory);
            parcel.result?;
            done.push(parcel.place);
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.orders = None;
        for thread in self.hired.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Memory that cannot be compressed.
pub(super) fn noisy(length: usize) -> io::Result<Memory> {
    let mut memory = Memory::new(length)?;
    noise(&mut memory);
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(file: &File, depth: usize) -> Vec<Box<dyn Queue>> {
        let ring = |register| Ring::open(file, depth, 4096, register).unwrap();
        let rings = [true, false].into_iter().filter_map(ring);
        let rings = rings.map(|ring| Box::new(ring) as Box<dyn Queue>);
        let threads: Box<dyn Queue> = Box::new(Threads::open(file, depth, 4096).unwrap());
        rings.chain([threads]).collect()
    }

    /// Puts all places to work and returns them as they finish.
    fn all(queue: &mut dyn Queue, depth: usize, write: bool) -> Vec<usize> {
        for place in 0..depth {
            queue.start(place, 4096 * place as u64, write).unwrap();
        }
        let mut done = Vec::new();
        while done.len() < depth {
            queue.wait(&mut done).unwrap();
        }
        done.sort_unstable();
        done
    }

    #[test]
    fn what_one_place_writes_another_reads() {
        for depth in [1, 8] {
            let file = tempfile::tempfile().unwrap();
            for mut queue in engines(&file, depth) {
                let engine = queue.engine();
                (0..depth).for_each(|place| queue.buffer(place).fill(place as u8 + 1));
                assert!(all(&mut *queue, depth, true).into_iter().eq(0..depth), "{engine}");
                (0..depth).for_each(|place| queue.buffer(place).fill(0));
                assert!(all(&mut *queue, depth, false).into_iter().eq(0..depth), "{engine}");
                for place in 0..depth {
                    let right = queue.buffer(place).iter().all(|byte| *byte == place as u8 + 1);
                    assert!(right, "{engine}, place {place} of {depth}");
                }
            }
        }
    }

    #[test]
    fn reading_past_the_end_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        for mut queue in engines(&file, 2) {
            queue.start(0, 1 << 20, false).unwrap();
            let error = queue.wait(&mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{}", queue.engine());
        }
    }

    #[test]
    fn a_queue_can_be_left_with_work_under_way() {
        let file = tempfile::tempfile().unwrap();
        for mut queue in engines(&file, 8) {
            (0..8).for_each(|place| queue.start(place, 4096 * place as u64, true).unwrap());
            queue.wait(&mut Vec::new()).unwrap();
        }
        assert!(file.metadata().unwrap().len() >= 4096);
    }
}
