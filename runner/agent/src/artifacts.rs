//! The object store, with patience: what may pass is tried again for a while, what will not is
//! said at once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use warpforge_operator_api::data::S3;
use warpforge_store::bundle::Progress;
use warpforge_store::{
    ArtifactStore, BundleError, Credentials, Error, Location, Manifest, ObjectStore, Settings,
};

use crate::places;
use crate::request::Source;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How long a store may be away before anything is computed.
const PREFLIGHT: Duration = Duration::from_mins(1);

/// Where results go.
pub struct Artifacts {
    pub s3: S3,
    store: ArtifactStore,
    credentials: Credentials,
    /// How long nothing may move before it is given up.
    patience: Duration,
}

impl Artifacts {
    pub fn open(
        s3: &S3,
        lookup: impl Fn(&str) -> Option<String>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let credentials = Credentials::from_lookup(lookup)?;
        let store = ArtifactStore::open(Location::Bucket {
            settings: settings(s3, &s3.bucket),
            credentials: credentials.clone(),
            prefix: s3.prefix.trim_matches('/').to_owned(),
        });
        Ok(Self { s3: s3.clone(), store, credentials, patience })
    }

    /// Whether anything can be stored in a place; `instead`: in the place of something else, too.
    pub async fn check(&self, place: &str, instead: bool) -> Result<(), BundleError> {
        let store = self.objects(&self.s3.bucket);
        let key = places::key(&self.s3, &format!("{}/.writable", place.trim_matches('/')));
        // Nothing is lost yet: whoever waits learns it soon.
        let patience = self.patience.min(PREFLIGHT);
        let checked = persist(patience, async |_| {
            let tried = match instead {
                true => store.try_replace(&key).await,
                false => store.try_write(&key).await,
            };
            Ok(tried?)
        });
        checked.await
    }

    pub async fn put(&self, name: &str, folder: &Path) -> Result<Manifest, BundleError> {
        persist(self.patience, async |watch| self.store.put(name, folder, watch).await).await
    }

    pub async fn replace(&self, name: &str, folder: &Path) -> Result<Manifest, BundleError> {
        persist(self.patience, async |watch| self.store.replace(name, folder, watch).await).await
    }

    pub async fn get(&self, name: &str, folder: &Path) -> Result<Manifest, BundleError> {
        persist(self.patience, async |watch| self.store.get(name, folder, watch).await).await
    }

    /// Brings a single file.
    pub async fn fetch(&self, source: &Source, to: &Path) -> Result<(), BundleError> {
        let Source::Object { bucket, key } = source else { return Ok(()) };
        let store = self.objects(bucket);
        let fetched = persist(self.patience, async |watch| store.fetch(key, to, watch).await);
        fetched.await.map(drop)
    }

    fn objects(&self, bucket: &str) -> ObjectStore {
        ObjectStore::patient(settings(&self.s3, bucket), self.credentials.clone())
    }
}

fn settings(s3: &S3, bucket: &str) -> Settings {
    Settings {
        endpoint: s3.endpoint.clone(),
        region: Some(s3.region.clone()),
        bucket: bucket.to_owned(),
    }
}

/// Whether trying again may help.
fn may_pass(error: &BundleError) -> bool {
    let BundleError::Store(error) = error else { return false };
    match error {
        Error::Refused { .. }
        | Error::UnknownHost { .. }
        | Error::TimedOut { .. }
        | Error::Connection { .. }
        | Error::Full { .. }
        | Error::Damaged { .. } => true,
        Error::Unexpected { status, .. } => *status >= 500 || *status == 429,
        _ => false,
    }
}

/// Tries until it is done, has failed for good, or nothing has moved for as long as `patience`. What
/// was sent before and is sent again is no move: a store that always fails at the same place would
/// be tried for ever.
async fn persist<T>(
    patience: Duration,
    mut attempt: impl AsyncFnMut(&mut dyn FnMut(Progress)) -> Result<T, BundleError>,
) -> Result<T, BundleError> {
    let moved = Cell::new(Instant::now());
    let mut furthest: BTreeMap<String, u64> = BTreeMap::new();
    let mut pause = FIRST_PAUSE;
    let mut last = None;
    loop {
        let mut watch = |progress: Progress| {
            let known = furthest.entry(progress.file).or_default();
            if progress.at > *known {
                *known = progress.at;
                moved.set(Instant::now());
            }
        };
        let result = tokio::select! {
            result = attempt(&mut watch) => result,
            () = stalled(&moved, patience) => {
                let server = "the object store".to_owned();
                let silent = Error::TimedOut { server, limit: patience };
                return Err(last.unwrap_or_else(|| silent.into()));
            }
        };
        match result {
            Err(error) if may_pass(&error) && moved.get().elapsed() + pause < patience => {
                last = Some(error);
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            result => return result,
        }
    }
}

async fn stalled(moved: &Cell<Instant>, patience: Duration) {
    loop {
        let left = patience.saturating_sub(moved.get().elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        // The clock moves when everything waits, so that a busy machine changes nothing.
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap().block_on(future)
    }

    fn refused() -> BundleError {
        Error::Refused { server: "s".to_owned() }.into()
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_not_is_said_at_once() {
        let count = Cell::new(0);
        let patience = Duration::from_secs(30);
        let mut tried = run(persist(patience, async |_| {
            count.set(count.get() + 1);
            if count.get() < 2 { Err(refused()) } else { Ok(count.get()) }
        }));
        assert_eq!(tried.unwrap(), 2);
        tried = run(persist(patience, async |_| {
            count.set(count.get() + 1);
            Err(Error::NoSuchBucket { server: "s".into(), bucket: "b".into() }.into())
        }));
        assert!(tried.is_err());
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn what_does_not_move_is_given_up() {
        let patience = Duration::from_mins(1);
        let silent = run(persist(patience, async |_| {
            std::future::pending::<()>().await;
            Ok(())
        }));
        assert!(silent.unwrap_err().to_string().contains("did not answer"));
        // What moves has all the time it takes.
        let slow = run(persist(patience, async |watch| {
            for at in 0..6 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                watch(Progress { file: String::new(), at, total: 6 });
            }
            Ok(())
        }));
        assert!(slow.is_ok());
        assert!(run(persist(patience, async |_| Err::<(), _>(refused()))).is_err());
    }
}
