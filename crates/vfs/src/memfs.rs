//! A file system in memory: names without directories.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::regular::{self, Inode, RegularFile};
use crate::{Errno, OpenFlags};

/// File system in memory. A name is any string but the empty one; `/` means nothing in it.
#[derive(Debug)]
pub struct MemFs {
    inodes: RwLock<HashMap<Box<str>, Arc<Inode>>>,
    file_limit: usize,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::with_file_limit(regular::DEFAULT_LIMIT)
    }
}

impl MemFs {
    /// Makes an empty file system whose files grow to `limit` bytes at most.
    #[doc(alias = "RLIMIT_FSIZE")]
    pub fn with_file_limit(limit: usize) -> Self {
        MemFs {
            inodes: RwLock::default(),
            file_limit: limit,
        }
    }

    /// Opens the file `name`. Allocates; may wait for other calls on the file system.
    ///
    /// # Errors
    /// - `ENOENT` if there is none and `flags` lacks `CREAT`, or the name is empty.
    /// - `EEXIST` if there is one and `flags` has `CREAT` and `EXCL`.
    /// - `EINVAL` if the access mode is 3.
    pub fn open(&self, name: &str, flags: OpenFlags) -> Result<RegularFile, Errno> {
        if flags.contains(OpenFlags::ACCMODE) {
            return Err(Errno::EINVAL);
        }
        let inode = self.find(name, flags)?;
        if flags.contains(OpenFlags::TRUNC) {
            inode.truncate();
        }
        Ok(RegularFile::new(inode, flags))
    }

    /// Finds or creates the inode.
    fn find(&self, name: &str, flags: OpenFlags) -> Result<Arc<Inode>, Errno> {
        if name.is_empty() {
            return Err(Errno::ENOENT);
        }
        if !flags.contains(OpenFlags::CREAT) {
            return self.inodes.read().get(name).cloned().ok_or(Errno::ENOENT);
        }
        match self.inodes.write().entry(name.into()) {
            Entry::Occupied(_) if flags.contains(OpenFlags::EXCL) => Err(Errno::EEXIST),
            Entry::Occupied(found) => Ok(Arc::clone(found.get())),
            Entry::Vacant(free) => Ok(Arc::clone(
                free.insert(Arc::new(Inode::new(self.file_limit))),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn a_file_is_there_once_it_was_created() {
        let fs = MemFs::default();
        assert_eq!(fs.open("a", OpenFlags::RDONLY).unwrap_err(), Errno::ENOENT);
        fs.open("a", OpenFlags::CREAT).unwrap();
        fs.open("a", OpenFlags::RDONLY).unwrap();
        assert_eq!(fs.open("b", OpenFlags::RDONLY).unwrap_err(), Errno::ENOENT);
    }

    #[test]
    fn an_exclusive_creation_refuses_a_file_that_exists() {
        let fs = MemFs::default();
        let exclusive = OpenFlags::CREAT | OpenFlags::EXCL;
        fs.open("a", exclusive).unwrap();
        assert_eq!(fs.open("a", exclusive).unwrap_err(), Errno::EEXIST);
        fs.open("a", OpenFlags::CREAT).unwrap();
    }

    #[test]
    fn two_opens_of_a_name_see_the_same_bytes() {
        let fs = MemFs::default();
        let one = fs.open("a", OpenFlags::CREAT | OpenFlags::WRONLY).unwrap();
        one.write(b"same").unwrap();
        for flags in [OpenFlags::RDONLY, OpenFlags::CREAT] {
            let mut buf = [0; 8];
            assert_eq!(fs.open("a", flags).unwrap().read(&mut buf), Ok(4));
            assert_eq!(&buf[..4], b"same");
        }
    }

    #[test]
    fn truncation_empties_the_file_and_its_absence_does_not() {
        let fs = MemFs::default();
        let file = fs.open("a", OpenFlags::CREAT | OpenFlags::RDWR).unwrap();
        file.write(b"old").unwrap();
        fs.open("a", OpenFlags::CREAT | OpenFlags::RDWR).unwrap();
        let length = || file.seek(std::io::SeekFrom::End(0));
        assert_eq!(length(), Ok(3));
        fs.open("a", OpenFlags::RDWR | OpenFlags::TRUNC).unwrap();
        assert_eq!(length(), Ok(0));
    }

    #[test]
    fn a_refused_open_creates_nothing() {
        let fs = MemFs::default();
        let refused = fs.open("a", OpenFlags::CREAT | OpenFlags::ACCMODE);
        assert_eq!(refused.unwrap_err(), Errno::EINVAL);
        assert_eq!(fs.open("", OpenFlags::CREAT).unwrap_err(), Errno::ENOENT);
        assert_eq!(fs.open("a", OpenFlags::RDONLY).unwrap_err(), Errno::ENOENT);
    }
}
