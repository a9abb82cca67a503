//! A way to a server that can be made bad while it is in use.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Nobody is there.
    Down,
    /// Somebody is, and says nothing.
    Silent,
    /// Every request gets this answer.
    Answers(&'static str, &'static str),
}

pub struct Proxy {
    pub endpoint: String,
    way: Arc<Mutex<Way>>,
}

impl Proxy {
    /// To a server at `http://ADDRESS`.
    pub fn start(endpoint: &str) -> Self {
        let server = endpoint.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let way = Arc::new(Mutex::new(Way::Open));
        let shared = Arc::clone(&way);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, way) = (server.clone(), Arc::clone(&shared));
                thread::spawn(move || {
                    let at_first = *way.lock().unwrap();
                    match at_first {
                        Way::Open => forward(client, &server, &way),
                        Way::Down => drop(client),
                        Way::Silent => thread::sleep(Duration::from_mins(10)),
                        Way::Answers(status, code) => answer(client, status, code),
                    }
                });
            }
        });
        Self { endpoint: own, way }
    }

    /// From now on, for connections that are open, too.
    pub fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }
}

fn forward(client: TcpStream, server: &str, way: &Arc<Mutex<Way>>) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let pairs = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
    let copies = pairs.map(|(from, to)| {
        let way = Arc::clone(way);
        thread::spawn(move || copy(from.unwrap(), to.unwrap(), &way))
    });
    for copy in copies {
        let _ = copy.join();
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, way: &Mutex<Way>) {
    let mut buffer = [0; 1 << 14];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if *way.lock().unwrap() != Way::Open || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn answer(mut client: TcpStream, status: &str, code: &str) {
    let body = format!("<Error><Code>{code}</Code></Error>");
    let mut buffer = [0; 1 << 14];
    // One answer to whatever is sent first; the client closes.
    if client.read(&mut buffer).is_ok() {
        let _ = write!(
            client,
            "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        // What is still on its way must not become a reset before the answer is read.
        let _ = client.shutdown(Shutdown::Write);
        while let Ok(1..) = client.read(&mut buffer) {}
    }
}
