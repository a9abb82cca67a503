//! Where things are in this checkout, and the cargo that started us.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::MetadataCommand;

use crate::group::Group;

/// The checkout the command was typed in. Asked at run time, because one target
/// folder may serve several checkouts.
pub fn root() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    here.ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside a checkout of WarpForge", here.display()))
}

/// The cargo that runs us, so that a toolchain chosen by hand stays chosen.
///
/// It is not told what cargo told us (about our own package, and what `[env]`
/// adds): build scripts that watch those variables would run again, and what
/// depends on them compile again, whenever `cargo xtask` and `cargo` take turns.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env_remove("LIBTORCH");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// The one build that every verb shares. Cargo unites the features of what is
/// built together, so building a single package, or leaving the tests out, would
/// compile the largest dependencies a second time with other features.
pub const BUILD: &str = "build --workspace --all-targets --release --locked";

/// Builds the workspace and says where its `warpforge` is.
pub fn build_warpforge(root: &Path) -> Result<PathBuf> {
    let mut build = cargo();
    build.current_dir(root).args(BUILD.split(' '));
    let status = Group::spawn(&mut build).context("could not start cargo")?.wait()?;
    ensure!(status.success(), "the workspace did not build");
    Ok(target_dir(root)?.join("release/warpforge"))
}

fn target_dir(root: &Path) -> Result<PathBuf> {
    let metadata = MetadataCommand::new().current_dir(root).no_deps().exec()?;
    Ok(metadata.target_directory.into_std_path_buf())
}
