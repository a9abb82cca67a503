//! Words over a connection, one to a line.

use std::io;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines, Take,
};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::{SILENCE, Word};

/// What a stranger may send, and what a peer may over a whole run.
const STRANGERS: u64 = 4 << 10;
const PEERS: u64 = 16 << 20;

pub struct Line {
    reader: Lines<BufReader<Take<OwnedReadHalf>>>,
    writer: OwnedWriteHalf,
}

impl Line {
    pub fn new(stream: TcpStream) -> Self {
        // Words are short and wanted at once.
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader.take(STRANGERS)).lines(), writer }
    }

    /// From now on it is a peer's.
    pub fn trust(&mut self) {
        self.reader.get_mut().get_mut().set_limit(PEERS);
    }

    /// The next word; an end or a line that is no word is an error. A call may be given up and
    /// made again.
    pub async fn hear(&mut self, limit: Duration) -> io::Result<Word> {
        let line = timeout(limit, self.reader.next_line()).await;
        let line = line.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let line = line.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        serde_json::from_str(&line).map_err(io::Error::other)
    }

    pub async fn say(&mut self, word: &Word) -> io::Result<()> {
        let text = serde_json::to_string(word).map_err(io::Error::other)? + "\n";
        let said = timeout(SILENCE, self.writer.write_all(text.as_bytes())).await;
        said.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}
