//! The compiler: programs into programs, without a device in sight. Today it makes the training
//! step of a model one program: its gradients and the update of its parameters.

pub mod differentiate;
mod optimizer;
mod step;

pub use differentiate::{Gradients, Remat, backward, backward_from, differentiate};
pub use optimizer::slots;
pub use step::{
    Error as StepError, GRADIENT_NORM, LEARNING_RATE, Request as StepRequest, kind, step, update,
};
