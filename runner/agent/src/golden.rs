//! Stored goldens: found by their key, trusted when every file is what its list says.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use warpforge_operator_api::Reason;
use warpforge_operator_api::resolved::GoldenPlaces;
use warpforge_parity::bundle::{COMPLETE, INCOMPLETE, RUN};
use warpforge_store::{BundleError, Error};

use crate::artifacts::Artifacts;
use crate::ending::Failure;
use crate::places;

/// What became of looking for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    Absent,
    /// There is one in the place where the own would go, and it cannot be used.
    Damaged,
    /// It is in the folder, checked; by its name in the store.
    Brought(String),
}

/// Looks in all places, in order, and brings the first that is whole.
pub async fn bring(
    artifacts: &Artifacts,
    places: &GoldenPlaces,
    key: &str,
    folder: &Path,
) -> Result<Stored, Failure> {
    let mut found = Stored::Absent;
    for place in &places.read {
        let name = places::golden(place, key);
        match artifacts.get(&name, folder).await {
            Ok(_) if self::key(folder).is_ok_and(|own| own == key) => {
                return Ok(Stored::Brought(name));
            }
            Err(BundleError::Absent { .. }) => continue,
            // Not what its list says, or a golden of something else.
            Ok(_) | Err(BundleError::Wrong { .. } | BundleError::Store(Error::Damaged { .. })) => {
                if *place == places.write {
                    found = Stored::Damaged;
                }
            }
            Err(error) => {
                // Computing for hours what may lie there helps nobody if the store is away.
                let message = format!("stored goldens cannot be read: {error}; {}", error.cure());
                return Err(Failure::new(Reason::StoreNotWritable, message));
            }
        }
        clear(folder)?;
        // What had arrived of a damaged one must not be stored with the run's own results.
        clear(&folder.with_extension("partial"))?;
    }
    Ok(found)
}

fn clear(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("{} cannot be cleared: {error}", folder.display());
            Err(Failure::new(Reason::InternalError, message))
        }
        _ => Ok(()),
    }
}

/// The key that a whole golden's folder names.
pub fn key(folder: &Path) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Run {
        key: String,
    }
    let wrong = |why: String| {
        Failure::new(Reason::InternalError, format!("golden's folder cannot be used: {why}"))
    };
    if !folder.join(COMPLETE).is_file() || folder.join(INCOMPLETE).exists() {
        return Err(wrong("it is not complete".to_owned()));
    }
    let text = fs::read(folder.join(RUN)).map_err(|error| wrong(error.to_string()))?;
    let run: Run = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(run.key)
}
