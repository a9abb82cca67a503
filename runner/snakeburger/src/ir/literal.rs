//! Constants: a typed tensor value in a program's text.

use super::buffer::Buffer;
use super::ty::TensorTy;

/// A constant tensor; a splat stores its one element only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub ty: TensorTy,
    /// One element if `splat`, else all of them in row-major order.
    pub data: Buffer,
    pub splat: bool,
}

impl Literal {
    /// The bytes of element `i`.
    pub fn element(&self, i: usize) -> &[u8] {
        let size = self.ty.elem.storage().bytes();
        let at = if self.splat { 0 } else { i * size };
        &self.data.bytes()[at..at + size]
    }

    /// All integers of an integer constant, in row-major order.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let dtype = self.ty.dtype().filter(|d| d.is_int() || d.is_bool())?;
        let count = self.ty.count()?;
        Some((0..count).map(|i| int_from_bytes(self.element(i), dtype.is_signed())).collect())
    }
}

/// A little-endian integer of at most eight bytes.
pub fn int_from_bytes(bytes: &[u8], signed: bool) -> i64 {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * bytes.len() as u32;
    let value = i64::from_le_bytes(wide);
    if signed { value << unused >> unused } else { value }
}
