//! Signals about input and output: `F_SETOWN`, `F_SETSIG`, `O_ASYNC`.
//!
//! An open file with `O_ASYNC` has a watcher in its wait queues. It is notified by events of its
//! own (`Events::SIGNAL_IN` and so on), because Linux does not send a signal for each change of
//! readiness, and sends some without one. The watcher asks the embedder to send the signal, outside
//! all locks of the file.
//!
//! Few files have an owner, so the owners are in one table and not in each open file. While it is
//! empty, the release of a file only reads its size.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::RawFd;
use fdtable_shm::Mutex;

use super::{Events, FileId, Pollee, Watcher};
use crate::Errno;

/// Kind of the owner of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum OwnerKind {
    /// One thread. In Linux: `F_OWNER_TID`.
    #[default]
    Thread,
    /// A process. In Linux: `F_OWNER_PID`.
    Process,
    /// A process group. In Linux: `F_OWNER_PGRP`.
    Group,
}

/// Owner of an open file: the receiver of its signals. Aligned for an atomic access: another one
/// would take a lock of one process. In Linux: `f_owner_ex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(align(8))]
pub struct Owner {
    /// Kind of owner that the ID identifies.
    pub kind: OwnerKind,
    /// ID; 0 if the file has no owner.
    pub id: i32,
}

/// Reason of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalReason {
    /// There is something to read. In Linux: `POLL_IN`.
    In,
    /// There is room to write. In Linux: `POLL_OUT`.
    Out,
    /// The other side is closed. In Linux: `POLL_HUP`.
    Hup,
}

/// Signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoSignal {
    /// Receiver; its ID is not 0.
    pub owner: Owner,
    /// Number of the signal; 0 for `SIGIO` without further information. In Linux: `si_signo`.
    pub signal: i32,
    /// Descriptor through which `O_ASYNC` was set. In Linux: `si_fd`.
    pub fd: RawFd,
    /// Reason. In Linux: `si_code`.
    pub reason: SignalReason,
}

/// Sender of signals, which the embedder implements.
pub trait SignalSender: fmt::Debug + Send + Sync {
    /// Returns true if a thread, process or group of this ID exists.
    fn exists(&self, owner: Owner) -> bool;

    /// Sends a signal. Runs on the thread that changed the file, outside the file's locks, and does
    /// not sleep. In Linux: `send_sigio`.
    fn send(&self, signal: IoSignal);
}

/// Largest number of a signal.
const MAX_SIGNAL: i32 = 64;

fdtable_sync::global! {
    /// The table of owners.
    pub(super) static FILES: Mutex<BTreeMap<FileId, AsyncFile>> = Mutex::new(BTreeMap::new());
}

fdtable_sync::global! {
    /// Number of entries of the table.
    pub(super) static COUNT: AtomicCell<usize> = AtomicCell::new(0);
}

/// Entry of an open file.
#[derive(Default)]
struct AsyncFile {
    target: Arc<Target>,
    /// Present while `O_ASYNC` is set.
    registration: Option<Registration>,
}

const _: () = assert!(AtomicCell::<Owner>::is_lock_free());

/// Receiver and signal, which may change while the watcher is registered.
#[derive(Default)]
struct Target {
    owner: AtomicCell<Owner>,
    signal: AtomicCell<i32>,
}

/// Registered watcher.
struct Registration {
    watcher: Arc<dyn Watcher>,
    pollee: Arc<dyn Pollee>,
}

/// Watcher that sends signals.
struct Notifier {
    target: Arc<Target>,
    fd: RawFd,
    sender: Arc<dyn SignalSender>,
}

/// Returns the owner of an open file.
pub(crate) fn owner(file: FileId) -> Owner {
    target(file).map_or(Owner::default(), |target| target.owner.load())
}

/// Returns the signal of an open file.
pub(crate) fn signal(file: FileId) -> i32 {
    target(file).map_or(0, |target| target.signal.load())
}

/// Sets the owner of an open file, which is not released meanwhile. Allocates.
pub(crate) fn set_owner(file: FileId, owner: Owner) {
    with_entry(file, |entry| entry.target.owner.store(owner));
}

/// Sets the signal of an open file, which is not released meanwhile. Allocates.
///
/// # Errors
/// `EINVAL` if there is no such signal.
pub(crate) fn set_signal(file: FileId, signal: i32) -> Result<(), Errno> {
    if !(0..=MAX_SIGNAL).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    with_entry(file, |entry| entry.target.signal.store(signal));
    Ok(())
}

/// Returns true if the watcher of an open file is registered.
#[inline]
pub(crate) fn is_on(file: FileId) -> bool {
    COUNT.load() != 0 && {
        let files = FILES.lock();
        files
            .get(&file)
            .is_some_and(|entry| entry.registration.is_some())
    }
}

/// Registers a watcher for the signals of an open file, which is not released meanwhile. Does
/// nothing if there is one. Allocates.
pub(crate) fn start(
    file: FileId,
    pollee: Arc<dyn Pollee>,
    interest: Events,
    fd: RawFd,
    sender: Arc<dyn SignalSender>,
) {
    with_entry(file, |entry| {
        if entry.registration.is_none() {
            let target = Arc::clone(&entry.target);
            let watcher: Arc<dyn Watcher> = Arc::new(Notifier { target, fd, sender });
            pollee.watch(&watcher, interest, Some(file));
            entry.registration = Some(Registration { watcher, pollee });
        }
    });
}

/// Unregisters the watcher of an open file, if it has one.
pub(crate) fn stop(file: FileId) {
    let registration = {
        let mut files = FILES.lock();
        let entry = files.get_mut(&file);
        entry.and_then(|entry| entry.registration.take())
    };
    // Outside the lock: this may drop the last reference to a queue with files in it.
    drop(registration);
}

/// Removes an open file that is released.
#[inline]
pub(crate) fn release(file: FileId) {
    if COUNT.load() != 0 {
        remove(file);
    }
}

#[cold]
fn remove(file: FileId) {
    let removed = {
        let mut files = FILES.lock();
        let removed = files.remove(&file);
        COUNT.store(files.len());
        removed
    };
    // Outside the lock, as in `stop`.
    drop(removed);
}

fn target(file: FileId) -> Option<Arc<Target>> {
    if COUNT.load() == 0 {
        return None;
    }
    let files = FILES.lock();
    files.get(&file).map(|entry| Arc::clone(&entry.target))
}

/// Runs `change` on the entry of an open file, which is made if there is none.
fn with_entry(file: FileId, change: impl FnOnce(&mut AsyncFile)) {
    let mut files = FILES.lock();
    change(files.entry(file).or_default());
    COUNT.store(files.len());
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.pollee.unwatch(&self.watcher);
    }
}

impl Watcher for Notifier {
    fn wake(&self, events: Events) {
        let reason = if events.contains(Events::SIGNAL_HUP) {
            SignalReason::Hup
        } else if events.contains(Events::SIGNAL_IN) {
            SignalReason::In
        } else if events.intersects(Events::SIGNAL_TAKEN | Events::SIGNAL_ROOM) {
            SignalReason::Out
        } else {
            // An event that every watcher gets.
            return;
        };
        let owner = self.target.owner.load();
        if owner.id != 0 {
            self.sender.send(IoSignal {
                owner,
                signal: self.target.signal.load(),
                fd: self.fd,
                reason,
            });
        }
    }
}
