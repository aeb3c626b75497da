//! Tables as `fd-scale` and `grow` open descriptors in them, one by one, each timed alone.

use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::{close, dup};

use crate::table::{NewFile, Table};

pub(crate) const OURS: &str = "fdtable";
pub(crate) const FILES_STRUCT: &str = "files_struct under a rwlock";
pub(crate) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(crate) const HOST: &str = "the host, dup";
pub(crate) const CLOCK: &str = "the clock alone";

/// The operations that a measured table provides.
pub(crate) trait Opener: Send + Sync {
    /// Input of an open, prepared before the clock starts.
    type Ready: Send;

    fn prepare(&self) -> Self::Ready;
    fn open(&self, ready: Self::Ready) -> anyhow::Result<RawFd>;
    /// Closes a descriptor, and returns the input of an open that follows.
    fn close(&self, _fd: RawFd) -> anyhow::Result<Self::Ready> {
        Ok(self.prepare())
    }
    /// Returns true if `fd` was found.
    #[cfg_attr(
        not(feature = "experiments"),
        expect(dead_code, reason = "`grow` looks up")
    )]
    fn look_up(&self, _fd: RawFd) -> bool {
        true
    }
}

/// Opens an existing object on a bare table: a further reference to it.
pub(crate) struct Bare<Tb: Table<u64>> {
    table: Tb,
    object: Tb::Ref,
}

impl<Tb: NewFile<u64, u64>> Bare<Tb> {
    pub(crate) fn new(most: u32) -> Self {
        Bare {
            table: Tb::with_limit(most),
            object: Tb::new_file(1),
        }
    }
}

impl<Tb: Table<u64>> Opener for Bare<Tb> {
    type Ready = Tb::Ref;

    fn prepare(&self) -> Tb::Ref {
        self.object.clone()
    }

    #[inline]
    fn open(&self, ready: Tb::Ref) -> anyhow::Result<RawFd> {
        Ok(self.table.open(ready)?)
    }

    #[inline]
    fn close(&self, fd: RawFd) -> anyhow::Result<Tb::Ref> {
        Ok(self.table.take(fd)?)
    }

    #[inline]
    fn look_up(&self, fd: RawFd) -> bool {
        self.table.with(fd, |value| *value) == Ok(1)
    }
}

/// Duplicates a descriptor of the host: the cheapest system call that allocates a descriptor.
pub(crate) struct Dup(File);

impl Dup {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Dup(File::open("/dev/null")?))
    }
}

impl Opener for Dup {
    type Ready = ();

    fn prepare(&self) {}

    #[inline]
    fn open(&self, (): ()) -> anyhow::Result<RawFd> {
        Ok(dup(&self.0)?.into_raw_fd())
    }

    #[inline]
    fn close(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(close(fd)?)
    }

    /// Looks up the original descriptor for any argument: the path in the kernel is the same.
    #[inline]
    fn look_up(&self, _fd: RawFd) -> bool {
        fcntl(&self.0, FcntlArg::F_GETFD).is_ok()
    }
}

/// Opens nothing: only the clock and the machine are measured.
pub(crate) struct Nothing;

impl Opener for Nothing {
    type Ready = ();

    fn prepare(&self) {}

    #[inline]
    fn open(&self, (): ()) -> anyhow::Result<RawFd> {
        Ok(0)
    }
}
