//! What the compiler does not check of a tidy workspace: crates that say what
//! they are and stand in the architecture's table, dependencies that point one
//! way, files of a readable length, links that lead somewhere, and no trace of
//! one person's machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use warpforge_tests::root;

/// Our crates in layers, the lowest first: a crate may depend on those of lower
/// layers, and on no others.
const LAYERS: &[&[&str]] = &[
    &["warpforge-operator-api", "warpforge-pt2", "warpforge-snakeburger", "warpforge-training"],
    &["warpforge-golden-protocol"],
    &[
        "warpforge-golden",
        "warpforge-snakegrinder",
        "warpforge-bench",
        "warpforge-compiler",
        "warpforge-parity",
        "warpforge-store",
    ],
    &["warpforge-agent", "warpforge-operator-client", "warpforge-workloads"],
    &["warpforge-cli", "warpforge-operator-controller"],
];

/// Dependencies inside one layer that are allowed all the same.
const SIDEWAYS: &[(&str, &str)] =
    // Verdicts are the same for numbers and for speed.
    &[("warpforge-bench", "warpforge-parity")];

/// Stands outside the layers: builds with nothing of ours, so that it is quick.
const XTASK: &str = "xtask";
/// Stand outside the layers: may use anything, the second also the first; others may use them in
/// their tests.
const TESTS: [&str; 2] = ["warpforge-tests", "warpforge-test-kubernetes"];

const LONGEST_FILE: usize = 900;

fn workspace() -> Metadata {
    MetadataCommand::new().current_dir(root()).no_deps().exec().unwrap()
}

/// Files that are committed or about to be.
fn committed() -> Vec<PathBuf> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    // A file deleted but not yet committed as such is still listed.
    let files = names.split_terminator('\0').map(PathBuf::from);
    files.filter(|file| root().join(file).is_file()).collect()
}

