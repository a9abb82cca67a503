//! Single objects of a bucket: bringing one to a file, and finding out whether the bucket takes
//! anything.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use aws_sdk_s3::primitives::ByteStream;
use sha2::{Digest as _, Sha256};

use crate::bundle::{BundleError, Entry, Progress};
use crate::digests::hex;
use crate::{Error, ObjectStore, beside};

/// How often a download is gone on with.
const ATTEMPTS: usize = 5;
/// Under which an object's digest is kept beside it, where whoever stored it did so.
pub(crate) const DIGEST: &str = "sha256";

impl ObjectStore {
    /// Brings an object to a file, which appears once it is whole. It is held against the length
    /// that the server states, and against the digest that is kept beside it if there is one.
    pub async fn fetch(
        &self,
        key: &str,
        to: &Path,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Entry, BundleError> {
        let arriving = beside::name(to);
        let mut target = File::create(&arriving).map_err(BundleError::disk(&arriving))?;
        let (mut hasher, mut at, mut attempt) = (Sha256::new(), 0u64, 1);
        let (mut tag, mut total, mut digest) = (None, 0, None);
        loop {
            let mut request = self.client().get_object().bucket(&self.settings().bucket).key(key);
            if at > 0 {
                request = request.range(format!("bytes={at}-")).set_if_match(tag.clone());
            }
            let answer = request.send().await.map_err(|error| self.error(&error, Some(key)))?;
            if at == 0 {
                tag = answer.e_tag().map(str::to_owned);
                total = answer.content_length().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
                digest = answer.metadata().and_then(|all| all.get(DIGEST)).cloned();
            }
            let mut body = answer.body;
            let broken = loop {
                match body.next().await {
                    None => break None,
                    Some(Err(error)) => break Some(error),
                    Some(Ok(bytes)) => {
                        hasher.update(&bytes);
                        target.write_all(&bytes).map_err(BundleError::disk(&arriving))?;
                        at += bytes.len() as u64;
                        watch(Progress { file: key.to_owned(), at, total });
                    }
                }
            };
            match broken {
                Some(error) if at < total && attempt == ATTEMPTS => {
                    return Err(Error::from_connection(&error, self.settings().server()).into());
                }
                Some(_) if at < total => attempt += 1,
                _ => break,
            }
        }
        let found = Entry { size: at, sha256: hex(&hasher.finalize()) };
        let wanted = Entry { size: total, sha256: digest.unwrap_or_else(|| found.sha256.clone()) };
        wanted.compare(&self.settings().bucket, key, &found.sha256, found.size)?;
        target.sync_all().map_err(BundleError::disk(&arriving))?;
        fs::rename(&arriving, to).map_err(BundleError::disk(to))?;
        Ok(found)
    }

    /// Writes an empty object and takes it away again, where that is allowed.
    pub async fn try_write(&self, key: &str) -> Result<(), Error> {
        let bucket = &self.settings().bucket;
        let put = self.client().put_object().bucket(bucket).key(key);
        let put = put.body(ByteStream::from_static(b"")).send().await;
        put.map_err(|error| self.error(&error, None))?;
        // Who may write need not be one who may delete; what stays is empty.
        let _ = self.client().delete_object().bucket(bucket).key(key).send().await;
        Ok(())
    }
}
