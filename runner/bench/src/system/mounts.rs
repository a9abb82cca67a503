//! The parser of `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

use crate::Sysroot;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Which directory of the mounted filesystem is shown.
    pub root: String,
    /// Where it is mounted.
    pub point: PathBuf,
    pub fs_type: String,
    pub source: String,
    pub super_options: String,
}

pub(super) fn read(root: &Sysroot) -> Vec<Mount> {
    parse(&root.text("proc/self/mountinfo").unwrap_or_default())
}

fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // A variable number of optional fields ends with a lone hyphen.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Mount {
        root: unescape(left.next()?),
        point: unescape(left.next()?).into(),
        fs_type: right.next()?.to_owned(),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
fn unescape(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The mount that holds `path`: the deepest point above it, and of several there the last, which
/// hides the others.
pub(super) fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
31 27 0:28 / /data rw - xfs /dev/nvme0n1 rw
32 31 0:29 /sub /data/my\\040disk rw - tmpfs none rw,size=4k
33 31 0:30 / /data rw - nfs4 server:/export rw
not a mount line
";

    #[test]
    fn lines_with_and_without_optional_fields() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[0].fs_type, "ext4");
        assert_eq!(mounts[0].source, "/dev/vda");
        assert_eq!(mounts[0].super_options, "rw,discard");
        assert_eq!(mounts[2].point, Path::new("/data/my disk"));
        assert_eq!(mounts[2].root, "/sub");
    }

    #[test]
    fn the_deepest_and_last_mount_holds_a_path() {
        let mounts = parse(TEXT);
        let table = [
            ("/home/me", Some("ext4")),
            ("/data/x", Some("nfs4")),
            ("/database", Some("ext4")),
            ("/data/my disk/x", Some("tmpfs")),
        ];
        for (path, wanted) in table {
            let found = holding(&mounts, Path::new(path)).map(|mount| mount.fs_type.as_str());
            assert_eq!(found, wanted, "{path}");
        }
        assert_eq!(holding(&[], Path::new("/")), None);
    }
}
