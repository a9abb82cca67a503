//! A workload's data and weights: where they are, whether they are what they are said to be, and
//! whose they are.

use std::path::Path;

use serde::Deserialize;
use warpforge_parity::report::Attribution;
use warpforge_store::licence::{Accepted, LicenceUse};
use warpforge_store::table::{DATASETS, Dataset, Home, Kind};
use warpforge_store::{DataError, Library, Standing};
use warpforge_workloads::bert_squad::{Config, OWN, Preset, WEIGHTS, is_published};

use super::Context;
use crate::commands::data::{explain, find, library};
use crate::failure::Misuse;

const DATASET: &str = "squad-v1.1";
/// What the exporter writes beside the weights: where they are from.
const ORIGIN: &str = "origin.json";

/// What the report says of the two; nothing of data that the table does not have.
pub struct Sources {
    pub data: Option<Attribution>,
    pub weights: Option<Attribution>,
}

/// Finds the data and checks what has a published name; paths become those of files that are
/// there, whatever folder a later command is typed in.
pub fn settle(
    config: &mut Config,
    accepted: &[String],
    context: &Context<'_>,
) -> anyhow::Result<Sources> {
    for id in accepted {
        find(id)?;
    }
    for path in [&mut config.data, &mut config.model].into_iter().flatten() {
        *path = context.environment.folder().join(&*path);
    }
    let data = data(config, accepted, context)?;
    let library = open(None, accepted, context)?;
    let weights = match &config.model {
        Some(folder) if folder.join(WEIGHTS).is_file() => Some(weights(folder, &library)?),
        _ => None,
    };
    Ok(Sources { data, weights })
}

fn open(
    only: Option<&Path>,
    accepted: &[String],
    context: &Context<'_>,
) -> anyhow::Result<Library> {
    library(context, |options| {
        options.accepted = Accepted(accepted.to_vec());
        options.places.only = only.map(Path::to_owned);
    })
}

fn data(
    config: &mut Config,
    accepted: &[String],
    context: &Context<'_>,
) -> anyhow::Result<Option<Attribution>> {
    let given = config.data.clone();
    match &given {
        None if config.preset == Preset::Demo => return Ok(None),
        // Of one's own: the report says that it is held against nothing.
        Some(folder) if !is_published(folder) => return Ok(None),
        _ => {}
    }
    let squad = find(DATASET)?;
    let library = open(given.as_deref(), accepted, context)?;
    let folder = library.path(squad, None).map_err(|error| explain(&error))?;
    for checked in library.verify(squad).map_err(|error| explain(&error))? {
        if let Standing::Wrong(why) = checked.standing {
            let path = folder.join(checked.file);
            let help = format!(
                "fetch it again (`warpforge data fetch {DATASET}`); a set of your own is called \
                 {} and {}",
                OWN[0], OWN[1]
            );
            let message = format!("{} is not the published file: {why}", path.display());
            return Err(Misuse::new(message, help).into());
        }
    }
    config.data = Some(folder);
    Ok(Some(attribution(library.attribution(squad))))
}

/// Where weights come from, as the exporter noted it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    /// The hub's name of the model, and the commit, where the files lay in its cache.
    repository: Option<String>,
    revision: Option<String>,
    /// Of the published file.
    sha256: Option<String>,
}

impl Origin {
    fn is(&self, dataset: &Dataset) -> bool {
        let digest = self.sha256.as_deref();
        let known = digest.is_some() && dataset.files.iter().any(|file| file.sha256 == digest);
        let named = match dataset.home {
            Home::Hub { name, formerly, revision, .. } => {
                let repository = self.repository.as_deref();
                (repository == Some(name) || (formerly.is_some() && repository == formerly))
                    && self.revision.as_deref() == Some(revision)
            }
            Home::Folder(_) => false,
        };
        dataset.kind == Kind::Weights && (known || named)
    }
}

fn weights(folder: &Path, library: &Library) -> anyhow::Result<Attribution> {
    let path = folder.join(ORIGIN);
    let origin: Origin = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            let message = format!("{} cannot be read: {error}", path.display());
            Misuse::new(message, "remove it, or export the model again")
        })?,
        // Weights that another program made need not say where they are from.
        Err(_) => Origin::default(),
    };
    let Some(dataset) = DATASETS.iter().find(|dataset| origin.is(dataset)) else {
        return Ok(Attribution {
            id: origin.repository.unwrap_or_else(|| "own weights".to_owned()),
            licence: "not stated".to_owned(),
            attribution: format!("the weights in {} are of no known origin", folder.display()),
            accepted: false,
        });
    };
    if dataset.licence.forbids_commercial_use() && !library.is_accepted(dataset) {
        let (id, licence, url) = (dataset.id, dataset.licence.name, dataset.licence.url);
        return Err(explain(&DataError::Licence { id, licence, url }).into());
    }
    Ok(attribution(library.attribution(dataset)))
}

fn attribution(used: LicenceUse) -> Attribution {
    let LicenceUse { id, licence, attribution, accepted, .. } = used;
    Attribution { id, licence, attribution, accepted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_known_by_digest_or_by_commit() {
        let found = |origin: &Origin| {
            DATASETS.iter().find(|dataset| origin.is(dataset)).map(|dataset| dataset.id)
        };
        let base = DATASETS.iter().find(|dataset| dataset.id == "bert-base-uncased").unwrap();
        let sha256 = base.file("model.safetensors").unwrap().sha256.map(str::to_owned);
        let by_digest = Origin { sha256, ..Origin::default() };
        assert_eq!(found(&by_digest), Some("bert-base-uncased"));
        let Home::Hub { formerly, revision, .. } = base.home else { panic!("it is on the hub") };
        let by_commit = Origin {
            repository: formerly.map(str::to_owned),
            revision: Some(revision.to_owned()),
            sha256: None,
        };
        assert_eq!(found(&by_commit), Some("bert-base-uncased"));
        let another = Origin { revision: Some("main".to_owned()), ..by_commit };
        assert_eq!((found(&another), found(&Origin::default())), (None, None));
    }
}
