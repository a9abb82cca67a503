//! Storage as a load: what is written in a round is read back from the device in the same round
//! and compared, every byte.

use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::content::Whole;
use super::drive::{Drive, Plan};
use super::file::Scratch;
use super::order::Order;
use super::{DEEP, FILL, SAMPLE, size};
use crate::load::{Load, Round};
use crate::model::Value;
use crate::suite::{Context, Unable};

/// How long a round writes; reading back takes about as long.
const WRITING: Duration = Duration::from_millis(250);
const SIZE_MIB: i64 = 1024;

pub fn make() -> Box<dyn Load> {
    Box::new(Storage::default())
}

#[derive(Default)]
struct Storage {
    scratch: Option<Scratch>,
    content: Whole,
    /// The block that the next round begins with.
    next: u64,
}

impl Load for Storage {
    fn unit(&self) -> &'static str {
        "B"
    }

    /// With the parameters `folder` and `size_mib`, as the benchmark has them, if they are given.
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let folder = match cx.params.get("folder") {
            Some(Value::Text(folder)) => folder.as_str(),
            _ => "",
        };
        let mib = match cx.params.get("size_mib") {
            Some(Value::Integer(mib)) => *mib,
            _ => SIZE_MIB,
        };
        self.scratch = Some(Scratch::create(folder, size(mib)?)?);
        Ok(())
    }

    fn round(&mut self, cx: &Context<'_>) -> Result<Round, Unable> {
        let Some(scratch) = &self.scratch else {
            return Err(Unable::Failed("it was not prepared".to_owned()));
        };
        self.content.round += 1;
        let blocks = scratch.bytes / FILL as u64;
        let written = write(cx, scratch, &mut self.content, (self.next, blocks))?;
        let read = read_back(cx, scratch, &mut self.content, (self.next, self.next + written))?;
        self.next = (self.next + written) % blocks;
        let bytes = (written + read) * FILL as u64;
        Ok(Round { amount: bytes as f64, checks: read * FILL as u64 })
    }
}

fn plan(scratch: &Scratch, write: bool) -> Plan {
    let blocks = scratch.bytes / FILL as u64;
    Plan { order: Order::Sequential, write, depth: DEEP, block: FILL, blocks }
}

/// Writes from a block on for a while, at most the whole file, and says how many.
fn write(
    cx: &Context<'_>,
    scratch: &Scratch,
    content: &mut Whole,
    (first, blocks): (u64, u64),
) -> Result<u64, Unable> {
    let mut drive =
        Drive::begin(&scratch.file, plan(scratch, true), content, (first, first + blocks))?;
    let mut written = drive.block(WRITING)?.operations;
    drive.end();
    written += rest(cx, &mut drive)?;
    drop(drive);
    if !scratch.direct {
        forget(&scratch.file)?;
    }
    Ok(written)
}

/// Has the page cache give up what it holds of the file, for it to be read from the device.
fn forget(file: &File) -> Result<(), Unable> {
    let failed = |error: io::Error| Unable::Failed(format!("the file is not written: {error}"));
    file.sync_data().map_err(failed)?;
    fadvise(file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))
}

/// Reads the blocks and holds them against what was written.
fn read_back(
    cx: &Context<'_>,
    scratch: &Scratch,
    content: &mut Whole,
    range: (u64, u64),
) -> Result<u64, Unable> {
    let mut drive = Drive::begin(&scratch.file, plan(scratch, false), content, range)?;
    rest(cx, &mut drive)
}

/// Everything that is left to do.
fn rest(cx: &Context<'_>, drive: &mut Drive<'_>) -> Result<u64, Unable> {
    let mut operations = 0;
    loop {
        let block = drive.block(SAMPLE)?;
        if block.operations == 0 {
            return Ok(operations);
        }
        operations += block.operations;
        cx.check()?;
    }
}
