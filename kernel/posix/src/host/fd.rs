//! Host descriptors of objects that processes may share.
//!
//! A host descriptor belongs to a process. A fork copies it, so a child of the process that has
//! opened it has it too, as the same descriptor; no other process has it. Where processes share the
//! kernel, an object with a host descriptor is used by all of them, and so
//!
//! - each process [knows](super::in_use) which object each of its host descriptors belongs to, in
//!   memory that a fork copies as it does the descriptors;
//! - in a process that does not have the descriptor of an object, [`HostFd::get`] returns -1, and
//!   the host answers `EBADF`; one that gets the object in a message gets a descriptor from the
//!   supervisor;
//! - the process that releases the object closes the descriptor, if it has it. Another process that
//!   has it closes it after some more opens ([`close_released`]);
//! - a process that closes its last descriptor of ours for an object that others still use closes
//!   the host's in its own process ([`HostFd::give_up`]), when no call of another thread uses it.
//!
//! A process that has a kernel of its own always has the descriptor.

use std::collections::BTreeSet;
use std::mem;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::host_fork;
use fdtable_shm::{Mutex, MutexGuard};
use fdtable_vfs::event::FileId;
use fdtable_vfs::{Errno, Process};

use crate::host;
use crate::host::in_use::{self, InUse, Until};

/// A host descriptor, and the name of what it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFd {
    fd: RawFd,
    /// Not 0 where processes share the kernel. No other object ever has it.
    name: u64,
}

fdtable_sync::global! {
    /// The name that was given last.
    pub(super) static NAMES: AtomicCell<u64> = AtomicCell::new(0);
}

fdtable_sync::global! {
    /// The names of all objects that are not released.
    pub(super) static LIVING: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
}

/// The host descriptors of what other processes have opened, in the order of their last use.
static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// How many more host descriptors this process gets, of [`MANY`] or above, until it closes those of
/// objects that others have released.
static LEFT: AtomicCell<usize> = AtomicCell::new(0);

/// The least host descriptor with which a process has many.
const MANY: RawFd = 64;

/// A host descriptor of what another process has opened.
#[derive(Clone, Copy)]
struct Opened {
    name: u64,
    fd: RawFd,
    life: Life,
}

/// How long a descriptor stays open that leads to what another process has opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Until many others were used, and no call uses it: it is opened again.
    Cached,
    /// Until the last descriptor of ours is closed.
    Given,
}

/// How many descriptors a process caches, unless calls use more.
const MAX_CACHED: usize = 64;

impl HostFd {
    /// Makes that of a host descriptor that this process has just opened.
    pub(crate) fn new(fd: RawFd) -> Self {
        if !host_fork::shares_memory() {
            return HostFd { fd, name: 0 };
        }
        let name = NAMES.fetch_add(1) + 1;
        {
            let _shared = fdtable_shm::enter();
            LIVING.lock().insert(name);
        }
        // Without a place, `get` returns -1 in this process too.
        let _ = in_use::note(fd, name);
        if is_time_to_close(fd) {
            close_released(&mut OPENED.lock());
        }
        HostFd { fd, name }
    }

    /// Returns the host descriptor, or -1 if this process does not have it. Another thread can
    /// close it at any time, unless descriptors of this kind of object are not [given
    /// up](Self::give_up).
    #[inline]
    pub(crate) fn get(&self) -> RawFd {
        if self.name == 0 || in_use::is_of(self.fd, self.name) {
            self.fd
        } else {
            self.elsewhere().map_or(-1, |used| used.get())
        }
    }

    /// Returns the host descriptor, or -1 if this process does not have it.
    #[inline]
    pub(crate) fn in_use(&self) -> InUse {
        if self.name == 0 {
            return InUse::uncounted(self.fd);
        }
        InUse::begin(self.fd, self.name)
            .or_else(|| self.elsewhere())
            .unwrap_or(InUse::uncounted(-1))
    }

    /// Returns the host descriptor of what another process has opened.
    #[cold]
    fn elsewhere(&self) -> Option<InUse> {
        let mut opened = OPENED.lock();
        loop {
            let index = opened.iter().rposition(|other| other.name == self.name)?;
            let used = opened.remove(index);
            if let Some(in_use) = InUse::begin(used.fd, used.name) {
                opened.push(used);
                return Some(in_use);
            }
            // It was closed at the end of a call.
        }
    }

