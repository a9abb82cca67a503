//! Tensor files, read and written without holding all of one in memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::failure::{self, Failure};
use crate::torch::{Fault, Layout, Library, Mapping, ScalarType, Tensor, Value};

/// A safetensors file that grows tensor by tensor. It has its name when it is whole.
pub struct Writer {
    path: PathBuf,
    /// One for each element size, as the file must be ordered by it to keep every tensor
    /// aligned, and nameless, as they are to vanish with the process.
    spools: BTreeMap<usize, Spool>,
}

struct Spool {
    file: BufWriter<File>,
    length: usize,
    tensors: Vec<(String, TensorInfo)>,
}

impl Writer {
    pub fn create(path: PathBuf) -> Result<Self, Failure> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failure::io(folder, error))?;
        }
        Ok(Self { path, spools: BTreeMap::new() })
    }

    /// Writes a tensor as it is now.
    pub fn add(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let host = tensor.host().map_err(failure::internal)?;
        let (mut shape, bytes) = (host.shape(), host.bytes());
        // Complex numbers without a type of their own are written as pairs.
        let dtype = host.dtype.in_file().unwrap_or_else(|| {
            shape.push(2);
            if host.dtype == ScalarType::C32 { Dtype::F16 } else { Dtype::F64 }
        });
        let shape = shape.into_iter().map(|size| size as usize).collect();
        self.append(name, dtype, shape, bytes).map_err(|error| failure::io(&self.path, error))
    }

    fn append(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let spool = match self.spools.entry(dtype.bitsize()) {
            std::collections::btree_map::Entry::Occupied(spool) => spool.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let file = BufWriter::new(tempfile::tempfile_in(folder)?);
                new.insert(Spool { file, length: 0, tensors: Vec::new() })
            }
        };
        spool.file.write_all(bytes)?;
        let data_offsets = (spool.length, spool.length + bytes.len());
        spool.length = data_offsets.1;
        spool.tensors.push((name.to_owned(), TensorInfo { dtype, shape, data_offsets }));
        Ok(())
    }

    /// Puts the file in its place.
    pub fn finish(self) -> Result<PathBuf, Failure> {
        let path = self.path.clone();
        self.assemble().map_err(|error| failure::io(&path, error))?;
        Ok(path)
    }

    fn assemble(mut self) -> io::Result<()> {
        let mut tensors = Vec::new();
        let mut start = 0;
        for spool in self.spools.values_mut().rev() {
            for (name, mut info) in spool.tensors.drain(..) {
                info.data_offsets.0 += start;
                info.data_offsets.1 += start;
                tensors.push((name, info));
            }
            start += spool.length;
        }
        let metadata = Metadata::new(None, tensors).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&metadata)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let beside = beside(&self.path);
        let mut file = File::create(&beside)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for spool in std::mem::take(&mut self.spools).into_values().rev() {
            let mut data = spool.file.into_inner().map_err(io::IntoInnerError::into_error)?;
            data.rewind()?;
            io::copy(&mut data, &mut file)?;
        }
        fs::rename(&beside, &self.path)
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Writes a small file beside its place and renames it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let beside = beside(path);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| failure::io(path, error))
}

