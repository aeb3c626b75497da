//! The system memory that a heap uses for its objects.

use std::fs;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::objects::{Objects, Words};

/// Memory of many objects.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Footprint {
    /// Size of an object, in bytes.
    pub(crate) bytes: usize,
    /// Live objects.
    pub(crate) live: usize,
    /// Bytes by which the resident set has grown.
    pub(crate) resident: usize,
    /// Bytes that the heap has from the system, if it reports them.
    pub(crate) taken: Option<usize>,
}

impl Footprint {
    /// Returns the bytes beyond the objects, as a fraction of the objects' own.
    pub(super) fn overhead(&self) -> f64 {
        let taken = self.resident.max(self.taken.unwrap_or(0));
        taken as f64 / (self.bytes * self.live) as f64 - 1.0
    }
}

/// Fills `objects` with `live` written ones and reads the resident set size before and after.
/// Returns none where the system does not report it.
pub(super) fn measure_memory<const N: usize, O: Objects<Words<N>>>(
    objects: &O,
    live: usize,
) -> anyhow::Result<Option<Footprint>> {
    // Written, so that it is resident before the first measurement.
    let mut held: Vec<_> = (0..live).map(|_| None).collect();
    let Some(before) = resident()? else {
        return Ok(None);
    };
    for (n, place) in held.iter_mut().enumerate() {
        let object = objects.insert(Words::new([n as u64; N]));
        *place = Some(object.with_context(|| format!("no memory for object {n}"))?);
    }
    let after = resident()?.context("the system reported it before")?;
    let footprint = Footprint {
        bytes: size_of::<Words<N>>(),
        live,
        resident: after.saturating_sub(before),
        taken: objects.bytes_taken(),
    };
    for object in held.into_iter().flatten() {
        objects.remove(object);
    }
    Ok(Some(footprint))
}

/// Returns the bytes of the resident set, or none where the system does not report them. Does not
/// use `statm`, which lags behind by some pages of each CPU.
fn resident() -> anyhow::Result<Option<usize>> {
    let Ok(text) = fs::read_to_string("/proc/self/smaps_rollup") else {
        return Ok(None);
    };
    let bytes = parse_resident(&text).context("smaps_rollup has no resident set")?;
    Ok(Some(bytes))
}

/// Finds `Rss:    1234 kB`, in bytes.
fn parse_resident(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_is_read_as_the_kernel_writes_it() {
        let text = "55d8-7ffe ---p 00000000 00:00 0      [rollup]\n\
                    Rss:                1892 kB\n\
                    Pss:                 511 kB\n";
        assert_eq!(parse_resident(text), Some(1892 << 10));
        assert_eq!(parse_resident("Pss: 511 kB\n"), None);
        assert_eq!(parse_resident("Rss: many kB\n"), None);
    }

    #[test]
    fn overhead_takes_the_larger_of_two_reports() {
        let of = |resident, taken| {
            let footprint = Footprint {
                bytes: 64,
                live: 1000,
                resident,
                taken,
            };
            footprint.overhead()
        };
        assert_eq!(of(64_000, None), 0.0);
        assert_eq!(of(128_000, Some(96_000)), 1.0);
        assert_eq!(of(64_000, Some(96_000)), 0.5);
    }
}
