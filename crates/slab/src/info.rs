//! The figures of a cache, like a line of `/proc/slabinfo`.

use core::fmt;

use super::chunk::CHUNK;

/// Snapshot of the figures of one cache; other threads allocate and free meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name that the cache was given.
    pub name: &'static str,
    /// The size of an object, in bytes.
    pub object_size: usize,
    /// Objects with users.
    pub in_use: usize,
    /// Objects in all slabs, in use or free.
    pub objects: usize,
    /// Objects in one slab, 1 or more.
    pub objects_per_slab: usize,
    /// Slabs, of 64 KiB each, or of a page without `std`.
    pub slabs: usize,
    /// Different distances at which the first object of a slab is, 1 or more.
    pub colours: usize,
    /// Allocations that found an object in a magazine of their CPU.
    pub hits: u64,
    /// Allocations that did not.
    pub misses: u64,
    /// Memory that the cache has taken, in bytes: slabs and magazines.
    pub bytes: usize,
}

impl Info {
    /// The names of the columns, for a list of rows as [`Display`](fmt::Display) prints them.
    pub const HEADER: &'static str = "cache                      in use    objects    size  \
        per slab    slabs  colours           hits     misses   hit %        bytes";

    /// Returns the memory of the objects with users, in bytes: their share of their slabs.
    #[must_use]
    pub fn bytes_in_use(&self) -> usize {
        self.in_use * CHUNK / self.objects_per_slab
    }

    /// Returns the share of allocations that found an object in a magazine of their CPU, 0 to 1; 1
    /// if there were none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 1.0,
            all => self.hits as f64 / all as f64,
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<22} {:>10} {:>10} {:>7} {:>9} {:>8} {:>8} {:>14} {:>10} {:>7.2} {:>12}",
            self.name,
            self.in_use,
            self.objects,
            self.object_size,
            self.objects_per_slab,
            self.slabs,
            self.colours,
            self.hits,
            self.misses,
            self.hit_rate() * 100.0,
            self.bytes
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_wide_as_their_header() {
        let info = Info {
            name: "files",
            object_size: 104,
            in_use: 1,
            objects: 608,
            objects_per_slab: 608,
            slabs: 1,
            colours: 33,
            hits: 3,
            misses: 1,
            bytes: 65536,
        };
        let row = info.to_string();
        assert_eq!(row.len(), Info::HEADER.len());
        assert!(row.contains(" 75.00 "), "{row}");
        let ends = |line: &str| {
            let boundaries = line.match_indices(' ').map(|(at, _)| at);
            boundaries
                .filter(|&at| at > 22 && &line[at - 1..at] != " ")
                .collect::<Vec<_>>()
        };
        // The columns "in use", "per slab" and "hit %" have a space in their name.
        assert!(
            ends(&row)
                .iter()
                .all(|end| ends(Info::HEADER).contains(end)),
            "{row}"
        );
    }
}
