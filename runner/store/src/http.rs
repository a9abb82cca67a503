//! HTTP as far as a download needs it: one request on a connection of its own, redirects followed
//! here, so that a token goes to the hub and to nobody else. The proxy variables are honoured.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use tower_service::Service;
use url::Url;

const REDIRECTS: usize = 10;
const AGENT: &str = concat!("warpforge/", env!("CARGO_PKG_VERSION"));

/// What proves who is asking. Its `Debug` form shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// From `HF_TOKEN`, else from the file that the hub's login writes.
    pub fn find(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let given = |name: &str| lookup(name).and_then(|text| Self::new(&text));
        let file = || {
            let path = lookup("HF_TOKEN_PATH").filter(|path| !path.is_empty()).map(Into::into);
            let path = path.or_else(|| Some(crate::Places::hub_home(&lookup)?.join("token")))?;
            Self::new(&std::fs::read_to_string(path).ok()?)
        };
        given("HF_TOKEN").or_else(|| given("HUGGING_FACE_HUB_TOKEN")).or_else(file)
    }

    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        sendable.then(|| Self(text.to_owned()))
    }

    fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connect: Duration,
    /// For the answer's head, and between two pieces of its body.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(20), silence: Duration::from_mins(1) }
    }
}

/// Why one request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("{host} was silent for {:.0} s", limit.as_secs_f64())]
    Silent { host: String, limit: Duration },
    #[error("{host} answered HTTP {status}{}", meaning(*status))]
    Status { host: String, status: u16, retry_after: Option<Duration> },
    #[error("{host} redirects {why}")]
    Redirect { host: String, why: String },
    #[error("{host} answered with something else: {why}")]
    Nonsense { host: String, why: String },
    #[error("what {host} sent is not the file: {why}")]
    Wrong { host: String, why: String },
}

fn meaning(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}

impl Fault {
    /// Whether the same request may succeed a little later.
    pub fn passes(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Silent { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500 | 502..=504),
            _ => false,
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// Where a token belongs, and the token.
#[derive(Clone, Debug)]
pub struct Login {
    pub hub: Url,
    pub token: Option<Token>,
}

impl Login {
    /// Whether this address is the hub's own, by scheme, host and port, and may be told a secret:
    /// in the clear only on this machine itself.
    fn trusts(&self, url: &Url) -> bool {
        url.origin() == self.hub.origin() && (url.scheme() == "https" || is_local(url))
    }
}

/// An answer whose body has still to come.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Incoming,
    /// Who sent it.
    pub host: String,
    /// What the hub said of the file, before it sent us elsewhere.
    pub hub: HubSays,
}

/// The hub's own headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubSays {
    pub commit: Option<String>,
    /// The content's name: the SHA-256 of a large file, Git's digest of a small one.
    pub tag: Option<String>,
    pub size: Option<u64>,
}

impl HubSays {
    fn hear(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(commit) = text("x-repo-commit") {
            self.commit = Some(commit.to_owned());
            self.tag = text("x-linked-etag")
                .or_else(|| text("etag"))
                .map(|tag| tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_owned());
            self.size = text("x-linked-size").and_then(|size| size.parse().ok());
        }
    }

    /// The digest, where the tag is one.
    pub fn sha256(&self) -> Option<&str> {
        let hex = |tag: &&str| tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit());
        self.tag.as_deref().filter(hex)
    }
}

/// Sends requests.
#[derive(Debug)]
pub struct Http {
    proxies: Matcher,
    limits: Limits,
}

impl Http {
    pub fn new(limits: Limits) -> Self {
        Self { proxies: Matcher::from_env(), limits }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Asks for a file. Redirects are followed; the token is sent while nothing but the hub has
    /// been asked, and never again after that.
    pub async fn get(&self, url: &Url, extra: &HeaderMap, login: &Login) -> Result<Answer, Fault> {
        let mut url = url.clone();
        let mut at_hub = true;
        let mut hub = HubSays::default();
        for _ in 0..=REDIRECTS {
            at_hub &= login.trusts(&url);
            let token = login.token.as_ref().filter(|_| at_hub);
            let answer = self.ask(&url, extra, token).await?;
            let (head, body) = answer.into_parts();
            if at_hub {
                hub.hear(&head.headers);
            }
            let place = head.headers.get(header::LOCATION).filter(|_| is_redirect(head.status));
            let Some(place) = place else {
                let host = name_of(&url);
                return Ok(Answer { status: head.status, headers: head.headers, body, host, hub });
            };
            url = follow(&url, place)?;
        }
        Err(Fault::Redirect { host: name_of(&url), why: format!("more than {REDIRECTS} times") })
    }

    async fn ask(
        &self,
        url: &Url,
        extra: &HeaderMap,
        token: Option<&Token>,
    ) -> Result<http::Response<Incoming>, Fault> {
        let host = name_of(url);
        let unreachable = |reason: String| Fault::Unreachable { host: host.clone(), reason };
        let uri: Uri =
            url.as_str().parse().map_err(|_| unreachable("the address is wrong".into()))?;
        let mut request = Request::get(uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(header::HOST, &host)
            .header(header::USER_AGENT, AGENT)
            // A compressed body would have another length and another digest.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Empty::<Bytes>::new())
            .map_err(|error| unreachable(error.to_string()))?;
        let headers = request.headers_mut();
        headers.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(token) = token.and_then(Token::header) {
            headers.insert(header::AUTHORIZATION, token);
        }
        let sent = self.send(url, uri, request, &host);
        let limit = self.limits.connect + self.limits.silence;
        let silent = |_| Fault::Silent { host: host.clone(), limit };
        tokio::time::timeout(limit, sent).await.map_err(silent)?
    }

    async fn send(
        &self,
        url: &Url,
        uri: Uri,
        request: Request<Empty<Bytes>>,
        host: &str,
    ) -> Result<http::Response<Incoming>, Fault> {
        let unreachable = |reason: String| Fault::Unreachable { host: host.to_owned(), reason };
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(self.limits.connect));
        // A proxy's own loopback is another machine's.
        let proxy = self.proxies.intercept(&uri).filter(|_| !is_local(url));
        let tunnel = proxy.map(|proxy| {
            let tunnel = Tunnel::new(proxy.uri().clone(), plain.clone());
            match proxy.basic_auth() {
                Some(login) => tunnel.with_auth(login.clone()),
                None => tunnel,
            }
        });
        if url.scheme() != "https" {
            return match tunnel {
                Some(tunnel) => exchange(connect(tunnel, uri, host).await?, request, host).await,
                None => exchange(connect(plain, uri, host).await?, request, host).await,
            };
        }
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| unreachable(error.to_string()))?
            .https_or_http()
            .enable_http1();
        if let Some(tunnel) = tunnel {
            let io = connect(tls.wrap_connector(tunnel), uri, host).await?;
            exchange(io, request, host).await
        } else {
            let io = connect(tls.wrap_connector(plain), uri, host).await?;
            exchange(io, request, host).await
        }
    }
}

