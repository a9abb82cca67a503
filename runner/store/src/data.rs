//! Datasets and weights on this machine: fetched, held against their digests, found.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use url::Url;

use crate::digests::{self, Digests, Record};
use crate::download::{self, DownloadError, Event, Order, Patience};
use crate::http::{Fault, Http, Limits, Login, Token};
use crate::licence::{Accepted, LicenceUse};
use crate::places::{Content, Places};
use crate::table::{Access, Dataset, File as Row, Home, Repository};

const HUB: &str = "https://huggingface.co";
/// Held while a dataset's folder is changed.
const LOCK: &str = ".warpforge.lock";

/// What a library is made of.
#[derive(Clone, Debug)]
pub struct Options {
    pub places: Places,
    /// The hub's address, if it is not the usual one.
    pub hub: Option<Url>,
    pub token: Option<Token>,
    /// Folders on the web that have files by their names; asked before the publisher.
    pub mirrors: Vec<Url>,
    pub accepted: Accepted,
    pub limits: Limits,
    pub patience: Patience,
}

impl Options {
    /// Places as given, and the rest as it usually is.
    pub fn at(places: Places) -> Self {
        Self {
            places,
            hub: None,
            token: None,
            mirrors: Vec::new(),
            accepted: Accepted::default(),
            limits: Limits::default(),
            patience: Patience::default(),
        }
    }
}

/// The datasets of this machine.
#[derive(Debug)]
pub struct Library {
    places: Places,
    login: Login,
    mirrors: Vec<Url>,
    accepted: Accepted,
    http: Http,
    patience: Patience,
}

