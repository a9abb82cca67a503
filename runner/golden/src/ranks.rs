//! The processes that train one model together, as each of them sees the others. Rank 0 leads:
//! it says what comes next, and every exchange of tensors follows from that, so that all make
//! the same ones in the same order. An exchange ends in a failure when a rank is gone, or when
//! it keeps the others waiting for longer than was allowed.

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use warpforge_golden_protocol::Precision;
use warpforge_golden_protocol::ranks::Join;

use crate::failure::{Failure, FailureKind, failure, internal};
use crate::torch::{Fault, Group, Layout, ScalarType, Store, Tensor};

/// How long a name may be unknown before it is asked for again.
const PAUSE: Duration = Duration::from_millis(200);

/// What the store may take beyond its limit to say so.
const GRACE: Duration = Duration::from_secs(2);

/// What rank 0 does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Open(Precision),
    Step {
        step: u32,
        dry: bool,
    },
    /// All take rank 0's state.
    Share,
    /// All compare their states.
    Compare,
    /// Something of its own, which the others wait for.
    Own,
    End,
}

const PRECISIONS: [Precision; 4] =
    [Precision::AsExported, Precision::F32, Precision::F64, Precision::Bf16];

impl Next {
    fn encode(self) -> [i64; 3] {
        match self {
            Self::Open(precision) => {
                let place = PRECISIONS.iter().position(|known| *known == precision);
                [0, place.unwrap_or_default() as i64, 0]
            }
            Self::Step { step, dry } => [1, step.into(), dry.into()],
            Self::Share => [2, 0, 0],
            Self::Compare => [3, 0, 0],
            Self::Own => [4, 0, 0],
            Self::End => [5, 0, 0],
        }
    }

    fn decode(numbers: &[i64]) -> Option<Self> {
        Some(match *numbers {
            [0, place, _] => Self::Open(*PRECISIONS.get(usize::try_from(place).ok()?)?),
            [1, step, dry] => Self::Step { step: u32::try_from(step).ok()?, dry: dry != 0 },
            [2, ..] => Self::Share,
            [3, ..] => Self::Compare,
            [4, ..] => Self::Own,
            [5, ..] => Self::End,
            _ => return None,
        })
    }
}

pub struct Ranks {
    pub rank: u32,
    pub count: u32,
    timeout: Duration,
    group: Group,
    /// Others may still look something up when this rank has all it needs.
    _store: Store,
}

