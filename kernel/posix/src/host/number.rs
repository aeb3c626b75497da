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
//! - whoever releases the object last closes the descriptor in its own process, if that has it;
//! - a process that closes its last descriptor of ours for an object that others still use closes
//!   the host's in its own process ([`Number::give_up`]). Another thread may be about to use the
//!   number: so until this process has one thread it is not free, but leads to a file that is of no
//!   use.
//!
//! Where each process has its own kernel, the number is always its own.

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

/// The names of what the host descriptors of this process belong to, or 0, by number.
static OWN: [OnceLock<Box<Part>>; PARTS] = [const { OnceLock::new() }; PARTS];

/// Host descriptors that lead to nothing until the process has one thread.
static USELESS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// The host descriptors of what other processes have opened, in the order of their last use.
static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

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
    /// Until many others were used: it is opened again.
    Cached,
    /// Until the last descriptor of ours is closed.
    Given,
}

/// How many a process with one thread keeps that are cached: more than a call uses.
const KEPT: usize = 64;

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
        if let Some(place) = place(fd) {
            place.store(name);
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
        OPENED.lock().push(Opened {
            name: self.name,
            fd,
            life: Life::Given,
        });
    }

    #[cold]
    fn is_here(&self) -> bool {
        place(self.fd).is_some_and(|place| place.load() == self.name)
    }

    /// Returns the host descriptor. A process that does not have it opens the same file with
    /// `open`, and keeps that open: as long as the process lives, or what it belongs to; and while
    /// the process has one thread, until it has used many others. -1 if that fails.
    #[inline]
    pub(crate) fn get_or_open(&self, open: impl FnOnce() -> Result<RawFd, Errno>) -> RawFd {
        match self.get() {
            -1 if self.name != 0 => self.open(open).unwrap_or(-1),
            fd => fd,
        }
    }

    #[cold]
    fn open(&self, open: impl FnOnce() -> Result<RawFd, Errno>) -> Result<RawFd, Errno> {
        let _private = fdtable_shm::leave();
        let mut opened = OPENED.lock();
        if let Some(other) = opened.iter().find(|other| other.name == self.name) {
            // Another thread was first.
            return Ok(other.fd);
        }
        let mut cached = opened
            .iter()
            .enumerate()
            .filter(|(_, other)| other.life == Life::Cached);
        if let Some((oldest, _)) = cached.next()
            && cached.count() + 1 >= KEPT
            && is_alone()
        {
            // No other thread is about to use it.
            host::close(opened.remove(oldest).fd);
        }
        let fd = open()?;
        opened.push(Opened {
            name: self.name,
            fd,
            life: Life::Cached,
        });
        Ok(fd)
    }

    /// Closes the descriptor, if this process has it. What it belongs to is no longer used.
    pub(crate) fn close(&self) {
        if self.name == 0 || self.is_here() {
            self.forget();
            host::close(self.fd);
        }
        if self.name != 0 {
            self.take_opened().into_iter().for_each(host::close);
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
