//! The whole state under the names of its files, written and read.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Training, assign};
use crate::failure::{self, Failure};
use crate::files;
use crate::torch::{GradMode, Tensor};

impl Training {
    /// Every tensor of the state, by name.
    pub(super) fn state(&self) -> Vec<(String, Tensor)> {
        let parameters = self.stored.parameters.iter();
        let parameters = parameters.map(|(name, tensor)| (format!("parameter/{name}"), tensor));
        let buffers = self.stored.buffers.iter();
        let buffers = buffers.map(|(name, tensor)| (format!("buffer/{name}"), tensor));
        let own = parameters.chain(buffers).map(|(name, tensor)| (name, tensor.clone()));
        own.chain(self.optimizer.state()).collect()
    }

    /// Takes the state from a file that has all of it and nothing else; from any other, nothing.
    /// Numbers of another format are converted.
    pub fn restore(&mut self, path: &Path) -> Result<(), Failure> {
        self.machine.configure()?;
        let _no_grad = GradMode::set(false);
        let given = files::read(path)?;
        let library = self.program.interpreter.library();
        let room = self.optimizer.expect_momentum(|name| given.contains_key(name), library);
        let before = room.map_err(failure::internal)?;
        let state = self.state();
        if let Err(why) = fits(&state, &given) {
            self.optimizer.set_momentum(before);
            return Err(failure::inputs(format!("{}: {why}", path.display())));
        }
        let library = self.program.interpreter.library();
        for (name, tensor) in state {
            assign(library, &tensor, given[&name].clone()).map_err(failure::internal)?;
        }
        self.hand_out()
    }
}

/// Whether a file has this state's tensors, all of them and no others.
fn fits(state: &[(String, Tensor)], given: &BTreeMap<String, Tensor>) -> Result<(), String> {
    for (name, tensor) in state {
        match given.get(name) {
            None => return Err(format!("{name} is missing")),
            Some(found) if found.shape() != tensor.shape() => {
                return Err(format!("{name} is {found:?}, not {tensor:?}"));
            }
            Some(_) => {}
        }
    }
    let known = |name: &&String| !state.iter().any(|(known, _)| known == *name);
    match given.keys().find(known) {
        Some(name) => Err(format!("{name} is not of this model and its optimiser")),
        None => Ok(()),
    }
}
