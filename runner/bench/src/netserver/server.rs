//! The server: a thread for each connection, a bounded number of them, and none that outlives its
//! session.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protocol::{Answer, REQUEST, Request, Role, STRANGER, Status, VERSION};
use super::streams::{echo, receive, send};
use crate::suite::Stop;

/// How often it looks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a refused connection is listened to, for the refusal to arrive.
const FAREWELL: Duration = Duration::from_millis(200);

/// What is allowed at once, and for how long.
#[derive(Clone, Debug)]
pub struct Limits {
    pub sessions: usize,
    pub connections: usize,
    /// How long a session may last.
    pub session: Duration,
    /// How long a stream may stand still.
    pub idle: Duration,
    /// How long a connection may take to say what it wants.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 4,
            connections: 256,
            session: Duration::from_hours(1),
            idle: Duration::from_secs(30),
            handshake: Duration::from_secs(5),
        }
    }
}

/// What happened, for whoever keeps a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Began {
        peer: SocketAddr,
    },
    Ended {
        peer: SocketAddr,
        received: u64,
        sent: u64,
        lasted: Duration,
    },
    /// Somebody who was sent away, and why.
    Refused {
        peer: SocketAddr,
        why: &'static str,
    },
}

/// Serves until it is told to stop, or with `once` until a session has ended.
pub fn serve(
    listener: &TcpListener,
    limits: &Limits,
    once: bool,
    stop: &Stop,
    tell: &mut dyn FnMut(Event),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let (events, happened) = mpsc::channel();
    let server = Server {
        limits,
        state: Mutex::default(),
        left: Condvar::new(),
        next: AtomicU64::new(1),
        events,
    };
    thread::scope(|scope| {
        let served = loop {
            let mut over = stop.is_set();
            for event in happened.try_iter() {
                over |= once && matches!(event, Event::Ended { .. });
                tell(event);
            }
            if over {
                break Ok(());
            }
            match Server::arrival(listener) {
                Ok(None) => {}
                Ok(Some((stream, peer))) => server.admit(scope, stream, peer),
                Err(error) => break Err(error),
            }
        };
        server.close_all();
        served
    })?;
    happened.try_iter().for_each(tell);
    Ok(())
}

/// A session's place in the books.
#[derive(Default)]
struct Totals {
    received: AtomicU64,
    sent: AtomicU64,
}

#[derive(Default)]
struct State {
    /// By the connection's number; with the session it belongs to, if it does yet.
    connections: BTreeMap<u64, (TcpStream, Option<u64>)>,
    sessions: BTreeMap<u64, Arc<Totals>>,
    /// Sessions that are over, and some of whose streams are still on their way out.
    closing: usize,
}

struct Server<'a> {
    limits: &'a Limits,
    state: Mutex<State>,
    /// A connection has left.
    left: Condvar,
    /// The next connection's number.
    next: AtomicU64,
    events: mpsc::Sender<Event>,
}

