//! The other ranks' side.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::{Rank, RankMap};

use super::line::Line;
use super::{BEAT, GREETING, Hello, SILENCE, Word};
use crate::ending::Failure;

const PAUSE: Duration = Duration::from_millis(500);

/// A connection to the leader.
pub struct Follower {
    heard: mpsc::UnboundedReceiver<Word>,
    says: mpsc::UnboundedSender<Word>,
}

impl Follower {
    /// Connects to the leader, no longer than `limit`, and waits until all others have. Without
    /// anything for it to do, the leader may say at once that it is over.
    pub async fn join(
        ranks: &RankMap,
        own: Hello,
        limit: Duration,
    ) -> Result<Option<Self>, Failure> {
        let until = Instant::now() + limit;
        let Some(leader) = ranks.ranks.iter().find(|rank| rank.rank == 0) else {
            return Err(Failure::new(Reason::ConfigurationRejected, "ranks.json has no rank 0"));
        };
        let line = connect(leader, ranks.port, &own, until).await?;
        let (says, said) = mpsc::unbounded_channel();
        let (hears, heard) = mpsc::unbounded_channel();
        tokio::spawn(keep(line, said, hears));
        let mut follower = Self { heard, says };
        match follower.heard.recv().await {
            Some(Word::Go) => Ok(Some(follower)),
            Some(Word::End) => Ok(None),
            _ => Err(follower.lost().await),
        }
    }

    /// Waits until the leader is lost.
    pub async fn lost(&mut self) -> Failure {
        match self.heard.recv().await {
            Some(Word::End) => Failure::new(Reason::PeerLost, "the leader ended before its time"),
            _ => Failure::new(Reason::PeerLost, "the leader is gone"),
        }
    }

    /// The own part is done; waits until the leader has ended the run.
    pub async fn done(mut self) -> Result<(), Failure> {
        let _ = self.says.send(Word::Done);
        self.over().await
    }

    /// Waits until the leader has ended the run.
    pub async fn over(&mut self) -> Result<(), Failure> {
        match self.heard.recv().await {
            Some(Word::End) => Ok(()),
            _ => Err(self.lost().await),
        }
    }

    /// The own part has failed.
    pub async fn failed(self, why: &str) {
        let _ = self.says.send(Word::Failed(why.to_owned()));
        // The task that speaks ends when it has said so and nobody is left to tell it more.
        let Self { mut heard, says } = self;
        drop(says);
        let _ =
            timeout(Duration::from_secs(2), async { while heard.recv().await.is_some() {} }).await;
    }
}

async fn connect(leader: &Rank, port: u16, own: &Hello, until: Instant) -> Result<Line, Failure> {
    loop {
        let why = match attempt(leader, port, own).await {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(why)) => {
                let message = format!("the leader refused this worker: {why}");
                return Err(Failure::new(Reason::PeerLost, message));
            }
            Err(error) => error,
        };
        if Instant::now() + PAUSE >= until {
            let message = format!("no leader at {}:{port}: {why}", leader.host);
            return Err(Failure::new(Reason::PeersNotFound, message));
        }
        sleep(PAUSE).await;
    }
}

async fn attempt(leader: &Rank, port: u16, own: &Hello) -> io::Result<Result<Line, String>> {
    let stream = timeout(GREETING, TcpStream::connect((leader.host.as_str(), port))).await;
    let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let mut line = Line::new(stream);
    line.say(&Word::Hello(own.clone())).await?;
    match line.hear(SILENCE).await? {
        Word::Welcome => {
            line.trust();
            Ok(Ok(line))
        }
        Word::Refused(why) => Ok(Err(why)),
        _ => Err(io::Error::other("it does not speak as a leader does")),
    }
}

/// Keeps the connection alive; what the leader says beside that is passed on, and its loss ends
/// the channel.
async fn keep(
    mut line: Line,
    mut said: mpsc::UnboundedReceiver<Word>,
    hears: mpsc::UnboundedSender<Word>,
) {
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            biased;
            word = said.recv() => match word {
                Some(word) => if line.say(&word).await.is_err() { return },
                None => return,
            },
            word = line.hear(SILENCE) => match word {
                Ok(Word::Alive) => last = Instant::now(),
                Ok(word @ (Word::Go | Word::End)) => {
                    last = Instant::now();
                    if hears.send(word).is_err() { return }
                }
                _ => return,
            },
            _ = beat.tick() => {
                if last.elapsed() > SILENCE || line.say(&Word::Alive).await.is_err() { return }
            }
        }
    }
}