impl Ranks {
    /// Meets the others.
    pub fn join(join: &Join) -> Result<Self, Failure> {
        let Join { rank, ranks: count, timeout_seconds, .. } = *join;
        if rank >= count {
            return Err(unfit(format!("there is no rank {rank} among {count}")));
        }
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| unfit(format!("a limit of {timeout_seconds} s: {error}")))?;
        // Somebody else may listen there who never answers, and the store would wait for ever.
        let (sender, met) = channel();
        let asked = join.clone();
        thread::spawn(move || sender.send(meet(&asked, timeout)));
        let met = met.recv_timeout(timeout + GRACE);
        let (store, own) = met.map_err(|_| late(join, "rank 0", &"there is no answer"))??;
        let group = Group::new(&store, &own.to_string(), rank, count, timeout);
        let group = group.map_err(|fault| late(join, "the other ranks", &fault))?;
        Ok(Self { rank, count, timeout, group, _store: store })
    }

    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Says what comes next, if it is for this rank to say.
    pub fn lead(&self, next: Next) -> Result<(), Failure> {
        if !self.leads() {
            return Ok(());
        }
        let told = integers(&next.encode())?;
        self.told("at the start of something new", self.group.share(&[told]))
    }

    /// What comes next.
    pub fn next(&self) -> Result<Next, Failure> {
        let told = integers(&[0; 3])?;
        self.told("waiting for rank 0", self.group.share(std::slice::from_ref(&told)))?;
        let numbers = read(&told)?;
        Next::decode(&numbers).ok_or_else(|| internal(format!("rank 0 says {numbers:?}")))
    }

    /// Makes every tensor what rank 0 has of it.
    pub fn share(&self, tensors: &[Tensor]) -> Result<(), Failure> {
        self.told("taking over rank 0's state", self.group.share(tensors))
    }

    /// Makes every tensor the sum of what the ranks have of it. One by one: a copy of all
    /// gradients in one buffer would take as much memory again, and how a sum of three or more
    /// is ordered would depend on how they are packed.
    pub fn sum(&self, tensors: &[Tensor]) -> Result<(), Failure> {
        self.told("adding up what all have", self.group.sum(tensors))
    }

    /// Sums of numbers over all ranks.
    pub fn sums(&self, numbers: &[f64]) -> Result<Vec<f64>, Failure> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let layout = [numbers.len() as i64];
        let tensor = Tensor::from_bytes(&bytes, &Layout::dense(ScalarType::F64, &layout));
        let tensor = tensor.map_err(internal)?;
        self.sum(std::slice::from_ref(&tensor))?;
        let host = tensor.host().map_err(internal)?;
        Ok(host.bytes().as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect())
    }

    /// Fails on every rank if any has another digest than rank 0.
    pub fn compare(&self, digest: [u8; 32]) -> Result<(), Failure> {
        let own: Vec<i64> =
            digest.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect();
        let mut all = vec![0; own.len() * self.count as usize];
        all[own.len() * self.rank as usize..][..own.len()].copy_from_slice(&own);
        let all = integers(&all)?;
        self.told("comparing states", self.group.sum(std::slice::from_ref(&all)))?;
        let all = read(&all)?;
        let mut others = all.chunks_exact(own.len()).zip(0_u32..);
        match others.find(|(theirs, _)| *theirs != &all[..own.len()]) {
            Some((_, rank)) => {
                Err(internal(format!("rank {rank} holds other weights than rank 0")))
            }
            None => Ok(()),
        }
    }

    /// Waits until all are here.
    pub fn part(&self) -> Result<(), Failure> {
        self.told("parting", self.group.barrier())
    }

    fn told<T>(&self, doing: &str, result: Result<T, Fault>) -> Result<T, Failure> {
        let Self { rank, count, timeout, .. } = self;
        let limit = timeout.as_secs_f64();
        result.map_err(|fault| {
            peer(format!(
                "rank {rank} of {count}, {doing}, lost another rank or waited {limit:.1} s for \
                 it: {fault}"
            ))
        })
    }
}

/// Waits until all ranks are there and are known to belong together; the store they met at, and
/// this rank's own address.
fn meet(join: &Join, timeout: Duration) -> Result<(Store, IpAddr), Failure> {
    let Join { rank, ranks, host, port, key, .. } = join;
    let until = Instant::now() + timeout;
    let left = || until.saturating_duration_since(Instant::now());
    let at = resolve(host, *port, until).map_err(|why| late(join, "rank 0", &why))?;
    let at = reachable(host, &at)?;
    let (store, own) = if *rank == 0 {
        let listener = TcpListener::bind(at)
            .map_err(|error| unfit(format!("rank 0 cannot listen at {host}:{port}: {error}")))?;
        (Store::serve(listener, timeout), at.ip())
    } else {
        let own = address_towards(at).map_err(|error| late(join, "rank 0", &error))?;
        (Store::connect(at, left()), own)
    };
    let lost = |fault: Fault| late(join, "rank 0", &fault);
    let store = store.map_err(lost)?;
    if store.count(&format!("rank/{rank}")).map_err(lost)? != 1 {
        return Err(unfit(format!("another process is rank {rank} at {host}:{port} already")));
    }
    store.set(&format!("key/{rank}"), key).map_err(lost)?;
    for other in 0..*ranks {
        let theirs = store.get(&format!("key/{other}"), left());
        let who = format!("rank {other} of {ranks}");
        if theirs.map_err(|fault| late(join, &who, &fault))? != *key {
            return Err(unfit(format!(
                "rank {other} and rank {rank} differ in their settings, model, data, number of \
                 threads or kind of processor"
            )));
        }
    }
    Ok((store, own))
}

fn late(join: &Join, who: &str, why: &dyn std::fmt::Display) -> Failure {
    let Join { rank, host, port, timeout_seconds: limit, .. } = join;
    peer(format!("rank {rank} waited at {host}:{port} for {who}, at most {limit:.1} s: {why}"))
}

