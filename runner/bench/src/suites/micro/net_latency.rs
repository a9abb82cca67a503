//! The time of a small message to a peer and back over TCP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::latency::{self, Histogram};
use crate::measure::{Figure, collect_beside};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::netserver::{LONGEST, Peer, Role, Session};
use crate::suite::{Benchmark, Context, Unable};

const SAMPLE: Duration = Duration::from_millis(50);

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "net_latency",
        Component::Network,
        "Round trips of messages of `message_bytes` over TCP without delay, one at a time: \
         between two threads on the loopback, or with the `warpforge netserver` at `peer` \
         (HOST:PORT)",
        6,
        &[("peer", Value::Text(String::new())), ("message_bytes", Value::Integer(64))],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(Latency::default())
}

#[derive(Default)]
struct Latency {
    open: Option<(Peer, Session, TcpStream)>,
    message: Vec<u8>,
}

impl Benchmark for Latency {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let length = cx.integer("message_bytes");
        let length = u32::try_from(length).ok().filter(|n| (1..=LONGEST).contains(n));
        let length = length.ok_or_else(|| {
            Unable::Failed(format!("message_bytes has to be from 1 to {LONGEST}"))
        })?;
        self.message = (0..length).map(|index| index as u8).collect();
        let peer = Peer::find(cx.text("peer"))?;
        let session = peer.session()?;
        let stream = session.stream(Role::Echo(length))?;
        self.open = Some((peer, session, stream));
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let Some((peer, session, stream)) = &self.open else {
            return Err(Unable::Failed("it was not prepared".to_owned()));
        };
        cx.watch.doing("round trips");
        let mut back = vec![0; self.message.len()];
        let ([samples], blocks) = collect_beside(cx, cx.duration, || {
            let mut latencies = Histogram::default();
            let trips = block(stream, &self.message, &mut back, &mut latencies);
            let (trips, elapsed) = trips.map_err(|_| session.ended())?;
            if back != self.message {
                return Err(Unable::Wrong("a message came back changed".to_owned()));
            }
            Ok(([trips as f64 / elapsed.as_secs_f64()], latencies))
        })?;
        let tagged = |figure: Figure| {
            figure
                .tag("peer", peer.name())
                .tag("message_bytes", self.message.len().to_string())
                .tag("way", "round trip")
        };
        found.push(tagged(Figure::higher("round_trips", "1/s")).of(&samples));
        found.extend(latency::percentiles(&blocks, &samples, tagged));
        Ok(())
    }
}

/// Round trips for about so long as a sample lasts: how many, and how long in all.
fn block(
    mut stream: &TcpStream,
    message: &[u8],
    back: &mut [u8],
    latencies: &mut Histogram,
) -> std::io::Result<(u64, Duration)> {
    let begun = Instant::now();
    let (mut trips, mut from) = (0, begun);
    loop {
        stream.write_all(message)?;
        stream.read_exact(back)?;
        let now = Instant::now();
        latencies.add(now - from);
        trips += 1;
        from = now;
        if now - begun >= SAMPLE {
            return Ok((trips, now - begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Stop;
    use crate::suites::micro::trial::{measure, params};

    #[test]
    fn round_trips_have_a_rate_and_percentiles() {
        let params = params(&spec(), &[("message_bytes", "1000")]);
        let found = measure(make(), &params, &Stop::default(), 300).unwrap();
        let names: Vec<_> = found.iter().map(|metric| metric.name.as_str()).collect();
        assert!(names.starts_with(&["round_trips", "latency"]), "{names:?}");
        for metric in &found {
            assert!(metric.value > 0.0, "{metric:?}");
            assert_eq!(metric.tags["message_bytes"], "1000");
            assert_eq!(metric.higher_is_better, metric.name == "round_trips");
        }
    }

    #[test]
    fn a_message_has_a_length() {
        for length in ["0", "-5", "1048577", "4294967360"] {
            let params = params(&spec(), &[("message_bytes", length)]);
            let error = measure(make(), &params, &Stop::default(), 1).unwrap_err();
            let text = "message_bytes has to be from 1 to 1048576".to_owned();
            assert_eq!(error, Unable::Failed(text));
        }
    }
}
