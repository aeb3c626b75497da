//! Host descriptors of objects that processes may share.
//!
//! A host descriptor belongs to a process. A fork copies it, so a child of the process that has
//! opened it has it too, under the same number; no other process has. Where processes share the
//! kernel, an object with a host descriptor is used by all of them, and so
//!
//! - each process knows which object each of its host descriptors belongs to, in memory that a fork
//!   copies as it does the descriptors;
//! - in a process that does not have the descriptor of an object, its number is -1, and the host
//!   answers `EBADF`; one that gets the object in a message gets a descriptor from the keeper;
//! - the process that releases the object closes the descriptor, if it has it. Another process that
//!   has it closes it after some more opens ([`close_released`]);
//! - a process that closes its last descriptor of ours for an object that others still use closes
//!   the host's in its own process ([`Number::give_up`]). Another thread may be about to use the
//!   number: so until this process has one thread it is not free, but leads to a file that is of no
//!   use.
//!
//! Where each process has its own kernel, the number is always its own.

use std::collections::BTreeSet;
use std::mem;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{FileRef, host_fork};
use fdtable_shm::{Mutex, MutexGuard};
use fdtable_vfs::event::FileId;
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::system::System;
use crate::host;
use crate::host::file::HostFile;

/// A host descriptor, and the name of what it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
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

/// The names of what the host descriptors of this process belong to, or 0, by number.
static OWN: [OnceLock<Box<Part>>; PARTS] = [const { OnceLock::new() }; PARTS];

/// Host descriptors that lead to nothing until the process has one thread.
static USELESS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

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
    /// How many [`InUse`] there are of it.
    uses: usize,
}

/// How long a descriptor stays open that leads to what another process has opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Until many others were used, and no call uses it: it is opened again.
    Cached,
    /// Until the last descriptor of ours is closed.
    Given,
}

/// How many a process keeps that are cached, unless calls use more.
const KEPT: usize = 64;

/// Host descriptor that stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    fd: RawFd,
    /// Not 0 if it is [opened](OPENED).
    name: u64,
}

type Part = [AtomicCell<u64>; PART];

/// How many numbers a part has.
const PART: usize = 1024;

/// How many parts there are: for a million numbers, which is the host's largest limit unless its
/// administrator raises it.
const PARTS: usize = 1024;

/// Returns the place of a number, if it has one.
fn place(fd: RawFd) -> Option<&'static AtomicCell<u64>> {
    let index = usize::try_from(fd).ok()?;
    let part = OWN.get(index / PART)?.get_or_init(|| {
        let _private = fdtable_shm::leave();
        Box::new([const { AtomicCell::new(0) }; PART])
    });
    Some(&part[index % PART])
}

impl Number {
    /// Makes that of a host descriptor that this process has just opened.
    pub(crate) fn new(fd: RawFd) -> Self {
        if !host_fork::shares_memory() {
            return Number { fd, name: 0 };
        }
        let name = NAMES.fetch_add(1) + 1;
        {
            let _shared = fdtable_shm::enter();
            LIVING.lock().insert(name);
        }
        if let Some(place) = place(fd) {
            place.store(name);
        }
        if is_time_to_close(fd) {
            close_released(&mut OPENED.lock());
        }
        Number { fd, name }
    }

    /// Returns the host descriptor, or -1 if this process does not have it.
    #[inline]
    pub(crate) fn get(&self) -> RawFd {
        if self.name == 0 || self.is_here() {
            self.fd
        } else {
            self.elsewhere().unwrap_or(-1)
        }
    }

    /// Returns the host descriptor of what another process has opened.
    #[cold]
    fn elsewhere(&self) -> Option<RawFd> {
        let mut opened = OPENED.lock();
        let index = opened.iter().rposition(|other| other.name == self.name)?;
        let used = opened.remove(index);
        opened.push(used);
        Some(used.fd)
    }

    /// Notes that this process has what another one has opened under a descriptor of its own.
    pub(crate) fn is_given(&self, fd: RawFd) {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        opened.push(Opened {
            name: self.name,
            fd,
            life: Life::Given,
            uses: 0,
        });
        if is_time_to_close(fd) {
            close_released(&mut opened);
        }
    }

