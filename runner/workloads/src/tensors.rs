//! Tensors by name, in memory and in safetensors files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use warpforge_parity::bundle::write_beside;
use warpforge_snakeburger::eval::Tensor;
use warpforge_snakeburger::ir::{Buffer, DType, TensorTy};

use crate::error::Error;

pub type Named = BTreeMap<String, Tensor>;

/// Element types that files and programs know by the same bits.
const TYPES: &[(Dtype, DType)] = &[
    (Dtype::BOOL, DType::I1),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::S8),
    (Dtype::U16, DType::U16),
    (Dtype::I16, DType::S16),
    (Dtype::U32, DType::U32),
    (Dtype::I32, DType::S32),
    (Dtype::U64, DType::U64),
    (Dtype::I64, DType::S64),
    (Dtype::F8_E5M2, DType::F8E5M2),
    (Dtype::F8_E4M3, DType::F8E4M3FN),
    (Dtype::F8_E8M0, DType::F8E8M0FNU),
    (Dtype::F8_E4M3FNUZ, DType::F8E4M3FNUZ),
    (Dtype::F8_E5M2FNUZ, DType::F8E5M2FNUZ),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::C64, DType::C64),
];

/// The element type of a file. Types of a byte that it lacks are written as that byte, wider ones
/// are refused.
fn file_type(ty: DType) -> Option<Dtype> {
    let known = TYPES.iter().find(|(_, ours)| *ours == ty).map(|(theirs, _)| *theirs);
    let byte = || (ty.bytes() == 1).then_some(if ty.is_signed() { Dtype::I8 } else { Dtype::U8 });
    known.or_else(byte)
}

pub fn read(path: &Path) -> Result<Named, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|error| Error::File { path: path.into(), why: error.to_string() })?;
    let mut named = Named::new();
    for (name, view) in file.iter() {
        let Some((_, dtype)) = TYPES.iter().find(|(theirs, _)| *theirs == view.dtype()) else {
            let why =
                format!("tensor {name} is of type {:?}, which is not supported", view.dtype());
            return Err(Error::File { path: path.into(), why });
        };
        let ty = TensorTy::new(view.shape().iter().map(|dim| *dim as i64), *dtype);
        named.insert(name.to_owned(), Tensor { ty, data: Buffer::from_slice(view.data()) });
    }
    Ok(named)
}

/// Writes a file beside its place and renames it.
pub fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), Error> {
    let mut views = Vec::new();
    for (name, tensor) in tensors {
        let Some(dtype) = file_type(tensor.storage()) else {
            let why = format!("{name} is of type {}, which the format lacks", tensor.ty);
            return Err(Error::File { path: path.into(), why });
        };
        let shape = tensor.dims().iter().map(|dim| *dim as usize).collect();
        let view = TensorView::new(dtype, shape, tensor.data.bytes())
            .map_err(|error| Error::File { path: path.into(), why: error.to_string() })?;
        views.push((name, view));
    }
    let bytes = safetensors::tensor::serialize(views, None)
        .map_err(|error| Error::File { path: path.into(), why: error.to_string() })?;
    write_beside(path, &bytes).map_err(|error| Error::io(path, error))
}

/// A safetensors file whose tensors' types are known beforehand: each is written to its place as
/// soon as it is there, so that none has to be kept.
pub struct Stream {
    path: PathBuf,
    beside: PathBuf,
    file: File,
    places: BTreeMap<String, (u64, TensorTy)>,
}

impl Stream {
    /// Tensors of types the format lacks are left out.
    pub fn create<'a>(
        path: &Path,
        tensors: impl IntoIterator<Item = (&'a str, &'a TensorTy)>,
    ) -> Result<Self, Error> {
        let mut header = serde_json::Map::new();
        let mut places = BTreeMap::new();
        let mut at = 0u64;
        for (name, ty) in tensors {
            let (Some(dtype), Some(count)) = (file_type(ty.elem.storage()), ty.count()) else {
                continue;
            };
            let bytes = (count * ty.elem.storage().bytes()) as u64;
            let entry = serde_json::json!({
                "dtype": dtype,
                "shape": ty.dims.as_slice(),
                "data_offsets": [at, at + bytes],
            });
            header.insert(name.to_owned(), entry);
            places.insert(name.to_owned(), (at, ty.clone()));
            at += bytes;
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let beside = path.with_extension("partial");
        let io = |error| Error::io(&beside, error);
        let mut file = File::create(&beside).map_err(io)?;
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(io)?;
        file.write_all(&header).map_err(io)?;
        let start = 8 + header.len() as u64;
        file.set_len(start + at).map_err(io)?;
        for (place, _) in places.values_mut() {
            *place += start;
        }
        Ok(Self { path: path.into(), beside, file, places })
    }

    /// Writes one tensor, if it is one of the announced ones.
    pub fn put(&self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        match self.places.get(name) {
            Some((place, ty)) if *ty == tensor.ty => self
                .file
                .write_all_at(tensor.data.bytes(), *place)
                .map_err(|error| Error::io(&self.beside, error)),
            _ => Ok(()),
        }
    }

    pub fn finish(self) -> Result<(), Error> {
        std::fs::rename(&self.beside, &self.path).map_err(|error| Error::io(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let of = |dtype| Tensor::from_floats(TensorTy::new([3], dtype), |i| i as f64 / 2.0);
        let named =
            Named::from([("a".to_owned(), of(DType::BF16)), ("b".to_owned(), of(DType::F64))]);
        write(&path, named.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        assert_eq!(read(&path).unwrap(), named);
    }
}
