//! The pass itself. A chunk is a fixed number of elements, a block what fits the first-level
//! cache, and sums run in eight lanes whatever the processor's vectors are; chunks are added up in
//! their order. So the result depends neither on the number of threads nor on the machine.

use std::marker::PhantomData;

use pulp::NullaryFnOnce;

use super::formats::{BLOCK, Block, Element};
use super::partial::{Counters, Histogram, OracleSums, Partial};

/// Elements per unit of parallel work.
pub(super) const CHUNK: usize = 1 << 18;
const LANES: usize = 8;

/// The tolerance a pass applies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub rtol: f64,
    pub atol: f64,
}

/// Turns the bytes of at most a block of elements into values.
pub(super) type Decode = fn(&[u8], &mut [f64; BLOCK]);

/// Float64 values of the third side: how to decode them, and their bytes.
#[derive(Clone, Copy)]
pub(super) struct OracleBytes<'a> {
    pub bytes: &'a [u8],
    pub width: usize,
    pub decode: Decode,
}

impl OracleBytes<'_> {
    pub fn slice(self, from: usize, to: usize) -> Self {
        Self { bytes: &self.bytes[from * self.width..to * self.width], ..self }
    }
}

/// One chunk: its first element has the number `start`.
pub(super) struct Chunk<'a> {
    pub golden: &'a [u8],
    pub candidate: &'a [u8],
    pub oracle: Option<OracleBytes<'a>>,
    pub start: u64,
    pub limits: Limits,
}

impl Chunk<'_> {
    /// Compares it, with code compiled for this processor's vectors where there is such.
    pub fn compare<E: Element<N>, const N: usize>(self) -> Partial {
        let work = Work::<E, N> { chunk: self, element: PhantomData };
        if E::BULK { pulp::Arch::new().dispatch(work) } else { work.call() }
    }
}

/// A closure would do, but would not be inlined into the code with wider vectors.
struct Work<'a, E, const N: usize> {
    chunk: Chunk<'a>,
    element: PhantomData<E>,
}

impl<E: Element<N>, const N: usize> NullaryFnOnce for Work<'_, E, N> {
    type Output = Partial;

    #[inline(always)]
    fn call(self) -> Partial {
        let Chunk { golden, candidate, oracle, start, limits } = self.chunk;
        let (golden, _) = golden.as_chunks::<N>();
        let (candidate, _) = candidate.as_chunks::<N>();
        let mut pass = Pass::new(limits, E::WIDE);
        for (number, (g, c)) in golden.chunks(BLOCK).zip(candidate.chunks(BLOCK)).enumerate() {
            let from = number * BLOCK;
            let first = start + from as u64;
            // No closure of the standard library's around the hot code: it would stay outside the
            // function that is compiled for this processor.
            let done = match (g.as_array::<BLOCK>(), c.as_array::<BLOCK>()) {
                (Some(g), Some(c)) => pass.whole::<E, N>(g, c, first),
                _ => false,
            };
            if !done {
                pass.careful::<E, N>(g, c, first);
            }
            if let Some(oracle) = oracle {
                pass.oracle::<E, N>(g, c, oracle.slice(from, from + g.len()));
            }
        }
        pass.partial.count = golden.len() as u64;
        pass.finish()
    }
}

type Lane = [f64; LANES];

/// Running sums.
#[derive(Clone, Copy, Default)]
struct Lanes {
    error: Lane,
    error_squared: Lane,
    golden_squared: Lane,
    candidate_squared: Lane,
    dot: Lane,
}

impl Lanes {
    #[inline(always)]
    fn add(
        &mut self,
        l: usize,
        [golden, candidate]: [f64; 2],
        error: f64,
        dot: f64,
        complex: bool,
    ) {
        self.error[l] += error;
        self.error_squared[l] += error * error;
        self.golden_squared[l] += golden * golden;
        self.candidate_squared[l] += candidate * candidate;
        self.dot[l] += if complex { dot } else { golden * candidate };
    }
}

struct Pass {
    limits: Limits,
    lanes: Lanes,
    oracle: [Lane; 3],
    partial: Partial,
    counters: Counters,
    /// Elements counted as equal that are not there or not finite.
    blanks: u64,
    slots: [u16; BLOCK],
    buckets: [u8; BLOCK],
}

impl Pass {
    fn new(limits: Limits, wide: bool) -> Self {
        Self {
            limits,
            lanes: Lanes::default(),
            oracle: [Lane::default(); 3],
            partial: Partial::new(wide),
            counters: Counters::new(wide),
            blanks: 0,
            slots: [0; BLOCK],
            buckets: [0; BLOCK],
        }
    }

