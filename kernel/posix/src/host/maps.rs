//! Mappings of this process, as the host lists them in `/proc/self/maps`.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// A line of the list.
pub struct Mapping<'l> {
    /// Addresses.
    pub range: Range<u64>,
    /// Rights, and whether it is private.
    pub permissions: &'l str,
    /// Place in the file.
    pub offset: u64,
    /// Device and inode.
    pub file: &'l str,
    /// Path, or what it is for, in brackets.
    pub name: &'l str,
}

/// Returns the list; empty if the host does not show it. Names that are not UTF-8 have `\u{FFFD}`.
pub fn read() -> String {
    // Room for most lists: one that grows takes a call of the host for each size.
    let mut list = Vec::with_capacity(16 << 10);
    let read = File::open("/proc/self/maps").and_then(|mut file| file.read_to_end(&mut list));
    read.map_or_else(
        |_| String::new(),
        |_| String::from_utf8_lossy(&list).into_owned(),
    )
}

/// Returns the lines of a list.
pub fn parse(list: &str) -> impl Iterator<Item = Mapping<'_>> {
    list.lines().filter_map(Mapping::parse)
}

impl<'l> Mapping<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let (permissions, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let device = rest.find(' ')?;
        let inode = rest[device + 1..].find(' ');
        let file_end = inode.map_or(rest.len(), |inode| device + 1 + inode);
        Some(Self {
            range: number(begin)?..number(end)?,
            permissions,
            offset: number(offset)?,
            file: &rest[..file_end],
            name: rest[file_end..].trim_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::ptr;

    use super::*;

    #[test]
    fn a_name_that_is_not_utf_8_hides_no_mapping() {
        let name = format!("fdtable-maps-{}-", std::process::id());
        let path =
            std::env::temp_dir().join(OsStr::from_bytes(&[name.as_bytes(), b"\xff"].concat()));
        fs::write(&path, [0; 4096]).expect("a file");
        let file = File::open(&path).expect("it is there");
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a mapping at a new place.
        let at = unsafe { libc::mmap(ptr::null_mut(), 4096, read, private, file.as_raw_fd(), 0) };
        let list = super::read();
        // SAFETY: nothing else uses the mapping.
        unsafe { libc::munmap(at, 4096) };
        fs::remove_file(&path).expect("it is there");
        let mut shown = parse(&list);
        let found = shown.find(|mapping| mapping.range.start == at.addr() as u64);
        assert!(found.is_some_and(|mapping| mapping.name.contains(&name)));
    }
}
