//! Weights: where each tensor's bytes lie, without reading them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use safetensors::SafeTensors;

use crate::archive::Archive;
use crate::dtype::ScalarType;
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::recipe::Recipe;
use crate::schema;

/// Bytes in a mapped file or in memory.
#[derive(Clone, Debug)]
pub enum Bytes {
    Mapped { file: Arc<Mapped>, range: Range<usize> },
    Owned(Arc<[u8]>),
}

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped { file, range } => &file.bytes()[range.clone()],
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// A tensor as it lies in its file.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub dtype: ScalarType,
    pub dims: Vec<i64>,
    /// In elements.
    pub strides: Vec<i64>,
    pub offset: usize,
    pub bytes: Bytes,
}

impl Tensor {
    /// A tensor whose elements lie one after another.
    pub fn dense(dtype: ScalarType, dims: Vec<i64>, bytes: Bytes) -> Self {
        let strides = dense_strides(&dims);
        Self { dtype, dims, strides, offset: 0, bytes }
    }

    pub fn count(&self) -> usize {
        self.dims.iter().map(|dim| *dim as usize).product()
    }

    pub fn is_dense(&self) -> bool {
        self.strides == dense_strides(&self.dims) || self.count() <= 1
    }

    /// The elements in row-major order; copied only if they lie otherwise.
    pub fn elements(&self) -> Cow<'_, [u8]> {
        let (bytes, size) = (self.bytes.as_slice(), self.dtype.bytes());
        if self.is_dense() {
            return Cow::Borrowed(&bytes[self.offset * size..][..self.count() * size]);
        }
        let mut out = Vec::with_capacity(self.count() * size);
        let mut index = vec![0i64; self.dims.len()];
        for _ in 0..self.count() {
            let at: i64 = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
            out.extend_from_slice(&bytes[(self.offset + at as usize) * size..][..size]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.dims[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Cow::Owned(out)
    }
}

fn dense_strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis].max(1));
    }
    strides
}

/// Where the weights come from.
#[derive(Clone, Debug, Default)]
pub enum WeightSource {
    /// They were saved with the graph.
    #[default]
    Archive,
    /// A safetensors file, by the parameters' and buffers' names.
    Safetensors(PathBuf),
    /// Made by rule.
    Recipe(Recipe),
}

/// What an archive says of one stored tensor.
#[derive(Clone, Debug)]
struct Entry {
    dtype: ScalarType,
    dims: Vec<i64>,
    strides: Vec<i64>,
    offset: usize,
    /// Names of one group are one tensor: weights tied to each other.
    group: usize,
    /// The member that holds the bytes; `None` if the archive was saved without it.
    member: Option<Range<usize>>,
    constant: bool,
}

/// Every stored tensor of a model, by name.
#[derive(Clone, Debug)]
pub struct Weights {
    archive: Archive,
    entries: BTreeMap<Box<str>, Entry>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Archive,
    File { file: Arc<Mapped>, tensors: HashMap<Box<str>, Tensor> },
    Recipe(Recipe),
}

impl Weights {
    pub(crate) fn open(archive: &Archive, model: &str) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut groups = Groups::new();
        let kinds = [
            ("weights", format!("data/weights/{model}_weights_config.json"), false),
            ("constants", format!("data/constants/{model}_constants_config.json"), true),
        ];
        for (folder, config, constant) in kinds {
            if archive.get(&config).is_none() && constant {
                continue;
            }
            let config: schema::PayloadConfig = archive.json(&config)?;
            for (name, meta) in &config.config {
                let entry = entry(archive, folder, name, meta, constant, &mut groups)?;
                entries.insert(name.as_str().into(), entry);
            }
        }
        Ok(Self { archive: archive.clone(), entries, source: Source::Archive })
    }

    /// Takes the weights from elsewhere; constants stay the archive's.
    pub(crate) fn set_source(&mut self, source: &WeightSource) -> Result<()> {
        self.source = match source {
            WeightSource::Archive => Source::Archive,
            WeightSource::Recipe(recipe) => Source::Recipe(recipe.clone()),
            WeightSource::Safetensors(path) => {
                let file = Arc::new(Mapped::open(path)?);
                let tensors = safetensors(&file)?;
                Source::File { file, tensors }
            }
        };
        Ok(())
    }

    /// The names of all stored tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// The tensors' element type and sizes, as the archive has them.
    pub fn shape(&self, name: &str) -> Option<(ScalarType, &[i64])> {
        self.entries.get(name).map(|entry| (entry.dtype, &entry.dims[..]))
    }

    /// A number that tied weights have in common.
    pub fn group(&self, name: &str) -> Option<usize> {
        self.entries.get(name).map(|entry| entry.group)
    }

    /// Whether the archive holds every tensor's bytes.
    pub fn complete(&self) -> bool {
        self.entries.values().all(|entry| entry.member.is_some())
    }

    pub fn get(&self, name: &str) -> Result<Tensor> {
        let entry = self.entries.get(name).ok_or_else(|| Error::NoWeight {
            name: name.into(),
            from: self.archive.path().display().to_string(),
        })?;
        match &self.source {
            Source::Recipe(recipe) if !entry.constant => {
                let bytes = recipe.fill(self.first_name(entry), entry.dtype, &entry.dims)?;
                Ok(Tensor::dense(entry.dtype, entry.dims.clone(), Bytes::Owned(bytes.into())))
            }
            Source::File { file, tensors } if !entry.constant => {
                self.loaded(name, entry, file, tensors)
            }
            _ => self.stored(name, entry),
        }
    }

    /// The first name of a tensor's group: tied weights are filled once, under one name.
    fn first_name(&self, entry: &Entry) -> &str {
        let of_group = self.entries.iter().find(|(_, other)| other.group == entry.group);
        of_group.map_or("", |(name, _)| name)
    }

    fn stored(&self, name: &str, entry: &Entry) -> Result<Tensor> {
        let Some(range) = entry.member.clone() else {
            let from = format!(
                "{}, which was saved without it: give its weights as a safetensors file or a recipe",
                self.archive.path().display()
            );
            return Err(Error::NoWeight { name: name.into(), from });
        };
        Ok(Tensor {
            dtype: entry.dtype,
            dims: entry.dims.clone(),
            strides: entry.strides.clone(),
            offset: entry.offset,
            bytes: Bytes::Mapped { file: self.archive.file().clone(), range },
        })
    }

    fn loaded(
        &self,
        name: &str,
        entry: &Entry,
        file: &Mapped,
        tensors: &HashMap<Box<str>, Tensor>,
    ) -> Result<Tensor> {
        let aliases = self.entries.iter().filter(|(_, other)| other.group == entry.group);
        let found = std::iter::once(name)
            .chain(aliases.map(|(alias, _)| &**alias))
            .find_map(|alias| tensors.get(alias));
        let Some(tensor) = found else {
            let from = file.path().display().to_string();
            return Err(Error::NoWeight { name: name.into(), from });
        };
        if (tensor.dtype, &tensor.dims) != (entry.dtype, &entry.dims) {
            let why = format!(
                "the model wants {} {:?}, {} has {} {:?}",
                entry.dtype,
                entry.dims,
                file.path().display(),
                tensor.dtype,
                tensor.dims
            );
            return Err(Error::Weight { name: name.into(), why });
        }
        Ok(tensor.clone())
    }
}

