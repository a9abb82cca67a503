//! Rank 0's side.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::{Rank, RankMap};

use super::line::Line;
use super::{BEAT, GREETING, Hello, SILENCE, Word, refusal};
use crate::ending::Failure;

/// How many may connect and say nothing at a time.
const MOST_STRANGERS: usize = 64;
/// How long peers may take to go once it is over.
const PARTING: Duration = Duration::from_secs(10);

/// All peers, connected.
pub struct Leader {
    orders: watch::Sender<Word>,
    heard: mpsc::UnboundedReceiver<(u32, Word)>,
    peers: JoinSet<()>,
    workers: Vec<Rank>,
    done: BTreeSet<u32>,
}

impl Leader {
    /// Waits for all others, no longer than `limit`.
    pub async fn gather(ranks: &RankMap, own: Hello, limit: Duration) -> Result<Self, Failure> {
        let host = ranks.ranks.iter().find(|rank| rank.rank == own.rank).map(|rank| &rank.host);
        let listener = listen(host.map_or("", String::as_str), ranks.port).await;
        let listener = listener.map_err(|error| {
            let message = format!("port {} cannot be listened on: {error}", ranks.port);
            Failure::new(Reason::InternalError, message)
        })?;
        let until = Instant::now() + limit;
        let (says, heard) = mpsc::unbounded_channel();
        let mut leader = Self {
            orders: watch::Sender::new(Word::Alive),
            heard,
            peers: JoinSet::new(),
            workers: ranks.ranks.clone(),
            done: BTreeSet::new(),
        };
        let mut strangers = JoinSet::new();
        let mut here: Vec<u32> = Vec::new();
        while here.len() + 1 < ranks.ranks.len() {
            tokio::select! {
                Ok((stream, _)) = listener.accept(), if strangers.len() < MOST_STRANGERS => {
                    strangers.spawn(greeted(Line::new(stream)));
                }
                Some(greeted) = strangers.join_next() => {
                    let Ok(Some((mut line, hello))) = greeted else { continue };
                    if let Some(why) = refusal(&own, &hello, ranks.ranks.len(), &here) {
                        let _ = line.say(&Word::Refused(why)).await;
                    } else if line.say(&Word::Welcome).await.is_ok() {
                        here.push(hello.rank);
                        line.trust();
                        let orders = leader.orders.subscribe();
                        leader.peers.spawn(keep(hello.rank, line, orders, says.clone()));
                    }
                }
                failure = leader.lost() => return Err(failure),
                () = sleep_until(until) => {
                    let missing = leader.workers.iter();
                    let missing = missing.filter(|r| r.rank != own.rank && !here.contains(&r.rank));
                    let missing: Vec<_> = missing.map(|r| format!("{}-{}", r.group, r.index)).collect();
                    let message = format!("not here after {} s: {}", limit.as_secs(), missing.join(", "));
                    return Err(Failure::new(Reason::PeersNotFound, message));
                }
            }
        }
        Ok(leader)
    }

    /// Lets all begin with their part.
    pub fn go(&self) {
        self.orders.send_replace(Word::Go);
    }

    /// Waits until a peer is lost or fails.
    pub async fn lost(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.news().await {
                return failure;
            }
        }
    }

    /// Waits until all peers are done with their part.
    pub async fn all_done(&mut self, limit: Duration) -> Result<(), Failure> {
        let until = Instant::now() + limit;
        while self.done.len() + 1 < self.workers.len() {
            tokio::select! {
                news = self.news() => news?,
                () = sleep_until(until) => {
                    let message = "not all workers ended their part with the leader".to_owned();
                    return Err(Failure::new(Reason::PeerLost, message));
                }
            }
        }
        Ok(())
    }

    async fn news(&mut self) -> Result<(), Failure> {
        let message = match self.heard.recv().await {
            Some((rank, Word::Done)) => {
                self.done.insert(rank);
                return Ok(());
            }
            Some((rank, Word::Failed(why))) => format!("worker {} failed: {why}", self.name(rank)),
            Some((rank, _)) => format!("worker {} is gone", self.name(rank)),
            // Nobody is left who could be lost.
            None => std::future::pending().await,
        };
        Err(Failure::new(Reason::PeerLost, message))
    }

    /// Tells all that it is over, and sees them go.
    pub async fn end(mut self) {
        self.orders.send_replace(Word::End);
        let gone = async { while self.peers.join_next().await.is_some() {} };
        let _ = timeout(PARTING, gone).await;
    }

    fn name(&self, rank: u32) -> String {
        let found = self.workers.iter().find(|worker| worker.rank == rank);
        found
            .map_or_else(|| rank.to_string(), |worker| format!("{}-{}", worker.group, worker.index))
    }
}

/// On the own address where it is known as such, else on all.
async fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return TcpListener::bind((address, port)).await;
    }
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
    }
}

async fn greeted(mut line: Line) -> Option<(Line, Hello)> {
    match line.hear(GREETING).await {
        Ok(Word::Hello(hello)) => Some((line, hello)),
        _ => None,
    }
}

/// Keeps one connection alive, passes on what the peer says, and tells it what it is told.
async fn keep(
    rank: u32,
    mut line: Line,
    mut orders: watch::Receiver<Word>,
    says: mpsc::UnboundedSender<(u32, Word)>,
) {
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        let over = *orders.borrow() == Word::End;
        let said = tokio::select! {
            word = line.hear(SILENCE) => match word {
                Ok(Word::Alive) => {
                    last = Instant::now();
                    continue;
                }
                Ok(word @ (Word::Done | Word::Failed(_))) => {
                    let _ = says.send((rank, word));
                    continue;
                }
                _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            },
            Ok(()) = orders.changed() => {
                let order = orders.borrow_and_update().clone();
                line.say(&order).await
            }
            _ = beat.tick() => {
                if last.elapsed() > SILENCE {
                    Err(io::Error::from(io::ErrorKind::TimedOut))
                } else {
                    line.say(&Word::Alive).await
                }
            }
        };
        if said.is_err() {
            if !over {
                let _ = says.send((rank, Word::End));
            }
            return;
        }
    }
}
