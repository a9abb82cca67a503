//! One file from one of several sources: resumed where it was cut off, checked while it streams,
//! put together in `NAME.part` and renamed only when it is right.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::beside;
use crate::digests::{feed, hex};
use crate::http::{self as web, Answer, Fault, Http, HubSays, Login};

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Order {
    /// The best first.
    pub sources: Vec<Url>,
    pub to: PathBuf,
    pub size: Option<u64>,
    pub sha256: Option<String>,
}

/// A file in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub sha256: String,
    pub size: u64,
    pub source: Url,
    /// What the hub said of it.
    pub hub: HubSays,
}

/// What happens meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many bytes are there, of so many if that is known.
    Bytes { at: u64, total: Option<u64> },
    /// Something went wrong, and after this time it is tried again.
    Again { why: String, wait: Duration },
    /// A source was given up for the next.
    Next { why: String },
}

/// When to try again, and when to give a source up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Attempts in a row that bring nothing new.
    pub attempts: u32,
    /// The wait after the first of them; it doubles.
    pub first_wait: Duration,
    /// The longest wait, and the longest that a server may ask for.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
        }
    }
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("no source has it")]
    Sources(Vec<(Url, Fault)>),
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl DownloadError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Write { path: path.to_owned(), source }
    }
}

/// A fault of the source, or one of ours that no other source would mend.
enum Stop {
    Fault(Fault),
    Ours(DownloadError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<DownloadError> for Stop {
    fn from(error: DownloadError) -> Self {
        Self::Ours(error)
    }
}

/// Fetches the file, or leaves what it has of it for the next time.
pub async fn download(
    http: &Http,
    login: &Login,
    patience: Patience,
    order: &Order,
    watch: &mut dyn FnMut(Event),
) -> Result<Arrived, DownloadError> {
    let mut part = Part::open(&order.to)?;
    let mut faults = Vec::new();
    for source in &order.sources {
        let one = Source { http, login, patience, order, url: source };
        match one.fetch(&mut part, watch).await {
            Ok(hub) => {
                let (sha256, size) = part.finish(&order.to)?;
                return Ok(Arrived { sha256, size, source: source.clone(), hub });
            }
            Err(Stop::Fault(fault)) => {
                watch(Event::Next { why: fault.to_string() });
                faults.push((source.clone(), fault));
            }
            Err(Stop::Ours(error)) => return Err(error),
        }
    }
    part.forget_if_empty()?;
    Err(DownloadError::Sources(faults))
}

struct Source<'a> {
    http: &'a Http,
    login: &'a Login,
    patience: Patience,
    order: &'a Order,
    url: &'a Url,
}

impl Source<'_> {
    async fn fetch(&self, part: &mut Part, watch: &mut dyn FnMut(Event)) -> Result<HubSays, Stop> {
        let begun = part.length;
        let mut furthest = begun;
        let mut vain = 0;
        // Bits that were flipped under way may be right the next time; twice wrong is wrong.
        let mut wrong = 0;
        // However little each attempt brings, it ends.
        for _ in 0..self.patience.attempts.saturating_mul(20) {
            let tried = match self.attempt(part, watch).await {
                Ok(hub) => self.check(part, hub),
                Err(stop) => Err(stop),
            };
            let fault = match tried {
                Ok(hub) => return Ok(hub),
                Err(Stop::Fault(fault)) => fault,
                Err(ours) => return Err(ours),
            };
            if let Fault::Wrong { .. } = fault {
                part.clear()?;
                wrong += 1;
            }
            vain = if part.length > furthest { 0 } else { vain + 1 };
            furthest = furthest.max(part.length);
            let again = match fault {
                Fault::Wrong { .. } => wrong < 2,
                // It could be reached a moment ago.
                Fault::Unreachable { .. } => furthest > begun,
                _ => fault.passes(),
            };
            let wait = self.wait(&fault, vain);
            match wait.filter(|_| again && vain < self.patience.attempts) {
                Some(wait) => {
                    watch(Event::Again { why: fault.to_string(), wait });
                    tokio::time::sleep(wait).await;
                }
                None => return Err(fault.into()),
            }
        }
        let host = web::name_of(self.url);
        Err(Fault::Broken { host, reason: "too many times".into() }.into())
    }

    /// How long to wait; nothing if the server asks for more than we have.
    fn wait(&self, fault: &Fault, vain: u32) -> Option<Duration> {
        let Patience { first_wait, longest_wait, .. } = self.patience;
        if let Fault::Status { retry_after: Some(asked), .. } = fault {
            return (*asked <= longest_wait).then_some(*asked);
        }
        Some((first_wait * 2u32.saturating_pow(vain.saturating_sub(1))).min(longest_wait))
    }

