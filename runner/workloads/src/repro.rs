//! The smallest program that shows a divergence: one node, its inputs, and what either side made
//! of them.

use std::fs;

use warpforge_parity::file::TensorFile;
use warpforge_snakeburger::text::{self, PrintOptions};

use crate::error::Error;
use crate::forward::Request;
use crate::isolate::{Isolation, read};
use crate::program::Tap;
use crate::tensors;

/// The folder inside the bundle.
pub const FOLDER: &str = "repro";

/// Writes `repro/` and says how to run it; nothing if the node cannot be cut out.
pub fn write(
    request: &Request,
    isolation: &Isolation<'_>,
    tap: &Tap,
    candidate: &Option<TensorFile>,
) -> Result<Option<String>, Error> {
    let Some(alone) = isolation.place(tap).and_then(|node| isolation.alone(node)) else {
        return Ok(None);
    };
    let folder = request.out.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
    let program = folder.join("program.mlir");
    let source = text::print(&alone.piece.module, PrintOptions::default());
    fs::write(&program, source).map_err(|error| Error::io(&program, error))?;
    let names: Vec<String> = (0..alone.arguments.len()).map(|i| format!("arg{i}")).collect();
    let inputs = names.iter().zip(&alone.arguments).map(|(name, (_, t))| (name.as_str(), t));
    tensors::write(&folder.join("inputs.safetensors"), inputs)?;
    tensors::write(&folder.join("golden.safetensors"), [("result0", &alone.golden)])?;
    // What the operation makes of golden's inputs, and what it made in the run itself.
    if let Some(result) = alone.run() {
        tensors::write(&folder.join("warpforge.safetensors"), [("result0", &result)])?;
    }
    if let Some(result) = candidate.as_ref().and_then(|file| read(file, &tap.name)) {
        tensors::write(&folder.join("warpforge-in-run.safetensors"), [("result0", &result)])?;
    }
    Ok(Some(format!(
        "warpforge hlo run {FOLDER}/program.mlir --inputs {FOLDER}/inputs.safetensors"
    )))
}
