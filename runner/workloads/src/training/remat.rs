//! What Pass 2 computes again on the way back: how it is said, and what it means for a program.

use warpforge_compiler::differentiate::within;
use warpforge_compiler::{Gradients, Remat, StepError};
use warpforge_snakeburger::ir::Module;

use crate::error::Error;
use crate::program::Signature;

/// How it is said, for messages.
pub const FORMS: &str =
    "keep, modules (every numbered layer), MODULE,... (by path) or a number of bytes such as 2GiB";

/// Reads `keep`, `modules`, paths of modules, or a budget in bytes.
pub fn parse(text: &str) -> Result<Remat, String> {
    let text = text.trim();
    match text {
        "keep" => return Ok(Remat::Keep),
        // Nothing keeps within no bytes, so all layers are computed again.
        "modules" => return Ok(Remat::Budget(0)),
        _ => {}
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        let bytes = bytes(text).ok_or_else(|| format!("{text:?} is no number of bytes"))?;
        return Ok(Remat::Budget(bytes));
    }
    let paths: Vec<String> = text.split(',').map(|path| path.trim().to_owned()).collect();
    if paths.iter().any(String::is_empty) {
        return Err(format!("{text:?} is none of: {FORMS}"));
    }
    Ok(Remat::Modules(paths))
}

/// `123`, `64MiB`, `1.5GB`.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u32, u32); 7] = [
        ("KiB", 2, 10),
        ("MiB", 2, 20),
        ("GiB", 2, 30),
        ("KB", 10, 3),
        ("MB", 10, 6),
        ("GB", 10, 9),
        ("B", 10, 0),
    ];
    let unit = UNITS.iter().find_map(|(name, base, power)| {
        Some((text.strip_suffix(name)?, f64::from(*base).powi(*power as i32)))
    });
    let (number, factor) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * factor) as u64)
}

/// The modules of this program that are meant; one that it does not have is an error.
pub(super) fn settled(
    wanted: &Remat,
    forward: &Module,
    loss: usize,
    trained: &[usize],
) -> Result<Remat, Error> {
    match wanted {
        Remat::Keep => Ok(Remat::Keep),
        Remat::Budget(bytes) => {
            let request = Gradients { loss, wrt: trained.to_vec(), remat: Remat::Keep };
            let settled = within(forward, &request, *bytes);
            Ok(settled.map_err(StepError::from)?)
        }
        Remat::Modules(paths) => {
            let main =
                forward.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
            let taps = Signature::of(forward, main).taps;
            let inside = |module: &str, path: &str| {
                let rest = module.strip_prefix(path);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let unknown =
                paths.iter().find(|path| !taps.iter().any(|tap| inside(&tap.module, path)));
            match unknown {
                None => Ok(wanted.clone()),
                Some(path) => Err(Error::Inputs(format!(
                    "the model has no module {path} to compute again; its modules are those that \
                     the report and `warpforge compile` name, such as {}",
                    taps.iter()
                        .map(|tap| tap.module.as_str())
                        .find(|m| !m.is_empty())
                        .unwrap_or("-")
                ))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        assert_eq!(parse("keep"), Ok(Remat::Keep));
        assert_eq!(parse("modules"), Ok(Remat::Budget(0)));
        assert_eq!(parse("1000"), Ok(Remat::Budget(1000)));
        assert_eq!(parse("1.5GiB"), Ok(Remat::Budget(3 << 29)));
        assert_eq!(parse("64 MB"), Ok(Remat::Budget(64_000_000)));
        let paths = vec!["encoder.layer.0".to_owned(), "head".to_owned()];
        assert_eq!(parse("encoder.layer.0, head"), Ok(Remat::Modules(paths)));
        for wrong in ["", "a,,b", "12 parrots", "1e400"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
