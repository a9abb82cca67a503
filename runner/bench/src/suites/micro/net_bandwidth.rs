//! Bytes over TCP, to a peer and from it, over one connection and over several.

use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::{self, Scope};
use std::time::Duration;

use crate::measure::{Figure, collect};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::netserver::{Closing, Fault, Peer, Report, Role, Session, receive, send};
use crate::suite::{Benchmark, Context, Unable};

const SAMPLE: Duration = Duration::from_millis(50);
const MOST: i64 = 128;

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "net_bandwidth",
        Component::Network,
        "Bandwidth of TCP in both directions, over one connection and over `streams` at once, \
         counted where the bytes arrive: between two threads on the loopback, or with the \
         `warpforge netserver` at `peer` (HOST:PORT)",
        12,
        &[("peer", Value::Text(String::new())), ("streams", Value::Integer(4))],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(Bandwidth::default())
}

#[derive(Default)]
struct Bandwidth {
    open: Option<(Peer, Session)>,
    streams: usize,
}

/// Which way the bytes go, as the benchmark sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Send,
    Receive,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    /// What the peer does.
    fn role(self) -> Role {
        match self {
            Self::Send => Role::Sink,
            Self::Receive => Role::Source,
        }
    }
}

impl Benchmark for Bandwidth {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let streams = cx.integer("streams");
        if !(1..=MOST).contains(&streams) {
            let text = format!("streams is {streams}: it has to be from 1 to {MOST}");
            return Err(Unable::Failed(text));
        }
        self.streams = streams as usize;
        let peer = Peer::find(cx.text("peer"))?;
        let session = peer.session()?;
        self.open = Some((peer, session));
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let Some((peer, session)) = &self.open else {
            return Err(Unable::Failed("it was not prepared".to_owned()));
        };
        let mut counts = vec![1, self.streams];
        counts.dedup();
        let time = cx.share(2 * counts.len());
        for count in counts {
            for direction in [Direction::Send, Direction::Receive] {
                let name = direction.name();
                cx.watch.doing(&format!("{name}, streams: {count}"));
                let figure = Figure::higher("bandwidth", "Gbit/s")
                    .tag("peer", peer.name())
                    .tag("streams", count.to_string())
                    .tag("direction", name);
                found.push(measured(cx, session, (direction, count), time, figure)?);
            }
        }
        Ok(())
    }
}

fn measured(
    cx: &Context<'_>,
    session: &Session,
    (direction, count): (Direction, usize),
    time: Duration,
    figure: Figure,
) -> Result<BenchmarkMetric, Unable> {
    let open = |_| session.stream(direction.role());
    let streams = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        // The threads end when their connections do, however this is left.
        let _closing = Closing(&streams);
        let lanes = streams.iter().map(|stream| Lane::begin(scope, session, stream, direction));
        let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let [samples] = collect(cx, time, || {
            let rates = lanes.iter_mut().map(|lane| lane.rate(SAMPLE));
            let bytes_per_ns: f64 = rates.sum::<Result<f64, Fault>>()?;
            Ok([8.0 * bytes_per_ns])
        })?;
        Ok(figure.of(&samples))
    })
}

/// One connection with a thread that keeps it busy.
struct Lane<'a> {
    session: &'a Session,
    arrivals: Arrivals<'a>,
    last: Report,
}

/// Where it is told what has arrived: here by a thread, there by the peer.
enum Arrivals<'a> {
    Here(mpsc::Receiver<Report>),
    There(&'a TcpStream),
}

impl<'a> Lane<'a> {
    fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        session: &'a Session,
        stream: &'a TcpStream,
        direction: Direction,
    ) -> Result<Self, Unable>
    where
        'a: 'scope,
    {
        let (told, here) = mpsc::channel();
        // Its end is how the thread learns that it is over, so it is no error.
        let body = move || {
            let moved = AtomicU64::new(0);
            let _ = match direction {
                Direction::Send => send(stream, &moved),
                Direction::Receive => receive(stream, &moved, |report| {
                    told.send(report).map_err(std::io::Error::other)
                }),
            };
        };
        thread::Builder::new()
            .spawn_scoped(scope, body)
            .map_err(|error| Unable::Failed(format!("no thread can be started: {error}")))?;
        let arrivals = match direction {
            Direction::Send => Arrivals::There(stream),
            Direction::Receive => Arrivals::Here(here),
        };
        Ok(Self { session, arrivals, last: Report::default() })
    }

    fn next(&self) -> Result<Report, Fault> {
        match &self.arrivals {
            Arrivals::Here(told) => told.recv().map_err(|_| self.session.ended()),
            Arrivals::There(stream) => self.session.report(stream),
        }
    }

    /// Bytes in a nanosecond over about so long, by the clock of where they arrive.
    fn rate(&mut self, time: Duration) -> Result<f64, Fault> {
        let from = self.last;
        while u128::from(self.last.nanoseconds - from.nanoseconds) < time.as_nanos() {
            self.last = self.next()?;
        }
        let nanoseconds = self.last.nanoseconds - from.nanoseconds;
        Ok((self.last.bytes - from.bytes) as f64 / nanoseconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Stop;
    use crate::suites::micro::trial::{measure, params};

    fn measured(others: &[(&str, &str)]) -> Result<Vec<BenchmarkMetric>, Unable> {
        measure(make(), &params(&spec(), others), &Stop::default(), 400)
    }

    #[test]
    fn bytes_flow_both_ways_over_one_and_over_several() {
        let found = measured(&[("streams", "3")]).unwrap();
        let tags = |metric: &BenchmarkMetric| {
            ["peer", "direction", "streams"].map(|name| metric.tags[name].clone()).join(" ")
        };
        let wanted =
            ["send 1", "receive 1", "send 3", "receive 3"].map(|w| format!("loopback {w}"));
        assert_eq!(found.iter().map(tags).collect::<Vec<_>>(), wanted);
        assert!(found.iter().all(|metric| metric.value > 0.0 && metric.unit == "Gbit/s"));
        assert_eq!(measured(&[("streams", "1")]).unwrap().len(), 2);
    }

    #[test]
    fn streams_are_bounded() {
        for count in ["0", "129", "-1"] {
            let error = measured(&[("streams", count)]).unwrap_err();
            let text = format!("streams is {count}: it has to be from 1 to 128");
            assert_eq!(error, Unable::Failed(text));
        }
    }

    #[test]
    fn an_interruption_ends_its_threads() {
        let stop = Stop::default();
        stop.set();
        let error = measure(make(), &params(&spec(), &[]), &stop, 60_000).unwrap_err();
        assert_eq!(error, Unable::Interrupted);
    }
}