/// Every tensor of a file, mapped or copied.
pub fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, Failure> {
    let io = |error| failure::io(path, error);
    let bad = |why: String| failure::inputs(format!("{}: {why}", path.display()));
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix).map_err(|_| bad("it is no safetensors file".into()))?;
    let header = u64::from_le_bytes(prefix);
    if header > length.saturating_sub(8) || header > 100_000_000 {
        return Err(bad("it is no safetensors file, or is cut off".into()));
    }
    let mut text = vec![0; header as usize];
    file.read_exact(&mut text).map_err(io)?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| bad(format!("its header: {error}")))?;
    let start = 8 + header as usize;
    if metadata.data_len() as u64 != length - start as u64 {
        return Err(bad("its length is not what its header says: it is cut off".into()));
    }
    let map = Mapping::open(&file).map_err(io)?;
    let mut tensors = BTreeMap::new();
    for (name, info) in metadata.tensors() {
        let Some(dtype) = ScalarType::from_file(info.dtype) else {
            return Err(bad(format!("{name} has the element type {:?}", info.dtype)));
        };
        let shape: Vec<i64> = info.shape.iter().map(|size| *size as i64).collect();
        let range = start + info.data_offsets.0..start + info.data_offsets.1;
        let tensor = Tensor::mapped(&map, range, &Layout::dense(dtype, &shape));
        let tensor = tensor.map_err(|fault| bad(format!("{name}: {fault}")))?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// Writes tensors by name to one file.
pub fn write_tensors<'t>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
) -> Result<(), Failure> {
    let mut writer = Writer::create(path.to_owned())?;
    for (name, tensor) in tensors {
        writer.add(name, tensor)?;
    }
    writer.finish().map(drop)
}

/// Whether two tensors have the same type, shape and bits.
pub fn same_bits(a: &Tensor, b: &Tensor) -> Result<bool, Fault> {
    if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
        return Ok(false);
    }
    Ok(a.host()?.bytes() == b.host()?.bytes())
}

/// A number that a model gives is written as a tensor without axes; `None`
/// is no value.
pub fn as_tensor(value: Value) -> Result<Option<Tensor>, Fault> {
    let scalar =
        |bytes: &[u8], dtype| Tensor::from_bytes(bytes, &Layout::dense(dtype, &[])).map(Some);
    match value {
        Value::Tensor(tensor) if tensor.defined() => Ok(Some(tensor)),
        Value::Int(value) => scalar(&value.to_le_bytes(), ScalarType::I64),
        Value::Float(value) => scalar(&value.to_le_bytes(), ScalarType::F64),
        Value::Bool(value) => scalar(&[value.into()], ScalarType::Bool),
        _ => Ok(None),
    }
}

/// A copy with memory of its own.
pub fn copy(library: &mut Library, tensor: &Tensor) -> Result<Tensor, Fault> {
    library.tensor("aten::clone", "", &[Value::from(tensor)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_all_sizes_come_back_aligned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/t.safetensors");
        let mut writer = Writer::create(path.clone()).unwrap();
        let tensor = |bytes: &[u8], dtype, shape: &[i64]| {
            Tensor::from_bytes(bytes, &Layout::dense(dtype, shape)).unwrap()
        };
        let written = [
            ("bytes", tensor(&[1, 2, 3], ScalarType::U8, &[3])),
            ("wide", tensor(&7_i64.to_le_bytes(), ScalarType::I64, &[])),
            ("half", tensor(&[0, 60], ScalarType::F16, &[1, 1])),
            ("none", tensor(&[], ScalarType::F32, &[0])),
            ("float", tensor(&1.5_f32.to_le_bytes(), ScalarType::F32, &[1])),
        ];
        for (name, tensor) in &written {
            writer.add(name, tensor).unwrap();
        }
        assert!(!path.exists(), "it has its name when it is whole");
        assert_eq!(writer.finish().unwrap(), path);
        let bytes = fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        for (name, view) in file.iter() {
            let offset = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
            assert_eq!(offset % (view.dtype().bitsize() / 8), 0, "{name}");
        }
        let read = read(&path).unwrap();
        assert_eq!(read.len(), written.len());
        for (name, tensor) in &written {
            assert!(same_bits(tensor, &read[*name]).unwrap(), "{name}");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.safetensors");
        let mut writer = Writer::create(path.clone()).unwrap();
        let four = Tensor::from_bytes(&[0; 16], &Layout::dense(ScalarType::F32, &[4])).unwrap();
        writer.add("x", &four).unwrap();
        writer.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        for length in [0, 7, 20, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.message.starts_with(&path.display().to_string()), "{error}");
        }
    }
}