/// Why a dataset cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("{id} is licensed {licence}, which forbids commercial use")]
    Licence { id: &'static str, licence: &'static str, url: &'static str },
    #[error("access to {id} is granted by {by}, and {}", if *token { "this token has none" } else { "no token was given" })]
    Access { id: &'static str, by: &'static str, at: &'static str, token: bool },
    #[error("{} could not be fetched:{}", id, list(faults))]
    Unfetched { id: &'static str, faults: Vec<(String, Fault)>, missing: Box<Missing> },
    #[error("{id} has no file {file}")]
    NoSuchFile { id: &'static str, file: String },
    #[error("{id} is not here: {} is missing", missing.files.join(", "))]
    Absent { id: &'static str, missing: Box<Missing> },
    #[error("{} is not what it should be: {why}", path.display())]
    Wrong { path: PathBuf, why: String },
    #[error("{} cannot be used: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    #[error("the hub's address cannot be used: {0}")]
    Hub(String),
}

/// Files that are not there, where they belong and where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub files: Vec<String>,
    pub folder: PathBuf,
    pub sources: Vec<String>,
    pub access: Access,
}

fn list(faults: &[(String, Fault)]) -> String {
    faults.iter().fold(String::new(), |mut text, (source, fault)| {
        let _ = write!(text, "\n    {source}: {fault}");
        text
    })
}

impl DataError {
    /// What a person can do about it.
    pub fn cure(&self) -> String {
        match self {
            Self::Licence { id, url, .. } => {
                format!("read {url} and, if you keep to it, say --accept-license {id}")
            }
            Self::Access { by, at, .. } => format!(
                "ask {by} at {at}, then set HF_TOKEN to a token of that account (or log in with \
                 `hf auth login`)"
            ),
            Self::Unfetched { missing, .. } => missing.cure(),
            Self::Absent { id, missing } => {
                format!("say `warpforge data fetch {id}`, or {}", missing.cure())
            }
            Self::NoSuchFile { .. } => "`warpforge data list --json` names the files".into(),
            Self::Wrong { path, .. } => format!(
                "delete {} and fetch it again; if it is the same there, do not use it",
                path.display()
            ),
            Self::Disk { .. } => "check the folder's permissions and the space left".into(),
            Self::Hub(_) => "correct HF_ENDPOINT".into(),
        }
    }

    /// Whether nothing was wrong but the way there.
    pub fn is_network(&self) -> bool {
        match self {
            Self::Unfetched { faults, .. } => {
                faults.iter().all(|(_, fault)| !matches!(fault, Fault::Wrong { .. }))
            }
            _ => false,
        }
    }
}

impl Missing {
    fn cure(&self) -> String {
        let mut text = format!("put these into {} yourself:", self.folder.display());
        for source in &self.sources {
            text.push_str("\n    ");
            text.push_str(source);
        }
        match self.access {
            Access::Anyone => text.push_str("\n  anyone may have them"),
            Access::Granted { by, at } => {
                let _ = write!(text, "\n  access is granted by {by} at {at}");
            }
        }
        text
    }
}

/// How a file that is there stands to its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has the digest its publisher is known to have given it.
    Verified,
    /// The publisher's is not known; it has the one recorded at the first fetch.
    AsRecorded,
    /// The publisher's is not known, and there was no record: there is one now.
    Recorded,
    Missing,
    Wrong(String),
}

/// One file of a dataset, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub file: &'static str,
    pub path: Option<PathBuf>,
    pub sha256: Option<String>,
    pub standing: Standing,
}

impl Library {
    pub fn new(options: Options) -> Result<Self, DataError> {
        let usual = || Url::parse(HUB).map_err(|error| DataError::Hub(error.to_string()));
        let hub = match options.hub {
            Some(hub) if matches!(hub.scheme(), "http" | "https") && hub.has_host() => hub,
            Some(hub) => return Err(DataError::Hub(format!("{hub} is not an address of HTTP"))),
            None => usual()?,
        };
        Ok(Self {
            places: options.places,
            login: Login { hub, token: options.token },
            mirrors: options.mirrors,
            accepted: options.accepted,
            http: Http::new(options.limits),
            patience: options.patience,
        })
    }

    /// The folder that a dataset's files are in, or would be.
    pub fn folder(&self, dataset: &Dataset) -> PathBuf {
        self.places.snapshot(dataset).unwrap_or_else(|| self.places.folder(dataset))
    }

    /// Whether every file is there; their digests are not looked at.
    pub fn is_present(&self, dataset: &Dataset) -> bool {
        dataset.files.iter().all(|file| self.places.file(dataset, file.path).is_some())
    }

    /// What a report carries when this was used.
    pub fn attribution(&self, dataset: &Dataset) -> LicenceUse {
        dataset.attribution(self.is_accepted(dataset))
    }

    /// A dataset's folder, or one of its files, if it is there and its licence lets it be used.
    pub fn path(&self, dataset: &Dataset, file: Option<&str>) -> Result<PathBuf, DataError> {
        self.permit(dataset)?;
        let wanted: Vec<&Row> = match file {
            None => dataset.files.iter().collect(),
            Some(name) => {
                let row = dataset.file(name).ok_or_else(|| DataError::NoSuchFile {
                    id: dataset.id,
                    file: name.to_owned(),
                })?;
                vec![row]
            }
        };
        let absent = |row: &&&Row| self.places.file(dataset, row.path).is_none();
        let lacking: Vec<&Row> = wanted.iter().filter(absent).copied().collect();
        if !lacking.is_empty() {
            let missing = self.missing(dataset, &lacking);
            return Err(DataError::Absent { id: dataset.id, missing: Box::new(missing) });
        }
        let folder = self.folder(dataset);
        Ok(file.map_or(folder.clone(), |name| folder.join(name)))
    }

    /// Brings every file that is not there, and checks those that are.
    pub async fn fetch(
        &self,
        dataset: &Dataset,
        watch: &mut dyn FnMut(&str, Event),
    ) -> Result<Vec<Checked>, DataError> {
        self.permit(dataset)?;
        let folder = self.places.folder(dataset);
        fs::create_dir_all(&folder).map_err(disk(&folder))?;
        let _lock = lock(&folder)?;
        let mut record = Digests::read(&folder).map_err(disk(&folder.join(digests::FILE)))?;
        if self.accepted.has(dataset.id) && !record.accepted.iter().any(|id| id == dataset.id) {
            record.accepted.push(dataset.id.to_owned());
            record.write(&folder).map_err(disk(&folder))?;
        }
        let mut commit = None;
        let mut failed: Vec<(&Row, Vec<(Url, Fault)>)> = Vec::new();
        let mut done = Vec::new();
        for file in dataset.files {
            let there = self.look_at(dataset, file, &mut record)?;
            record.write(&folder).map_err(disk(&folder))?;
            match there.standing {
                Standing::Missing => {}
                Standing::Wrong(why) => {
                    let path = there.path.unwrap_or_default();
                    return Err(DataError::Wrong { path, why });
                }
                _ => {
                    done.push(there);
                    continue;
                }
            }
            let wanted = self.order(dataset, file, &record, commit.as_deref());
            let mut watch_file = |event| watch(file.path, event);
            let fetched = download::download(
                &self.http,
                &self.login,
                self.patience,
                &wanted,
                &mut watch_file,
            );
            match fetched.await {
                Ok(arrived) => {
                    let content = Content {
                        tag: arrived.hub.tag.as_deref(),
                        commit: arrived.hub.commit.as_deref(),
                        sha256: &arrived.sha256,
                    };
                    let settled = self.places.settle(dataset, file.path, &wanted.to, &content);
                    let path = settled.map_err(disk(&wanted.to))?;
                    let standing = if file.sha256.is_some() || arrived.hub.sha256().is_some() {
                        Standing::Verified
                    } else if record.files.contains_key(file.path) {
                        Standing::AsRecorded
                    } else {
                        Standing::Recorded
                    };
                    let entry = Record {
                        sha256: arrived.sha256.clone(),
                        size: arrived.size,
                        source: Some(download::public(&arrived.source)),
                    };
                    record.files.insert(file.path.to_owned(), entry);
                    record.write(&folder).map_err(disk(&folder))?;
                    commit = commit.or(arrived.hub.commit);
                    let sha256 = Some(arrived.sha256);
                    done.push(Checked { file: file.path, path: Some(path), sha256, standing });
                }
                Err(DownloadError::Write { path, source }) => {
                    return Err(DataError::Disk { path, source });
                }
                Err(DownloadError::Sources(faults)) => {
                    // One file that is refused or cannot be reached stands for all of them.
                    let hopeless = faults.iter().all(|(_, fault)| is_general(fault));
                    failed.push((file, faults));
                    if hopeless {
                        break;
                    }
                }
            }
        }
        if failed.is_empty() { Ok(done) } else { Err(self.failure(dataset, failed)) }
    }

    /// Holds every file against its digest; one that has none known gets one recorded.
    pub fn verify(&self, dataset: &Dataset) -> Result<Vec<Checked>, DataError> {
        let folder = self.places.folder(dataset);
        let mut record = Digests::read(&folder).map_err(disk(&folder.join(digests::FILE)))?;
        let before = record.clone();
        let mut checked = Vec::new();
        for file in dataset.files {
            checked.push(self.look_at(dataset, file, &mut record)?);
        }
        if record != before {
            record.write(&folder).map_err(disk(&folder))?;
        }
        Ok(checked)
    }

    /// Whether what forbids commercial use was accepted, now or when it was fetched: the licence
    /// of the whole, or that of COCO's images.
    pub fn is_accepted(&self, dataset: &Dataset) -> bool {
        let recorded = || Digests::read(&self.places.folder(dataset)).map(|record| record.accepted);
        self.accepted.has(dataset.id)
            || recorded().is_ok_and(|accepted| accepted.iter().any(|id| id == dataset.id))
    }

    fn permit(&self, dataset: &Dataset) -> Result<(), DataError> {
        if dataset.licence.forbids_commercial_use() && !self.is_accepted(dataset) {
            let (licence, url) = (dataset.licence.name, dataset.licence.url);
            return Err(DataError::Licence { id: dataset.id, licence, url });
        }
        Ok(())
    }

    fn look_at(
        &self,
        dataset: &Dataset,
        file: &Row,
        record: &mut Digests,
    ) -> Result<Checked, DataError> {
        let nothing =
            Checked { file: file.path, path: None, sha256: None, standing: Standing::Missing };
        let Some(path) = self.places.file(dataset, file.path) else { return Ok(nothing) };
        let (found, size) = digests::digest(&path, |_| {}).map_err(disk(&path))?;
        let recorded = record.files.get(file.path);
        let expected = file.sha256.or(recorded.map(|record| record.sha256.as_str()));
        let standing = match expected {
            Some(expected) if expected != found => {
                Standing::Wrong(format!("its SHA-256 is {found} and not {expected}"))
            }
            _ if file.size.is_some_and(|expected| expected != size) => {
                Standing::Wrong(format!("it has {size} bytes"))
            }
            Some(_) if file.sha256.is_some() => Standing::Verified,
            Some(_) => Standing::AsRecorded,
            None => {
                let entry = Record { sha256: found.clone(), size, source: None };
                record.files.insert(file.path.to_owned(), entry);
                Standing::Recorded
            }
        };
        Ok(Checked { path: Some(path), sha256: Some(found), standing, ..nothing })
    }

    fn order(
        &self,
        dataset: &Dataset,
        file: &Row,
        record: &Digests,
        commit: Option<&str>,
    ) -> Order {
        let recorded = record.files.get(file.path);
        let sha256 = file.sha256.or(recorded.map(|record| record.sha256.as_str()));
        Order {
            sources: self.sources(dataset, file, commit),
            to: self.places.arriving(dataset, file.path),
            size: file.size.or(recorded.map(|record| record.size)),
            sha256: sha256.map(str::to_owned),
        }
    }

    /// Where a file can be had, mirrors first.
    fn sources(&self, dataset: &Dataset, file: &Row, commit: Option<&str>) -> Vec<Url> {
        let mirrors = self.mirrors.iter().filter_map(|mirror| below(mirror, file.path));
        let publisher: Vec<Url> = match dataset.home {
            Home::Hub { kind, name, revision, .. } => {
                let prefix = match kind {
                    Repository::Models => "",
                    Repository::Datasets => "datasets/",
                };
                let revision = commit.unwrap_or(revision);
                let path = format!("{prefix}{name}/resolve/{revision}/{}", file.path);
                below(&self.login.hub, &path).into_iter().collect()
            }
            Home::Folder(_) => file.urls.iter().filter_map(|url| Url::parse(url).ok()).collect(),
        };
        mirrors.chain(publisher).collect()
    }

    fn missing(&self, dataset: &Dataset, rows: &[&Row]) -> Missing {
        let describe = |row: &&Row| {
            let publisher = self.sources(dataset, row, None).into_iter().nth(self.mirrors.len());
            let from = publisher.as_ref().map(download::public);
            let size = row.size.map(|size| format!(" ({size} bytes)")).unwrap_or_default();
            format!("{}{size} from {}", row.path, from.unwrap_or_default())
        };
        let folder = match dataset.home {
            Home::Hub { revision, .. } if self.places.only.is_none() => {
                let snapshots = self.places.folder(dataset).join("snapshots").join(revision);
                self.places.snapshot(dataset).unwrap_or(snapshots)
            }
            _ => self.places.folder(dataset),
        };
        Missing {
            files: rows.iter().map(|row| row.path.to_owned()).collect(),
            folder,
            sources: rows.iter().map(describe).collect(),
            access: dataset.access,
        }
    }

    fn failure(&self, dataset: &Dataset, failed: Vec<(&Row, Vec<(Url, Fault)>)>) -> DataError {
        let mut faults = failed.iter().flat_map(|(_, faults)| faults);
        let refused = faults.any(|(_, fault)| matches!(fault.status(), Some(401 | 403)));
        if let Access::Granted { by, at } = dataset.access
            && refused
        {
            let token = self.login.token.is_some();
            return DataError::Access { id: dataset.id, by, at, token };
        }
        let lacking: Vec<&Row> = dataset
            .files
            .iter()
            .filter(|row| self.places.file(dataset, row.path).is_none())
            .collect();
        let named = failed.into_iter().flat_map(|(_, faults)| faults);
        let faults = named.map(|(url, fault)| (download::public(&url), fault)).collect();
        DataError::Unfetched {
            id: dataset.id,
            faults,
            missing: Box::new(self.missing(dataset, &lacking)),
        }
    }
}

/// Whether another file of the same dataset would meet the same.
fn is_general(fault: &Fault) -> bool {
    matches!(fault, Fault::Unreachable { .. }) || matches!(fault.status(), Some(401 | 403))
}

/// The address of a file in a folder on the web.
fn below(base: &Url, path: &str) -> Option<Url> {
    let mut url = base.clone();
    let whole = format!("{}/{path}", base.path().trim_end_matches('/'));
    url.set_path(&whole);
    url.has_host().then_some(url)
}

fn disk(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    |source| DataError::Disk { path: path.to_owned(), source }
}

/// Waits for another process that fetches the same; the system lets go if that one is killed.
fn lock(folder: &Path) -> Result<File, DataError> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(disk(&path))?;
    file.lock().map_err(disk(&path))?;
    Ok(file)
}
