//! A queue kept full: as soon as an operation finishes, its place has the next.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::content::{Content, Mismatch};
use super::order::Order;
use super::queue::{self, Queue};
use crate::suite::Unable;
use crate::suites::micro::latency::Histogram;

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub order: Order,
    pub write: bool,
    pub depth: usize,
    /// Bytes of an operation.
    pub block: usize,
    /// The operations that the file has room for.
    pub blocks: u64,
}

#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("{what}: {error}")]
    Refused { what: &'static str, error: io::Error },
    #[error("what was read is not what was written, {0}")]
    Wrong(#[from] Mismatch),
}

impl From<Fault> for Unable {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused { .. } => Self::Failed(fault.to_string()),
            Fault::Wrong(_) => Self::Wrong(fault.to_string()),
        }
    }
}

/// What was done in some time.
#[derive(Default)]
pub(super) struct Block {
    pub operations: u64,
    pub elapsed: Duration,
    pub latencies: Histogram,
}

/// One operation under way.
#[derive(Clone, Copy)]
struct Started {
    offset: u64,
    at: Instant,
}

pub(super) struct Drive<'a> {
    queue: Box<dyn Queue>,
    content: &'a mut dyn Content,
    plan: Plan,
    started: Vec<Started>,
    /// The operation after the last that was started, and the one at which to end.
    next: u64,
    end: u64,
    in_flight: usize,
    done: Vec<usize>,
    /// When the last block ended: what finishes between blocks belongs to the next.
    mark: Instant,
}

impl<'a> Drive<'a> {
    /// For the operations from `first` to before `end`, of which the first are started here.
    pub fn begin(
        file: &File,
        plan: Plan,
        content: &'a mut dyn Content,
        (first, end): (u64, u64),
    ) -> Result<Self, Fault> {
        let queue = queue::open(file, plan.depth, plan.block).map_err(refused("no queue"))?;
        let now = Instant::now();
        let started = vec![Started { offset: 0, at: now }; plan.depth];
        let done = Vec::with_capacity(plan.depth);
        let mut drive =
            Self { queue, content, plan, started, next: first, end, in_flight: 0, done, mark: now };
        for place in 0..plan.depth {
            drive.start(place)?;
        }
        Ok(drive)
    }

    pub fn engine(&self) -> &'static str {
        self.queue.engine()
    }

    /// Starts nothing more; what is under way remains to be waited for.
    pub fn end(&mut self) {
        self.end = self.next;
    }

    /// Goes on for about so long. It ends with an operation that finishes, so what was done and
    /// the time it took belong together; others stay under way for the next block.
    pub fn block(&mut self, time: Duration) -> Result<Block, Fault> {
        let mut block = Block::default();
        while self.in_flight > 0 {
            let now = self.advance(&mut block)?;
            block.elapsed = now - self.mark;
            if block.elapsed >= time && block.operations > 0 {
                break;
            }
        }
        self.mark += block.elapsed;
        Ok(block)
    }

    fn advance(&mut self, block: &mut Block) -> Result<Instant, Fault> {
        let mut done = std::mem::take(&mut self.done);
        self.queue.wait(&mut done).map_err(refused(self.doing()))?;
        let now = Instant::now();
        for place in done.drain(..) {
            let Started { offset, at } = self.started[place];
            self.in_flight -= 1;
            block.operations += 1;
            block.latencies.add(now - at);
            if !self.plan.write {
                self.content.check(offset, self.queue.buffer(place))?;
            }
            self.start(place)?;
        }
        self.done = done;
        Ok(now)
    }

    fn start(&mut self, place: usize) -> Result<(), Fault> {
        if self.next >= self.end {
            return Ok(());
        }
        let Plan { order, blocks, block, write, .. } = self.plan;
        let offset = order.block(self.next, blocks) * block as u64;
        if write {
            self.content.fill(offset, self.queue.buffer(place));
        }
        self.started[place] = Started { offset, at: Instant::now() };
        self.queue.start(place, offset, write).map_err(refused(self.doing()))?;
        self.next += 1;
        self.in_flight += 1;
        Ok(())
    }

    fn doing(&self) -> &'static str {
        if self.plan.write { "the file cannot be written" } else { "the file cannot be read" }
    }
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::Refused { what, error }
}
