//! Waiting with an end, and with a word on what was waited for.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::part::all_last_words;

/// How often one looks.
const BETWEEN: Duration = Duration::from_millis(100);

/// How it stands: what was waited for, or what is seen instead.
pub type Seen<T> = Result<T, String>;

/// Looks until what is waited for is there. Past the limit, the error says what was last seen, with
/// the ends of the logs in a folder.
pub async fn until<T, F: Future<Output = Seen<T>>>(
    what: &str,
    limit: Duration,
    logs: &Path,
    mut look: impl FnMut() -> F,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        let last = match tokio::time::timeout(limit, look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(last)) => last,
            Err(_) => "no answer".to_owned(),
        };
        if start.elapsed() > limit {
            let (what, logs) = (what.to_owned(), all_last_words(logs));
            return Err(Error::Late { what, limit, last, logs });
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
