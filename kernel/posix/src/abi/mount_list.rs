//! The list of mounts in the environment variable `FDT_MOUNT`.
//!
//! `FDT_MOUNT=/a:/b,mode=0750,size=64m` has two mounts. Options follow a path after commas, as for
//! a `tmpfs` in `mount(8)`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::host;

/// Mount point if `FDT_MOUNT` is not set.
const DEFAULT_MOUNT: &[u8] = b"/fdt";

/// Options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountOptions {
    /// Permission bits of the root directory.
    pub(crate) mode: u32,
    /// Most bytes of all files.
    pub(crate) size: u64,
}

impl Default for MountOptions {
    /// Returns the options of a `tmpfs`.
    fn default() -> Self {
        MountOptions {
            mode: 0o1777,
            size: host::half_of_memory(),
        }
    }
}

/// Entry of the list.
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    /// Options, or the text of the one that is not valid.
    pub(crate) options: Result<MountOptions, Vec<u8>>,
}

/// Returns the entries of the environment.
pub(crate) fn of_environment() -> Vec<Entry> {
    let list = std::env::var_os("FDT_MOUNT").map(OsString::into_vec);
    let list = list.unwrap_or_else(|| DEFAULT_MOUNT.to_vec());
    let entries = list.split(|&byte| byte == b':');
    entries
        .filter(|entry| !entry.is_empty())
        .map(parse)
        .collect()
}

fn parse(entry: &[u8]) -> Entry {
    let mut parts = entry.split(|&byte| byte == b',');
    let path = parts.next().unwrap_or_default().to_vec();
    let mut options = MountOptions::default();
    let invalid = parts.find(|option| set(&mut options, option).is_none());
    Entry {
        path,
        options: invalid.map_or(Ok(options), |option| Err(option.to_vec())),
    }
}

/// Sets an option. Returns nothing if there is no such option, or its value is not valid.
fn set(options: &mut MountOptions, option: &[u8]) -> Option<()> {
    let (name, value) = str::from_utf8(option).ok()?.split_once('=')?;
    match name {
        "mode" => {
            let mode = u32::from_str_radix(value, 8).ok()?;
            options.mode = Some(mode).filter(|mode| *mode <= 0o7777)?;
        }
        "size" => options.size = bytes(value)?,
        _ => return None,
    }
    Some(())
}

/// Reads a number of bytes, which may have the suffix `k`, `m` or `g`.
fn bytes(value: &str) -> Option<u64> {
    let (number, unit) = match value.char_indices().last()? {
        (end, 'k' | 'K') => (&value[..end], 1 << 10),
        (end, 'm' | 'M') => (&value[..end], 1 << 20),
        (end, 'g' | 'G') => (&value[..end], 1 << 30),
        _ => (value, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(entry: &str) -> Result<MountOptions, Vec<u8>> {
        let entry = parse(entry.as_bytes());
        assert_eq!(entry.path, b"/a");
        entry.options
    }

    #[test]
    fn a_mount_without_options_has_those_of_a_tmpfs() {
        assert_eq!(options("/a"), Ok(MountOptions::default()));
        assert_eq!(options("/a").unwrap().mode, 0o1777);
    }

    #[test]
    fn options_follow_the_path_in_any_order() {
        let (mode, size) = (0o750, 64 << 20);
        let expected = Ok(MountOptions { mode, size });
        assert_eq!(options("/a,mode=0750,size=64m"), expected);
        assert_eq!(options("/a,size=65536k,mode=750"), expected);
        assert_eq!(options("/a,size=4096").unwrap().size, 4096);
        assert_eq!(options("/a,size=2g").unwrap().size, 2 << 30);
    }

    #[test]
    fn an_option_that_is_not_valid_is_named() {
        for bad in [
            "mode=8",
            "mode=10000",
            "mode",
            "size=",
            "size=m",
            "size=1x",
            "size=99999999999g",
            "uid=1",
            "",
        ] {
            let entry = format!("/a,mode=0700,{bad}");
            assert_eq!(options(&entry), Err(bad.as_bytes().to_vec()));
        }
    }
}
