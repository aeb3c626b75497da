//! Record locks that a close drops.
//!
//! POSIX drops the locks of a process on a file when the process closes any descriptor of the file,
//! also one that has nothing to do with the lock.

use std::sync::atomic::{AtomicBool, Ordering};

use fdtable_posix::fdt_fstat;

use super::call::Call;
use super::event::Event;
use crate::guarded::Guarded;
use crate::memory;

/// A lock that a call has taken.
pub(super) struct Lock {
    /// Device and inode.
    file: (u64, u64),
    fd: i32,
    pub(super) event: Event,
}

static LOCKS: Guarded<Vec<Lock>> = Guarded::new(Vec::new());
/// True if there are some.
static HAS_LOCKS: AtomicBool = AtomicBool::new(false);

/// Records a lock that a call has taken or released.
pub(super) fn record(call: &Call) {
    let [fd, command, at, ..] = call.arguments;
    let is_lock = call.number == libc::SYS_fcntl
        && [libc::F_SETLK, libc::F_SETLKW].contains(&(command as i32));
    if !is_lock {
        return;
    }
    let (Some(file), Ok(kind)) = (file(fd as i32), memory::get::<[u8; 2]>(at.cast_unsigned()))
    else {
        return;
    };
    let mut locks = LOCKS.lock();
    if i32::from(i16::from_ne_bytes(kind)) == libc::F_UNLCK {
        locks.retain(|lock| lock.file != file);
    } else if !locks
        .iter()
        .any(|lock| lock.fd == fd as i32 && lock.file == file)
    {
        let event = Event::of(call);
        let fd = fd as i32;
        locks.push(Lock { file, fd, event });
    }
    HAS_LOCKS.store(!locks.is_empty(), Ordering::Relaxed);
}

/// Returns the locks that the close of a descriptor drops and that were taken by another one.
pub(super) fn dropped(fd: i32) -> Vec<Lock> {
    if !HAS_LOCKS.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let Some(file) = file(fd) else {
        return Vec::new();
    };
    let of_file = LOCKS
        .lock()
        .extract_if(.., |lock| lock.file == file)
        .collect::<Vec<_>>();
    match of_file.iter().any(|lock| lock.fd == fd) {
        true => Vec::new(),
        false => of_file,
    }
}

/// Forgets the locks, in the child of a fork: it has none of them.
pub(super) fn in_child() {
    LOCKS.lock().clear();
}

/// Returns device and inode of an open file.
fn file(fd: i32) -> Option<(u64, u64)> {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    let result = unsafe { fdt_fstat(fd, &raw mut stat) };
    (result == 0).then_some((stat.st_dev, stat.st_ino))
}
