//! Tensor files that commands are given: safetensors, or NumPy's `.npy`.

use std::path::Path;

use anyhow::{Context as _, ensure};
use warpforge_snakeburger::eval::Tensor;
use warpforge_snakeburger::ir::{Buffer, DType, TensorTy};

use warpforge_workloads::tensors;

use crate::failure::Misuse;

/// Tensors by name; a `.npy` file holds one that has none.
pub use warpforge_workloads::tensors::Named;

/// Reads a file by its ending.
pub fn read(path: &Path) -> anyhow::Result<Named> {
    let help = "give a safetensors file, or a .npy file saved by NumPy";
    if path.extension().is_none_or(|ending| ending != "npy") {
        return tensors::read(path).map_err(|error| Misuse::new(error.to_string(), help).into());
    }
    let misuse = |why: String| Misuse::new(format!("{}: {why}", path.display()), help);
    let bytes = std::fs::read(path).map_err(|error| misuse(error.to_string()))?;
    let tensor = read_npy(&bytes).map_err(|error| misuse(format!("{error:#}")))?;
    Ok(Named::from([(String::new(), tensor)]))
}

/// Writes a safetensors file beside its place and renames it.
pub fn write(path: &Path, named: &Named) -> anyhow::Result<()> {
    let all = named.iter().map(|(name, tensor)| (name.as_str(), tensor));
    Ok(tensors::write(path, all)?)
}

/// NumPy's format, versions 1 to 3: a magic number, a header that is a Python dict, the elements.
fn read_npy(bytes: &[u8]) -> anyhow::Result<Tensor> {
    ensure!(bytes.starts_with(b"\x93NUMPY") && bytes.len() >= 12, "it is no .npy file");
    let (start, length) = match bytes[6] {
        1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
        _ => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
    };
    let header = bytes.get(start..start + length).context("its header is cut off")?;
    let header = std::str::from_utf8(header)?;
    let field = |name: &str| {
        let rest = header.split_once(&format!("'{name}':"))?.1.trim_start();
        Some(rest)
    };
    let descr =
        field("descr").and_then(|rest| rest.split('\'').nth(1)).context("it has no descr")?;
    let dtype =
        npy_type(descr).with_context(|| format!("the element type {descr} is not supported"))?;
    let order = field("fortran_order").context("it has no fortran_order")?;
    ensure!(order.starts_with("False"), "it is in Fortran order: save it with order='C'");
    let shape = field("shape")
        .and_then(|rest| rest.strip_prefix('(')?.split_once(')'))
        .context("it has no shape")?
        .0;
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(str::parse::<i64>).collect::<Result<Vec<_>, _>>()?;
    let ty = TensorTy::new(dims, dtype);
    let wanted = ty.count().and_then(|count| count.checked_mul(dtype.bytes()));
    let data = bytes.get(start + length..).filter(|data| Some(data.len()) == wanted);
    let data = data.context("its size and its shape disagree")?;
    Ok(Tensor { ty, data: Buffer::from_slice(data) })
}

fn npy_type(descr: &str) -> Option<DType> {
    Some(match descr.trim_start_matches(['<', '|', '=']) {
        "b1" | "?" => DType::I1,
        "i1" => DType::S8,
        "i2" => DType::S16,
        "i4" => DType::S32,
        "i8" => DType::S64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn a_numpy_file_is_read() {
        let header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }\n";
        let tensor = read_npy(&npy(header, &[1, 0, 0, 0, 255, 255, 255, 255])).unwrap();
        assert_eq!(tensor.ty, TensorTy::new([2, 1], DType::S32));
        assert_eq!(&*tensor.ints(), &[1, -1]);
    }

    #[test]
    fn a_damaged_numpy_file_is_refused() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }\n";
        let error = read_npy(&npy(header, &[0; 8])).unwrap_err().to_string();
        assert_eq!(error, "its size and its shape disagree");
        assert!(read_npy(b"\x93NUMPY\x01\x00\xff\xff\x00\x00\x00").is_err());
        assert!(read_npy(b"hello, world").is_err());
    }
}
