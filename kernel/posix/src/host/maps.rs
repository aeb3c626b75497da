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

/// Returns the list; empty if the host does not show it.
pub fn read() -> String {
    // Room for most lists: one that grows takes a call of the host for each size.
    let mut list = String::with_capacity(16 << 10);
    let read = File::open("/proc/self/maps").and_then(|mut file| file.read_to_string(&mut list));
    read.map_or_else(|_| String::new(), |_| list)
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