    /// One request, and its body into the part.
    async fn attempt(
        &self,
        part: &mut Part,
        watch: &mut dyn FnMut(Event),
    ) -> Result<HubSays, Stop> {
        if !part.can_resume(self.url, self.order.sha256.is_some()) {
            part.clear()?;
        }
        let answer = self.http.get(self.url, &part.conditions(), self.login).await?;
        let status = answer.status.as_u16();
        let begin = match status {
            200 => Begin::Whole,
            206 => range(&answer)?,
            416 if part.length > 0 => {
                // What is there may be all of it; if not, the next attempt begins anew.
                let all = unsatisfied(&answer.headers) == Some(part.length);
                if all && (self.order.sha256.is_some() || part.same_tag(&answer.headers)) {
                    return Ok(answer.hub);
                }
                part.clear()?;
                let (host, reason) = (answer.host, "the file has changed".to_owned());
                return Err(Fault::Broken { host, reason }.into());
            }
            _ => {
                let retry_after = retry_after(&answer.headers);
                return Err(Fault::Status { host: answer.host, status, retry_after }.into());
            }
        };
        self.receive(part, answer, begin, watch).await
    }

    async fn receive(
        &self,
        part: &mut Part,
        answer: Answer,
        begin: Begin,
        watch: &mut dyn FnMut(Event),
    ) -> Result<HubSays, Stop> {
        let Answer { headers, mut body, host, hub, .. } = answer;
        let encoded = headers.get(header::CONTENT_ENCODING);
        if let Some(encoding) = encoded.filter(|encoding| *encoding != "identity") {
            let why = format!("it is encoded as {encoding:?}");
            return Err(Fault::Nonsense { host, why }.into());
        }
        let length = header_number(&headers, header::CONTENT_LENGTH.as_str());
        let total = match begin {
            Begin::Whole => {
                part.clear()?;
                length
            }
            Begin::At { first, total } => {
                let changed =
                    part.tag.is_some() && !part.same_tag(&headers) && self.order.sha256.is_none();
                if first != part.length || changed {
                    part.clear()?;
                    let reason = "the file has changed".to_owned();
                    return Err(Fault::Broken { host, reason }.into());
                }
                total.or_else(|| length.map(|length| first + length))
            }
        };
        let expected = self.order.size.or(hub.size);
        if let (Some(total), Some(expected)) = (total, expected)
            && total != expected
        {
            let why = format!("it has {total} bytes and not {expected}");
            return Err(Fault::Wrong { host, why }.into());
        }
        // A connection's end is all that would show the file's, and that a cut shows too.
        let known = total.or(expected);
        if known.is_none() && self.order.sha256.is_none() {
            let why = "it does not say how long the file is".to_owned();
            return Err(Fault::Nonsense { host, why }.into());
        }
        part.remember(self.url, &headers)?;
        watch(Event::Bytes { at: part.length, total: known });
        let limit = self.http.limits().silence;
        while let Some(bytes) = web::next(&mut body, &host, limit).await? {
            if known.is_some_and(|known| part.length + bytes.len() as u64 > known) {
                let why = "it is longer than it said".to_owned();
                return Err(Fault::Wrong { host, why }.into());
            }
            part.append(&bytes)?;
            watch(Event::Bytes { at: part.length, total: known });
        }
        match known {
            Some(known) if part.length < known => {
                let reason = format!("it ended after {} of {known} bytes", part.length);
                Err(Fault::Broken { host, reason }.into())
            }
            _ => Ok(hub),
        }
    }

    /// Whether what is there is what was wanted.
    fn check(&self, part: &Part, hub: HubSays) -> Result<HubSays, Stop> {
        let host = web::name_of(self.url);
        let found = part.digest();
        let expected = self.order.sha256.as_deref().or(hub.sha256());
        match (expected, self.order.size) {
            (Some(expected), _) if !expected.eq_ignore_ascii_case(&found) => {
                let why = format!("its SHA-256 is {found} and not {expected}");
                Err(Fault::Wrong { host, why }.into())
            }
            (_, Some(size)) if size != part.length => {
                let why = format!("it has {} bytes and not {size}", part.length);
                Err(Fault::Wrong { host, why }.into())
            }
            _ => Ok(hub),
        }
    }
}

/// Where the body begins.
enum Begin {
    Whole,
    At { first: u64, total: Option<u64> },
}

/// `bytes 100-199/200`, of which the last may be `*`.
fn range(answer: &Answer) -> Result<Begin, Fault> {
    let read = || {
        let text = answer.headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (first, _) = range.split_once('-')?;
        Some(Begin::At { first: first.trim().parse().ok()?, total: total.trim().parse().ok() })
    };
    read().ok_or_else(|| Fault::Nonsense {
        host: answer.host.clone(),
        why: "a part of the file without saying which".into(),
    })
}

