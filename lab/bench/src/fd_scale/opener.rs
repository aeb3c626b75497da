//! The measured opens: our table bare and under a file system, the baselines, and the host's own.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use fdtable::{Fd, Files, Rcu};
use fdtable_vfs::{MemFs, OpenFlags, Process};
use nix::unistd::dup;

use super::range::{Measured, Opener, Range};
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::host;
use crate::table::{NewFile, Table};

pub(super) const BARE: &str = "fdtable";
pub(super) const VFS: &str = "fdtable, open of a file";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(super) const HOST: &str = "the host, dup";
pub(super) const CLOCK: &str = "the clock alone";

/// Creates every range but the host's, for up to `most` descriptors, all closed.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<Box<dyn Measured>>> {
    let file_system = OpenFile::new(most)?;
    Ok(vec![
        Box::new(Range::new(Bare::<Files<Rcu<u64>>>::new(most), most)),
        Box::new(Range::new(file_system, most)),
        Box::new(Range::new(Bare::<RwLockBitmap<u64>>::new(most), most)),
        Box::new(Range::new(Bare::<RwLockVec<u64>>::new(most), most)),
        Box::new(Range::new(Nothing, most)),
    ])
}

/// Creates the range of the host's own descriptors, up to the hard limit.
pub(super) fn host() -> anyhow::Result<Box<dyn Measured>> {
    let most = host::raise_limit()?;
    let dup = Dup {
        original: File::open("/dev/null")?,
    };
    Ok(Box::new(Range::new(dup, most)))
}

/// Opens an existing object on a bare table: a further reference to it.
struct Bare<Tb: Table<u64>> {
    table: Tb,
    object: Tb::Ref,
}

impl<Tb: NewFile<u64, u64>> Bare<Tb> {
    fn new(most: u32) -> Self {
        Bare {
            table: Tb::with_limit(most),
            object: Tb::new_file(0),
        }
    }
}

macro_rules! opener_of_bare_table {
    ($table:ty, $name:expr) => {
        impl Opener for Bare<$table> {
            type Ready = <$table as Table<u64>>::Ref;
            type Opened = RawFd;
            const NAME: &'static str = $name;

            fn prepare(&mut self) -> Self::Ready {
                self.object.clone()
            }

            #[inline]
            fn open(&mut self, ready: Self::Ready) -> anyhow::Result<RawFd> {
                Ok(Table::open(&self.table, ready)?)
            }

            fn number(opened: &RawFd) -> RawFd {
                *opened
            }

            #[inline]
            fn close(&mut self, opened: RawFd) -> anyhow::Result<()> {
                Ok(Table::close(&self.table, opened)?)
            }
        }
    };
}

opener_of_bare_table!(Files<Rcu<u64>>, BARE);
opener_of_bare_table!(RwLockBitmap<u64>, FILES_STRUCT);
opener_of_bare_table!(RwLockVec<u64>, RWLOCK_VEC);

/// Opens a file by its name, like `sys_open` in the original.
struct OpenFile {
    process: Process,
}

impl OpenFile {
    const FILE: &str = "file";

    fn new(most: u32) -> anyhow::Result<Self> {
        let process = Process::with(Files::with_limit(most), MemFs::default());
        process.close(process.open(Self::FILE, OpenFlags::CREAT)?)?;
        Ok(OpenFile { process })
    }
}

impl Opener for OpenFile {
    type Ready = ();
    type Opened = Fd;
    const NAME: &'static str = VFS;

    fn prepare(&mut self) {}

    #[inline]
    fn open(&mut self, (): ()) -> anyhow::Result<Fd> {
        Ok(self.process.open(Self::FILE, OpenFlags::RDONLY)?)
    }

    fn number(opened: &Fd) -> RawFd {
        opened.raw()
    }

    #[inline]
    fn close(&mut self, opened: Fd) -> anyhow::Result<()> {
        Ok(self.process.close(opened)?)
    }
}

/// Duplicates a descriptor of the host: the cheapest system call that allocates a descriptor.
struct Dup {
    original: File,
}

impl Opener for Dup {
    type Ready = ();
    type Opened = OwnedFd;
    const NAME: &'static str = HOST;

    fn prepare(&mut self) {}

    #[inline]
    fn open(&mut self, (): ()) -> anyhow::Result<OwnedFd> {
        Ok(dup(&self.original)?)
    }

    fn number(opened: &OwnedFd) -> RawFd {
        opened.as_raw_fd()
    }

    #[inline]
    fn close(&mut self, opened: OwnedFd) -> anyhow::Result<()> {
        drop(opened);
        Ok(())
    }
}

/// Opens nothing: only the clock is measured.
struct Nothing;

impl Opener for Nothing {
    type Ready = ();
    type Opened = RawFd;
    const NAME: &'static str = CLOCK;

    fn prepare(&mut self) {}

    #[inline]
    fn open(&mut self, (): ()) -> anyhow::Result<RawFd> {
        Ok(0)
    }

    fn number(opened: &RawFd) -> RawFd {
        *opened
    }

    #[inline]
    fn close(&mut self, _opened: RawFd) -> anyhow::Result<()> {
        Ok(())
    }
}
