//! The growing subjects: our table, the baselines, the host's own, and nothing.

use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};

use fdtable::{Files, Rcu};
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::dup;

use super::run::{Growing, Run, grow};
use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::host;
use crate::table::{NewFile, Table};

pub(super) const OURS: &str = "fdtable";
pub(super) const ANY: &str = "fdtable, any free number";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock";
pub(super) const HOST: &str = "the host, dup";
pub(super) const CLOCK: &str = "the clock alone";

/// Descriptors below the limit beyond those needed: CPUs may reserve some.
const SPARE: u32 = 4096;

/// One growing subject.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) most: u32,
    /// Creates an empty table and grows it; none where the host refuses.
    pub(super) grow: fn(u32) -> anyhow::Result<Option<Run>>,
}

/// Lists every subject, for `most` descriptors or as many as the host allows.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<Subject>> {
    let host_most = host::raise_limit()?.min(most);
    let subject = |name, most, grow| Subject { name, most, grow };
    Ok(vec![
        subject(OURS, most, grow_table::<Files<Rcu<u64>>>),
        subject(ANY, most, grow_table::<AnyFree<u64>>),
        subject(RWLOCK_VEC, most, grow_table::<RwLockVec<u64>>),
        subject(FILES_STRUCT, most, grow_table::<RwLockBitmap<u64>>),
        subject(HOST, host_most, grow_host),
        subject(CLOCK, most, |most| grow(&Nothing, most).map(Some)),
    ])
}

fn grow_table<Tb: NewFile<u64, u64>>(most: u32) -> anyhow::Result<Option<Run>> {
    let bare = Bare::<Tb> {
        table: Tb::with_limit(most.saturating_add(SPARE)),
        object: Tb::new_file(1),
    };
    grow(&bare, most).map(Some)
}

fn grow_host(most: u32) -> anyhow::Result<Option<Run>> {
    host::with_own_table(|| {
        let original = File::open("/dev/null")?;
        grow(&Dup { original }, most)
    })
}

/// Opens further references to one object, prepared before the clock starts.
struct Bare<Tb: Table<u64>> {
    table: Tb,
    object: Tb::Ref,
}

impl<Tb: Table<u64>> Growing for Bare<Tb> {
    type Ready = Tb::Ref;

    fn prepare(&self) -> Tb::Ref {
        self.object.clone()
    }

    #[inline]
    fn open(&self, ready: Tb::Ref) -> anyhow::Result<RawFd> {
        Ok(self.table.open(ready)?)
    }

    #[inline]
    fn look_up(&self, fd: RawFd) -> bool {
        self.table.with(fd, |value| *value) == Ok(1)
    }
}

/// Duplicates a descriptor of the host. All are closed with the table.
struct Dup {
    original: File,
}

impl Growing for Dup {
    type Ready = ();

    fn prepare(&self) {}

    #[inline]
    fn open(&self, (): ()) -> anyhow::Result<RawFd> {
        Ok(dup(&self.original)?.into_raw_fd())
    }

    /// Looks up the original descriptor for any argument: the path in the kernel is the same.
    #[inline]
    fn look_up(&self, _fd: RawFd) -> bool {
        fcntl(&self.original, FcntlArg::F_GETFD).is_ok()
    }
}

/// Opens nothing: only the clock and the machine are measured.
struct Nothing;

impl Growing for Nothing {
    type Ready = ();

    fn prepare(&self) {}

    #[inline]
    fn open(&self, (): ()) -> anyhow::Result<RawFd> {
        Ok(0)
    }

    #[inline]
    fn look_up(&self, _fd: RawFd) -> bool {
        true
    }
}