fn peer(message: String) -> Failure {
    failure(FailureKind::Peer, message)
}

fn unfit(message: String) -> Failure {
    failure(FailureKind::Ranks, message)
}

fn integers(numbers: &[i64]) -> Result<Tensor, Failure> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let shape = [numbers.len() as i64];
    Tensor::from_bytes(&bytes, &Layout::dense(ScalarType::I64, &shape)).map_err(internal)
}

fn read(tensor: &Tensor) -> Result<Vec<i64>, Failure> {
    let host = tensor.host().map_err(internal)?;
    Ok(host.bytes().as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
}

/// All addresses of a host. A name may become known only when its machine has started.
fn resolve(host: &str, port: u16, until: Instant) -> Result<Vec<SocketAddr>, String> {
    loop {
        let why = match (host, port).to_socket_addrs().map(Vec::from_iter) {
            Ok(found) if found.is_empty() => format!("{host} has no address"),
            Ok(found) => return Ok(found),
            Err(error) => format!("{host}: {error}"),
        };
        if Instant::now() + PAUSE >= until {
            return Err(why);
        }
        thread::sleep(PAUSE);
    }
}

/// The address to meet at: one by which other machines reach it, unless the loopback is meant. Many
/// a machine's own name is the loopback to itself alone: there rank 0 would wait where no other
/// rank ever comes, and the others would look for it on their own machines.
fn reachable(host: &str, found: &[SocketAddr]) -> Result<SocketAddr, Failure> {
    let meant = host == "localhost" || host.parse::<IpAddr>().is_ok();
    let from_elsewhere = found.iter().find(|at| meant || !at.ip().is_loopback());
    from_elsewhere.copied().ok_or_else(|| {
        let at = found.first().map(|at| at.ip().to_string()).unwrap_or_default();
        unfit(format!(
            "rank 0's host {host} is {at} here, where no other machine reaches it: name it by its \
             address, or correct /etc/hosts; ranks that are all on this machine meet at 127.0.0.1"
        ))
    })
}

/// This machine's address on the way to another, which is how others on that way reach it.
fn address_towards(at: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if at.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent: the system only chooses the way.
    socket.connect(at)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_is_read_as_it_was_said() {
        let opens = PRECISIONS.map(Next::Open);
        let steps = [Next::Step { step: u32::MAX, dry: true }, Next::Step { step: 0, dry: false }];
        let rest = [Next::Share, Next::Compare, Next::Own, Next::End];
        for next in opens.into_iter().chain(steps).chain(rest) {
            assert_eq!(Next::decode(&next.encode()), Some(next));
        }
        assert_eq!(Next::decode(&[9, 0, 0]), None);
        assert_eq!(Next::decode(&[1, -1, 0]), None);
    }

    #[test]
    fn a_name_that_is_the_loopback_is_no_place_to_meet() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 9);
        let found = |host: &str, all: &[&str]| {
            let all: Vec<_> = all.iter().map(|text| at(text)).collect();
            reachable(host, &all).map_err(|failure| (failure.kind, failure.message))
        };
        assert_eq!(found("node-1", &["10.0.0.7"]).unwrap(), at("10.0.0.7"));
        assert_eq!(found("node-1", &["127.0.1.1", "10.0.0.7"]).unwrap(), at("10.0.0.7"));
        assert_eq!(found("127.0.0.1", &["127.0.0.1"]).unwrap(), at("127.0.0.1"));
        assert_eq!(found("localhost", &["::1", "127.0.0.1"]).unwrap(), at("::1"));
        for loopback in ["127.0.1.1", "::1"] {
            let (kind, said) = found("node-1", &[loopback]).unwrap_err();
            assert_eq!(kind, FailureKind::Ranks);
            assert!(said.contains(&format!("node-1 is {loopback} here")), "{said}");
        }
    }

    #[test]
    fn the_way_to_the_loopback_begins_there() {
        let at = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(address_towards(at).unwrap(), IpAddr::from([127, 0, 0, 1]));
    }
}
