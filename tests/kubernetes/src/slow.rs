//! A line to a server that is slow: what goes through arrives whole, in its own time.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Tried};

/// How much goes at once; pauses between make the pace.
const PIECE: usize = 16 << 10;

/// A slow line. It lasts as long as the test.
pub struct Slow {
    address: String,
    line: Arc<Line>,
}

struct Line {
    /// Bytes a second, of each connection and direction.
    pace: AtomicU64,
    /// Bytes that went to the server.
    sent: AtomicU64,
}

impl Slow {
    /// Takes connections at one address and passes them on to another.
    pub fn start(from: &str, to: &str) -> Result<Self, Error> {
        let listener = TcpListener::bind(from).tried(|| format!("could not listen at {from}"))?;
        let address = listener.local_addr().tried(|| format!("no address for {from}"))?;
        let line = Line { pace: AtomicU64::new(u64::MAX), sent: AtomicU64::new(0) };
        let line = Arc::new(line);
        let (to, shared) = (to.to_owned(), line.clone());
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let _ = join(&client, &to, &shared);
            }
        });
        Ok(Self { address: address.to_string(), line })
    }

    /// Where it takes connections.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on, each connection takes so many bytes a second in each direction.
    pub fn pace(&self, pace: u64) {
        self.line.pace.store(pace.max(1), Ordering::Relaxed);
    }

    /// How many bytes went to the server.
    pub fn sent(&self) -> u64 {
        self.line.sent.load(Ordering::Relaxed)
    }
}

fn join(client: &TcpStream, to: &str, line: &Arc<Line>) -> io::Result<()> {
    let server = TcpStream::connect(to)?;
    let (there, back) = ((client.try_clone()?, server.try_clone()?), (server, client.try_clone()?));
    let (out, home) = (line.clone(), line.clone());
    thread::spawn(move || {
        pass(there, &out, |length| _ = out.sent.fetch_add(length, Ordering::Relaxed));
    });
    thread::spawn(move || pass(back, &home, |_| ()));
    Ok(())
}

/// Passes on what comes until one side has no more, and lets the other know.
fn pass((mut from, mut to): (TcpStream, TcpStream), line: &Line, count: impl Fn(u64)) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
        count(length as u64);
        let pace = line.pace.load(Ordering::Relaxed);
        thread::sleep(Duration::from_micros(length as u64 * 1_000_000 / pace));
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arrives_and_late() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap().to_string();
        let echo = thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            client.write_all(&all).unwrap();
        });
        let slow = Slow::start("127.0.0.1:0", &to).unwrap();
        slow.pace(1 << 20);
        let start = std::time::Instant::now();
        let mut client = TcpStream::connect(slow.address()).unwrap();
        let sent: Vec<_> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        client.write_all(&sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        echo.join().unwrap();
        assert!(received == sent);
        assert_eq!(slow.sent(), 100_000);
        assert!(start.elapsed() > Duration::from_millis(95), "{:?}", start.elapsed());
    }
}