/// How a conversation ended before it began.
enum Sent {
    Away(Status, &'static str),
    Stranger,
    Gone,
}

impl Server<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more once the server ends.
        let _ = self.events.send(event);
    }

    /// Whoever comes within a moment.
    fn arrival(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let mut wanted = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut wanted, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            ready => ready?,
        };
        let accepted = listener.accept().ok();
        if accepted.is_none() {
            // One that gave up while it waited, or too many open files: neither ends a server,
            // and the second would have it ask again and again.
            thread::sleep(FAREWELL);
        }
        Ok(accepted)
    }

    fn admit<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        stream: TcpStream,
        peer: SocketAddr,
    ) {
        let Some(number) = self.enter(&stream) else {
            self.tell(Event::Refused { peer, why: "too many connections" });
            return refuse(&stream, Status::Busy);
        };
        let body = move || {
            // The other end's going away is how a stream ends.
            let _ = self.converse(&stream, peer, number);
            self.leave(number);
        };
        if thread::Builder::new().spawn_scoped(scope, body).is_err() {
            self.leave(number);
        }
    }

    /// The number of a connection for which there is room.
    fn enter(&self, stream: &TcpStream) -> Option<u64> {
        let mut state = self.state();
        let room = state.connections.len() < self.limits.connections;
        let copy = stream.try_clone().ok().filter(|_| room)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        state.connections.insert(number, (copy, None));
        Some(number)
    }

    fn leave(&self, number: u64) {
        self.state().connections.remove(&number);
        self.left.notify_all();
    }

    fn converse(&self, stream: &TcpStream, peer: SocketAddr, number: u64) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.limits.handshake))?;
        stream.set_write_timeout(Some(self.limits.idle))?;
        match self.listen(stream, number) {
            Ok((role, session, totals)) => {
                self.grant((stream, peer, number), role, session, &totals)
            }
            Err(Sent::Gone) => Ok(()),
            Err(Sent::Stranger) => {
                self.tell(Event::Refused { peer, why: "speaks another protocol" });
                dismiss(stream, STRANGER.as_bytes());
                Ok(())
            }
            Err(Sent::Away(status, why)) => {
                self.tell(Event::Refused { peer, why });
                refuse(stream, status);
                Ok(())
            }
        }
    }

    /// What a connection wants, and its session.
    fn listen(
        &self,
        mut stream: &TcpStream,
        number: u64,
    ) -> Result<(Role, u64, Arc<Totals>), Sent> {
        let mut bytes = [0; REQUEST];
        let (magic, rest) = bytes.split_at_mut(super::protocol::MAGIC.len());
        let heard = stream.read_exact(magic);
        if heard.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return Err(Sent::Gone);
        }
        if heard.is_err() || *magic != super::protocol::MAGIC || stream.read_exact(rest).is_err() {
            return Err(Sent::Stranger);
        }
        let request = Request::read(&bytes).ok_or(Sent::Stranger)?;
        if request.version != VERSION {
            return Err(Sent::Away(Status::OtherVersion, "speaks another version"));
        }
        let role = request.role.ok_or(Sent::Away(Status::Unknown, "asks for what there is not"))?;
        self.join(role, request.session, number).map(|(id, totals)| (role, id, totals))
    }

    /// Opens a session, or enters the one that is asked for.
    fn join(&self, role: Role, asked: u64, number: u64) -> Result<(u64, Arc<Totals>), Sent> {
        let mut state = self.state();
        let id = if role == Role::Session {
            if state.sessions.len() + state.closing >= self.limits.sessions {
                return Err(Sent::Away(Status::Busy, "too many sessions"));
            }
            // Nobody is to guess another's.
            let id = RandomState::new().hash_one(number) | 1;
            state.sessions.insert(id, Arc::default());
            id
        } else {
            asked
        };
        let totals = state.sessions.get(&id).cloned();
        let totals = totals.ok_or(Sent::Away(Status::NoSession, "has no session"))?;
        if let Some((_, session)) = state.connections.get_mut(&number) {
            *session = Some(id);
        }
        Ok((id, totals))
    }

    fn grant(
        &self,
        (stream, peer, number): (&TcpStream, SocketAddr, u64),
        role: Role,
        session: u64,
        totals: &Totals,
    ) -> io::Result<()> {
        let granted = Answer { version: VERSION, status: Status::Granted, session }.bytes();
        let welcome = || {
            stream.set_read_timeout(Some(self.limits.idle))?;
            (&*stream).write_all(&granted)
        };
        if role != Role::Session {
            welcome()?;
        }
        match role {
            Role::Session => {
                let begun = Instant::now();
                self.tell(Event::Began { peer });
                // One that is gone before it is welcome has a place all the same.
                let ended = welcome().and_then(|()| self.attend(stream));
                self.close(session, number);
                let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
                let (received, sent) = (read(&totals.received), read(&totals.sent));
                self.tell(Event::Ended { peer, received, sent, lasted: begun.elapsed() });
                ended
            }
            Role::Sink => {
                receive(stream, &totals.received, |report| (&*stream).write_all(&report.to_bytes()))
            }
            Role::Source => send(stream, &totals.sent),
            Role::Echo(length) => echo(stream, length as usize, &totals.sent),
        }
    }

    /// Until the session's owner goes away or its time is over.
    fn attend(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(self.limits.session))?;
        stream.read(&mut [0]).map(drop)
    }

    /// Ends a session with all of its streams, and waits until they have counted what they did.
    /// `own` is the connection that the session hangs on.
    fn close(&self, session: u64, own: u64) {
        let mut state = self.state();
        state.sessions.remove(&session);
        state.closing += 1;
        let of_it = |(number, (_, of)): (&u64, &(TcpStream, Option<u64>))| {
            *of == Some(session) && *number != own
        };
        for (stream, _) in state.connections.iter().filter(|one| of_it(*one)).map(|one| one.1) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let waiting = |state: &mut State| state.connections.iter().any(of_it);
        // None of them can wait for longer than it may stand still.
        let waited = self.left.wait_timeout_while(state, self.limits.idle, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing -= 1;
    }

    fn close_all(&self) {
        for (stream, _) in self.state().connections.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn refuse(stream: &TcpStream, status: Status) {
    dismiss(stream, &Answer { version: VERSION, status, session: 0 }.bytes());
}

/// Says something last. What the other end has sent is read, as a connection that is closed with
/// bytes unread takes back what was said.
fn dismiss(mut stream: &TcpStream, last: &[u8]) {
    let _ = stream.set_read_timeout(Some(FAREWELL));
    let said = stream.write_all(last).and_then(|()| stream.shutdown(Shutdown::Write));
    if said.is_ok() {
        let _ = stream.read(&mut [0; 4096]);
    }
}
