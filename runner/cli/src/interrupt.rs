//! Ctrl-C and a polite request to end, for commands that keep what they have when they stop.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use warpforge_bench::suite::Stop;

/// Something that is set by the first signal. The second ends the program at once.
pub fn stop() -> io::Result<Stop> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // In this order: whether it is the second is asked before the first is noted.
        flag::register_conditional_default(signal, stop.flag())?;
        flag::register(signal, stop.flag())?;
    }
    Ok(stop)
}
