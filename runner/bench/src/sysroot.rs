//! Reading the small files of `/proc`, `/sys`, `/dev` and `/etc` below a chosen root. An
//! unreadable file is an absent fact, never an error: drivers leave attributes out freely, and
//! some (a downed link's speed) fail on read.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory that plays the part of `/`.
#[derive(Clone, Debug)]
pub struct Sysroot(PathBuf);

impl Sysroot {
    /// The machine this process runs on.
    pub fn host() -> Self {
        Self("/".into())
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// `path` below this root; absolute and relative spellings mean the same.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The file's trimmed text; an empty file says nothing and is absent too.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A number written as `0x1002`.
    pub fn hex(&self, path: impl AsRef<Path>) -> Option<u32> {
        let text = self.text(path)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    /// A flag written as `0` or `1`.
    pub fn flag(&self, path: impl AsRef<Path>) -> Option<bool> {
        self.number::<u8>(path).map(|n| n != 0)
    }

    /// Names in a directory in natural order (`cpu2` before `cpu10`); empty if there is none.
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_cached_key(|name| natural_key(name));
        names
    }

    /// Names of the form `prefix` + number, such as `cpu0` or `node1`, with that number.
    pub fn numbered(&self, directory: impl AsRef<Path>, prefix: &str) -> Vec<(u32, String)> {
        let names = self.names(directory).into_iter();
        names
            .filter_map(|name| {
                let number = name.strip_prefix(prefix)?.parse().ok()?;
                Some((number, name))
            })
            .collect()
    }

    /// The last component of a symbolic link's target: how sysfs names a device's driver.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

/// Pads every run of digits, so that plain string order becomes numeric order.
fn natural_key(name: &str) -> String {
    let mut key = String::new();
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
        } else {
            if !digits.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(key, "{digits:0>20}");
                digits.clear();
            }
            key.push(c);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use crate::fixture::Tree;

    #[test]
    fn names_are_in_natural_order() {
        let tree = Tree::new(&[("d/cpu10", ""), ("d/cpu2", ""), ("d/cpufreq", "")]);
        assert_eq!(tree.root().names("d"), ["cpu2", "cpu10", "cpufreq"]);
        let numbers: Vec<u32> = tree.root().numbered("d", "cpu").iter().map(|n| n.0).collect();
        assert_eq!(numbers, [2, 10]);
    }

    #[test]
    fn values_are_trimmed_and_what_is_missing_or_empty_is_absent() {
        let tree = Tree::new(&[("a", " 42\n"), ("h", "0x1002\n"), ("e", "\n"), ("w", "word")]);
        let root = tree.root();
        assert_eq!(root.number::<u32>("/a"), Some(42));
        assert_eq!(root.hex("h"), Some(0x1002));
        assert_eq!(root.text("e"), None);
        assert_eq!(root.text("nowhere"), None);
        assert_eq!(root.number::<u32>("w"), None);
    }
}
