//! `warpforge netserver`: the other end of the network benchmarks.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context as _;
use warpforge_bench::netserver::{Event, Limits, PORT, serve};

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::interrupt;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  Here, open to other machines, for one benchmark:
    warpforge netserver --listen 0.0.0.0:9465 --once

  On the other machine:
    warpforge benchmark run --suite micro --benchmark net_bandwidth --peer here:9465

Anybody who reaches the port can have bytes sent and taken in, at most four at once and for an hour
each. Nothing is stored, and nothing of this machine is told. Ctrl-C ends it.";

/// Be the other end of network benchmarks that run elsewhere
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to listen; only this machine reaches the default
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
    )]
    listen: SocketAddr,

    /// End with the first benchmark that comes
    #[arg(long)]
    once: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let stop = interrupt::stop()?;
    let listener = TcpListener::bind(args.listen).with_context(|| {
        let help = "choose another address of this machine, or another port, with --listen";
        Misuse::new(format!("cannot listen on {}", args.listen), help)
    })?;
    let address = listener.local_addr()?;
    ui.note(&format!("listening on {address}"))?;
    if address.ip().is_loopback() {
        let text = "only this machine reaches it; --listen 0.0.0.0:PORT opens it to others";
        ui.note(text)?;
    }
    ui.out().flush()?;
    // A log that cannot be written is no reason to stop.
    let mut tell = |event: Event| drop(ui.note(&line(&event)).and_then(|()| ui.out().flush()));
    serve(&listener, &Limits::default(), args.once, &stop, &mut tell)?;
    Ok(Exit::Pass)
}

fn line(event: &Event) -> String {
    match event {
        Event::Began { peer } => format!("{peer}: began"),
        Event::Ended { peer, received, sent, lasted } => {
            let [received, sent] = [received, sent].map(|bytes| *bytes as f64 / 1e9);
            let seconds = lasted.as_secs_f64();
            format!("{peer}: ended after {seconds:.1} s, {received:.3} GB in, {sent:.3} GB out")
        }
        Event::Refused { peer, why } => format!("{peer}: refused, {why}"),
    }
}
