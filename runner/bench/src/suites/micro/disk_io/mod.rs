//! Storage: sequential and random reads and writes of one file, few and many at once.

mod content;
mod drive;
mod file;
mod load;
mod memory;
mod order;
mod queue;
mod ring;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use load::make as load;

use self::content::{PAGE, Stamped};
use self::drive::{Block, Drive, Plan};
use self::file::Scratch;
use self::order::Order;
use super::latency;
use crate::measure::{Figure, collect_beside};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};

const SAMPLE: Duration = Duration::from_millis(50);
const MIB: u64 = 1 << 20;
/// For filling the file.
const FILL: usize = MIB as usize;
const DEEP: usize = 32;
const RANDOM: usize = PAGE;
/// What `cases` says for all of them.
const ALL: &str = "all";

/// One figure.
struct Case {
    name: &'static str,
    order: Order,
    write: bool,
    depth: usize,
}

const fn case(name: &'static str, order: Order, write: bool, depth: usize) -> Case {
    Case { name, order, write, depth }
}

const CASES: &[Case] = &[
    case("sequential-read-1", Order::Sequential, false, 1),
    case("sequential-read-32", Order::Sequential, false, DEEP),
    case("random-read-1", Order::Random, false, 1),
    case("random-read-32", Order::Random, false, DEEP),
    case("sequential-write-1", Order::Sequential, true, 1),
    case("sequential-write-32", Order::Sequential, true, DEEP),
    case("random-write-1", Order::Random, true, 1),
    case("random-write-32", Order::Random, true, DEEP),
];

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "disk_io",
        Component::Storage,
        "Sequential and random 4 KiB reads and writes of a temporary file, one and 32 at once, past \
         the page cache: bandwidth, operations per second, latency. The file is in `folder` (the \
         current one if empty), has `size_mib` and never a name; `block_kib` is for sequential \
         access; `cases` is `all` or some of sequential-read-1, random-write-32 and so on, \
         separated by commas",
        24,
        &[
            ("folder", Value::Text(String::new())),
            ("size_mib", Value::Integer(1024)),
            ("block_kib", Value::Integer(1024)),
            ("cases", Value::Text(ALL.to_owned())),
        ],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(Disk::default())
}

#[derive(Default)]
struct Disk {
    scratch: Option<Scratch>,
    cases: Vec<&'static Case>,
    /// Bytes of a sequential operation.
    block: usize,
}

impl Benchmark for Disk {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.cases = cases(cx.text("cases"))?;
        self.block = block(cx.integer("block_kib"))?;
        let bytes = size(cx.integer("size_mib"))?;
        cx.watch.doing("making the file");
        let scratch = Scratch::create(cx.text("folder"), bytes)?;
        fill(cx, &scratch)?;
        self.scratch = Some(scratch);
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let Some(scratch) = &self.scratch else {
            return Err(Unable::Failed("it was not prepared".to_owned()));
        };
        for case in &self.cases {
            cx.watch.doing(case.name);
            found.extend(measured(cx, scratch, case, self.block, cx.share(self.cases.len()))?);
        }
        Ok(())
    }
}

fn cases(text: &str) -> Result<Vec<&'static Case>, Unable> {
    if text == ALL {
        return Ok(CASES.iter().collect());
    }
    let known = |name: &str| {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
            let names = names.join(", ");
            Unable::Failed(format!("there is no case {name:?}: {ALL}, or some of {names}"))
        })
    };
    text.split(',').map(|name| known(name.trim())).collect()
}

fn block(kib: i64) -> Result<usize, Unable> {
    let fits = (4..=16 << 10).contains(&kib) && kib % 4 == 0;
    let wrong = || Unable::Failed(format!("block_kib is {kib}: a multiple of 4 up to 16384"));
    fits.then_some(kib as usize * 1024).ok_or_else(wrong)
}

/// The file's bytes. The least has room for every block once.
fn size(mib: i64) -> Result<u64, Unable> {
    let fits = (16..=1 << 40).contains(&mib);
    let wrong = || Unable::Failed(format!("size_mib is {mib}: it has to be 16 or more"));
    fits.then_some(mib as u64 * MIB).ok_or_else(wrong)
}

/// Writes the whole file: what was never written is read without a look at the device.
fn fill(cx: &Context<'_>, scratch: &Scratch) -> Result<(), Unable> {
    let blocks = scratch.bytes / FILL as u64;
    let plan = Plan { order: Order::Sequential, write: true, depth: DEEP, block: FILL, blocks };
    let mut content = Stamped::default();
    let mut drive = Drive::begin(&scratch.file, plan, &mut content, (0, blocks))?;
    while drive.block(SAMPLE)?.operations > 0 {
        cx.check()?;
    }
    drop(drive);
    scratch.file.sync_data().map_err(|e| Unable::Failed(format!("the file is not written: {e}")))
}

fn measured(
    cx: &Context<'_>,
    scratch: &Scratch,
    case: &Case,
    sequential: usize,
    time: Duration,
) -> Result<Vec<BenchmarkMetric>, Unable> {
    let plan = case.plan(scratch.bytes, sequential);
    let mut content = Stamped::default();
    let mut drive = Drive::begin(&scratch.file, plan, &mut content, (0, u64::MAX))?;
    let ([samples], latencies) = collect_beside(cx, time, || {
        let block = drive.block(SAMPLE)?;
        Ok(([case.scale(plan.block) * rate(&block)], block.latencies))
    })?;
    let tagged = |figure| case.tagged(figure, drive.engine(), scratch.direct);
    let rate = tagged(case.figure()).of(&samples);
    let latencies = latency::percentiles(&latencies, &samples, tagged);
    Ok(std::iter::once(rate).chain(latencies).collect())
}

impl Case {
    fn plan(&self, bytes: u64, sequential: usize) -> Plan {
        let Self { order, write, depth, .. } = *self;
        let block = if order == Order::Random { RANDOM } else { sequential };
        Plan { order, write, depth, block, blocks: bytes / block as u64 }
    }

    /// Operations are counted where they are small, bytes where they are large.
    fn figure(&self) -> Figure {
        match self.order {
            Order::Random => Figure::higher("iops", "IOPS"),
            Order::Sequential => Figure::higher("bandwidth", "MB/s"),
        }
    }

    /// What one operation of so many bytes is in the figure's unit.
    fn scale(&self, block: usize) -> f64 {
        match self.order {
            Order::Random => 1.0,
            Order::Sequential => block as f64 / 1e6,
        }
    }

    fn tagged(&self, figure: Figure, engine: &str, direct: bool) -> Figure {
        figure
            .tag("access", if self.order == Order::Random { "random" } else { "sequential" })
            .tag("operation", if self.write { "write" } else { "read" })
            .tag("depth", self.depth.to_string())
            .tag("engine", engine)
            .tag("direct", direct.to_string())
    }
}

/// Operations in a second.
fn rate(block: &Block) -> f64 {
    block.operations as f64 / block.elapsed.as_secs_f64().max(1e-9)
}
