//! Main memory's bandwidth, after STREAM.

use std::time::Duration;

mod arrays;
mod kernels;
mod load;

use crate::Sysroot;
use crate::measure::{Figure, collect};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};
use crate::system::System;

use super::threads::{self, Scope, together};
use super::{buffer, listed};

use arrays::Arrays;
use kernels::{Isa, Operation, Stores};
pub use load::load;

const BLOCK: Duration = Duration::from_millis(40);
/// Each array is so many times as large as the caches behind it: STREAM's own rule.
const TIMES: u64 = 4;
/// An array where no cache is known.
const UNKNOWN: u64 = 128 << 20;

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "mem_bandwidth",
        Component::Ram,
        "STREAM's loops over f64 (copy c=a, scale c=3a, add c=a+b, triad c=a+3b), and reading \
         alone. Bytes are counted as STREAM counts them: each element read or written once, and \
         not the line that an ordinary store brings in before it writes. Each array is at least \
         four times the last-level caches, as far as half of the free memory allows (where \
         not, the tag cache_multiple says so); each core works on memory that it touched first, on huge pages where \
         the kernel grants them (tag pages). Results are stored past the caches (streaming) and \
         through them (cached), a figure each. One thread to a core",
        20,
        &[
            ("kernels", Value::Text(Operation::NAMES.join(","))),
            ("cores", Value::Text("1,all".to_owned())),
            ("stores", Value::Text(Stores::NAMES.join(","))),
        ],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(MemBandwidth::default())
}

#[derive(Default)]
struct MemBandwidth {
    scopes: Vec<Scope>,
    operations: Vec<Operation>,
    stores: Vec<Stores>,
}

impl Benchmark for MemBandwidth {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.scopes = threads::scopes(cx)?;
        let names = listed::choose(cx, "kernels", &Operation::NAMES)?;
        let asked = |operation: &Operation| names.contains(&operation.name());
        self.operations = Operation::ALL.into_iter().filter(asked).collect();
        let names = listed::choose(cx, "stores", &Stores::NAMES)?;
        let asked = |stores: &Stores| names.contains(&stores.name());
        self.stores = Stores::ALL.into_iter().filter(asked).collect();
        for scope in &self.scopes {
            Size::of(cx.system, scope)?;
        }
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let loops = self.loops();
        let time = cx.share(loops.len() * self.scopes.len());
        for scope in &self.scopes {
            cx.watch.doing(&format!("arrays for {}", scope.words()));
            let mut field = Field::new(cx.system, scope)?;
            for &(operation, stores) in &loops {
                cx.watch.doing(&format!("{} on {}", operation.name(), scope.words()));
                found.push(field.measure(cx, operation, stores, time)?);
            }
        }
        Ok(())
    }
}

impl MemBandwidth {
    /// What is measured; what stores nothing, once.
    fn loops(&self) -> Vec<(Operation, Stores)> {
        let ways = |&operation: &Operation| {
            let ways =
                if operation == Operation::Read { &[Stores::Cached] } else { &self.stores[..] };
            ways.iter().map(move |&stores| (operation, stores))
        };
        self.operations.iter().flat_map(ways).collect()
    }
}

/// How large an array is, all threads' parts together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    bytes: u64,
    /// Of the caches behind it; none where none are known.
    multiple: Option<f64>,
}

impl Size {
    fn of(system: &System, scope: &Scope) -> Result<Self, Unable> {
        let cache = buffer::last_level(&system.cpu.caches).map(|(size, instances)| {
            // One core fills one cache; all of them fill at most one each.
            size * instances.min(scope.cpus.len() as u64)
        });
        Self::within(cache, buffer::budget(system) / 3)
    }

    fn within(cache: Option<u64>, most: u64) -> Result<Self, Unable> {
        let bytes = cache.map_or(UNKNOWN, |cache| cache * TIMES).min(most);
        let multiple = cache.map(|cache| bytes as f64 / cache as f64);
        if let Some(cache) = cache.filter(|cache| bytes < *cache) {
            let message = format!(
                "arrays of {bytes} bytes, which is what memory allows, fit the caches of {cache} bytes"
            );
            return Err(Unable::Missing(message));
        }
        Ok(Self { bytes, multiple })
    }

