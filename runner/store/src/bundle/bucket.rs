//! Bundles in a bucket: large files in parts, every part with its SHA-256, which the server
//! checks; the manifest last.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use aws_smithy_types::base64;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use super::{BundleError, Entry, MANIFEST, Manifest, Progress, Watch};
use crate::digests::hex;
use crate::object::{DIGEST, Sink};
use crate::{Credentials, Error, ObjectStore, Settings};

/// The smallest part of a large file, and the most that are under way together: what is held in
/// memory is their product.
const PART: u64 = 16 << 20;
const TOGETHER: usize = 4;
/// A server takes no more than ten thousand.
const PARTS: u64 = 9_000;

#[derive(Clone, Debug)]
pub struct Bucket {
    store: ObjectStore,
    prefix: String,
}

impl Bucket {
    pub fn connect(settings: Settings, credentials: Credentials, prefix: String) -> Self {
        Self { store: ObjectStore::patient(settings, credentials), prefix }
    }

    pub fn place(&self) -> String {
        let bucket = &self.store.settings().bucket;
        format!("s3://{bucket}/{} at {}", self.prefix, self.store.settings().server())
    }

    fn client(&self) -> &Client {
        self.store.client()
    }

    fn bucket(&self) -> &str {
        &self.store.settings().bucket
    }

    fn key(&self, name: &str, file: &str) -> String {
        if self.prefix.is_empty() {
            format!("{name}/{file}")
        } else {
            format!("{}/{name}/{file}", self.prefix)
        }
    }

    /// `resumes`: files that are there by what is kept beside them are not sent again.
    pub async fn put(
        &self,
        name: &str,
        from: &Path,
        manifest: &Manifest,
        resumes: bool,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        for (file, entry) in manifest.in_order() {
            let key = self.key(name, file);
            // An upload that was cut off is gone on with, file by file.
            if !(resumes && self.has(&key, entry).await?) {
                self.upload(name, file, &from.join(file), entry, watch).await?;
            }
        }
        let text = manifest.text();
        let sha256 = Sha256::digest(&text);
        let key = self.key(name, MANIFEST);
        Ok(self.put_bytes(&key, text, &sha256, &hex(&sha256)).await?)
    }

    /// Takes the manifest away, and with it the bundle.
    pub async fn disown(&self, name: &str) -> Result<(), BundleError> {
        Ok(self.store.delete(&self.key(name, MANIFEST)).await?)
    }

    async fn has(&self, key: &str, entry: &Entry) -> Result<bool, Error> {
        let asked = self.client().head_object().bucket(self.bucket()).key(key).send().await;
        match asked {
            Ok(found) => {
                let digest = found.metadata().and_then(|metadata| metadata.get(DIGEST));
                Ok(found.content_length() == i64::try_from(entry.size).ok()
                    && digest == Some(&entry.sha256))
            }
            Err(error) => match self.store.error(&error, Some(key)) {
                Error::NoSuchObject { .. } => Ok(false),
                other => Err(other),
            },
        }
    }

    async fn upload(
        &self,
        name: &str,
        file: &str,
        from: &Path,
        entry: &Entry,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        let key = self.key(name, file);
        let mut source = File::open(from).map_err(BundleError::disk(from))?;
        if entry.size <= PART {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(BundleError::disk(from))?;
            let sha256 = Sha256::digest(&bytes);
            entry.compare(name, file, &hex(&sha256), bytes.len() as u64)?;
            self.put_bytes(&key, bytes, &sha256, &entry.sha256).await?;
            watch(Progress { file: file.to_owned(), at: entry.size, total: entry.size });
            return Ok(());
        }
        let begun = self
            .client()
            .create_multipart_upload()
            .bucket(self.bucket())
            .key(&key)
            .checksum_algorithm(ChecksumAlgorithm::Sha256)
            .metadata(DIGEST, &entry.sha256)
            .send()
            .await;
        let begun = begun.map_err(|error| self.store.error(&error, None))?;
        let upload = begun.upload_id().unwrap_or_default().to_owned();
        let sent = self.parts(name, file, &key, &upload, (&mut source, from), entry, watch).await;
        if sent.is_err() {
            // Parts that nobody claims are paid for; should this fail, the bucket's own rules
            // for abandoned uploads are left.
            let abort = self.client().abort_multipart_upload().bucket(self.bucket());
            let _ = abort.key(&key).upload_id(&upload).send().await;
        }
        sent
    }