    /// A whole block of finite elements, which nearly all are. Says false and changes nothing if
    /// this is none.
    #[inline(always)]
    fn whole<E: Element<N>, const N: usize>(
        &mut self,
        golden: &[[u8; N]; BLOCK],
        candidate: &[[u8; N]; BLOCK],
        first: u64,
    ) -> bool {
        let golden_rows = golden.as_chunks::<LANES>().0;
        let candidate_rows = candidate.as_chunks::<LANES>().0;
        let mut lanes = self.lanes;
        for (g, c) in golden_rows.iter().zip(candidate_rows) {
            for l in 0..LANES {
                let dot = if E::COMPLEX { E::dot(g[l], c[l]) } else { 0.0 };
                let sides = [E::value(g[l]), E::value(c[l])];
                lanes.add(l, sides, E::error(g[l], c[l]), dot, E::COMPLEX);
            }
        }
        // An error that is not finite makes its sum so.
        if !lanes.error.iter().sum::<f64>().is_finite() {
            return false;
        }
        self.lanes = lanes;
        let bounds = self.partial.records.bounds(self.limits);
        let (mut mismatches, mut beaten) = (0, 0);
        for i in 0..BLOCK {
            let (g, e) = (E::value(golden[i]), E::error(golden[i], candidate[i]));
            let size = g.abs();
            let limit = self.limits.atol + self.limits.rtol * size;
            mismatches += u64::from(e > limit);
            beaten |= u64::from(bounds.beaten(e, size, limit, self.limits));
            self.slots[i] = Histogram::slot(e, E::WIDE);
        }
        for i in 0..BLOCK {
            self.buckets[i] = E::bucket(golden[i], candidate[i]);
        }
        self.partial.mismatches += mismatches;
        self.counters.count(&self.slots, &self.buckets);
        if beaten != 0 {
            let mut block = Block::new();
            block.load::<E, N>(golden, candidate);
            self.partial.records.take(&block, first, self.limits);
        }
        true
    }

    /// Any other block: the last one, and those with NaN or infinity.
    #[cold]
    fn careful<E: Element<N>, const N: usize>(
        &mut self,
        golden: &[[u8; N]],
        candidate: &[[u8; N]],
        first: u64,
    ) {
        let mut block = Block::new();
        block.load::<E, N>(golden, candidate);
        let bad = self.partial.nonfinite.take(&mut block, golden.len(), first);
        self.blanks += (BLOCK - golden.len() + bad) as u64;
        for i in 0..BLOCK {
            let (sides, error) = ([block.golden[i], block.candidate[i]], block.error[i]);
            self.lanes.add(i % LANES, sides, error, block.dot[i], E::COMPLEX);
            let limit = self.limits.atol + self.limits.rtol * sides[0].abs();
            self.partial.mismatches += u64::from(error > limit);
            self.slots[i] = Histogram::slot(error, E::WIDE);
        }
        self.counters.count(&self.slots, &block.bucket);
        self.partial.records.take(&block, first, self.limits);
    }

    /// Adds the errors of both sides against the third.
    #[inline(always)]
    fn oracle<E: Element<N>, const N: usize>(
        &mut self,
        golden: &[[u8; N]],
        candidate: &[[u8; N]],
        oracle: OracleBytes<'_>,
    ) {
        let mut values = [0.0; BLOCK];
        (oracle.decode)(oracle.bytes, &mut values);
        let mut errors = [[0.0; BLOCK]; 2];
        for (i, (g, c)) in golden.iter().zip(candidate).enumerate() {
            let (g, c) = (E::value(*g) - values[i], E::value(*c) - values[i]);
            let finite = g.is_finite() && c.is_finite();
            self.partial.oracle.count += u64::from(finite);
            errors[0][i] = if finite { g } else { 0.0 };
            errors[1][i] = if finite { c } else { 0.0 };
            values[i] = if finite { values[i] } else { 0.0 };
        }
        for (sums, values) in self.oracle.iter_mut().zip([&errors[0], &errors[1], &values]) {
            for row in values.as_chunks::<LANES>().0 {
                for l in 0..LANES {
                    sums[l] += row[l] * row[l];
                }
            }
        }
    }

    fn finish(mut self) -> Partial {
        let sum = |lane: &Lane| lane.iter().sum::<f64>();
        let Lanes { error, error_squared, golden_squared, candidate_squared, dot } = &self.lanes;
        let [oracle_golden, oracle_candidate, oracle] = self.oracle.each_ref().map(sum);
        let partial = &mut self.partial;
        self.counters.store(partial, self.blanks);
        partial.error = sum(error);
        partial.error_squared = sum(error_squared);
        partial.golden_squared = sum(golden_squared);
        partial.candidate_squared = sum(candidate_squared);
        partial.dot = sum(dot);
        partial.oracle = OracleSums {
            golden: oracle_golden,
            candidate: oracle_candidate,
            oracle,
            count: partial.oracle.count,
        };
        self.partial
    }
}
