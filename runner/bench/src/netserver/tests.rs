use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::{ANSWER, Answer, MAGIC, Request, STRANGER, Status};
use super::server::{Event, Limits, serve};
use super::{Fault, Peer, Role, VERSION};
use crate::suite::Stop;

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);

/// Does something with a server, and says what the server told.
fn with_server(limits: &Limits, once: bool, work: impl FnOnce(SocketAddr)) -> Vec<Event> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Stop::default();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut told = Vec::new();
            serve(&listener, limits, once, &stop, &mut |event| told.push(event)).unwrap();
            told
        });
        // A test that fails must not wait for a server that nobody stops.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        if !once || worked.is_err() {
            stop.set();
        }
        let told = server.join().unwrap();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        told
    })
}

fn peer(address: SocketAddr) -> Peer {
    Peer::find(&address.to_string()).unwrap()
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// What the server says to bytes until it closes.
fn said_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = dial(address);
    stream.write_all(bytes).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    said
}

fn answer_to(address: SocketAddr, request: Request) -> Answer {
    let said = said_to(address, &request.bytes());
    Answer::read(said.as_slice().try_into().unwrap()).unwrap()
}

/// Reads until the other end closes.
fn drain(stream: &mut TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}

fn refusals(told: &[Event]) -> Vec<&'static str> {
    let why = |event: &Event| match event {
        Event::Refused { why, .. } => Some(*why),
        _ => None,
    };
    told.iter().filter_map(why).collect()
}

#[test]
fn messages_come_back_as_they_were_sent() {
    let told = with_server(&Limits::default(), true, |address| {
        let session = peer(address).session().unwrap();
        let mut stream = session.stream(Role::Echo(5)).unwrap();
        for message in [b"hello", b"again"] {
            stream.write_all(message).unwrap();
            let mut back = [0; 5];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(&back, message);
        }
    });
    let [Event::Began { .. }, Event::Ended { received: 0, sent: 10, .. }] = told[..] else {
        panic!("{told:?}");
    };
}

#[test]
fn what_arrives_is_reported() {
    with_server(&Limits::default(), false, |address| {
        let session = peer(address).session().unwrap();
        let mut stream = session.stream(Role::Sink).unwrap();
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < 3 * SHORT {
            stream.write_all(&[7; 4096]).unwrap();
            sent += 4096;
        }
        let first = session.report(&stream).unwrap();
        let second = session.report(&stream).unwrap();
        assert!(first.bytes > 0 && second.bytes >= first.bytes && second.bytes <= sent);
        assert!(second.nanoseconds - first.nanoseconds >= 10_000_000, "{first:?}, {second:?}");
    });
}

#[test]
fn a_stranger_is_told_so() {
    let told = with_server(&Limits::default(), false, |address| {
        let said = said_to(address, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        assert_eq!(String::from_utf8_lossy(&said), STRANGER);
    });
    assert_eq!(refusals(&told), ["speaks another protocol"]);
}

#[test]
fn who_says_nothing_is_sent_away() {
    let limits = Limits { handshake: SHORT, ..Limits::default() };
    let told = with_server(&limits, false, |address| {
        assert_eq!(said_to(address, &MAGIC), STRANGER.as_bytes());
        assert_eq!(said_to(address, b""), STRANGER.as_bytes());
        // A connection that is opened and closed, as port scanners do, is not worth a word.
        drop(dial(address));
        assert!(peer(address).session().is_ok());
    });
    assert_eq!(refusals(&told), ["speaks another protocol"; 2]);
}

#[test]
fn another_version_is_refused_with_ones_own() {
    with_server(&Limits::default(), false, |address| {
        let request = Request { version: 99, ..Request::new(Role::Session, 0) };
        let answer = answer_to(address, request);
        assert_eq!((answer.status, answer.version), (Status::OtherVersion, VERSION));
    });
}

#[test]
fn a_server_of_another_version_is_told_from_a_stranger() {
    let fault = |said: Vec<u8>| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 24]).unwrap();
                stream.write_all(&said).unwrap();
            });
            peer(address).session().err().unwrap()
        })
    };
    let answer = Answer { version: 2, status: Status::OtherVersion, session: 0 };
    let text = fault(answer.bytes().to_vec()).to_string();
    assert!(text.ends_with("speaks version 2 of the protocol, this is 1"), "{text}");
    assert!(matches!(fault(vec![b'x'; ANSWER]), Fault::Stranger(_)));
    assert!(matches!(fault(b"220 mail\r\n".to_vec()), Fault::Silent { .. }));
}

