//! The libtorch probe: the library that the golden pass links is loaded with all it needs.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::dynlib::{self, Fault};

/// The version that the golden pass is built for.
pub const LIBTORCH_VERSION: &str = "2.11.0";

const CURE: &str = "run `cargo xtask setup golden`, which fetches what is missing or damaged";

/// Whether the libtorch below `torch_dir` (the directory that holds `lib/libtorch_cpu.so`) can be
/// loaded and has the version that the golden pass is built for.
pub fn libtorch(torch_dir: &Path) -> Finding {
    let library = torch_dir.join("lib/libtorch_cpu.so");
    let shown = library.display();
    match dynlib::torch_release(&library) {
        Ok(release) => with_version(torch_dir, release.or_else(|| version(torch_dir))),
        Err(Fault::Absent(_)) => Finding::missing(
            format!("libtorch {LIBTORCH_VERSION} is not here: {shown} not found"),
            CURE,
        ),
        Err(Fault::Unloadable { reason, .. }) => {
            Finding::broken(format!("libtorch cannot be loaded: {}", one_line(&reason)), CURE)
        }
        Err(fault) => Finding::broken(fault.to_string(), CURE),
    }
}

fn with_version(torch_dir: &Path, version: Option<String>) -> Finding {
    match version {
        Some(version) if is_expected(&version) => {
            Finding::works(format!("libtorch {version} loads from {}", torch_dir.display()))
        }
        Some(version) => Finding::broken(
            format!("libtorch is version {version}, but {LIBTORCH_VERSION} is needed"),
            CURE,
        ),
        None => Finding::broken(
            format!("libtorch in {} does not state its version", torch_dir.display()),
            CURE,
        ),
    }
}

/// A build's label follows the version: `2.11.0+cpu`.
fn is_expected(version: &str) -> bool {
    version.split('+').next() == Some(LIBTORCH_VERSION)
}

/// Reads the version from wherever this layout keeps it, for a library that does not tell: a wheel's `version.py`, an archive's
/// `build-version`, or the headers of either.
fn version(torch_dir: &Path) -> Option<String> {
    let text = |file: &str| fs::read_to_string(torch_dir.join(file)).ok();
    let header = |file: &&str| text(file).and_then(|text| version_in_header(&text));
    text("version.py")
        .and_then(|text| version_in_python(&text))
        .or_else(|| text("build-version").map(|text| text.trim().to_owned()))
        .or_else(|| {
            [
                "include/torch/version.h",
                "include/torch/csrc/api/include/torch/version.h",
                "include/torch/headeronly/version.h",
            ]
            .iter()
            .find_map(header)
        })
}

/// The line `__version__ = '2.11.0+cpu'`.
fn version_in_python(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    Some(line.split(['\'', '"']).nth(1)?.to_owned())
}

/// The lines `#define TORCH_VERSION_MAJOR 2` and so on.
fn version_in_header(text: &str) -> Option<String> {
    let part = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let found = words.next() == Some("#define") && words.next() == Some(name);
            words.next().filter(|_| found)
        })
    };
    let major = part("TORCH_VERSION_MAJOR")?;
    Some(format!("{major}.{}.{}", part("TORCH_VERSION_MINOR")?, part("TORCH_VERSION_PATCH")?))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::capability::Status;
    use crate::fixture::Tree;

    /// A real shared library to stand for libtorch: one that this test program has loaded itself.
    fn some_library() -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        paths.filter(|path| path.contains("libgcc_s")).map(PathBuf::from).next().expect("libgcc_s")
    }

    fn loadable(files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new(files);
        tree.put("lib/keep", "");
        fs::copy(some_library(), tree.root().path("lib/libtorch_cpu.so")).expect("copy");
        tree
    }

    #[track_caller]
    fn check(tree: &Tree, status: Status, detail: &str) {
        let directory = tree.root().path("");
        let finding = libtorch(&directory);
        let place = directory.display().to_string();
        let place = place.trim_end_matches('/');
        assert_eq!(
            (finding.status, finding.detail.replace(place, "DIR").as_str()),
            (status, detail)
        );
        assert_eq!(finding.cure.as_deref(), (status != Status::Works).then_some(CURE));
    }

    #[test]
    fn missing() {
        check(
            &Tree::new(&[]),
            Status::Missing,
            "libtorch 2.11.0 is not here: DIR/lib/libtorch_cpu.so not found",
        );
    }

    #[test]
    fn a_file_that_is_no_library_is_broken_in_the_loaders_words() {
        check(
            &Tree::new(&[("lib/libtorch_cpu.so", "cut off")]),
            Status::Broken,
            "libtorch cannot be loaded: DIR/lib/libtorch_cpu.so: file too short",
        );
    }

    #[test]
    fn versions() {
        check(
            &loadable(&[(
                "version.py",
                "from x import y\n__version__ = '2.11.0+cpu'\ndebug = False\n",
            )]),
            Status::Works,
            "libtorch 2.11.0+cpu loads from DIR/",
        );
        check(
            &loadable(&[("build-version", "2.9.1+cpu\n")]),
            Status::Broken,
            "libtorch is version 2.9.1+cpu, but 2.11.0 is needed",
        );
        check(&loadable(&[]), Status::Broken, "libtorch in DIR/ does not state its version");
    }

    #[test]
    fn headers() {
        let header = "#pragma once\n#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n\
                      #define TORCH_VERSION_PATCH 0\n#define TORCH_VERSION \"2.11.0\"\n";
        assert_eq!(version_in_header(header).as_deref(), Some("2.11.0"));
        assert_eq!(version_in_header("#define TORCH_VERSION_MAJOR 2"), None);
    }
}
