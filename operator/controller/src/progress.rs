//! Asking a run's leader how far it is. Answers are kept in memory only: a restart asks anew.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use warpforge_operator_api::contract::{HTTP_PORT, Progress, VERSION};

use crate::observed::Answer;
use crate::queue::Key;

/// How long a leader may take to answer.
const LIMIT: Duration = Duration::from_secs(3);
/// The longest answer.
const LONGEST: usize = 16 << 10;
/// How long a leader that did not answer is left alone.
const PAUSE: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not an address")]
    Address(String),
    #[error("no answer within {LIMIT:?}")]
    Late,
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    #[error("the connection broke: {0}")]
    Http(#[from] hyper::Error),
    #[error("the answer is longer than {LONGEST} bytes, or was cut off")]
    Body,
    #[error("the answer has status {0}")]
    Status(StatusCode),
    #[error("the answer cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the answer has version {0}, and this operator reads version {VERSION}")]
    Version(u32),
}

/// What leaders answered, and when they were last asked.
#[derive(Default)]
pub struct Answers {
    state: Mutex<HashMap<Key, Asked>>,
}

struct Asked {
    attempt: i32,
    at: Instant,
    answer: Option<Answer>,
}

impl Answers {
    pub fn get(&self, uid: &Key) -> Option<Answer> {
        self.state().get(uid)?.answer.clone()
    }

    /// Whether to ask now; then it counts as asked.
    pub fn ask(&self, uid: &Key, attempt: i32) -> bool {
        let mut state = self.state();
        let known = state.get(uid).filter(|asked| asked.attempt == attempt);
        if known.is_some_and(|asked| asked.at.elapsed() < PAUSE) {
            return false;
        }
        let answer = known.and_then(|asked| asked.answer.clone());
        state.insert(uid.clone(), Asked { attempt, at: Instant::now(), answer });
        true
    }

    pub fn put(&self, uid: &Key, answer: Answer) {
        if let Some(asked) = self.state().get_mut(uid)
            && asked.attempt == answer.attempt
        {
            asked.answer = Some(answer);
        }
    }

    pub fn forget(&self, uid: &Key) {
        self.state().remove(uid);
    }

    fn state(&self) -> MutexGuard<'_, HashMap<Key, Asked>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the leader at this address.
pub async fn ask(ip: &str) -> Result<Progress, Error> {
    let address: IpAddr = ip.parse().map_err(|_| Error::Address(ip.to_owned()))?;
    let answer = fetch(SocketAddr::new(address, HTTP_PORT));
    let progress: Progress =
        serde_json::from_slice(&timeout(LIMIT, answer).await.map_err(|_| Error::Late)??)?;
    if progress.version == VERSION { Ok(progress) } else { Err(Error::Version(progress.version)) }
}

/// A plain request on a connection of its own: a pod is asked twice a minute, and is gone soon.
async fn fetch(address: SocketAddr) -> Result<Bytes, Error> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/progress").header("host", address.to_string());
    let exchange = async {
        let request = request.body(Empty::<Bytes>::new()).unwrap_or_default();
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(Error::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|_| Error::Body)
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        broken = connection => {
            broken?;
            // Closed in good order: what it brought is there.
            exchange.await
        }
    }
}
