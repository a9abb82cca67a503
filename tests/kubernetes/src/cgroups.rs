//! Where the kubelets account for their pods: a root to each node, since two kubelets on one
//! machine would both own `kubepods`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::error::{Error, Tried};

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "warpforge-node";
/// Where processes go that stand in the way of version 2. They stay there.
const OTHERS: &str = "warpforge-others";
/// What version 2 has, and version 1 has not, in its root.
const CONTROLLERS: &str = "cgroup.controllers";

/// The name of a node's root in every hierarchy.
pub fn name(node: usize) -> String {
    format!("{PREFIX}{node}")
}

/// A line of shell that removes every node's root, for whoever outlives the cluster. What is
/// about to die may hold one a moment longer. Nothing of that name below other groups is ours.
pub const REMOVE: &str = "roots=/sys/fs/cgroup/*; \
     [ ! -e /sys/fs/cgroup/cgroup.controllers ] || roots=/sys/fs/cgroup; \
     for _ in 1 2 3 4 5 6 7 8 9 10; do left=$(for root in $roots; do \
     find $root/warpforge-node[0-9]* -depth -type d 2>/dev/null; done); \
     [ -n \"$left\" ] || break; echo \"$left\" | xargs rmdir; sleep 0.2; done";

/// Makes the root of a node.
pub fn make(node: usize) -> Result<(), Error> {
    let root = Path::new(ROOT);
    if root.join(CONTROLLERS).is_file() {
        return make_unified(root, node);
    }
    for hierarchy in hierarchies()? {
        // Kubelet and runc make what they want of the hierarchy without controllers.
        if hierarchy.join(CONTROLLERS).is_file() {
            continue;
        }
        let folder = hierarchy.join(name(node));
        fs::create_dir_all(&folder).at("could not make", &folder)?;
        // A new set has no processors at all, and nothing can run in it.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let from = hierarchy.join(file);
            if from.is_file() {
                let all = fs::read(&from).at("could not read", &from)?;
                fs::write(folder.join(file), all).at("could not fill", &folder)?;
            }
        }
    }
    Ok(())
}

/// Version 2: each level has to hand its controllers down.
fn make_unified(root: &Path, node: usize) -> Result<(), Error> {
    let folder = root.join(name(node));
    fs::create_dir_all(&folder).at("could not make", &folder)?;
    for level in [root, &folder] {
        let controllers = fs::read_to_string(level.join(CONTROLLERS)).unwrap_or_default();
        for controller in controllers.split_whitespace() {
            let hand = || fs::write(level.join("cgroup.subtree_control"), format!("+{controller}"));
            let busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
            if hand().is_err_and(|error| busy(&error)) {
                clear(level)?;
                // One that cannot be handed down is missed by the kubelet, which says so.
                let _ = hand();
            }
        }
    }
    Ok(())
}

/// Moves the processes of a group into one of their own below it. Only the machine's true root may
/// have both processes and groups with controllers, and in a container what looks like it is not.
fn clear(level: &Path) -> Result<(), Error> {
    let folder = level.join(OTHERS);
    fs::create_dir_all(&folder).at("could not make", &folder)?;
    let processes = level.join("cgroup.procs");
    let list = fs::read_to_string(&processes).at("could not read", &processes)?;
    for process in list.lines() {
        // One that has ended since need not be moved.
        let _ = fs::write(folder.join("cgroup.procs"), process);
    }
    Ok(())
}

/// Removes the root of a node that has no process any more.
pub fn remove(node: usize) -> Result<(), Error> {
    for hierarchy in hierarchies()? {
        let folder = hierarchy.join(name(node));
        for _ in 0..20 {
            match remove_tree(&folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    sleep(Duration::from_millis(50));
                }
                done => {
                    done.at("could not remove", &folder)?;
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The files in these folders cannot be removed, and need not be.
fn remove_tree(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn hierarchies() -> Result<Vec<PathBuf>, Error> {
    let root = Path::new(ROOT);
    if root.join("cgroup.procs").is_file() {
        return Ok(vec![root.to_owned()]);
    }
    let entries = fs::read_dir(root).at("could not list", root)?;
    let folders = entries.flatten().map(|entry| entry.path());
    Ok(folders.filter(|folder| folder.join("cgroup.procs").is_file()).collect())
}
