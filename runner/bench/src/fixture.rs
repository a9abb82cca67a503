//! Fixture trees for unit tests: a temporary directory that stands for `/`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::Sysroot;

pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    /// A tree with these files; a content of the form `-> target` makes a symbolic link.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        for (path, content) in files {
            tree.put(path, content);
        }
        tree
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("mkdir");
        match content.strip_prefix("-> ") {
            Some(target) => symlink(target, path).expect("symlink"),
            None => fs::write(path, content).expect("write"),
        }
    }

    pub(crate) fn root(&self) -> Sysroot {
        Sysroot::at(self.0.path())
    }
}
