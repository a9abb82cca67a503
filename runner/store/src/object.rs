//! Single objects of a bucket: read to the end, brought to a file, and a way to find out whether the
//! bucket takes anything.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use aws_sdk_s3::primitives::{ByteStream, ByteStreamError};
use sha2::{Digest as _, Sha256};

use crate::bundle::{BundleError, Entry, Progress};
use crate::digests::hex;
use crate::{Error, ObjectStore, beside};

/// How often a download is gone on with.
const ATTEMPTS: usize = 5;
/// Under which an object's digest is kept beside it, where whoever stored it did so.
pub(crate) const DIGEST: &str = "sha256";

/// An object that was read.
pub(crate) struct Read {
    /// What arrived.
    pub found: Entry,
    /// The digest that is kept beside it.
    pub stated: Option<String>,
    /// The length that was expected of it.
    pub size: u64,
}

/// Takes what arrives, in order.
pub(crate) struct Sink<'a> {
    /// For messages.
    pub path: &'a Path,
    pub write: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    /// Told of how much there is by now, and of how much there will be.
    pub watch: &'a mut dyn FnMut(u64, u64),
}

/// Hands on what arrives; what broke it off, if something did.
async fn pour(
    mut body: ByteStream,
    take: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
) -> Result<Option<ByteStreamError>, BundleError> {
    while let Some(bytes) = body.next().await {
        match bytes {
            Ok(bytes) => take(&bytes)?,
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

impl ObjectStore {
    /// Reads an object to its end, going on where a connection broke as long as it is the same
    /// object still. Without a `size` the server's word is taken.
    pub(crate) async fn read(
        &self,
        key: &str,
        size: Option<u64>,
        sink: Sink<'_>,
    ) -> Result<Read, BundleError> {
        let Sink { path, write, watch } = sink;
        let (mut hasher, mut at, mut attempt) = (Sha256::new(), 0u64, 1);
        let (mut tag, mut size, mut stated) = (None, size, None);
        let total = loop {
            let mut request = self.client().get_object().bucket(&self.settings().bucket).key(key);
            if at > 0 {
                request = request.range(format!("bytes={at}-")).set_if_match(tag.clone());
            }
            let answer = request.send().await.map_err(|error| self.error(&error, Some(key)))?;
            if at == 0 {
                tag = answer.e_tag().map(str::to_owned);
                let length = answer.content_length().and_then(|length| u64::try_from(length).ok());
                size = size.or(length);
                stated = answer.metadata().and_then(|all| all.get(DIGEST)).cloned();
            }
            let total = size.unwrap_or(0);
            let mut take = |bytes: &[u8]| {
                hasher.update(bytes);
                at += bytes.len() as u64;
                watch(at, total);
                write(bytes).map_err(BundleError::disk(path))
            };
            match pour(answer.body, &mut take).await? {
                Some(error) if at < total && attempt == ATTEMPTS => {
                    return Err(Error::from_connection(&error, self.settings().server()).into());
                }
                Some(_) if at < total => attempt += 1,
                _ => break total,
            }
        };
        Ok(Read { found: Entry { size: at, sha256: hex(&hasher.finalize()) }, stated, size: total })
    }

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
        let sink = Sink {
            path: &arriving,
            write: &mut |bytes| target.write_all(bytes),
            watch: &mut |at, total| watch(Progress { file: key.to_owned(), at, total }),
        };
        let Read { found, stated, size } = self.read(key, None, sink).await?;
        let wanted = Entry { size, sha256: stated.unwrap_or_else(|| found.sha256.clone()) };
        wanted.compare(&self.settings().bucket, key, &found.sha256, found.size)?;
        target.sync_all().map_err(BundleError::disk(&arriving))?;
        fs::rename(&arriving, to).map_err(BundleError::disk(to))?;
        Ok(found)
    }

    /// Writes an empty object and takes it away again, where that is allowed.
    pub async fn try_write(&self, key: &str) -> Result<(), Error> {
        self.put_empty(key).await?;
        // Who may write need not be one who may delete; what stays is empty.
        let _ = self.delete(key).await;
        Ok(())
    }

    /// Writes an empty object and takes it away again: to take another's place needs both.
    pub async fn try_replace(&self, key: &str) -> Result<(), Error> {
        self.put_empty(key).await?;
        self.delete(key).await
    }

    async fn put_empty(&self, key: &str) -> Result<(), Error> {
        let put = self.client().put_object().bucket(&self.settings().bucket).key(key);
        let put = put.body(ByteStream::from_static(b"")).send().await;
        put.map(drop).map_err(|error| self.error(&error, None))
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), Error> {
        let delete = self.client().delete_object().bucket(&self.settings().bucket).key(key);
        delete.send().await.map(drop).map_err(|error| match self.error(&error, None) {
            Error::AccessDenied { server, bucket } => Error::NotDeletable { server, bucket },
            other => other,
        })
    }
}
