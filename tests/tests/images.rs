//! The containerfiles, as far as they can be held to rules without a registry: bases are pinned
//! arguments, the last user is no one's, and the folder of an image has all that its program loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use warpforge_tests::root;

fn containerfiles() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("images")).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "Containerfile"));
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let mut files: Vec<_> = files.map(read).collect();
    files.sort();
    files
}

/// What stands behind an instruction, each time it is given.
fn given<'a>(text: &'a str, instruction: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '));
    lines.map(str::trim).collect()
}

#[test]
fn all_images_are_there() {
    let names: Vec<_> = containerfiles().into_iter().map(|(name, _)| name).collect();
    let expected = ["exporter", "operator", "runner-cpu", "runner-cuda", "runner-rocm", "scratch"];
    assert_eq!(names, expected);
}

#[test]
fn bases_are_arguments_with_a_fixed_tag() {
    for (name, text) in containerfiles() {
        for base in given(&text, "FROM") {
            let base = base.split(" AS ").next().unwrap_or_default();
            let argument = base.starts_with("${") && base.ends_with("_IMAGE}");
            assert!(argument || base == "scratch", "{name}: FROM {base}");
        }
        for argument in given(&text, "ARG") {
            let Some((_, image)) = argument.split_once("_IMAGE=") else { continue };
            let tag = image.split_once(':').map(|(_, tag)| tag);
            let fixed = tag.is_some_and(|tag| tag.contains(|c: char| c.is_ascii_digit()));
            assert!(fixed, "{name}: {image}");
            // A registry's host has a dot before the first slash.
            let host = image.split_once('/').is_some_and(|(host, _)| host.contains('.'));
            assert!(!host, "{name}: {image}");
        }
    }
}

#[test]
fn images_run_as_no_one_with_a_group() {
    for (name, text) in containerfiles() {
        assert_eq!(given(&text, "USER").last(), Some(&"65532:65532"), "{name}");
        let entry = given(&text, "ENTRYPOINT");
        assert!(entry.len() == 1 && entry[0].starts_with('['), "{name}: {entry:?}");
    }
}

#[test]
fn images_are_built_by_the_toolchain_of_the_checkout() {
    let pinned = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let pinned: toml_edit::DocumentMut = pinned.parse().unwrap();
    let channel = pinned["toolchain"]["channel"].as_str().unwrap();
    for (name, text) in containerfiles() {
        for argument in given(&text, "ARG") {
            if let Some(image) = argument.strip_prefix("BUILD_IMAGE=") {
                assert!(image.starts_with(&format!("rust:{channel}-")), "{name}: {image}");
                let asked = format!("RUSTUP_TOOLCHAIN={channel}");
                assert_eq!(given(&text, "ENV").first(), Some(&asked.as_str()), "{name}");
            }
        }
    }
}

#[test]
fn the_folder_of_an_image_has_all_that_its_program_loads() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    // Any program with libraries of its own does.
    let program = which("git");
    let status =
        Command::new(root().join("images/rootfs.sh")).arg(&image).arg(&program).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read_link(image.join("entrypoint")).unwrap(), Path::new("usr/bin/git"));
    for file in
        ["etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt"]
    {
        assert!(fs::metadata(image.join(file)).is_ok_and(|file| file.len() > 0), "{file}");
    }
    let loaded = Command::new("ldd").arg(&program).output().unwrap();
    let loaded = String::from_utf8(loaded.stdout).unwrap();
    let libraries = loaded.split_whitespace().filter(|word| word.starts_with('/'));
    let missing: Vec<_> = libraries
        .filter(|library| !image.join(library.trim_start_matches('/')).is_file())
        .collect();
    assert!(missing.is_empty() && !loaded.is_empty(), "{missing:?}");
}

fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file()).unwrap_or_else(|| panic!("there is no {name}"))
}
