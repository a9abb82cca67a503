//! Large pieces of memory: mapped afresh, so that the thread that touches a page first decides
//! on which NUMA node it lies, and on huge pages where the kernel grants them.

use memmap2::{Advice, MmapMut};

use crate::Sysroot;
use crate::suite::Unable;
use crate::system::{Cache, CacheType, System};

/// Of x86-64, and of ARM where pages are of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Memory that nobody has touched yet; zeros. It begins where a huge page does.
pub struct Buffer {
    map: MmapMut,
    start: usize,
    bytes: usize,
}

impl Buffer {
    pub fn new(bytes: usize) -> Result<Self, Unable> {
        let failed =
            |error| Unable::Failed(format!("{bytes} bytes of memory cannot be had: {error}"));
        let map = MmapMut::map_anon(bytes + HUGE_PAGE).map_err(failed)?;
        // A kernel without huge pages refuses; the tag `pages` says what came of it.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE_PAGE);
        Ok(Self { map, start, bytes })
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.bytes]
    }

    pub fn numbers(&mut self) -> &mut [f64] {
        bytemuck::cast_slice_mut(self.bytes())
    }

    pub fn words(&mut self) -> &mut [u64] {
        bytemuck::cast_slice_mut(self.bytes())
    }
}

/// Which pages hold so many bytes that were just touched: `huge`, `base`, or `mixed`.
pub fn pages(root: &Sysroot, bytes: u64) -> &'static str {
    let rollup = root.text("proc/self/smaps_rollup").unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    match kib * 1024 {
        huge if huge >= bytes / 10 * 9 => "huge",
        huge if huge <= bytes / 10 => "base",
        _ => "mixed",
    }
}

/// How many bytes a benchmark may take: half of what is free and of what the control group allows.
pub fn budget(system: &System) -> u64 {
    let free = [system.memory.available_bytes, system.cgroup.memory_limit_bytes];
    free.into_iter().flatten().min().map_or(256 << 20, |bytes| bytes / 2)
}

/// The last-level cache, as far as the machine says it has one: its size, and how many there are.
pub fn last_level(caches: &[Cache]) -> Option<(u64, u64)> {
    let holds_data = |cache: &&Cache| cache.kind != CacheType::Instruction;
    let last = caches.iter().filter(holds_data).max_by_key(|cache| cache.level)?;
    Some((last.size_bytes?, u64::from(last.instances)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;
    use crate::system::Surroundings;

    #[test]
    fn a_buffer_begins_on_a_huge_page_and_is_all_zero() {
        let mut buffer = Buffer::new(3 << 20).unwrap();
        assert_eq!(buffer.bytes().as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(buffer.words().len(), (3 << 20) / 8);
        assert!(buffer.words().iter().all(|&word| word == 0));
        assert!(matches!(Buffer::new(1 << 60), Err(Unable::Failed(_))));
    }

    #[test]
    fn pages_as_the_kernel_counts_them() {
        let said = |kib: &str| {
            let text = format!("00-ff ---p 00:00 0 [rollup]\nAnonHugePages: {kib} kB\n");
            pages(&Tree::new(&[("proc/self/smaps_rollup", &text)]).root(), 100 << 20)
        };
        assert_eq!(said("102400"), "huge");
        assert_eq!(said("51200"), "mixed");
        assert_eq!(said("0"), "base");
        assert_eq!(pages(&Tree::new(&[]).root(), 1 << 20), "base");
    }

    #[test]
    fn half_of_the_smaller_limit_is_the_budget() {
        let mut system = System::read(&Tree::new(&[]).root(), &Surroundings::default());
        assert_eq!(budget(&system), 256 << 20);
        system.memory.available_bytes = Some(8 << 30);
        assert_eq!(budget(&system), 4 << 30);
        system.cgroup.memory_limit_bytes = Some(1 << 30);
        assert_eq!(budget(&system), 512 << 20);
    }

    #[test]
    fn the_last_level_holds_data() {
        let cache = |level, kind, size, instances| Cache {
            level,
            kind,
            size_bytes: Some(size),
            shared_by_cpus: 1,
            instances,
        };
        let caches = [
            cache(1, CacheType::Data, 48 << 10, 4),
            cache(2, CacheType::Unified, 2 << 20, 4),
            cache(3, CacheType::Instruction, 9 << 20, 1),
        ];
        assert_eq!(last_level(&caches), Some((2 << 20, 4)));
        assert_eq!(last_level(&[]), None);
    }
}