    #[cold]
    fn is_here(&self) -> bool {
        place(self.fd).is_some_and(|place| place.load() == self.name)
    }

    /// Returns the host descriptor. A process that does not have it opens the same file with
    /// `open`, and keeps that open until it has used many others.
    ///
    /// # Errors
    /// Those of `open`.
    #[inline]
    pub(crate) fn get_or_open(
        &self,
        open: impl Fn() -> Result<RawFd, Errno>,
    ) -> Result<InUse, Errno> {
        if self.name == 0 || self.is_here() {
            return Ok(InUse {
                fd: self.fd,
                name: 0,
            });
        }
        self.open(open)
    }

    #[cold]
    fn open(&self, open: impl Fn() -> Result<RawFd, Errno>) -> Result<InUse, Errno> {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        let known = opened.iter().rposition(|other| other.name == self.name);
        let mut used = match known {
            Some(index) => opened.remove(index),
            None => {
                close_cached(&mut opened, KEPT - 1);
                let fd = match open() {
                    Err(Errno::EMFILE) => {
                        close_cached(&mut opened, 0);
                        close_released(&mut opened);
                        open()
                    }
                    done => done,
                }?;
                Opened {
                    name: self.name,
                    fd,
                    life: Life::Cached,
                    uses: 0,
                }
            }
        };
        used.uses += 1;
        opened.push(used);
        Ok(InUse {
            fd: used.fd,
            name: self.name,
        })
    }

    /// Closes the descriptor, if this process has it. What it belongs to is no longer used.
    pub(crate) fn close(&self) {
        if self.name == 0 || self.is_here() {
            self.forget();
            host::close(self.fd);
        }
        if self.name != 0 {
            self.take_opened().into_iter().for_each(host::close);
            let _shared = fdtable_shm::enter();
            LIVING.lock().remove(&self.name);
        }
    }

    /// Returns the descriptors in this process of what another one has opened.
    fn take_opened(&self) -> Vec<RawFd> {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        let own = opened.extract_if(.., |other| other.name == self.name);
        own.map(|other| other.fd).collect()
    }

    fn forget(&self) {
        if self.name != 0
            && let Some(place) = place(self.fd)
        {
            place.store(0);
        }
    }

    /// Closes the descriptor in this process, which does not use it any more, while others may.
    pub(crate) fn give_up(&self) {
        if self.name == 0 {
            return;
        }
        if self.is_here() {
            self.forget();
            Self::let_go(self.fd);
        }
        self.take_opened().into_iter().for_each(Self::let_go);
    }

    fn let_go(fd: RawFd) {
        let mut useless = USELESS.lock();
        if is_alone() {
            host::close(fd);
            useless.drain(..).for_each(host::close);
        } else if host::make_useless(fd).is_ok() {
            let _private = fdtable_shm::leave();
            useless.push(fd);
        }
        // Otherwise it stays open until the process ends.
    }
}

impl InUse {
    /// Returns it.
    pub(crate) fn get(&self) -> RawFd {
        self.fd
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.name != 0 {
            let mut opened = OPENED.lock();
            let used = opened.iter_mut().rfind(|other| other.name == self.name);
            if let Some(used) = used {
                // What is used is not released, so the entry is that of the begin of the use.
                used.uses -= 1;
            }
        }
    }
}

/// Closes host descriptors that are cached, the oldest first, until there are at most so many, or
/// calls use all others.
fn close_cached(opened: &mut Vec<Opened>, most: usize) {
    let is_cached = |other: &Opened| other.life == Life::Cached;
    let count = opened.iter().filter(|other| is_cached(other)).count();
    let unused = opened.extract_if(.., |other| is_cached(other) && other.uses == 0);
    unused
        .take(count.saturating_sub(most))
        .for_each(|other| host::close(other.fd));
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
    let (mut released, mut kept) = (Vec::new(), 0);
    let living = LIVING.lock();
    for (part, first) in OWN.iter().zip((0..).step_by(PART)) {
        let places = part.get().into_iter().flat_map(|part| part.iter());
        for (place, fd) in places.zip(first..) {
            let name = place.load();
            if name == 0 {
                continue;
            }
            if living.contains(&name) {
                kept += 1;
            } else if place.compare_exchange(name, 0).is_ok() {
                released.push(fd);
            }
        }
    }
    let given = opened.extract_if(.., |other| !living.contains(&other.name));
    released.extend(given.map(|other| other.fd));
    drop(living);
    released.into_iter().for_each(host::close);
    LEFT.store(128.max((kept + opened.len()) / 2));
}