    /// What a reader has to know of arrays that are smaller than they should be.
    fn short(&self) -> Option<String> {
        let multiple = self.multiple.filter(|multiple| *multiple < TIMES as f64)?;
        Some(format!("{multiple:.1}, as memory allows no more"))
    }
}

/// The arrays of all threads.
struct Field<'a> {
    scope: &'a Scope,
    isa: &'static Isa,
    size: Size,
    pages: &'static str,
    parts: Vec<Arrays>,
}

impl<'a> Field<'a> {
    fn new(system: &System, scope: &'a Scope) -> Result<Self, Unable> {
        let size = Size::of(system, scope)?;
        let cores = scope.cpus.len();
        let length = size.bytes as usize / size_of::<f64>() / cores;
        let mut slots: Vec<()> = vec![(); cores];
        let parts = together(&scope.cpus, &mut slots, |()| Arrays::new(length))?.results;
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let pages = buffer::pages(&Sysroot::host(), 3 * size.bytes);
        Ok(Self { scope, isa: kernels::isa(), size, pages, parts })
    }

    /// Gigabytes a second.
    fn rate(&mut self, operation: Operation, stores: Stores, passes: u64) -> Result<f64, Unable> {
        let isa = self.isa;
        let elements: usize = self.parts.iter().map(Arrays::length).sum();
        let done = together(&self.scope.cpus, &mut self.parts, |part| {
            std::hint::black_box(part.run(isa, operation, stores, passes));
        })?;
        let bytes = elements as u64 * operation.bytes() * passes;
        Ok(bytes as f64 / done.wall.as_secs_f64() / 1e9)
    }

    fn check(&mut self, operation: Operation, stores: Stores) -> Result<(), Unable> {
        let isa = self.isa;
        let done =
            together(&self.scope.cpus, &mut self.parts, |part| part.check(isa, operation, stores))?;
        done.results.into_iter().collect()
    }

    fn measure(
        &mut self,
        cx: &Context<'_>,
        operation: Operation,
        stores: Stores,
        time: Duration,
    ) -> Result<BenchmarkMetric, Unable> {
        let rate = self.rate(operation, stores, 1)?;
        let bytes = self.size.bytes as f64 / 8.0 * operation.bytes() as f64;
        let passes = (BLOCK.as_secs_f64() * rate * 1e9 / bytes).round().max(1.0) as u64;
        let [samples] = collect(cx, time, || Ok([self.rate(operation, stores, passes)?]))?;
        self.check(operation, stores)?;
        let mut figure = Figure::higher("bandwidth", "GB/s")
            .tag("kernel", operation.name())
            .tag("cores", self.scope.name)
            .tag("isa", self.isa.name)
            .tag("pages", self.pages);
        if operation != Operation::Read {
            figure = figure.tag("stores", stores.name());
        }
        if let Some(short) = self.size.short() {
            figure = figure.tag("cache_multiple", short);
        }
        Ok(figure.of(&samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_four_times_the_cache_where_memory_allows() {
        let size = |cache, most| Size::within(cache, most).unwrap();
        let whole = size(Some(100 << 20), 8 << 30);
        assert_eq!((whole.bytes, whole.short()), (400 << 20, None));
        let less = size(Some(100 << 20), 150 << 20);
        assert_eq!(less.bytes, 150 << 20);
        assert_eq!(less.short().unwrap(), "1.5, as memory allows no more");
        let unknown = size(None, 8 << 30);
        assert_eq!((unknown.bytes, unknown.short()), (UNKNOWN, None));
    }

    #[test]
    fn what_stores_nothing_is_measured_once() {
        let benchmark = MemBandwidth {
            scopes: Vec::new(),
            operations: vec![Operation::Triad, Operation::Read],
            stores: Stores::ALL.to_vec(),
        };
        let wanted = [
            (Operation::Triad, Stores::Streaming),
            (Operation::Triad, Stores::Cached),
            (Operation::Read, Stores::Cached),
        ];
        assert_eq!(benchmark.loops(), wanted);
    }

    #[test]
    fn a_cache_is_not_measured_as_memory() {
        let error = Size::within(Some(100 << 20), 50 << 20).unwrap_err();
        assert!(
            matches!(&error, Unable::Missing(text) if text.contains("fit the caches")),
            "{error}"
        );
    }
}
