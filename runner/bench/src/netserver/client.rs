//! The benchmark's end: a session with a server elsewhere, or with one of its own on the loopback.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;

use super::protocol::{ANSWER, Answer, PORT, REPORT, Report, Request, Role, Status, VERSION};
use super::server::{Limits, serve};
use crate::suite::{Stop, Unable};

/// How long the other end may keep silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a server does not do what it is asked.
#[derive(Debug, Error)]
pub enum Fault {
    #[error("the peer {peer:?} is no HOST:PORT that can be found: {error}")]
    Unresolved { peer: String, error: io::Error },
    #[error(
        "no connection to {address}: {error}; is `warpforge netserver --listen ADDRESS:{}` \
         running there?", address.port()
    )]
    Unreachable { address: SocketAddr, error: io::Error },
    #[error("the loopback cannot be used: {0}")]
    Loopback(io::Error),
    #[error("what listens on {address} does not answer as a `warpforge netserver`: {error}")]
    Silent { address: SocketAddr, error: io::Error },
    #[error("what listens on {0} is no `warpforge netserver`")]
    Stranger(SocketAddr),
    #[error(
        "the netserver on {address} speaks version {theirs} of the protocol, this is {VERSION}"
    )]
    OtherVersion { address: SocketAddr, theirs: u16 },
    #[error("the netserver on {0} is busy with others")]
    Busy(SocketAddr),
    #[error("the netserver on {0} has ended the session")]
    Ended(SocketAddr),
    #[error("the netserver on {0} refuses the request")]
    Refused(SocketAddr),
}

impl From<Fault> for Unable {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// Where the other end is.
pub struct Peer {
    pub(super) address: SocketAddr,
    local: Option<Local>,
}

impl Peer {
    /// `HOST` or `HOST:PORT`; the empty text means a server of one's own on the loopback.
    pub fn find(text: &str) -> Result<Self, Fault> {
        if text.is_empty() {
            let local = Local::start().map_err(Fault::Loopback)?;
            return Ok(Self { address: local.address, local: Some(local) });
        }
        let unresolved = |error| Fault::Unresolved { peer: text.to_owned(), error };
        let address = resolve(text).map_err(unresolved)?;
        Ok(Self { address, local: None })
    }

    /// What tells its figures from those of another kind of way. Which peer it was is in the
    /// parameters: on a cluster it has another address in every run.
    pub fn name(&self) -> &'static str {
        if self.local.is_some() { "loopback" } else { "remote" }
    }

    pub fn session(&self) -> Result<Session, Fault> {
        let (control, answer) = connect(self.address, Request::new(Role::Session, 0))?;
        Ok(Session { address: self.address, id: answer.session, _control: control })
    }
}

fn resolve(text: &str) -> io::Result<SocketAddr> {
    let alone = text.parse().map(|ip| SocketAddr::new(ip, PORT));
    if let Ok(address) = alone.or_else(|_| text.parse()) {
        return Ok(address);
    }
    let port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let found = match port {
        true => text.to_socket_addrs()?.next(),
        false => (text, PORT).to_socket_addrs()?.next(),
    };
    found.ok_or_else(|| io::Error::other("it has no address"))
}

/// While it lives, streams can be opened; afterwards the server ends those that are left.
pub struct Session {
    address: SocketAddr,
    id: u64,
    _control: TcpStream,
}

impl Session {
    /// A connection on which the server does as its role says.
    pub fn stream(&self, role: Role) -> Result<TcpStream, Fault> {
        connect(self.address, Request::new(role, self.id)).map(|(stream, _)| stream)
    }

    /// What a server that takes in bytes says next.
    pub fn report(&self, mut stream: &TcpStream) -> Result<Report, Fault> {
        let mut bytes = [0; REPORT];
        stream.read_exact(&mut bytes).map_err(|_| Fault::Ended(self.address))?;
        Ok(Report::of(&bytes))
    }

    /// What to say when a stream ends by itself.
    pub fn ended(&self) -> Fault {
        Fault::Ended(self.address)
    }
}

fn connect(address: SocketAddr, request: Request) -> Result<(TcpStream, Answer), Fault> {
    let unreachable = |error| Fault::Unreachable { address, error };
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(unreachable)?;
    let answer = ask(&mut stream, request).map_err(|error| Fault::Silent { address, error })?;
    let answer = Answer::read(&answer).ok_or(Fault::Stranger(address))?;
    match answer.status {
        Status::Granted => Ok((stream, answer)),
        Status::OtherVersion => Err(Fault::OtherVersion { address, theirs: answer.version }),
        Status::Busy => Err(Fault::Busy(address)),
        Status::NoSession => Err(Fault::Ended(address)),
        Status::Unknown => Err(Fault::Refused(address)),
    }
}

fn ask(stream: &mut TcpStream, request: Request) -> io::Result<[u8; ANSWER]> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // A server that refuses at once has answered already.
    let sent = stream.write_all(&request.bytes());
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer).or_else(|error| sent.and(Err(error)))?;
    Ok(answer)
}

/// A server on the loopback that ends with its owner.
struct Local {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Local {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Stop::default();
        let asked = stop.clone();
        let body = move || {
            // Whoever measures sees what went wrong at the other end.
            let _ = serve(&listener, &Limits::default(), false, &asked, &mut |_| {});
        };
        let thread = thread::Builder::new().name("netserver".to_owned()).spawn(body)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Connections that end when this is dropped, so that threads that wait on them end too.
pub struct Closing<'a>(pub &'a [TcpStream]);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        for stream in self.0 {
            // One that is closed already needs nothing.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
