//! Eviction of everything from the CPU's caches.

use std::fs;
use std::hint::black_box;

/// Least memory that is overwritten: 64 MiB.
const LEAST: usize = 64 << 20;

/// Words of a cache line.
const LINE: usize = 8;

/// A buffer larger than all caches.
pub(crate) struct Cache {
    lines: Vec<[u64; LINE]>,
}

impl Cache {
    /// Allocates the buffer.
    pub(crate) fn new() -> Self {
        Cache {
            lines: vec![[1; LINE]; Self::bytes_to_overwrite() / size_of::<[u64; LINE]>()],
        }
    }

    /// Returns how many bytes are overwritten: twice the largest cache, and 64 MiB at least.
    pub(crate) fn bytes_to_overwrite() -> usize {
        largest_cache().map_or(LEAST, |bytes| LEAST.max(bytes * 2))
    }

    /// Reads and overwrites one word of each line. This evicts everything else from the caches, and
    /// most entries of the TLBs. Takes some milliseconds.
    pub(crate) fn trash(&mut self) {
        for line in &mut self.lines {
            line[0] = line[0].wrapping_mul(3);
        }
        black_box(&mut self.lines);
    }
}

/// Reads the size of the first CPU's largest cache, in bytes.
fn largest_cache() -> Option<usize> {
    let size = |index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        parse_size(&fs::read_to_string(path).ok()?)
    };
    (0..8).filter_map(size).max()
}

/// Parses `32768K` or `32M`.
fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    Some(number.parse::<usize>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_size("32768K\n"), Some(32 << 20));
        assert_eq!(parse_size("260M"), Some(260 << 20));
        assert_eq!(parse_size("garbage"), None);
    }

    #[test]
    fn the_stretch_is_never_smaller_than_the_least() {
        assert!(Cache::bytes_to_overwrite() >= LEAST);
    }

    #[test]
    fn trashing_writes_every_line() {
        let mut cache = Cache {
            lines: vec![[1; LINE]; 10],
        };
        cache.trash();
        assert!(cache.lines.iter().all(|line| line[0] == 3));
    }
}