    #[allow(clippy::too_many_arguments, reason = "what one upload consists of")]
    async fn parts(
        &self,
        name: &str,
        file: &str,
        key: &str,
        upload: &str,
        (source, from): (&mut File, &Path),
        entry: &Entry,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        let size = PART.max(entry.size.div_ceil(PARTS));
        let mut whole = Sha256::new();
        let (mut number, mut read, mut sent) = (0, 0, 0);
        let mut under_way = JoinSet::new();
        let mut done: Vec<CompletedPart> = Vec::new();
        loop {
            let mut bytes = Vec::with_capacity(size as usize);
            let got = (&*source).take(size).read_to_end(&mut bytes);
            let got = got.map_err(BundleError::disk(from))? as u64;
            if got > 0 {
                whole.update(&bytes);
                read += got;
                number += 1;
                under_way.spawn(self.clone().part(
                    key.to_owned(),
                    upload.to_owned(),
                    number,
                    bytes,
                ));
            }
            while under_way.len() >= TOGETHER || (got == 0 && !under_way.is_empty()) {
                let Some(joined) = under_way.join_next().await else { break };
                let ended =
                    |error: tokio::task::JoinError| Error::Request { reason: error.to_string() };
                let (part, bytes) = joined.map_err(ended)??;
                done.push(part);
                sent += bytes;
                watch(Progress { file: file.to_owned(), at: sent, total: entry.size });
            }
            if got == 0 {
                break;
            }
        }
        // The file may have changed since it was listed; the manifest must not vouch for it.
        entry.compare(name, file, &hex(&whole.finalize()), read)?;
        done.sort_by_key(CompletedPart::part_number);
        let parts = CompletedMultipartUpload::builder().set_parts(Some(done)).build();
        let completed = self
            .client()
            .complete_multipart_upload()
            .bucket(self.bucket())
            .key(key)
            .upload_id(upload)
            .multipart_upload(parts)
            .send()
            .await;
        completed.map_err(|error| self.store.error(&error, Some(key)))?;
        Ok(())
    }

    async fn part(
        self,
        key: String,
        upload: String,
        number: i32,
        bytes: Vec<u8>,
    ) -> Result<(CompletedPart, u64), Error> {
        let length = bytes.len() as u64;
        let sha256 = base64::encode(Sha256::digest(&bytes));
        let request = self
            .client()
            .upload_part()
            .bucket(self.bucket())
            .key(&key)
            .upload_id(&upload)
            .part_number(number)
            .checksum_sha256(&sha256)
            .body(ByteStream::from(bytes));
        let sent = request.send().await.map_err(|error| self.store.error(&error, Some(&key)))?;
        let part = CompletedPart::builder()
            .part_number(number)
            .set_e_tag(sent.e_tag().map(str::to_owned))
            .checksum_sha256(sha256)
            .build();
        Ok((part, length))
    }

    async fn put_bytes(
        &self,
        key: &str,
        bytes: Vec<u8>,
        sha256: &[u8],
        digest: &str,
    ) -> Result<(), Error> {
        let request = self
            .client()
            .put_object()
            .bucket(self.bucket())
            .key(key)
            .checksum_sha256(base64::encode(sha256))
            .metadata(DIGEST, digest)
            .body(ByteStream::from(bytes));
        request.send().await.map(drop).map_err(|error| self.store.error(&error, None))
    }

    pub async fn fetch(
        &self,
        name: &str,
        file: &str,
        entry: &Entry,
        to: &Path,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        let mut target = File::create(to).map_err(BundleError::disk(to))?;
        let mut write = |bytes: &[u8]| target.write_all(bytes);
        self.read(name, file, entry, &mut write, to, watch).await?;
        target.sync_all().map_err(BundleError::disk(to))
    }

    pub async fn check(
        &self,
        name: &str,
        file: &str,
        entry: &Entry,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        self.read(name, file, entry, &mut |_| Ok(()), Path::new(file), watch).await
    }

    /// Reads a file to its end, held against its entry.
    async fn read(
        &self,
        name: &str,
        file: &str,
        entry: &Entry,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        path: &Path,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        let mut told = |at, total| watch(Progress { file: file.to_owned(), at, total });
        let sink = Sink { path, write, watch: &mut told };
        let read = self.store.read(&self.key(name, file), Some(entry.size), sink).await;
        let read = read.map_err(|error| match error {
            BundleError::Store(Error::NoSuchObject { .. }) => BundleError::Wrong {
                name: name.to_owned(),
                file: file.to_owned(),
                why: "it is missing".to_owned(),
            },
            other => other,
        })?;
        entry.compare(name, file, &read.found.sha256, read.found.size)
    }

    pub async fn manifest(&self, name: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let key = self.key(name, MANIFEST);
        match self.client().get_object().bucket(self.bucket()).key(&key).send().await {
            Ok(answer) => {
                let server = || self.store.settings().server();
                let body = answer.body.collect().await;
                let body = body.map_err(|error| Error::from_connection(&error, server()))?;
                Ok(Some(body.to_vec()))
            }
            Err(error) => match self.store.error(&error, Some(&key)) {
                Error::NoSuchObject { .. } => Ok(None),
                other => Err(other.into()),
            },
        }
    }

    pub async fn list(&self) -> Result<Vec<String>, BundleError> {
        let start =
            if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        let request = self.client().list_objects_v2().bucket(self.bucket()).prefix(&start);
        let mut pages = request.into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.store.error(&error, None))?;
            for object in page.contents() {
                let key = object.key().and_then(|key| key.strip_prefix(&start));
                let name = key.and_then(|key| key.strip_suffix(MANIFEST)?.strip_suffix('/'));
                names.extend(name.map(str::to_owned));
            }
        }
        Ok(names)
    }
}