async fn connect<C>(mut connector: C, uri: Uri, host: &str) -> Result<C::Response, Fault>
where
    C: Service<Uri>,
    C::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let connected = async {
        std::future::poll_fn(|cx| connector.poll_ready(cx)).await?;
        connector.call(uri).await
    };
    connected.await.map_err(|error| {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        Fault::Unreachable { host: host.to_owned(), reason: root_cause(error.as_ref()) }
    })
}

async fn exchange<I>(
    io: I,
    request: Request<Empty<Bytes>>,
    host: &str,
) -> Result<http::Response<Incoming>, Fault>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let broken =
        |error: hyper::Error| Fault::Broken { host: host.to_owned(), reason: root_cause(&error) };
    let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
    // Its end shows in the body; the answer to this one request is all it is for.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender.send_request(request).await.map_err(broken)
}

/// The next piece of a body; nothing at its end.
pub async fn next(
    body: &mut Incoming,
    host: &str,
    limit: Duration,
) -> Result<Option<Bytes>, Fault> {
    loop {
        let frame = tokio::time::timeout(limit, body.frame()).await;
        let frame = frame.map_err(|_| Fault::Silent { host: host.to_owned(), limit })?;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                return Err(Fault::Broken { host: host.to_owned(), reason: root_cause(&error) });
            }
        }
    }
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn follow(from: &Url, place: &HeaderValue) -> Result<Url, Fault> {
    let wrong = |why: &str| Fault::Redirect { host: name_of(from), why: why.to_owned() };
    let place = place.to_str().map_err(|_| wrong("to an address that is no text"))?;
    let to = from.join(place).map_err(|_| wrong("to an address that is none"))?;
    match (from.scheme(), to.scheme()) {
        ("https", "http") => Err(wrong("from a secure address to one that is not")),
        (_, "http" | "https") if to.has_host() => Ok(to),
        _ => Err(wrong("to an address that is not HTTP's")),
    }
}

/// The host with its port, if it is not the usual one: no user, no path, no query, so that nothing
/// secret gets into a message.
pub fn name_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("an address without a host");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let last = std::iter::successors(Some(error), |&cause| cause.source()).last();
    last.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(hub: &str) -> Login {
        Login { hub: hub.parse().unwrap(), token: None }
    }

    #[test]
    fn a_token_belongs_to_one_origin_and_never_travels_in_the_clear() {
        let trusts = |hub: &str, url: &str| login(hub).trusts(&url.parse().unwrap());
        assert!(trusts("https://huggingface.co", "https://huggingface.co/a/b"));
        assert!(trusts("https://huggingface.co", "https://huggingface.co:443/a/b"));
        assert!(!trusts("https://huggingface.co", "https://cdn.huggingface.co/a"));
        assert!(!trusts("https://huggingface.co", "https://huggingface.co.evil.org/a"));
        assert!(!trusts("https://huggingface.co", "https://huggingface.co:8443/a"));
        assert!(!trusts("https://huggingface.co", "http://huggingface.co/a"));
        assert!(!trusts("http://hub.example", "http://hub.example/a"));
        assert!(trusts("http://127.0.0.1:80", "http://127.0.0.1/a"));
    }

    #[test]
    fn secrets_do_not_show() {
        let token = Token::new(" hf_secret\n").unwrap();
        assert_eq!(token.0, "hf_secret");
        assert!(!format!("{token:?} {:?}", token.header()).contains("secret"));
        assert_eq!(Token::new("two words"), None);
        assert_eq!(
            name_of(&"https://me:hunter2@a.example:8/x?sig=y".parse().unwrap()),
            "a.example:8"
        );
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_login_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        let at_home = |name: &str| (name == "HF_HOME").then(|| home.clone());
        assert_eq!(Token::find(at_home), None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        assert_eq!(Token::find(at_home), Token::new("hf_file"));
        let both =
            |name: &str| if name == "HF_TOKEN" { Some("hf_env".into()) } else { at_home(name) };
        assert_eq!(Token::find(both), Token::new("hf_env"));
    }

    #[test]
    fn redirects_are_not_led_astray() {
        let from: Url = "https://a.example/x/y".parse().unwrap();
        let to = |place: &str| follow(&from, &HeaderValue::from_str(place).unwrap());
        assert_eq!(to("../z").unwrap().as_str(), "https://a.example/z");
        assert_eq!(to("//b.example/z").unwrap().as_str(), "https://b.example/z");
        assert!(to("http://a.example/z").is_err());
        assert!(to("file:///etc/passwd").is_err());
    }
}
