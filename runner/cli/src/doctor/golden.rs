//! The golden pass: where libtorch is, and whether it can be loaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use warpforge_bench::capability::{self, Finding, LIBTORCH_VERSION};

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
        return if holds_libtorch(folder) {
            Ok(folder.clone())
        } else {
            Err(nothing_where_set(folder, &setting.source))
        };
    }
    let cached =
        context.settings().cache_dir.value.join(format!("libtorch-{LIBTORCH_VERSION}/torch"));
    let linked = context.environment.folder().ancestors().map(|dir| dir.join(".libtorch/torch"));
    if let Some(folder) =
        std::iter::once(cached.clone()).chain(linked).find(|dir| holds_libtorch(dir))
    {
        return Ok(folder);
    }
    let python = match installed_torch(limit) {
        Torch::Installed { version, folder }
            if version == LIBTORCH_VERSION && holds_libtorch(&folder) =>
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

fn holds_libtorch(folder: &Path) -> bool {
    // Anything but a folder: whether it is a library is for the loader to say.
    let library = folder.join(LIBRARY);
    library.exists() && !library.is_dir()
}

fn nothing_where_set(folder: &Path, source: &Source) -> Finding {
    let detail =
        format!("golden.libtorch ({source}) names {}, which holds no {LIBRARY}", folder.display());
    Finding::missing(detail, format!("{SET_UP} (or correct golden.libtorch)"))
}

/// What Python says about its torch.
enum Torch {
    Installed { version: String, folder: PathBuf },
    Absent,
    NoPython,
    Silent,
}

/// Asks Python where torch is without importing it, which would take seconds.
fn installed_torch(limit: Duration) -> Torch {
    const SCRIPT: &str = "import importlib.metadata as m, importlib.util as u\n\
        print(m.version('torch').split('+')[0])\n\
        print(list(u.find_spec('torch').submodule_search_locations)[0])";
    let mut command = Command::new("python3");
    command.args(["-I", "-c", SCRIPT]).stdin(Stdio::null()).stderr(Stdio::null());
    match output_within(&mut command, limit) {
        Ok(Some(text)) => match text.lines().collect::<Vec<_>>()[..] {
            [version, folder] => {
                Torch::Installed { version: version.into(), folder: folder.into() }
            }
            _ => Torch::Absent,
        },
        Ok(None) => Torch::Silent,
        Err(_) => Torch::NoPython,
    }
}

/// Standard output of a command that writes a few lines; `None` if it takes longer than `limit`.
fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Option<String>> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    while child.try_wait()?.is_none() {
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(Some(String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned()))
}
