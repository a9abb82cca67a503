//! Where artifacts and datasets live. [`Library`] has the datasets and weights of the table
//! ([`table`]): fetched from several sources, resumed, held against their digests and licences, in
//! the layout of the Hugging Face cache or in a folder of their own. [`ObjectStore`] is one bucket
//! of an S3 compatible object store, from explicit [`Settings`] and [`Credentials`];
//! [`ArtifactStore`] keeps bundles of finished runs in one, or in a folder. Nothing here prints,
//! reads profiles or asks instance metadata.

mod beside;
pub mod bundle;
pub mod coco;
mod data;
mod digests;
mod download;
mod error;
mod http;
pub mod licence;
mod object;
mod object_store;
mod places;
mod settings;
pub mod table;

pub use bundle::{ArtifactStore, BundleError, Location, Manifest};
pub use data::{Checked, DataError, Library, Missing, Options, Standing};
pub use download::{Arrived, DownloadError, Event, Order, Patience, download};
pub use error::Error;
pub use http::{Fault, Http, HubSays, Limits, Login, Token};
pub use object_store::ObjectStore;
pub use places::Places;
pub use settings::{Credentials, Settings};
pub use url::Url;
