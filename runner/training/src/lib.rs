//! What training is, as plain data that both passes are told: optimiser, schedule of the learning
//! rate, clipping, accumulation, loss scaling. No arithmetic is here: each pass computes with
//! code of its own, so that a mistake in one of them shows.

mod recipe;

pub use recipe::{Adam, Invalid, LossScale, Optimizer, Recipe, Schedule, Sgd, decays};
