//! File locks: the lock commands of `fcntl`, and `flock`.

use std::ffi::{c_int, c_short, c_ulong};
use std::ptr;

use fdtable_vfs::{Errno, FileLock, FlockOperation, LockFrom, LockKind, LockOwner, LockWait};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;

/// Takes or releases a lock on a whole file: `flock(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_flock(fd: c_int, operation: c_int) -> c_int {
    /// Bit of the mandatory locks that Linux had: it does nothing, whatever the descriptor is.
    const LOCK_MAND: c_int = 32;
    if operation & LOCK_MAND != 0 {
        return 0;
    }
    call(|system| {
        let known = FlockOperation::from_bits(operation.cast_unsigned()).ok_or(Errno::EINVAL)?;
        // One of the three operations. It is checked before the descriptor.
        if (known - FlockOperation::NONBLOCK).iter().count() != 1 {
            return Err(Errno::EINVAL);
        }
        if let Some(host_fd) = system.host_fd(fd)? {
            return host::flock(host_fd.get(), operation);
        }
        system.process.flock(fd, known)
    })
}

/// Runs a lock command of `fcntl` on one of our files.
///
/// # Safety
/// The argument is a `struct flock`, or cannot be an address.
pub(crate) unsafe fn record_lock(
    system: &System,
    fd: c_int,
    command: c_int,
    argument: c_ulong,
) -> Result<c_int, Errno> {
    let place = ptr::with_exposed_provenance_mut::<libc::flock>(argument as usize);
    let (owner, wait) = match command {
        libc::F_GETLK | libc::F_SETLK => (LockOwner::Process, LockWait::No),
        libc::F_SETLKW => (LockOwner::Process, LockWait::Yes),
        libc::F_OFD_GETLK | libc::F_OFD_SETLK => (LockOwner::OpenFile, LockWait::No),
        libc::F_OFD_SETLKW => (LockOwner::OpenFile, LockWait::Yes),
        _ => return Err(Errno::EINVAL),
    };
    // SAFETY: as the caller promises.
    let given = unsafe { uaccess::get(place) }?;
    let lock = read(&given)?;
    if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
        let found = system.process.fcntl_getlk(fd, owner, lock)?;
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(place, to_flock(given, &found)) }?;
    } else {
        system.process.fcntl_setlk(fd, owner, lock, wait)?;
    }
    Ok(0)
}

fn read(lock: &libc::flock) -> Result<FileLock, Errno> {
    let kind = match c_int::from(lock.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    let from = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => LockFrom::Start,
        libc::SEEK_CUR => LockFrom::Current,
        libc::SEEK_END => LockFrom::End,
        _ => return Err(Errno::EINVAL),
    };
    Ok(FileLock {
        kind,
        from,
        start: lock.l_start,
        length: lock.l_len,
        pid: lock.l_pid,
    })
}

/// Converts the conflicting lock that was found. Without a conflict, sets only the type.
fn to_flock(given: libc::flock, found: &FileLock) -> libc::flock {
    let l_type = match found.kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    } as c_short;
    if found.kind == LockKind::Unlock {
        return libc::flock { l_type, ..given };
    }
    libc::flock {
        l_type,
        l_whence: libc::SEEK_SET as c_short,
        l_start: found.start,
        l_len: found.length,
        l_pid: found.pid,
    }
}
