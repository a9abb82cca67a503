//! Training on batches that were given, whatever the model.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use warpforge_parity::bundle::Metrics;
use warpforge_pt2::{DimSpec, Model};

use super::Task;
use super::golden::hex;
use crate::error::Error;
use crate::given;
use crate::tensors::{self, Named};

/// Micro-batches that are used one after another, from the first again after the last.
#[derive(Clone, Debug)]
pub struct Batches {
    batches: Vec<Named>,
    accumulation: u32,
}

impl Batches {
    pub fn new(batches: Vec<Named>, accumulation: u32) -> Self {
        Self { batches, accumulation }
    }
}

impl Task for Batches {
    fn batches(&self, step: u32) -> Result<Vec<Named>, Error> {
        let first = u64::from(step) * u64::from(self.accumulation);
        let count = self.batches.len() as u64;
        let one = |i: u32| {
            let at = (first + u64::from(i)).checked_rem(count);
            at.and_then(|at| self.batches.get(at as usize)).cloned()
        };
        let batches: Option<Vec<Named>> = (0..self.accumulation).map(one).collect();
        batches.ok_or_else(|| Error::Inputs("there is no batch to train on".into()))
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (name, tensor) in self.batches.iter().flatten() {
            hash.update(format!("{name} {}\0", tensor.ty));
            hash.update(tensor.data.bytes());
        }
        hex(&hash.finalize())
    }

    fn evaluation(&self) -> Result<Vec<Named>, Error> {
        Ok(Vec::new())
    }

    fn score(&self, _outputs: &[Named]) -> Result<Metrics, Error> {
        Ok(Metrics::new())
    }
}

/// The sizes that a model leaves open, as they follow from a batch.
pub fn sizes(model: &Path, batch: &Named) -> Result<Vec<DimSpec>, Error> {
    Ok(sizes_of(&Model::open(model)?, batch))
}

fn sizes_of(model: &Model, batch: &Named) -> Vec<DimSpec> {
    let names: Vec<String> = model.user_inputs().map(|input| input.name.to_string()).collect();
    let shapes = names.iter().enumerate().filter_map(|(i, name)| {
        let tensor = batch.get(name).or_else(|| batch.get(&format!("input.{i}")))?;
        Some((name.as_str(), tensor.dims()))
    });
    model.dims_of(shapes.collect::<Vec<_>>())
}

/// Reads batches for a model, or draws one; also the model's sizes as they follow from them.
pub fn read(
    model: &Path,
    files: &[PathBuf],
    dims: &[DimSpec],
    seed: u64,
) -> Result<(Vec<Named>, Vec<DimSpec>), Error> {
    let mut opened = Model::open(model)?;
    let mut given = Vec::new();
    for file in files {
        given.push((file, tensors::read(file)?));
    }
    let mut dims = dims.to_vec();
    if let Some((_, first)) = given.first() {
        dims.extend(sizes_of(&opened, first));
    }
    opened.specialise(&dims)?;
    let mut batches = Vec::new();
    for (file, given) in &given {
        let batch = given::from_file(&opened, given);
        batches.push(batch.map_err(|error| match error {
            Error::Inputs(why) => Error::File { path: (*file).clone(), why },
            other => other,
        })?);
    }
    if batches.is_empty() {
        batches.push(given::drawn(&opened, seed)?);
    }
    Ok((batches, dims))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpforge_snakeburger::eval::Tensor;
    use warpforge_snakeburger::ir::{DType, TensorTy};

    fn batch(i: i64) -> Named {
        let tensor = Tensor::from_ints(TensorTy::scalar(DType::S64), |_| i);
        Named::from([("x".to_owned(), tensor)])
    }

    #[test]
    fn batches_come_round() {
        let task = Batches::new((0..3).map(batch).collect(), 2);
        let at = |step| -> Vec<i64> {
            task.batches(step).unwrap().iter().map(|named| named["x"].get(0).int()).collect()
        };
        assert_eq!([at(0), at(1), at(2)], [[0, 1], [2, 0], [1, 2]]);
        assert!(Batches::new(vec![], 1).batches(0).is_err());
        let digest =
            |range: std::ops::Range<i64>| Batches::new(range.map(batch).collect(), 1).digest();
        assert_eq!(digest(0..3), digest(0..3));
        assert_ne!(digest(0..3), digest(1..4));
    }
}
