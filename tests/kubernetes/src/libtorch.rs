//! libtorch as a layer that nodes hold from the start. It is large: importing it takes some ten
//! seconds for two nodes. So containerd imports it once, into a store of its own in the cache, and
//! a new node's store begins as a copy whose large files are links: nothing ever writes to them.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::command::run;
use crate::error::{Error, Tried};
use crate::image::{Image, Layer, Recipe, digest};
use crate::part::Part;
use crate::programs::Programs;

/// Where it lies in an image, and how programs are told.
pub const ENVIRONMENT: &str = "LIBTORCH=/opt/libtorch/torch";
const PLACE: &str = "opt/libtorch";
const NAME: &str = "warpforge.test/libtorch:1";
/// Counts changes of what is made here.
const FORMAT: u32 = 1;
const PATIENCE: Duration = Duration::from_mins(1);

/// A store with the layer in it.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    layer: Layer,
}

impl Store {
    /// The one in the cache, made if it is not there yet. Clusters come one after the other, so
    /// nobody else makes it now.
    pub fn ensure(programs: &Programs, work: &Path) -> Result<Self, Error> {
        let libtorch = warpforge_tests::root().join(".libtorch");
        let manifest = libtorch.join(".manifest.json");
        let manifest = fs::read(&manifest)
            .tried(|| "libtorch is not set up: run `cargo xtask setup golden`".to_owned())?;
        let key = digest(Sha256::new_with_prefix(FORMAT.to_le_bytes()).chain_update(manifest));
        let name = format!("node-libtorch-{}", &key["sha256:".len()..][..12]);
        let folder = programs.cache()?.join(name);
        if !folder.is_dir() {
            make(programs, &libtorch, work, &folder)?;
        }
        let path = folder.join("layer.json");
        let text = fs::read(&path).at("could not read", &path)?;
        let told: Value = serde_json::from_slice(&text).unwrap_or_default();
        let layer = told["digest"].as_str().zip(told["size"].as_u64());
        let (digest, size) =
            layer.ok_or_else(|| Error::Wrong(format!("{} is damaged", path.display())))?;
        Ok(Self { folder, layer: Layer::held(digest, size) })
    }

    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Begins a node's store with it.
    pub(crate) fn copy_to(&self, store: &Path) -> Result<(), Error> {
        let from = self.folder.join("store");
        let copy = |how: &str| run(Command::new("cp").arg(how).arg(&from).arg(store));
        // Links do not lead to another file system.
        if copy("-al").is_err() {
            remove(store)?;
            copy("-a")?;
        }
        // These are written to, in place.
        for database in ["io.containerd.metadata.v1.bolt/meta.db", SNAPSHOTS_DATABASE] {
            let (from, to) = (from.join(database), store.join(database));
            remove(&to)?;
            fs::copy(&from, &to).at("could not copy", &from)?;
        }
        Ok(())
    }
}

const SNAPSHOTS_DATABASE: &str = "io.containerd.snapshotter.v1.overlayfs/metadata.db";

/// Made beside and renamed: what a killed one left is made anew.
fn make(programs: &Programs, libtorch: &Path, work: &Path, folder: &Path) -> Result<(), Error> {
    let new = folder.with_extension("new");
    remove(&new)?;
    fs::create_dir_all(&new).at("could not make", &new)?;
    let root = work.join("libtorch");
    gather(libtorch, &root.join(PLACE))?;
    let layer = Layer::of_folder(&root, &work.join("libtorch.tar"))?;
    let recipe = Recipe { name: NAME, layers: &[&layer], ..Recipe::default() };
    let image = Image::build(work, &recipe)?;
    import(programs, &image, work, &new.join("store"))?;
    let told = json!({ "digest": layer.digest(), "size": layer.size() });
    fs::write(new.join("layer.json"), told.to_string()).at("could not write", &new)?;
    for done in [&root, image.archive(), &work.join("libtorch.tar")] {
        remove(done)?;
    }
    fs::rename(&new, folder).at("could not rename", &new)
}

/// What runs of libtorch: no headers, no symbols for debuggers.
fn gather(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).at("could not make", to)?;
    for entry in fs::read_dir(from).at("could not list", from)?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let library = name.to_string_lossy().contains(".so");
        let target = to.join(&name);
        if path.is_dir() && name != "include" {
            gather(&path, &target)?;
        } else if library && !path.is_symlink() {
            run(Command::new("strip").arg("-o").arg(&target).arg(&path))?;
        } else if !path.is_dir() {
            run(Command::new("cp").arg("-a").arg(&path).arg(&target))?;
        }
    }
    Ok(())
}

/// Has a containerd import an image into a store.
fn import(programs: &Programs, image: &Image, work: &Path, store: &Path) -> Result<(), Error> {
    let (config, socket) = (work.join("store.toml"), work.join("store.sock"));
    let text = format!(
        "version = 2\nroot = \"{}\"\nstate = \"{}\"\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = \"{}\"\n",
        store.display(),
        work.join("store-state").display(),
        socket.display(),
    );
    fs::write(&config, text).at("could not write", &config)?;
    let mut command = programs.command(programs.bin("containerd"));
    command.arg("--config").arg(&config);
    let part = Part::start(&command, work, "store")?;
    let start = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        if start.elapsed() > PATIENCE {
            return Err(Error::Late {
                what: "containerd".to_owned(),
                limit: PATIENCE,
                last: "no socket".to_owned(),
                logs: part.last_words(),
            });
        }
        sleep(Duration::from_millis(20));
    }
    let mut ctr = programs.command(programs.bin("ctr"));
    ctr.arg("--address").arg(&socket).args(["--namespace", "k8s.io", "images", "import"]);
    run(ctr.arg(image.archive())).map(drop)
}

/// Removes a file or a folder that may not be there.
fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).at("could not remove", path)
        }
        _ => Ok(()),
    }
}
