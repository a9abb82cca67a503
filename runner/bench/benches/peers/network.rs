//! The loopback's TCP beside iperf3 (bandwidth) and sockperf (round trips).

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use warpforge_bench::statistics::median;

use super::in_turn;
use super::ours::{absent, measure, output, pick, row};

const ROUNDS: usize = 2;
const SECONDS: &str = "3";
const HOST: &str = "127.0.0.1";
const STREAMS: [&str; 2] = ["1", "4"];

pub fn run() -> Result<(), String> {
    bandwidth()?;
    latency()
}

/// Each figure of a run of ours, with iperf3's arguments for it.
fn bandwidth() -> Result<(), String> {
    println!("{:<44} {:>10} {:>10}  ratio", "network, ours beside iperf3", "ours", "theirs");
    let figures: Vec<_> =
        STREAMS.iter().flat_map(|streams| [("send", *streams), ("receive", *streams)]).collect();
    let ours = || {
        let found = measure("net_bandwidth", &[("streams", STREAMS[1])], Duration::from_secs(12))?;
        let one = |(direction, streams): &(&str, &str)| {
            pick(&found, "bandwidth", &[("direction", direction), ("streams", streams)])
        };
        figures.iter().map(one).collect()
    };
    let theirs = || figures.iter().map(|(direction, streams)| iperf3(direction, streams)).collect();
    let medians = in_turn(ROUNDS, ours, theirs)?;
    for ((direction, streams), pair) in figures.iter().zip(medians) {
        row(&format!("{direction}, streams: {streams}, Gbit/s"), pair, pair.0 / pair.1);
    }
    Ok(())
}

fn latency() -> Result<(), String> {
    println!("{:<44} {:>10} {:>10}  ratio", "network, ours beside sockperf", "ours", "theirs");
    let ours = || {
        let found = measure("net_latency", &[], Duration::from_secs(3))?;
        let one = |of| pick(&found, "latency", &[("percentile", of)]);
        ["p50", "p99"].map(one).into_iter().collect()
    };
    let medians = in_turn(2 * ROUNDS, ours, sockperf)?;
    for (name, pair) in ["p50", "p99"].iter().zip(medians) {
        row(&format!("round trip of 64 B, {name} in us"), pair, pair.1 / pair.0);
    }
    Ok(())
}

/// The median of its windows in Gbit/s.
fn iperf3(direction: &str, streams: &str) -> Result<f64, String> {
    let port = free_port()?;
    let _server = Server::start("iperf3", &["-s", "-1", "-B", HOST, "-p", &port], None)?;
    let mut args = vec!["-c", HOST, "-p", &port, "-t", SECONDS, "-O", "1", "-i", "0.1", "-J"];
    args.extend(["-P", streams]);
    args.extend((direction == "receive").then_some("-R"));
    let report: Json =
        serde_json::from_str(&output("iperf3", &args)?).map_err(|error| error.to_string())?;
    let windows = report["intervals"].as_array().ok_or("iperf3 gave no intervals")?;
    let counted = windows.iter().map(|window| &window["sum"]);
    let counted = counted.filter(|sum| sum["omitted"] == Json::Bool(false));
    let rates: Vec<_> = counted.filter_map(|sum| sum["bits_per_second"].as_f64()).collect();
    Ok(median(&rates) / 1e9)
}

/// Percentiles of the round trip in microseconds.
fn sockperf() -> Result<Vec<f64>, String> {
    let port = free_port()?;
    let wait = Some(port.as_str());
    let _server = Server::start("sockperf", &["server", "--tcp", "-i", HOST, "-p", &port], wait)?;
    let args = ["ping-pong", "--tcp", "-i", HOST, "-p", &port, "-m", "64", "-t", SECONDS];
    let text = output("sockperf", &[&args[..], &["--full-rtt"]].concat())?;
    let percentile = |share: &str| {
        let line = text.lines().find(|line| line.contains(&format!("percentile {share}")));
        let value = line.and_then(|line| line.split('=').next_back()?.trim().parse().ok());
        value.ok_or_else(|| format!("sockperf gave no percentile {share}"))
    };
    Ok(vec![percentile("50.000")?, percentile("99.000")?])
}

/// A port that was free a moment ago.
fn free_port() -> Result<String, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound.map(|address| address.port().to_string()).map_err(|error| error.to_string())
}

/// A peer's server, ended with its owner.
struct Server(Child);

impl Server {
    /// With `port` it is waited for by connecting; a server for one client must not see that.
    fn start(program: &str, args: &[&str], port: Option<&str>) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().map_err(|error| absent(program, &error))?);
        let begun = Instant::now();
        thread::sleep(Duration::from_millis(500));
        while let Some(port) = port
            && TcpStream::connect(format!("{HOST}:{port}")).is_err()
        {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(format!("{program} does not listen"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is no matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
