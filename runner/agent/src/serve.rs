//! `/progress` and `/metrics`.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::progress::Shared;

const MOST_CONNECTIONS: usize = 16;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is shown, and by which names.
pub struct Face {
    pub state: Shared,
    pub workload: String,
    pub worker: String,
}

impl Face {
    fn answer(&self, method: &Method, path: &str) -> (StatusCode, &'static str, String) {
        const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
        if method != Method::GET && method != Method::HEAD {
            return (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET only\n".to_owned());
        }
        match path {
            "/progress" => {
                let text = serde_json::to_string(self.state.lock().progress());
                (StatusCode::OK, "application/json", text.unwrap_or_default() + "\n")
            }
            "/metrics" => {
                let text = self.state.lock().metrics(&self.workload, &self.worker);
                (StatusCode::OK, PLAIN, text)
            }
            _ => (StatusCode::NOT_FOUND, PLAIN, "/progress or /metrics\n".to_owned()),
        }
    }
}

/// Serves until the runtime ends.
pub async fn listen(address: SocketAddr, face: Face) -> io::Result<JoinHandle<()>> {
    let listener = match TcpListener::bind(address).await {
        // A machine without IPv6 has no such address.
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
        }
        listener => listener?,
    };
    Ok(tokio::spawn(serve(listener, Arc::new(face))))
}

async fn serve(listener: TcpListener, face: Arc<Face>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Such as too many open files: others may close theirs.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let face = face.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let (status, kind, text) = face.answer(request.method(), request.uri().path());
                let mut response = Response::new(Full::new(Bytes::from(text)));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // A client that goes away is nobody's loss.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
