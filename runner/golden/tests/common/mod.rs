//! What the tests of the running program share.

#![allow(dead_code, reason = "each of the tests uses some of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use warpforge_golden_protocol::training::Open;
use warpforge_golden_protocol::{Device, Golden, Precision, Run, Search, Taps, Weights};
use warpforge_tests::root;
use warpforge_training::Recipe;

pub fn golden() -> Golden {
    let libtorch = Search::from_environment().find().expect("cargo xtask setup golden");
    Golden { binary: env!("CARGO_BIN_EXE_warpforge-golden").into(), libtorch }
}

/// Every fixture that set-up made.
pub fn fixtures() -> Vec<PathBuf> {
    let folder = root().join(".fixtures");
    let files = fs::read_dir(&folder).expect("the fixtures of `cargo xtask setup` are there");
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "pt2"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no models", folder.display());
    files
}

pub fn request(model: &Path, out: &Path, threads: u32) -> Run {
    Run {
        model: model.to_owned(),
        weights: Weights::Archive,
        inputs: Some(model.with_extension("inputs.safetensors")),
        precision: Precision::AsExported,
        device: Device::Cpu,
        threads,
        seed: 0,
        step: 0,
        taps: Taps::None,
        out: out.to_owned(),
        dims: BTreeMap::new(),
        repeats: 1,
        time_nodes: false,
        grad: false,
        tf32: false,
    }
}

/// A model that a test's Python made, open for training on one thread.
pub fn open(folder: &Path, model: &str, recipe: Recipe) -> Open {
    Open {
        model: folder.join(format!("{model}.pt2")),
        evaluation: None,
        weights: Weights::Archive,
        precision: Precision::AsExported,
        device: Device::Cpu,
        threads: 1,
        seed: 7,
        dims: BTreeMap::new(),
        evaluation_dims: BTreeMap::new(),
        loss: None,
        recipe,
        tf32: false,
    }
}

/// Type, shape and bits of every tensor of a file, as one string of bytes each.
pub fn tensors(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let whole = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let mut content = format!("{:?}{:?}", view.dtype(), view.shape()).into_bytes();
        content.extend_from_slice(view.data());
        (name.to_owned(), content)
    };
    file.iter().map(whole).collect()
}
