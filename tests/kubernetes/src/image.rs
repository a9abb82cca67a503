//! Images without a registry or an engine: a folder becomes a layer, layers become an archive in
//! the layout of the Open Container Initiative, which containerd imports.

mod layer;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use layer::{Layer, digest};

use crate::command::run;
use crate::error::{Error, Tried};
use crate::libtorch;

/// An image in an archive, ready to be imported.
#[derive(Debug, Clone)]
pub struct Image {
    name: String,
    archive: PathBuf,
}

/// What an image is made of. A name has a registry and a tag other than `latest`, which would be
/// pulled: `warpforge.test/runner:1`.
#[derive(Default)]
pub struct Recipe<'a> {
    pub name: &'a str,
    pub layers: &'a [&'a Layer],
    pub entrypoint: &'a [&'a str],
    /// `NAME=VALUE` each.
    pub environment: &'a [&'a str],
    /// A number and a group's: `65532:65532`.
    pub user: &'a str,
}

const NOBODY: &str = "65532:65532";

impl Image {
    /// An image of programs of this machine, with all they load: `/usr/bin/NAME` each. It is made
    /// in the folder.
    pub fn of_programs(
        folder: &Path,
        name: &str,
        programs: &[PathBuf],
        entrypoint: &[&str],
    ) -> Result<Self, Error> {
        let root = work(folder, name)?.join("root");
        programs_into(&root, programs, None)?;
        Self::of_folder(folder, name, &root, entrypoint)
    }

    /// An image whose whole file system is a folder's.
    pub fn of_folder(
        folder: &Path,
        name: &str,
        root: &Path,
        entrypoint: &[&str],
    ) -> Result<Self, Error> {
        let layer = Layer::of_folder(root, &work(folder, name)?.join("layer.tar"))?;
        let layers = [&layer];
        Self::build(
            folder,
            &Recipe { name, layers: &layers, entrypoint, environment: &[], user: NOBODY },
        )
    }

    /// An image of programs over libtorch, for nodes that hold it.
    pub fn over_libtorch(
        folder: &Path,
        store: &libtorch::Store,
        name: &str,
        programs: &[PathBuf],
        entrypoint: &[&str],
    ) -> Result<Self, Error> {
        let work = work(folder, name)?;
        let libtorch = warpforge_tests::root().join(".libtorch");
        programs_into(&work.join("root"), programs, Some(&libtorch))?;
        let own = Layer::of_folder(&work.join("root"), &work.join("layer.tar"))?;
        let layers = [store.layer(), &own];
        let environment = &[libtorch::ENVIRONMENT, "PATH=/usr/bin"];
        let recipe = Recipe { name, layers: &layers, entrypoint, environment, user: NOBODY };
        Self::build(folder, &recipe)
    }

    pub fn build(folder: &Path, recipe: &Recipe) -> Result<Self, Error> {
        let archive = work(folder, recipe.name)?.join("image.tar");
        write(&archive, recipe).at("could not write", &archive)?;
        Ok(Self { name: recipe.name.to_owned(), archive })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn archive(&self) -> &Path {
        &self.archive
    }
}

/// Fills the root of an image with programs and what they load, but for libraries of a folder that
/// are brought in otherwise.
pub fn programs_into(
    root: &Path,
    programs: &[PathBuf],
    without: Option<&Path>,
) -> Result<(), Error> {
    let mut gather = Command::new(warpforge_tests::root().join("images/rootfs.sh"));
    if let Some(without) = without {
        gather.env("WITHOUT", without);
    }
    run(gather.arg(root).args(programs)).map(drop)
}

/// Where an image is made.
fn work(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join("images").join(name.replace(['/', ':'], "-"));
    fs::create_dir_all(&path).at("could not make", &path)?;
    Ok(path)
}

fn write(archive: &Path, recipe: &Recipe) -> std::io::Result<()> {
    let mut tar = tar::Builder::new(BufWriter::new(File::create(archive)?));
    let (config, manifest) = describe(recipe);
    let index = json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest_of(&manifest),
            "size": manifest.len(),
            "annotations": { "io.containerd.image.name": recipe.name },
        }],
    });
    put(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    put(&mut tar, "index.json", index.to_string().as_bytes())?;
    for blob in [&config, &manifest] {
        put(&mut tar, &blob_name(&digest_of(blob)), blob)?;
    }
    for layer in recipe.layers {
        if let Some(path) = layer.archive() {
            tar.append_file(blob_name(layer.digest()), &mut File::open(path)?)?;
        }
    }
    tar.into_inner()?.into_inner()?.sync_data()
}

/// The image's configuration and its manifest.
fn describe(recipe: &Recipe) -> (Vec<u8>, Vec<u8>) {
    let bytes = |value: Value| value.to_string().into_bytes();
    let layers = recipe.layers.iter();
    let ids: Vec<_> = layers.clone().map(|layer| layer.digest()).collect();
    let config = bytes(json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {
            "Entrypoint": recipe.entrypoint,
            "Env": recipe.environment,
            "User": recipe.user,
        },
        "rootfs": { "type": "layers", "diff_ids": ids },
    }));
    let described = layers.map(|layer| {
        json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": layer.digest(),
            "size": layer.size(),
        })
    });
    let manifest = bytes(json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest_of(&config),
            "size": config.len(),
        },
        "layers": described.collect::<Vec<_>>(),
    }));
    (config, manifest)
}

fn put(
    tar: &mut tar::Builder<impl std::io::Write>,
    name: &str,
    data: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, data)
}

fn digest_of(bytes: &[u8]) -> String {
    digest(Sha256::new_with_prefix(bytes))
}

fn blob_name(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn an_archive_names_every_blob_by_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/a"), "program").unwrap();
        let image =
            Image::of_folder(folder.path(), "warpforge.test/a:1", &root, &["/usr/bin/a"]).unwrap();
        let mut tar = tar::Archive::new(File::open(image.archive()).unwrap());
        let mut blobs = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            if path.starts_with("blobs/") {
                assert_eq!(path, blob_name(&digest_of(&data)));
                blobs.push(data);
            }
        }
        let manifest: Value = serde_json::from_slice(&blobs[1]).unwrap();
        assert_eq!(manifest["config"]["digest"], digest_of(&blobs[0]));
        assert_eq!(manifest["layers"][0]["digest"], digest_of(&blobs[2]));
        let config: Value = serde_json::from_slice(&blobs[0]).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], digest_of(&blobs[2]));
        assert_eq!(config["config"]["User"], NOBODY);
    }
}
