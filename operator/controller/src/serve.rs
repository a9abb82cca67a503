//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::metrics::Metrics;
use crate::queue::Queue;

/// How many connections are served at once.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked about.
pub struct Face {
    pub metrics: Arc<Metrics>,
    pub queue: Arc<Queue>,
    /// While this replica is at work.
    cache: Mutex<Option<Arc<Cache>>>,
}

impl Face {
    pub fn new(metrics: Arc<Metrics>, queue: Arc<Queue>) -> Self {
        Self { metrics, queue, cache: Mutex::default() }
    }

    /// This replica is at work from now on.
    pub fn leads(&self, cache: Arc<Cache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Some(cache);
        self.metrics.leads(true);
    }

    fn cache(&self) -> Option<Arc<Cache>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, String) {
        if method != Method::GET && method != Method::HEAD {
            return (StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned());
        }
        match path {
            // Whoever answers has a runtime that turns; a lost Lease ends the process by itself.
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            // A replica that waits for its turn is ready to take it.
            "/readyz" => match self.cache() {
                Some(cache) if !cache.is_ready() => {
                    (StatusCode::SERVICE_UNAVAILABLE, "reading what the cluster holds\n".to_owned())
                }
                _ => (StatusCode::OK, "ok\n".to_owned()),
            },
            "/metrics" => match self.metrics.render(self.cache().as_deref(), &self.queue) {
                Ok(text) => (StatusCode::OK, text),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            },
            _ => (StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n".to_owned()),
        }
    }
}

/// Opens the port; what it returns serves until it is dropped.
pub async fn listen(
    address: SocketAddr,
    face: Arc<Face>,
) -> io::Result<(SocketAddr, impl Future<Output = ()>)> {
    let listener = TcpListener::bind(address).await?;
    Ok((listener.local_addr()?, serve(listener, face)))
}

async fn serve(listener: TcpListener, face: Arc<Face>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Such as too many open files: others may close theirs.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let face = face.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let (status, text) = face.answer(request.method(), request.uri().path());
                let mut response = Response::new(Full::new(Bytes::from(text)));
                *response.status_mut() = status;
                let plain = "text/plain; version=0.0.4; charset=utf-8";
                response.headers_mut().insert(
                    hyper::header::CONTENT_TYPE,
                    hyper::header::HeaderValue::from_static(plain),
                );
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection broke");
            }
        });
    }
}
