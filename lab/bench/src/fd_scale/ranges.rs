//! The measured ranges: our table bare and under a file system, the baselines, and the host's own.

use std::os::fd::RawFd;

use fdtable::{Files, Rcu};
use fdtable_vfs::{MemFs, OpenFlags, Process};

use super::range::{Measured, Range};
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::host;
use crate::opener::{Bare, CLOCK, Dup, FILES_STRUCT, HOST, Nothing, OURS, Opener, RWLOCK_VEC};

pub(super) const VFS: &str = "fdtable, open of a file";

/// Creates every range but the host's, for up to `most` descriptors, all closed.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<Box<dyn Measured>>> {
    fn range(name: &'static str, opener: impl Opener + 'static, most: u32) -> Box<dyn Measured> {
        Box::new(Range::new(name, opener, most))
    }
    Ok(vec![
        range(OURS, Bare::<Files<Rcu<u64>>>::new(most), most),
        range(VFS, OpenFile::new(most)?, most),
        range(FILES_STRUCT, Bare::<RwLockBitmap<u64>>::new(most), most),
        range(RWLOCK_VEC, Bare::<RwLockVec<u64>>::new(most), most),
        range(CLOCK, Nothing, most),
    ])
}

/// Creates the range of the host's own descriptors, up to the hard limit.
pub(super) fn host() -> anyhow::Result<Box<dyn Measured>> {
    let most = host::raise_limit()?;
    Ok(Box::new(Range::new(HOST, Dup::new()?, most)))
}

/// Opens a file by its name, like `sys_open` in the original.
struct OpenFile(Process);

impl OpenFile {
    const FILE: &str = "file";

    fn new(most: u32) -> anyhow::Result<Self> {
        let process = Process::with(Files::with_limit(most), MemFs::default());
        process.close(process.open(Self::FILE, OpenFlags::CREAT)?)?;
        Ok(OpenFile(process))
    }
}

impl Opener for OpenFile {
    type Ready = ();

    fn prepare(&self) {}

    #[inline]
    fn open(&self, (): ()) -> anyhow::Result<RawFd> {
        Ok(self.0.open(Self::FILE, OpenFlags::RDONLY)?.raw())
    }

    #[inline]
    fn close(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(self.0.close(fd)?)
    }
}