/// Names this process, by a number that no other process with a kernel in the same memory has.
pub(crate) fn process() -> u32 {
    match host_fork::shares_memory() {
        true => host::process_id().cast_unsigned(),
        false => host_fork::generation(),
    }
}

/// Notes that this process has none of the descriptors that its parent had.
pub(crate) fn forget_all() {
    let parts = OWN.iter().filter_map(OnceLock::get);
    parts
        .flat_map(|part| part.iter())
        .for_each(|place| place.store(0));
    mem::take(&mut *OPENED.lock());
}

/// Returns true where this process has one thread.
static IS_ALONE: OnceLock<fn() -> bool> = OnceLock::new();

/// Tells how it is known whether the process has one thread. The first call counts; until then, it
/// may have several.
pub fn tell_threads(is_alone: fn() -> bool) {
    // The first one stays.
    let _ = IS_ALONE.set(is_alone);
}

/// Returns true if this process has one thread.
pub(crate) fn is_alone() -> bool {
    IS_ALONE.get().is_some_and(|is_alone| is_alone())
}

/// Runs an operation that may close our descriptors from `first` to `last`. Afterwards, gives up
/// the host descriptors of files that this process has no descriptor of any more.
#[inline]
pub(crate) fn closing<R>(system: &System, first: u32, last: u32, close: impl FnOnce() -> R) -> R {
    if !host_fork::shares_memory() {
        return close();
    }
    let before = host_files(system, first, last);
    let result = close();
    for file in &before {
        let is_it = |other: &FileRef<RcuObject>| FileId::of(&***other) == FileId::of(&***file);
        // If no one else uses it, it is about to be released.
        if FileRef::strong_count(file) > 1
            && !system.is_executable(file)
            && let Some(host_file) = HostFile::below(&***file)
        {
            let _alone = without_moves(system);
            if !host_files(system, 0, u32::MAX).iter().any(is_it) {
                host_file.number().give_up();
            }
        }
    }
    result
}

/// Keeps other threads from duplicating descriptors of the table, and from searching it, until the
/// result is dropped. A search would miss a file that moves meanwhile, from a descriptor not yet
/// looked at to one already passed. `None` if no other thread uses the table.
#[inline]
pub(crate) fn without_moves(system: &System) -> Option<MutexGuard<'_, ()>> {
    let has_others = || !is_alone() || system.process.shares_files();
    (host_fork::shares_memory() && has_others()).then(|| system.process.lock_moves())
}

/// Returns the open files of the host among our descriptors from `first` to `last`.
fn host_files(system: &System, first: u32, last: u32) -> Vec<FileRef<RcuObject>> {
    let files = system.process.files();
    let mut found = Vec::new();
    let mut from = first;
    while let Some(fd) = files.next_open(from).filter(|&fd| u32::from(fd) <= last) {
        if let Ok(file) = files.get(fd)
            && HostFile::below(&**file).is_some()
        {
            found.push(file);
        }
        from = u32::from(fd) + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_uses_is_not_closed() {
        let cached = |name, uses| Opened {
            name,
            // The host has no such descriptor.
            fd: -1,
            life: Life::Cached,
            uses,
        };
        let given = Opened {
            life: Life::Given,
            ..cached(5, 0)
        };
        let mut opened = vec![
            cached(1, 1),
            cached(2, 0),
            given,
            cached(3, 0),
            cached(4, 2),
        ];
        let names = |opened: &[Opened]| opened.iter().map(|other| other.name).collect::<Vec<_>>();
        close_cached(&mut opened, 3);
        assert_eq!(names(&opened), [1, 5, 3, 4]);
        close_cached(&mut opened, 0);
        assert_eq!(names(&opened), [1, 5, 4]);
    }
}
