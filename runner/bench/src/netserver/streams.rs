//! Bytes over a connection, as fast as it takes them.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::protocol::Report;

/// What one call sends or takes in.
pub const BUFFER: usize = 256 << 10;
/// How often the receiving end says how much has arrived.
const EVERY: Duration = Duration::from_millis(10);

/// Sends until the other end has enough or there is an error. What it sends cannot be compressed.
pub fn send(mut stream: &TcpStream, sent: &AtomicU64) -> io::Result<()> {
    let buffer = noise();
    loop {
        match stream.write(&buffer)? {
            0 => return Ok(()),
            length => _ = sent.fetch_add(length as u64, Ordering::Relaxed),
        }
    }
}

/// Takes in bytes until the other end closes, and reports now and then.
pub fn receive(
    mut stream: &TcpStream,
    received: &AtomicU64,
    mut report: impl FnMut(Report) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let begun = Instant::now();
    let (mut bytes, mut next) = (0, EVERY);
    loop {
        let length = stream.read(&mut buffer)? as u64;
        if length == 0 {
            return Ok(());
        }
        bytes += length;
        received.fetch_add(length, Ordering::Relaxed);
        let elapsed = begun.elapsed();
        if elapsed >= next {
            report(Report { bytes, nanoseconds: elapsed.as_nanos() as u64 })?;
            next = elapsed + EVERY;
        }
    }
}

/// Sends back every message of so many bytes until the other end closes.
pub(super) fn echo(mut stream: &TcpStream, length: usize, sent: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; length];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
        sent.fetch_add(length as u64, Ordering::Relaxed);
    }
}

fn noise() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..BUFFER / 8).flat_map(|_| word()).collect()
}
