//! The golden pass: where libtorch is, and whether it can be loaded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use warpforge_bench::capability::{self, Finding, LIBTORCH_VERSION};
use warpforge_golden_protocol::{Libtorch, Torch, installed_torch};

use super::Limits;
use crate::commands::Context;
use crate::settings::Source;

const SET_UP: &str = "cargo xtask setup golden";
const LIBRARY: &str = "lib/libtorch_cpu.so";

pub fn probe(context: &Context<'_>, limits: Limits) -> Finding {
    match locate(context, limits.answer) {
        Ok(folder) => capability::libtorch(&folder),
        Err(missing) => missing,
    }
}

/// The folder of libtorch. A setting decides alone: falling back to another libtorch than the
/// one that was asked for would hide the mistake.
fn locate(context: &Context<'_>, limit: Duration) -> Result<PathBuf, Finding> {
    let setting = &context.settings().libtorch;
    if let Some(folder) = &setting.value {
        return if Libtorch::at(folder).is_some() {
            Ok(folder.clone())
        } else {
            Err(nothing_where_set(folder, &setting.source))
        };
    }
    let cached =
        context.settings().cache_dir.value.join(format!("libtorch-{LIBTORCH_VERSION}/torch"));
    let linked = context.environment.folder().ancestors().map(|dir| dir.join(".libtorch/torch"));
    if let Some(folder) =
        std::iter::once(cached.clone()).chain(linked).find(|dir| Libtorch::at(dir).is_some())
    {
        return Ok(folder);
    }
    let python = match installed_torch(Path::new("python3"), limit) {
        Torch::Installed { version, folder }
            if version == LIBTORCH_VERSION && Libtorch::at(&folder).is_some() =>
        {
            return Ok(folder);
        }
        Torch::Installed { version, .. } => format!("Python's torch is {version}"),
        Torch::Absent => "Python has no torch".to_owned(),
        Torch::NoPython => "there is no python3".to_owned(),
        Torch::Silent => "python3 did not answer".to_owned(),
    };
    let detail = format!(
        "libtorch {LIBTORCH_VERSION} is not in {} nor linked as .libtorch/torch, and {python}",
        cached.display(),
    );
    Err(Finding::missing(detail, SET_UP))
}

fn nothing_where_set(folder: &Path, source: &Source) -> Finding {
    let detail =
        format!("golden.libtorch ({source}) names {}, which holds no {LIBRARY}", folder.display());
    Finding::missing(detail, format!("{SET_UP} (or correct golden.libtorch)"))
}
