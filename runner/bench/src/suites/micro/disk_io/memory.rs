//! Memory that devices read and write: on pages of its own, and where it is more than a page on
//! huge ones, if the system has them. A request of many scattered pages is cut into several.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

const PAGE: usize = 4 << 10;
const HUGE: usize = 2 << 20;

pub(super) struct Memory {
    map: MmapMut,
    skipped: usize,
    length: usize,
}

impl Memory {
    pub fn new(length: usize) -> io::Result<Self> {
        let align = if length > PAGE { HUGE } else { PAGE };
        // To the end of its last page, as only whole ones are huge.
        let map = MmapMut::map_anon(length.next_multiple_of(align) + align - 1)?;
        let skipped = map.as_ptr().align_offset(align);
        // Without huge pages it is a little slower, and nothing else.
        let _ = map.advise(Advice::HugePage);
        Ok(Self { map, skipped, length })
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.skipped..self.skipped + self.length]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.skipped..self.skipped + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_page() {
        for (length, align) in [(4096, PAGE), (1 << 20, HUGE), (3 << 20, HUGE)] {
            let mut memory = Memory::new(length).unwrap();
            memory.fill(1);
            assert_eq!((memory.len(), memory.as_ptr() as usize % align), (length, 0));
        }
    }
}
