//! A training whose steps are shared among ranks, as `DistributedDataParallel` shares them:
//! all begin with rank 0's state, each goes through its own micro-batches, gradients are
//! averaged, and every rank makes the same update. Buffers are rank 0's at the start of every
//! step.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use warpforge_golden_protocol::Precision;
use warpforge_golden_protocol::ranks::Order;

use super::Training;
use super::optimizer::{MOMENTUM, Trained};
use crate::failure::{self, Failure};
use crate::ranks::{Next, Ranks};
use crate::torch::{GradMode, Library, Tensor, Value};

/// Waits for rank 0 and does what needs nothing but what is here; what needs more is returned.
pub fn follow(ranks: &Ranks, mut training: Option<&mut Training>) -> Result<Order, Failure> {
    let closed = || failure::internal("rank 0 trains, and no model is open here");
    loop {
        match ranks.next()? {
            Next::Open(precision) => return Ok(Order::Open { precision }),
            Next::Step { step, dry } => return Ok(Order::Step { step, dry }),
            Next::End => {
                ranks.part()?;
                return Ok(Order::End);
            }
            Next::Own => {}
            Next::Share => training.as_mut().ok_or_else(closed)?.take_over(ranks)?,
            Next::Compare => training.as_mut().ok_or_else(closed)?.compare(ranks)?,
        }
    }
}

/// How many of a step's micro-batches are this rank's own.
pub fn share_of(accumulation: u32, ranks: Option<&Ranks>) -> Result<u32, Failure> {
    let count = ranks.map_or(1, |ranks| ranks.count);
    if accumulation.is_multiple_of(count) {
        return Ok(accumulation / count);
    }
    Err(failure::inputs(format!("{accumulation} micro-batches cannot be shared by {count} ranks")))
}

/// Tells the other ranks to open the model too.
pub fn announce(ranks: Option<&Ranks>, precision: Precision) -> Result<(), Failure> {
    ranks.map_or(Ok(()), |ranks| ranks.lead(Next::Open(precision)))
}

impl Training {
    pub(super) fn lead(&self, next: Next) -> Result<(), Failure> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.lead(next))
    }

    /// Gives the others this rank's state, if it is the one that leads.
    pub(super) fn hand_out(&mut self) -> Result<(), Failure> {
        match self.ranks.clone().filter(|ranks| ranks.leads()) {
            Some(ranks) => {
                ranks.lead(Next::Share)?;
                self.take_over(&ranks)
            }
            None => Ok(()),
        }
    }

    /// All ranks have rank 0's state afterwards.
    fn take_over(&mut self, ranks: &Ranks) -> Result<(), Failure> {
        let _no_grad = GradMode::set(false);
        // Momentum is there after a first update only, and then for some.
        let counted: Vec<f64> = self
            .optimizer
            .trained
            .iter()
            .map(|trained| f64::from(u8::from(ranks.leads() && trained.has_momentum())))
            .collect();
        let room = ranks.sums(&counted)?;
        if !ranks.leads() {
            let known = self.optimizer.trained.iter().zip(room).filter(|(_, known)| *known != 0.0);
            let known: BTreeSet<String> = known
                .map(|(trained, _)| format!("optimizer/{MOMENTUM}/{}", trained.name))
                .collect();
            let library = self.program.interpreter.library();
            let made = self.optimizer.expect_momentum(|name| known.contains(name), library);
            made.map_err(failure::internal)?;
        }
        let state: Vec<Tensor> = self.state().into_iter().map(|(_, tensor)| tensor).collect();
        ranks.share(&state)
    }

    /// Buffers as rank 0 has them: what a run may change, as no parameter is among it.
    pub(super) fn share_buffers(&self) -> Result<(), Failure> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.share(&self.stored.changeable))
    }

    /// Fails unless all ranks hold the same bits. Buffers are left out, as they are each rank's
    /// own until the next step.
    pub(super) fn compare(&self, ranks: &Ranks) -> Result<(), Failure> {
        let mut hash = Sha256::new();
        for (name, tensor) in self.state() {
            if !name.starts_with("buffer/") {
                hash.update(name.as_bytes());
                hash.update(tensor.host().map_err(failure::internal)?.bytes());
            }
        }
        ranks.compare(hash.finalize().into())
    }

    /// As [`Self::compare`], at the word of rank 0.
    pub(super) fn check_alike(&self) -> Result<(), Failure> {
        match self.ranks.as_ref().filter(|ranks| ranks.leads()) {
            Some(ranks) => {
                ranks.lead(Next::Compare)?;
                self.compare(ranks)
            }
            None => Ok(()),
        }
    }
}

/// Averages gradients over the ranks, and gives the sum of their losses. Each gradient is
/// multiplied by one over the number of ranks before it is added to the others', in the order
/// and with the rounding of PyTorch's reducer. Where some ranks have a gradient of a parameter,
/// it is zero on the others; where none has one, there is none.
pub fn average(
    ranks: &Ranks,
    trained: &[Trained],
    gradients: &mut [Option<Tensor>],
    losses: f64,
    library: &mut Library,
) -> Result<f64, Failure> {
    let used = gradients.iter().map(|gradient| f64::from(u8::from(gradient.is_some())));
    let numbers: Vec<f64> = std::iter::once(losses).chain(used).collect();
    let sums = ranks.sums(&numbers)?;
    let share = 1.0 / f64::from(ranks.count);
    let mut all = Vec::new();
    for ((gradient, trained), used) in gradients.iter_mut().zip(trained).zip(&sums[1..]) {
        if *used == 0.0 {
            continue;
        }
        let tensor = match gradient.take() {
            Some(tensor) => tensor,
            None => library
                .tensor("aten::zeros_like", "", &[(&trained.parameter).into()])
                .map_err(failure::internal)?,
        };
        // Not in place: autograd may give two parameters one memory for their gradients.
        let arguments = [(&tensor).into(), Value::from(share)];
        let tensor =
            library.tensor("aten::mul", "Scalar", &arguments).map_err(failure::internal)?;
        all.push(tensor.clone());
        *gradient = Some(tensor);
    }
    ranks.sum(&all)?;
    Ok(sums[0])
}
