//! `warpforge golden` as one of several processes.

use std::str::FromStr;
use std::time::Duration;

use warpforge_golden_protocol::Device;
use warpforge_workloads::training::ranks::Rank;

use super::misuse;

/// Where the ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rendezvous {
    host: String,
    port: u16,
}

impl FromStr for Rendezvous {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| {
            let port = port.parse().ok().filter(|port| *port != 0)?;
            let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            // Colons belong in brackets, or it is unclear where the port begins.
            let host = inner.or_else(|| (!host.contains(':')).then_some(host))?;
            (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
        });
        parts.ok_or_else(|| "say it as HOST:PORT, with brackets around an IPv6 address".to_owned())
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several processes")]
pub struct RankOptions {
    /// How many processes train together; each is started with the same command and its own
    /// --rank, and takes its own micro-batches of every step, as many as `accumulation` says
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Which of them this is, from 0; rank 0 writes the results
    #[arg(long, value_name = "R", requires = "rendezvous")]
    rank: Option<u32>,

    /// An address of rank 0, where the ranks meet
    #[arg(long, value_name = "HOST:PORT", requires = "rank")]
    rendezvous: Option<Rendezvous>,

    /// How long a rank waits for another: when they meet, and in every exchange
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    peer_timeout: u64,
}

impl RankOptions {
    pub fn count(&self) -> u32 {
        self.ranks
    }

    /// What this process is, if it is one of several.
    pub fn rank(&self, device: Device) -> anyhow::Result<Option<Rank>> {
        let ranks = self.ranks;
        if let Some(rank) = self.rank.filter(|rank| *rank >= ranks) {
            let message = format!("there is no rank {rank} among {ranks}");
            return Err(misuse(message, "ranks are counted from 0; --ranks says how many"));
        }
        if ranks == 1 {
            return Ok(None);
        }
        let (Some(rank), Some(Rendezvous { host, port })) = (self.rank, &self.rendezvous) else {
            let message = format!("{ranks} ranks, and not said which this is or where they meet");
            return Err(misuse(message, "add --rank R and --rendezvous HOST:PORT"));
        };
        if device != Device::Cpu {
            let message = format!("several ranks train on cpu, not on {device}");
            let help = "leave --device out, or --ranks: GPUs exchange by NCCL, which comes later";
            return Err(misuse(message, help));
        }
        let timeout = Duration::from_secs(self.peer_timeout);
        Ok(Some(Rank { rank, ranks, host: host.clone(), port: *port, timeout }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meeting_place_is_a_host_and_a_port() {
        for (text, host, port) in [
            ("node-0.bench:29500", "node-0.bench", 29500),
            ("127.0.0.1:1", "127.0.0.1", 1),
            ("[::1]:80", "::1", 80),
        ] {
            let expected = Rendezvous { host: host.to_owned(), port };
            assert_eq!(text.parse(), Ok(expected));
        }
        for text in ["", "host", ":80", "host:", "host:0", "host:99999", "::1:80", "[]:80"] {
            assert!(text.parse::<Rendezvous>().is_err(), "{text}");
        }
    }
}