#[track_caller]
fn assert_none(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<_> = problems.into_iter().collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_crate_says_what_it_is() {
    let metadata = workspace();
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let roots = targets.filter(|target| target.is_lib() || target.is_bin());
    assert_none(roots.filter_map(|target| {
        let text = fs::read_to_string(&target.src_path).unwrap();
        let silent = opening(&text).len() < 40;
        silent.then(|| format!("{} does not open with a `//!` paragraph", target.src_path))
    }));
}

/// The first paragraph of a file's own documentation.
fn opening(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//! "));
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_architecture_lists_every_crate_and_no_other() {
    let table = fs::read_to_string(root().join("docs/architecture.md"));
    let table = table.expect("docs/architecture.md can be read");
    let listed = listed_crates(&table);
    let metadata = workspace();
    let existing: BTreeSet<_> = metadata.packages.iter().map(folder_and_name).collect();
    let missing = existing.difference(&listed).map(|row| format!("no row for {row:?}"));
    let unknown = listed.difference(&existing).map(|row| format!("no crate for the row {row:?}"));
    assert_none(missing.chain(unknown));
}

fn folder_and_name(package: &Package) -> (String, String) {
    let root = fs::canonicalize(root()).unwrap();
    let folder = fs::canonicalize(package.manifest_path.parent().unwrap()).unwrap();
    let folder = folder.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    (folder, package.name.to_string())
}

/// Rows of the form "| `folder` | `crate` | ...".
fn listed_crates(text: &str) -> BTreeSet<(String, String)> {
    let quoted = |cell: &str| Some(cell.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|');
        let (folder, name) = (quoted(cells.next()?)?, quoted(cells.next()?)?);
        (name == XTASK || name.starts_with("warpforge-")).then_some((folder, name))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_crate_has_its_layer() {
    let metadata = workspace();
    let existing: BTreeSet<_> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let placed: BTreeSet<_> = LAYERS.concat().into_iter().chain([XTASK]).chain(TESTS).collect();
    let missing = existing.difference(&placed).map(|name| format!("LAYERS has no {name}"));
    let unknown = placed.difference(&existing).map(|name| format!("there is no crate {name}"));
    assert_none(missing.chain(unknown));
}

#[test]
fn a_plain_build_leaves_out_what_links_libtorch_and_nothing_else() {
    let metadata = workspace();
    let default: BTreeSet<_> =
        metadata.workspace_default_packages().iter().map(|p| &p.id).collect();
    let left = metadata.packages.iter().filter(|package| !default.contains(&package.id));
    let left: Vec<_> = left.map(|package| package.name.as_str()).collect();
    assert_eq!(left, ["warpforge-golden"], "see default-members in Cargo.toml");
}

#[test]
fn dependencies_point_one_way() {
    let metadata = workspace();
    let edges = metadata.packages.iter().flat_map(|package| {
        let ours = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
        ours.map(|dependency| (package.name.as_str(), dependency.name.as_str(), dependency.kind))
    });
    assert_none(
        edges.filter(|&(from, to, kind)| !allowed(from, to, kind)).map(|(from, to, kind)| {
            format!("{from} must not depend on {to} ({kind:?}); see LAYERS")
        }),
    );
}

fn allowed(from: &str, to: &str, kind: DependencyKind) -> bool {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    if (from, to) == (TESTS[1], TESTS[0]) {
        return true;
    }
    if TESTS.contains(&to) {
        return kind == DependencyKind::Development;
    }
    if TESTS.contains(&from) {
        return to != XTASK;
    }
    match (layer(from), layer(to)) {
        (Some(from), Some(to)) if to < from => true,
        _ => SIDEWAYS.contains(&(from, to)),
    }
}

#[test]
fn no_file_names_one_persons_machine() {
    // Put together here, so that this file does not contain them itself.
    let traces = ["work", "root"].map(|folder| format!("/{folder}/"));
    let files = committed();
    assert_none(files.iter().filter_map(|file| {
        let text = fs::read(root().join(file)).unwrap();
        let text = String::from_utf8_lossy(&text);
        let trace = traces.iter().find(|trace| names_path(&text, trace))?;
        Some(format!("{} contains {trace}", file.display()))
    }));
}

/// Whether an absolute path begins so; `a/work/b` is another matter.
fn names_path(text: &str, start: &str) -> bool {
    let inside = |before: char| before.is_alphanumeric() || "._-}".contains(before);
    text.match_indices(start).any(|(at, _)| !text[..at].ends_with(inside))
}

#[test]
fn source_files_have_a_readable_length() {
    let exempt = |file: &Path| file.iter().any(|part| part == "tests" || part == "generated");
    let files = committed().into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
    assert_none(files.filter(|file| !exempt(file)).filter_map(|file| {
        let lines = fs::read_to_string(root().join(&file)).unwrap().lines().count();
        (lines > LONGEST_FILE).then(|| {
            format!("{} has {lines} lines, more than {LONGEST_FILE}: split it", file.display())
        })
    }));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let files = committed().into_iter().filter(|file| file.extension().is_some_and(|e| e == "md"));
    assert_none(files.flat_map(|file| {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let folder = root().join(&file).parent().unwrap().to_owned();
        let dead =
            relative_links(&text).into_iter().filter(move |link| !folder.join(link).exists());
        dead.map(|link| format!("{} links to {link}", file.display())).collect::<Vec<_>>()
    }));
}

/// Targets of a document's links to other files, outside its code blocks.
fn relative_links(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|part| part.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split([')', ' ', '#']).next());
    let elsewhere = |target: &str| target.contains("://") || target.starts_with("mailto:");
    targets.filter(|t| !t.is_empty() && !elsewhere(t)).map(str::to_owned).collect()
}

// The checks themselves, on what they should find.

#[test]
fn a_crate_that_says_too_little_is_seen() {
    assert_eq!(opening("//! One\n//! two.\n//!\n//! Three.\nfn main() {}"), "One two.");
    assert_eq!(opening("fn main() {}"), "");
}

#[test]
fn table_rows_are_told_from_other_lines() {
    let text = "| folder | crate |\n|---|---|\n| `runner/a` | `warpforge-a` | what | on |\n\
                | `xtask` | `xtask` | x |\n| `--flag` | `value` |\nthe crate `warpforge-b`\n";
    let row = |folder: &str, name: &str| (folder.to_owned(), name.to_owned());
    let expected = [row("runner/a", "warpforge-a"), row("xtask", "xtask")];
    assert_eq!(listed_crates(text), expected.into());
}

#[test]
fn dependencies_that_point_up_or_outside_are_seen() {
    use DependencyKind::{Development, Normal};
    assert!(allowed("warpforge-cli", "warpforge-snakeburger", Normal));
    assert!(!allowed("warpforge-snakeburger", "warpforge-cli", Normal));
    assert!(!allowed("warpforge-snakeburger", "warpforge-cli", Development));
    assert!(!allowed("warpforge-store", "warpforge-bench", Normal));
    assert!(!allowed("warpforge-cli", "not-placed-yet", Normal));
    assert!(!allowed("xtask", "warpforge-store", Normal));
    assert!(!allowed("warpforge-cli", "xtask", Development));
    assert!(allowed("warpforge-cli", "warpforge-tests", Development));
    assert!(!allowed("warpforge-cli", "warpforge-tests", Normal));
    assert!(allowed("warpforge-tests", "warpforge-cli", Development));
    assert!(allowed("warpforge-test-kubernetes", "warpforge-tests", Normal));
    assert!(!allowed("warpforge-cli", "warpforge-test-kubernetes", Normal));
}

#[test]
fn paths_of_a_machine_are_told_from_other_paths() {
    assert!(names_path("see /home/x/y", "/home/"));
    assert!(names_path("\"/home/x", "/home/"));
    assert!(!names_path("a/home/x and ${a}/home/", "/home/"));
}

#[test]
fn links_are_found_in_prose_only() {
    let text = "[a](b.md) ![c](d/e.png \"f\") [g](#h) [i](j.md#k)\n```\n[l](m)\n```\n[n](o) \
                [p](https://example.org) [q](mailto:r@s)";
    assert_eq!(relative_links(text), ["b.md", "d/e.png", "j.md", "o"]);
}
