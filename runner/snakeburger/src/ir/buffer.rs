//! Raw element storage, aligned for every element type, shared until written.

use std::sync::Arc;

use bytemuck::Pod;

/// Elements of one tensor, one after another, each in [`crate::ir::DType::bytes`] bytes.
#[derive(Clone, Debug)]
pub struct Buffer {
    words: Arc<Vec<u64>>,
    bytes: usize,
}

impl Buffer {
    pub fn zeroed(bytes: usize) -> Self {
        Self { words: Arc::new(vec![0; bytes.div_ceil(8)]), bytes }
    }

    pub fn from_slice<T: Pod>(elements: &[T]) -> Self {
        let mut buffer = Self::zeroed(size_of_val(elements));
        buffer.bytes_mut().copy_from_slice(bytemuck::cast_slice(elements));
        buffer
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(self.words.as_slice())[..self.bytes]
    }

    /// The bytes for writing; copies them first if another value shares them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        let words: &mut Vec<u64> = Arc::make_mut(&mut self.words);
        &mut bytemuck::cast_slice_mut(words.as_mut_slice())[..bytes]
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