    /// Returns the host descriptor in the process that has opened the file, and in its children.
    pub(crate) fn of_opener(&self) -> RawFd {
        self.fd
    }

    /// Keeps the descriptor, which calls may still use after it was [given up](Self::give_up).
    /// Returns false if this process does not have it.
    pub(crate) fn hold(&self) -> bool {
        self.name == 0
            || in_use::hold(self.fd, self.name)
            || OPENED
                .lock()
                .iter()
                .any(|other| other.name == self.name && in_use::hold(other.fd, other.name))
    }

    /// Notes that this process has what another one has opened under a descriptor of its own, and
    /// begins to use it. `None` if it cannot, and has closed it.
    pub(super) fn give(&self, fd: RawFd, until: Until) -> Option<InUse> {
        let used = in_use::note_in_use(fd, self.name, until);
        match used {
            Some(_) => self.add_given(fd),
            None => host::close(fd),
        }
        used
    }

    fn add_given(&self, fd: RawFd) {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        opened.push(Opened {
            name: self.name,
            fd,
            life: Life::Given,
        });
        if is_time_to_close(fd) {
            close_released(&mut opened);
        }
    }

    /// Returns the host descriptor. A process that does not have it opens the same file with
    /// `open`, and keeps that open until it has used many others.
    ///
    /// # Errors
    /// Errors of `open`.
    #[inline]
    pub(crate) fn get_or_open(
        &self,
        open: impl Fn() -> Result<RawFd, Errno>,
    ) -> Result<InUse, Errno> {
        if self.name == 0 {
            return Ok(InUse::uncounted(self.fd));
        }
        // This process may have opened the descriptor that the maker of the object has.
        InUse::begin(self.fd, self.name).map_or_else(|| self.open(open), Ok)
    }

    #[cold]
    fn open(&self, open: impl Fn() -> Result<RawFd, Errno>) -> Result<InUse, Errno> {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        let is_known =
            |other: &Opened| other.name == self.name && in_use::is_of(other.fd, other.name);
        let known = opened.iter().rposition(is_known);
        let used = match known {
            Some(index) => opened.remove(index),
            None => {
                close_cached(&mut opened, MAX_CACHED - 1);
                let fd = match open() {
                    Err(Errno::EMFILE) => {
                        close_cached(&mut opened, 0);
                        close_released(&mut opened);
                        open()
                    }
                    done => done,
                }?;
                if !in_use::note(fd, self.name) {
                    host::close(fd);
                    return Err(Errno::EMFILE);
                }
                Opened {
                    name: self.name,
                    fd,
                    life: Life::Cached,
                }
            }
        };
        opened.push(used);
        InUse::begin(used.fd, used.name).ok_or(Errno::EBADF)
    }

    /// Closes the descriptor, if this process has it. No process uses its object any more.
    pub(crate) fn close(&self) {
        if self.name == 0 {
            host::close(self.fd);
            return;
        }
        self.give_up();
        let _shared = fdtable_shm::enter();
        LIVING.lock().remove(&self.name);
    }

    /// Closes the descriptor in this process, which does not use it any more, while others may. If
    /// a call of another thread uses it, it is closed when that ends.
    pub(crate) fn give_up(&self) {
        if self.name == 0 {
            return;
        }
        in_use::close(self.fd, self.name);
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        let is_own = |other: &&Opened| other.name == self.name;
        let fds: Vec<_> = opened.iter().filter(is_own).map(|own| own.fd).collect();
        fds.into_iter().for_each(|fd| in_use::close(fd, self.name));
        // Descriptors that calls use stay in the list, where other calls find them.
        opened.retain(|other| in_use::is_of(other.fd, other.name));
    }
}

/// Closes host descriptors that are cached, the oldest first, until there are at most so many, or
/// calls use all others.
fn close_cached(opened: &mut Vec<Opened>, most: usize) {
    let is_cached = |other: &Opened| other.life == Life::Cached;
    let count = opened.iter().filter(|other| is_cached(other)).count();
    let unused = opened.extract_if(.., |other| is_cached(other) && !in_use::is_used(other.fd));
    unused
        .take(count.saturating_sub(most))
        .for_each(|other| in_use::close(other.fd, other.name));
}

