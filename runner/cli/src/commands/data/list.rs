//! `warpforge data list`.

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_store::Library;
use warpforge_store::licence::Commercial;
use warpforge_store::table::{Access, DATASETS, Dataset};

use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, Ui, YELLOW};

/// Datasets and weights that can be fetched.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Datasets")]
pub struct Listed {
    datasets: Vec<Entry>,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    id: &'static str,
    title: &'static str,
    /// `data` or `weights`.
    kind: &'static str,
    /// The licence's SPDX identifier, or its name.
    licence: &'static str,
    licence_url: &'static str,
    commercial_use: CommercialUse,
    /// The line that names the authors.
    attribution: &'static str,
    /// Who grants access; null if anyone may fetch it.
    access_granted_by: Option<&'static str>,
    /// Whether every file is on this machine.
    present: bool,
    /// Where the files are, or would be.
    folder: String,
    files: Vec<File>,
}

/// Whether the licence lets one make money with it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CommercialUse {
    Allowed,
    Conditional,
    Forbidden,
}

/// One file.
#[derive(Debug, Serialize, JsonSchema)]
struct File {
    path: &'static str,
    /// In bytes; null if it is not known before the first fetch.
    size: Option<u64>,
    /// In hexadecimal; null if it is not known before the first fetch.
    sha256: Option<&'static str>,
}

pub fn run(json: bool, library: &Library, ui: &mut Ui) -> anyhow::Result<Exit> {
    if json {
        let datasets = DATASETS.iter().map(|dataset| entry(dataset, library)).collect();
        ui.json(&Listed { datasets })?;
        return Ok(Exit::Pass);
    }
    let head = ["ID", "KIND", "SIZE", "LICENCE", "HERE"].map(|title| Cell::styled(title, BOLD));
    let rows = DATASETS.iter().map(|dataset| row(dataset, library));
    table::write(ui.out(), 0, &std::iter::once(head.to_vec()).chain(rows).collect::<Vec<_>>())?;
    Ok(Exit::Pass)
}

fn entry(dataset: &'static Dataset, library: &Library) -> Entry {
    let commercial_use = match dataset.licence.commercial {
        Commercial::Allowed => CommercialUse::Allowed,
        Commercial::Conditional(_) => CommercialUse::Conditional,
        Commercial::Forbidden => CommercialUse::Forbidden,
    };
    let access_granted_by = match dataset.access {
        Access::Anyone => None,
        Access::Granted { by, .. } => Some(by),
    };
    let file = |file: &warpforge_store::table::File| File {
        path: file.path,
        size: file.size,
        sha256: file.sha256,
    };
    Entry {
        id: dataset.id,
        title: dataset.title,
        kind: dataset.kind.name(),
        licence: dataset.licence.name,
        licence_url: dataset.licence.url,
        commercial_use,
        attribution: dataset.attribution,
        access_granted_by,
        present: library.is_present(dataset),
        folder: library.folder(dataset).display().to_string(),
        files: dataset.files.iter().map(file).collect(),
    }
}

fn row(dataset: &Dataset, library: &Library) -> Vec<Cell> {
    let here = if library.is_present(dataset) {
        Cell::styled("yes", GREEN)
    } else {
        Cell::styled("no", DIM)
    };
    let remark = match (dataset.licence.commercial, dataset.access) {
        (Commercial::Forbidden, _) => "not for commercial use".to_owned(),
        (_, Access::Granted { by, .. }) => format!("access granted by {by}"),
        _ => String::new(),
    };
    let mut row = vec![
        dataset.id.into(),
        dataset.kind.name().into(),
        dataset.size().map_or_else(|| "?".to_owned(), size).into(),
        dataset.licence.name.into(),
        here,
    ];
    if !remark.is_empty() {
        row.push(Cell::styled(remark, YELLOW));
    }
    row
}

/// Bytes in the unit that reads best.
pub fn size(bytes: u64) -> String {
    indicatif::DecimalBytes(bytes).to_string()
}