/// `bytes */200`.
fn unsatisfied(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?.trim().parse().ok()
}

fn header_number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// A tag that stands for the very bytes; a weak one does not.
fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(header::ETAG)?.to_str().ok()?;
    (tag.starts_with('"') && tag.len() > 2).then(|| tag.to_owned())
}

/// What is remembered beside the part, so that another process can go on with it.
#[derive(Debug, Serialize, Deserialize)]
struct Memory {
    url: String,
    tag: Option<String>,
}

/// The file as far as it has come.
struct Part {
    path: PathBuf,
    memory: PathBuf,
    file: File,
    length: u64,
    hasher: Sha256,
    /// Where it came from, and the tag it had there.
    url: Option<String>,
    tag: Option<String>,
}

impl Part {
    fn open(to: &Path) -> Result<Self, DownloadError> {
        let path = beside::with_ending(to, ".part");
        let memory = beside::with_ending(to, ".part.json");
        let failed = || DownloadError::write(&path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed())?;
        }
        let options =
            File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = options.map_err(failed())?;
        let mut hasher = Sha256::new();
        let length = feed(&mut hasher, &mut file, &mut |_| {}).map_err(failed())?;
        let known: Option<Memory> =
            fs::read(&memory).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let (url, tag) = known.map_or((None, None), |known| (Some(known.url), known.tag));
        Ok(Self { path, memory, file, length, hasher, url, tag })
    }

    /// The same source and a tag that would show a change, or a digest that shows it at the end.
    fn can_resume(&self, url: &Url, pinned: bool) -> bool {
        let same = self.url.as_deref() == Some(public(url).as_str());
        self.length > 0 && (pinned || (same && self.tag.is_some()))
    }

    fn conditions(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.length == 0 {
            return headers;
        }
        if let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.length)) {
            headers.insert(header::RANGE, range);
        }
        if let Some(tag) = self.tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok()) {
            headers.insert(header::IF_RANGE, tag);
        }
        headers
    }

    fn same_tag(&self, headers: &HeaderMap) -> bool {
        self.tag.is_some() && self.tag == strong_tag(headers)
    }

    /// Takes note of where the bytes come from, before any of them is written.
    fn remember(&mut self, url: &Url, headers: &HeaderMap) -> Result<(), DownloadError> {
        let (url, tag) = (public(url), strong_tag(headers));
        if self.url.as_ref() == Some(&url) && self.tag == tag {
            return Ok(());
        }
        let memory = Memory { url, tag };
        let text = serde_json::to_vec(&memory).map_err(io::Error::from);
        let written = text.and_then(|text| beside::write(&self.memory, &text));
        written.map_err(DownloadError::write(&self.memory))?;
        (self.url, self.tag) = (Some(memory.url), memory.tag);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.file.write_all(bytes).map_err(DownloadError::write(&self.path))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), DownloadError> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        cleared.map_err(DownloadError::write(&self.path))?;
        beside::remove(&self.memory).map_err(DownloadError::write(&self.memory))?;
        (self.length, self.hasher, self.url, self.tag) = (0, Sha256::new(), None, None);
        Ok(())
    }

    fn digest(&self) -> String {
        hex(&self.hasher.clone().finalize())
    }

    fn finish(self, to: &Path) -> Result<(String, u64), DownloadError> {
        self.file.sync_all().map_err(DownloadError::write(&self.path))?;
        fs::rename(&self.path, to).map_err(DownloadError::write(to))?;
        beside::remove(&self.memory).map_err(DownloadError::write(&self.memory))?;
        Ok((self.digest(), self.length))
    }

    fn forget_if_empty(self) -> Result<(), DownloadError> {
        if self.length > 0 {
            return Ok(());
        }
        beside::remove(&self.path).map_err(DownloadError::write(&self.path))?;
        beside::remove(&self.memory).map_err(DownloadError::write(&self.memory))
    }
}

/// An address without what may be secret in it.
pub fn public(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_for_patience_in_seconds_or_by_date() {
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).unwrap());
            retry_after(&headers)
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(asked("soon"), None);
    }

    #[test]
    fn only_a_strong_tag_stands_for_the_bytes() {
        let tag = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ETAG, HeaderValue::from_static(text));
            strong_tag(&headers)
        };
        assert_eq!(tag("\"a\""), Some("\"a\"".to_owned()));
        assert_eq!(tag("W/\"a\""), None);
        assert_eq!(tag("\"\""), None);
    }
}
