//! Transfers from and to pipes that need no copy on the host: `splice`, `tee`, `vmsplice`.

use std::ffi::{c_int, c_uint};
use std::os::fd::RawFd;
use std::ptr;

use fdtable::host_fork;
use fdtable_vfs::event::Events;
use fdtable_vfs::{Errno, SpliceFlags};
use libc::{iovec, off_t, ssize_t};

use crate::abi::call::call;
use crate::abi::uaccess;
use crate::fs::copies::{is_pipe, offset_of, put_offset};
use crate::fs::partial;
use crate::fs::vectored::{Buffers, import_iovec, import_iovec_mut};
use crate::host::direct::{direct, words};
use crate::host::file::HostFile;
use crate::host::{self, OwnedHostFd};

/// Moves bytes from or to a pipe: `splice(2)`. Between host files without copying; a file of
/// fdtable is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    count: usize,
    flags: c_uint,
) -> ssize_t {
    call(|system| {
        if count == 0 {
            return Ok(0);
        }
        let flags_of_ours = SpliceFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        if let Some((from, to)) = system.host_fd(from)?.zip(system.host_fd(to)?) {
            let _out = host_fork::blocking_section();
            let (from, to) = (from.get(), to.get());
            let a = words!(from, from_offset, to, to_offset, count, flags);
            // SAFETY: as the caller promises.
            return host::counted(unsafe { direct(libc::SYS_splice, a) });
        }
        let (source, target) = (system.file(from)?, system.file(to)?);
        // Checked before the offsets are read, as on the host.
        if !from_offset.is_null() && is_pipe(&source) || !to_offset.is_null() && is_pipe(&target) {
            return Err(Errno::ESPIPE);
        }
        if is_pipe(&source)
            && !source.events().contains(Events::IN)
            && let Some(host_file) = HostFile::below(&**target)
            && !can_splice_to(host_file.fd().get())
        {
            return Err(Errno::EINVAL);
        }
        // SAFETY: as the caller promises.
        let mut at = unsafe { offset_of(from_offset) }?;
        // SAFETY: as the caller promises.
        let mut at_target = unsafe { offset_of(to_offset) }?;
        let process = &system.process;
        let count = count.min(uaccess::MAX_RW_COUNT);
        let moved = process.splice(
            from,
            at.as_mut(),
            to,
            at_target.as_mut(),
            count,
            flags_of_ours,
        );
        let moved = system.signal_on_error(to, moved)?;
        // SAFETY: as the caller promises.
        unsafe { put_offset(from_offset, at) }?;
        // SAFETY: as the caller promises.
        unsafe { put_offset(to_offset, at_target) }?;
        Ok(moved)
    })
}

/// Returns false if the host refuses to splice a pipe to a descriptor, whatever the pipe has.
fn can_splice_to(target: RawFd) -> bool {
    let mut ends = [-1; 2];
    // SAFETY: there is room for both ends.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return true;
    }
    let [empty, _writer] = ends.map(OwnedHostFd);
    let (now, none) = (libc::SPLICE_F_NONBLOCK, ptr::null_mut());
    // SAFETY: there are no offsets.
    let moved = host::check(unsafe { libc::splice(empty.0, none, target, none, 1, now) });
    moved != Err(Errno::EINVAL)
}

/// Copies bytes between pipes: `tee(2)`. Both must be the host's or both fdtable's.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tee(from: c_int, to: c_int, count: usize, flags: c_uint) -> ssize_t {
    call(|system| {
        let flags_of_ours = SpliceFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        if count == 0 {
            return Ok(0);
        }
        if let Some((from, to)) = system.host_fd(from)?.zip(system.host_fd(to)?) {
            let _out = host_fork::blocking_section();
            // SAFETY: the call takes no pointer.
            let copied =
                unsafe { direct(libc::SYS_tee, words!(from.get(), to.get(), count, flags)) };
            return host::counted(copied);
        }
        let copied = system.process.tee(from, to, count, flags_of_ours);
        system.signal_on_error(to, copied)
    })
}

/// Moves memory to a pipe, or from one: `vmsplice(2)`. A pipe of fdtable gets a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_vmsplice(
    fd: c_int,
    bufs: *const iovec,
    count: usize,
    flags: c_uint,
) -> ssize_t {
    call(|system| {
        let flags_of_ours = SpliceFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        if let Some(host_fd) = system.host_fd(fd)? {
            let _out = host_fork::blocking_section();
            // SAFETY: as the caller promises.
            let moved = unsafe {
                direct(
                    libc::SYS_vmsplice,
                    words!(host_fd.get(), bufs, count, flags),
                )
            };
            return host::counted(moved);
        }
        let count = c_int::try_from(count).map_err(|_| Errno::EINVAL)?;
        let status = system.file(fd)?.status();
        if status.can_write() {
            // SAFETY: as the caller promises.
            let moved = match unsafe { import_iovec(bufs, count) }? {
                Buffers::Whole(bufs) => system.process.vmsplice_to_pipe(fd, &bufs, flags_of_ours),
                Buffers::Partial(bufs) => partial::vmsplice(system, fd, &bufs, flags_of_ours),
            };
            return system.signal_on_error(fd, moved);
        }
        if !status.can_read() {
            return Err(Errno::EBADF);
        }
        // SAFETY: as the caller promises.
        let mut bufs = unsafe { import_iovec_mut(bufs, count, |count| count) }?.whole()?;
        let process = &system.process;
        process.vmsplice_from_pipe(fd, &mut bufs, flags_of_ours)
    })
}
