//! Where artifacts and datasets live. At present that is access to one bucket of an S3
//! compatible object store: [`ObjectStore::connect`] from explicit [`Settings`] and
//! [`Credentials`], and [`ObjectStore::check`], which asks whether the bucket can be used and
//! answers in plain words ([`Error`]). Nothing here reads profiles, asks instance metadata or
//! looks anywhere on the network but at the endpoint it was given.

mod error;
mod object_store;
mod settings;

pub use error::Error;
pub use object_store::ObjectStore;
pub use settings::{Credentials, Settings};