/// Returns true if this process, which has just got this host descriptor, has got so many that it
/// pays to close those of released objects.
fn is_time_to_close(fd: RawFd) -> bool {
    fd >= MANY && LEFT.fetch_update(|left| left.checked_sub(1)).is_err()
}

/// Closes the host descriptors in this process of objects that another one has released.
#[cold]
fn close_released(opened: &mut Vec<Opened>) {
    let _private = fdtable_shm::leave();
    let living = LIVING.lock();
    let is_living = |&(_, name): &(RawFd, u64)| living.contains(&name);
    let (living_fds, released): (Vec<_>, Vec<_>) = in_use::all().partition(is_living);
    drop(living);
    for (fd, name) in released {
        in_use::close(fd, name);
    }
    opened.retain(|other| in_use::is_of(other.fd, other.name));
    LEFT.store(128.max(living_fds.len() / 2));
}

/// Returns a number of this process that no other process with a kernel in the same memory has.
pub(crate) fn generation() -> u32 {
    match host_fork::shares_memory() {
        true => host::process_id().cast_unsigned(),
        false => host_fork::generation(),
    }
}

/// Notes that this process has none of the descriptors that its parent had.
pub(crate) fn forget_all() {
    in_use::forget_all();
    mem::take(&mut *OPENED.lock());
}

/// Returns true where this process has one thread.
static IS_ALONE: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that returns true if the process has one thread. The first call decides; until
/// then, the process may have several.
pub fn tell_threads(is_alone: fn() -> bool) {
    // The first one stays.
    let _ = IS_ALONE.set(is_alone);
}

/// Returns true if this process has one thread.
pub(crate) fn is_alone() -> bool {
    IS_ALONE.get().is_some_and(|is_alone| is_alone())
}

/// Returns true if this process has a descriptor of a file. The caller has the result of
/// [`without_moves`].
pub(crate) fn has_descriptor(process: &Process, file: FileId) -> bool {
    let files = process.files();
    files
        .iter()
        .any(|(_, other, _)| FileId::of(&**other) == file)
}

/// Keeps other threads from duplicating descriptors of the table, and from searching it, until the
/// result is dropped. A search would miss a file that moves meanwhile, from a descriptor not yet
/// looked at to one already passed. `None` if no other thread uses the table.
#[inline]
pub(crate) fn without_moves(process: &Process) -> Option<MutexGuard<'_, ()>> {
    let has_others = || !is_alone() || process.shares_files();
    (host_fork::shares_memory() && has_others()).then(|| process.lock_moves())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_the_descriptor_of_the_maker_is_in_use_too() {
        // The host has no such descriptors.
        let (fd, name) = (910_000, 77);
        let host_fd = HostFd { fd, name };
        drop(host_fd.get_or_open(|| Ok(fd)).expect("it opens"));
        let _used = host_fd.get_or_open(|| Err(Errno::EIO)).expect("it is open");
        close_cached(&mut OPENED.lock(), 0);
        assert!(in_use::is_of(fd, name), "it was closed in use");
    }

    #[test]
    fn what_a_call_uses_is_not_closed() {
        // The host has no such descriptors.
        let cached = |name| {
            let fd = 900_000 + name as RawFd;
            assert!(in_use::note(fd, name));
            let life = Life::Cached;
            Opened { name, fd, life }
        };
        let given = Opened {
            life: Life::Given,
            ..cached(5)
        };
        let mut opened = vec![cached(1), cached(2), given, cached(3), cached(4)];
        let names = |opened: &[Opened]| opened.iter().map(|other| other.name).collect::<Vec<_>>();
        let uses = [0, 4].map(|at| InUse::begin(opened[at].fd, opened[at].name));
        assert!(uses.iter().all(Option::is_some));
        close_cached(&mut opened, 3);
        assert_eq!(names(&opened), [1, 5, 3, 4]);
        close_cached(&mut opened, 0);
        assert_eq!(names(&opened), [1, 5, 4]);
    }
}
