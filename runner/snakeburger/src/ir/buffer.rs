//! Raw element storage, aligned for every element type, shared until written.

use std::sync::Arc;

use bytemuck::Pod;

/// Elements of one tensor, one after another, each in [`crate::ir::DType::bytes`] bytes.
#[derive(Clone, Debug)]
pub struct Buffer {
    store: Store,
    bytes: usize,
}

/// Bytes that somebody else owns, such as a mapped file.
pub type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

#[derive(Clone)]
enum Store {
    Own(Arc<Vec<u64>>),
    /// Aligned to eight bytes.
    Lent(Owner),
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Store::Own(words) => f.debug_tuple("Own").field(words).finish(),
            Store::Lent(_) => f.write_str("Lent"),
        }
    }
}

impl Buffer {
    pub fn zeroed(bytes: usize) -> Self {
        Self { store: Store::Own(Arc::new(vec![0; bytes.div_ceil(8)])), bytes }
    }

    /// One element again and again; its size divides eight bytes or is a multiple of them.
    pub fn repeated(element: &[u8], bytes: usize) -> Self {
        let words = bytes.div_ceil(8);
        let store = if element.len() <= 8 {
            let mut word = [0; 8];
            word.iter_mut().zip(element.iter().cycle()).for_each(|(out, byte)| *out = *byte);
            vec![u64::from_ne_bytes(word); words]
        } else {
            let pattern: Vec<u64> =
                element.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
            pattern.iter().copied().cycle().take(words).collect()
        };
        Self { store: Store::Own(Arc::new(store)), bytes }
    }

    pub fn from_slice<T: Pod>(elements: &[T]) -> Self {
        let mut buffer = Self::zeroed(size_of_val(elements));
        buffer.bytes_mut().copy_from_slice(bytemuck::cast_slice(elements));
        buffer
    }

    /// Elements that stay where they are; copied only if they are not aligned, or once written to.
    pub fn lent(owner: Owner) -> Self {
        let bytes = (*owner).as_ref();
        if bytes.as_ptr().align_offset(8) != 0 {
            return Self::from_slice(bytes);
        }
        let bytes = bytes.len();
        Self { store: Store::Lent(owner), bytes }
    }

    /// Bytes that are made when they are first read. They must be as many, and aligned to eight.
    pub fn made_later(owner: Owner, bytes: usize) -> Self {
        Self { store: Store::Lent(owner), bytes }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Own(words) => &bytemuck::cast_slice(words.as_slice())[..self.bytes],
            Store::Lent(owner) => &(**owner).as_ref()[..self.bytes],
        }
    }

    /// The bytes for writing; copies them first if another value shares them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Store::Lent(_) = &self.store {
            *self = Self::from_slice(self.bytes());
        }
        let bytes = self.bytes;
        match &mut self.store {
            Store::Own(words) => {
                let words: &mut Vec<u64> = Arc::make_mut(words);
                &mut bytemuck::cast_slice_mut(words.as_mut_slice())[..bytes]
            }
            Store::Lent(_) => unreachable!("copied above"),
        }
    }

    /// The elements as `T`, whose alignment must be at most eight bytes.
    pub fn as_slice<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes())
    }

    pub fn as_mut_slice<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Buffer {}
