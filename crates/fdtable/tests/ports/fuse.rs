//! The handles of a FUSE server: numbers that it gives the kernel for open files and directories.
//!
//! A passthrough server keeps a map of them behind a lock, with a counter for the next number. A
//! request carries the inode too, and a handle of another inode is refused. The kernel may send a
//! late request for a handle that was released: it must not find the file that was opened since. So
//! handles are private descriptors, which are never reused.

use std::fs::File;
use std::io;

use fdtable::{Error, FileRef, PrivateFd, PrivateFiles};

pub(crate) type Inode = u64;
pub(crate) type Handle = u64;

/// State of an open file of the server.
#[derive(Debug)]
pub(crate) struct HandleData<F = File> {
    inode: Inode,
    pub(crate) file: F,
}

impl<F> HandleData<F> {
    pub(crate) fn new(inode: Inode, file: F) -> Self {
        Self { inode, file }
    }
}

/// The open handles of a mounted file system.
pub(crate) struct HandleMap<F = File>(PrivateFiles<HandleData<F>>);

impl<F: Send + Sync + 'static> HandleMap<F> {
    pub(crate) fn new(limit: u32) -> Self {
        Self(PrivateFiles::with_limit(limit))
    }

    /// Adds an open file, and returns the number for the kernel. Fails with EMFILE.
    pub(crate) fn insert(&self, data: HandleData<F>) -> io::Result<Handle> {
        Ok(self.0.open(FileRef::new(data))?.to_bits())
    }

    /// Finds the file of a handle. Fails with EBADF, also if it is one of another inode. The file
    /// stays open while the request uses it, though the handle is released meanwhile.
    pub(crate) fn get(&self, handle: Handle, inode: Inode) -> io::Result<FileRef<HandleData<F>>> {
        let data = self.0.get(PrivateFd::from_bits(handle))?;
        if data.inode != inode {
            return Err(Error::BadFd.into());
        }
        Ok(data)
    }

    /// Removes a handle. Fails with EBADF. Of two releases one succeeds.
    pub(crate) fn release(&self, handle: Handle, inode: Inode) -> io::Result<()> {
        self.get(handle, inode)?;
        drop(self.0.close(PrivateFd::from_bits(handle))?);
        Ok(())
    }

    /// Removes all handles: the kernel has sent `FUSE_DESTROY`.
    pub(crate) fn clear(&self) {
        for (handle, _) in self.0.iter() {
            // A release that comes at the same time may have removed it.
            self.0.close(handle).map(drop).unwrap_or_default();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.open_count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io::Read;
    use std::sync::Barrier;
    use std::thread;

    /// EBADF of Linux.
    const BAD: Option<i32> = Some(9);

    fn zero() -> HandleData {
        HandleData::new(7, File::open("/dev/zero").expect("the host has it"))
    }

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn a_file_outlives_the_release_of_its_handle() {
        let map = HandleMap::new(16);
        let handle = map.insert(zero()).expect("there is room");
        let data = map.get(handle, 7).expect("it is open");
        map.release(handle, 7).expect("it is open");
        let mut bytes = [1; 4];
        (&data.file).read_exact(&mut bytes).expect("it is open");
        assert_eq!((bytes, map.len()), ([0; 4], 0));
    }

    #[test]
    fn a_late_request_finds_no_other_file() {
        let map = HandleMap::new(1);
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let handle = map.insert(zero()).expect("there is room");
            assert!(seen.insert(handle), "{handle} was given out before");
            map.release(handle, 7).expect("it is open");
            assert_eq!(errno(map.get(handle, 7)), BAD);
            assert_eq!(errno(map.release(handle, 7)), BAD);
        }
        assert_eq!(errno(map.get(0, 7)), BAD);
    }

    #[test]
    fn a_handle_belongs_to_its_inode() {
        let map = HandleMap::new(1);
        let handle = map.insert(zero()).expect("there is room");
        assert_eq!(errno(map.get(handle, 8)), BAD);
        assert_eq!(errno(map.release(handle, 8)), BAD);
        let full = errno(map.insert(zero()));
        assert_eq!(full, Some(24), "EMFILE");
        map.clear();
        assert_eq!((errno(map.get(handle, 7)), map.len()), (BAD, 0));
    }

    #[test]
    fn one_of_two_releases_succeeds() {
        let map = HandleMap::new(64);
        let start = Barrier::new(2);
        for _ in 0..500 {
            let handle = map.insert(zero()).expect("there is room");
            let release = || {
                start.wait();
                usize::from(map.release(handle, 7).is_ok())
            };
            let released = thread::scope(|scope| {
                let other = scope.spawn(release);
                release() + other.join().expect("it ends")
            });
            assert_eq!(released, 1);
        }
        assert_eq!(map.len(), 0);
    }
}
