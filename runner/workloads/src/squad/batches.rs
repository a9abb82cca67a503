//! The order of the samples, and batches of them made ahead in the background.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use warpforge_pt2::random::Stream;
use warpforge_snakeburger::eval::Tensor;
use warpforge_snakeburger::ir::{Buffer, DType, TensorTy};

use super::{Error, Feature};
use crate::tensors::Named;

/// Numbers that no call of a graph draws.
pub(super) const ORDINAL: u32 = u32::MAX;

/// How many batches lie ready.
const AHEAD: usize = 4;

/// The order of `count` samples in one epoch: [`Stream::permutation`] of the stream whose step is
/// the epoch and whose ordinal is 2^32 - 1.
pub fn order(seed: u64, epoch: u32, count: usize) -> Vec<u64> {
    Stream { seed, step: epoch, ordinal: ORDINAL }.permutation(count as u64)
}

/// Which sample is the run's `number`-th. Epochs follow one another without a gap, so that all
/// batches are of one size.
pub fn sample(seed: u64, count: usize, number: u64) -> Option<u64> {
    let count = u64::try_from(count).ok().filter(|count| *count > 0)?;
    let epoch = u32::try_from(number / count).ok()?;
    order(seed, epoch, count as usize).get((number % count) as usize).copied()
}

/// What a model is fed at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Counted from 0; with accumulation, micro-batches are counted.
    pub number: u64,
    /// Which of the features, by row.
    pub samples: Vec<u64>,
    /// `input_ids`, `attention_mask`, `token_type_ids`, `start_positions` and `end_positions`.
    pub inputs: Named,
}

/// Features as the tensors a model takes, padded to `length`.
pub fn batch<'a>(
    features: impl IntoIterator<Item = &'a Feature>,
    length: usize,
    pad: u32,
) -> Named {
    let (mut ids, mut mask, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for feature in features {
        let used = feature.ids.len().min(length);
        let row = |at: usize| feature.ids.get(at).copied().unwrap_or(pad);
        ids.extend((0..length).map(|at| i64::from(row(at))));
        mask.extend((0..length).map(|at| i64::from(at < used)));
        types.extend((0..length).map(|at| i64::from(at >= feature.context && at < used)));
        starts.push(i64::from(feature.start));
        ends.push(i64::from(feature.end));
    }
    let rows = starts.len() as i64;
    let matrix = |numbers: &[i64]| tensor(&[rows, length as i64], numbers);
    Named::from([
        ("input_ids".to_owned(), matrix(&ids)),
        ("attention_mask".to_owned(), matrix(&mask)),
        ("token_type_ids".to_owned(), matrix(&types)),
        ("start_positions".to_owned(), tensor(&[rows], &starts)),
        ("end_positions".to_owned(), tensor(&[rows], &ends)),
    ])
}

fn tensor(dims: &[i64], numbers: &[i64]) -> Tensor {
    let ty = TensorTy::new(dims.iter().copied(), DType::S64);
    Tensor { ty, data: Buffer::from_slice(numbers) }
}

/// Batches in order, made by a thread that is a few ahead.
pub struct Batches {
    receiver: Option<Receiver<Result<Batch, Error>>>,
    thread: Option<JoinHandle<()>>,
}

/// Hands out batches `from..to` of `size` samples each. `features` is called in the background,
/// so that a set is tokenised while a model is made ready.
pub fn batches(
    features: impl FnOnce() -> Result<Arc<Vec<Feature>>, Error> + Send + 'static,
    (length, pad): (usize, u32),
    seed: u64,
    size: usize,
    numbers: std::ops::Range<u64>,
) -> Batches {
    let (sender, receiver) = sync_channel(AHEAD);
    let work = move || {
        let features = match features() {
            Ok(features) if !features.is_empty() && size > 0 => features,
            Ok(_) => {
                let _ = sender.send(Err(Error::Data("it makes no batches".into())));
                return;
            }
            Err(error) => {
                let _ = sender.send(Err(error));
                return;
            }
        };
        let count = features.len() as u64;
        let mut epoch = None;
        for number in numbers {
            let samples: Vec<u64> = (number * size as u64..(number + 1) * size as u64)
                .map(|at| {
                    let (now, within) = ((at / count) as u32, (at % count) as usize);
                    let known = epoch.take().filter(|(known, _)| *known == now);
                    let (_, order) = epoch
                        .insert(known.unwrap_or_else(|| (now, order(seed, now, features.len()))));
                    order[within]
                })
                .collect();
            let inputs = batch(samples.iter().map(|at| &features[*at as usize]), length, pad);
            // Nobody takes any more.
            if sender.send(Ok(Batch { number, samples, inputs })).is_err() {
                return;
            }
        }
    };
    Batches { receiver: Some(receiver), thread: Some(std::thread::spawn(work)) }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receiver.as_ref()?.recv().ok()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // Closed first, so that the thread finds nobody and ends.
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(count: u32) -> Vec<Feature> {
        let feature = |at| Feature {
            question: 0,
            ids: vec![1, at, 2, at, 2],
            context: 3,
            start: 3,
            end: 3,
            offsets: Vec::new(),
        };
        (0..count).map(feature).collect()
    }

    #[test]
    fn epochs_follow_one_another_and_a_run_continues_where_it_stopped() {
        let all = |range| batches(|| Ok(Arc::new(features(5))), (6, 0), 7, 2, range);
        let taken: Vec<Batch> = all(0..5).map(Result::unwrap).collect();
        let samples: Vec<u64> = taken.iter().flat_map(|batch| batch.samples.clone()).collect();
        assert_eq!(samples[..5], order(7, 0, 5)[..]);
        assert_eq!(samples[5..], order(7, 1, 5)[..]);
        assert!((0..10).all(|at| sample(7, 5, at) == Some(samples[at as usize])));
        let rest: Vec<Batch> = all(3..5).map(Result::unwrap).collect();
        assert_eq!(rest[0].samples, taken[3].samples);
        assert_eq!(rest[1].number, 4);
    }

    #[test]
    fn rows_are_padded() {
        let made = batch(&features(1), 7, 9);
        let numbers = |name: &str| -> Vec<i64> {
            let bytes = made[name].data.bytes().chunks_exact(8);
            bytes.map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
        };
        assert_eq!(numbers("input_ids"), [1, 0, 2, 0, 2, 9, 9]);
        assert_eq!(numbers("attention_mask"), [1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(numbers("token_type_ids"), [0, 0, 0, 1, 1, 0, 0]);
        assert_eq!(numbers("start_positions"), [3]);
    }

    #[test]
    fn an_error_in_the_background_arrives_and_a_reader_may_leave_early() {
        let failing = || Err(Error::Data("broken".into()));
        let mut none = batches(failing, (6, 0), 7, 2, 0..5);
        assert!(none.next().unwrap().unwrap_err().to_string().contains("broken"));
        assert!(none.next().is_none());
        let made = || Ok(Arc::new(features(5)));
        drop(batches(made, (6, 0), 7, 2, 0..1_000_000).take(1));
    }
}
