//! This process's memory, as Linux tells it.

use warpforge_golden_protocol::training::Memory;

pub fn now() -> Memory {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { resident_bytes: field(&text, "VmRSS:"), peak_bytes: field(&text, "VmHWM:") }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_memory() {
        let Memory { resident_bytes, peak_bytes } = now();
        assert!(resident_bytes.unwrap() > 1_000_000 && peak_bytes >= resident_bytes);
        assert_eq!(field("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12 * 1024));
        assert_eq!(field("VmRSS:\t  12 MB\n", "VmRSS:"), None);
    }
}