#[test]
fn streams_need_a_session_and_a_role() {
    let told = with_server(&Limits::default(), false, |address| {
        assert_eq!(answer_to(address, Request::new(Role::Sink, 12)).status, Status::NoSession);
        let unknown = Request { role: None, ..Request::new(Role::Sink, 12) };
        assert_eq!(answer_to(address, unknown).status, Status::Unknown);
        let session = peer(address).session().unwrap();
        assert!(matches!(session.stream(Role::Echo(0)), Err(Fault::Refused(_))));
    });
    let asks = "asks for what there is not";
    assert_eq!(refusals(&told), ["has no session", asks, asks]);
}

#[test]
fn neither_sessions_nor_connections_are_without_number() {
    let limits = Limits { sessions: 1, connections: 2, ..Limits::default() };
    let told = with_server(&limits, false, |address| {
        let session = peer(address).session().unwrap();
        assert!(matches!(peer(address).session(), Err(Fault::Busy(_))));
        // The one that was sent away has its place until its thread has ended.
        let begun = Instant::now();
        let stream = loop {
            match session.stream(Role::Sink) {
                Err(Fault::Busy(_)) if begun.elapsed() < SOON => {}
                opened => break opened.unwrap(),
            }
        };
        assert!(matches!(session.stream(Role::Sink), Err(Fault::Busy(_))));
        drop(stream);
    });
    let refused = refusals(&told);
    assert_eq!(refused[0], "too many sessions");
    assert!(refused[1..].iter().all(|why| *why == "too many connections"), "{refused:?}");
}

#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let told = with_server(&limits, false, |address| {
        let session = peer(address).session().unwrap();
        let mut stream = session.stream(Role::Source).unwrap();
        stream.read_exact(&mut [0; 1024]).unwrap();
        drop(session);
        // The server closes the stream though nobody asked it to, and has room for the next.
        drain(&mut stream);
        let begun = Instant::now();
        while peer(address).session().is_err() {
            assert!(begun.elapsed() < SOON, "the session's place is not free");
        }
    });
    let ended = told.iter().find(|event| matches!(event, Event::Ended { .. }));
    assert!(matches!(ended, Some(Event::Ended { sent: 1024.., .. })), "{told:?}");
}

#[test]
fn a_stream_that_stands_still_is_ended() {
    let limits = Limits { idle: SHORT, ..Limits::default() };
    with_server(&limits, false, |address| {
        let session = peer(address).session().unwrap();
        let mut stream = session.stream(Role::Echo(8)).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn a_session_ends_with_its_time() {
    let limits = Limits { session: SHORT, ..Limits::default() };
    let told = with_server(&limits, false, |address| {
        let session = peer(address).session().unwrap();
        let mut stream = session.stream(Role::Source).unwrap();
        drain(&mut stream);
        assert!(matches!(session.stream(Role::Sink), Err(Fault::Ended(_))));
    });
    let over = |event: &Event| matches!(event, Event::Ended { lasted, .. } if *lasted >= SHORT);
    assert!(told.iter().any(over), "{told:?}");
}

#[test]
fn it_stops_with_streams_under_way() {
    let mut kept = None;
    with_server(&Limits::default(), false, |address| {
        let session = peer(address).session().unwrap();
        let stream = session.stream(Role::Source).unwrap();
        kept = Some((session, stream, dial(address)));
    });
    let (_, mut stream, _) = kept.unwrap();
    drain(&mut stream);
}

#[test]
fn a_peer_that_is_not_there_is_named() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let text = peer(address).session().err().unwrap().to_string();
    let wanted = format!("no connection to {address}: Connection refused");
    assert!(text.starts_with(&wanted), "{text}");
    assert!(text.contains("is `warpforge netserver --listen ADDRESS:"), "{text}");
    let text = Peer::find("no host:at all").err().unwrap().to_string();
    assert!(text.starts_with("the peer \"no host:at all\" is no HOST:PORT"), "{text}");
}

#[test]
fn a_peer_may_leave_out_its_port() {
    for (text, wanted) in [
        ("127.0.0.1", "127.0.0.1:9465"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("::1", "[::1]:9465"),
        ("[::1]:80", "[::1]:80"),
    ] {
        let peer = Peer::find(text).unwrap();
        assert_eq!((peer.address.to_string().as_str(), peer.name()), (wanted, "remote"));
    }
}