/// Numbers of tensors: the same member seen the same way is the same tensor.
type Groups = HashMap<(String, Vec<i64>, Vec<i64>, usize), usize>;

fn entry(
    archive: &Archive,
    folder: &str,
    name: &str,
    payload: &schema::PayloadMeta,
    constant: bool,
    groups: &mut Groups,
) -> Result<Entry> {
    if payload.use_pickle {
        return Err(Error::Pickled { name: name.into() });
    }
    let bad = |why: String| Error::Weight { name: name.into(), why };
    let Some(meta) = &payload.tensor_meta else {
        return Err(bad("its element type and sizes are not stated".into()));
    };
    let known = |sizes: &[schema::SymInt]| -> Option<Vec<i64>> {
        let one = |size: &schema::SymInt| match size {
            schema::SymInt::AsInt(n) if *n >= 0 => Some(*n),
            _ => None,
        };
        sizes.iter().map(one).collect()
    };
    let (dims, strides) = known(&meta.sizes).zip(known(&meta.strides)).unwrap_or_default();
    let offset = known(std::slice::from_ref(&meta.storage_offset)).map(|offset| offset[0] as usize);
    if dims.len() != meta.sizes.len() || strides.len() != dims.len() || offset.is_none() {
        return Err(bad("its sizes are not plain numbers".into()));
    }
    let (dtype, offset) = (ScalarType::from_code(meta.dtype)?, offset.unwrap_or_default());
    let path = &payload.path_name;
    if path.contains(['/', '\\']) || path.is_empty() || path == ".." {
        let member = format!("data/{folder}/{path}");
        return Err(Error::Escapes { path: archive.path().into(), member });
    }
    let member = archive.range(&format!("data/{folder}/{path}"));
    let reach = reach(&dims, &strides, offset, dtype.bytes());
    let fits = |member: &Range<usize>| reach.is_some_and(|reach| reach <= member.len());
    if let Some(member) = &member
        && !fits(member)
    {
        return Err(bad(format!(
            "it has {} bytes, too few for {dtype} {dims:?} with strides {strides:?}",
            member.len()
        )));
    }
    let key = (format!("{folder}/{path}"), dims.clone(), strides.clone(), offset);
    let next = groups.len();
    let group = *groups.entry(key).or_insert(next);
    Ok(Entry { dtype, dims, strides, offset, group, member, constant })
}

/// How many bytes a tensor needs to be there; `None` if the number does not fit.
fn reach(dims: &[i64], strides: &[i64], offset: usize, size: usize) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut last = offset;
    for (dim, stride) in dims.iter().zip(strides) {
        let step = usize::try_from(*dim - 1).ok()?.checked_mul(usize::try_from(*stride).ok()?)?;
        last = last.checked_add(step)?;
    }
    last.checked_add(1)?.checked_mul(size)
}

fn safetensors(file: &Arc<Mapped>) -> Result<HashMap<Box<str>, Tensor>> {
    let bad = |why: String| Error::Archive { path: file.path().into(), why };
    let parsed = SafeTensors::deserialize(file.bytes()).map_err(|error| Error::Weight {
        name: file.path().display().to_string(),
        why: error.to_string(),
    })?;
    let mut tensors = HashMap::new();
    for (name, view) in parsed.iter() {
        let Some(dtype) = ScalarType::from_file(view.dtype()) else { continue };
        let dims = view.shape().iter().map(|dim| *dim as i64).collect();
        let start = view.data().as_ptr() as usize - file.bytes().as_ptr() as usize;
        let range = start..start + view.data().len();
        if range.end > file.bytes().len() {
            return Err(bad(format!("tensor {name} reaches past the end")));
        }
        let bytes = Bytes::Mapped { file: file.clone(), range };
        tensors.insert(name.into(), Tensor::dense(dtype, dims, bytes));
    }
    Ok(tensors)
}
