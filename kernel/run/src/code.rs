//! The runner's own code in large pages, for a process that forks often.
//!
//! The host does not copy the page table of code that is in a file, so a child faults at each piece
//! of 64 KiB that it runs: 30 times before its program begins, a tenth of what its fork and its end
//! take. In memory the code can be in large pages, each of which is one fault. A copy takes
//! milliseconds, so it is made when a process has forked [`OFTEN`] times. Its children inherit it,
//! whatever they execute.
//!
//! The program is linked so that its code is alone in its large pages. Code of a program that is
//! linked in another way stays where it is.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use fdtable::host_fork;

use crate::memory::{self, PAGE, pointer};

/// How many forks of a process come before the copy, if it has not inherited one.
const OFTEN: u32 = 16;

const LARGE: u64 = 2 << 20;

/// Counts forks. Relaxed: the thread that counts fork [`OFTEN`] makes the copy.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts a fork that is about to be made. Moves the code before fork [`OFTEN`]: other threads may
/// run it meanwhile.
pub(crate) fn count_fork() {
    if FORKS.load(Relaxed) < OFTEN && FORKS.fetch_add(1, Relaxed) + 1 == OFTEN {
        // The code stays in the file on a host that has no room.
        let _ = text().map_or(Ok(()), |text| copy(&text));
    }
}

/// Pins the code where it is: the program is about to install a filter, which may forbid the calls.
pub(crate) fn pin() {
    FORKS.store(OFTEN, Relaxed);
}

/// Counts from 0 in the child of a fork: most children fork seldom.
pub(crate) fn forget() {
    if FORKS.load(Relaxed) < OFTEN {
        FORKS.store(0, Relaxed);
    }
}

/// Returns the pages of the program's code, if it was linked for large ones.
fn text() -> Option<Range<u64>> {
    // SAFETY: it takes an integer.
    let value = |what| unsafe { libc::getauxval(what) };
    let (at, count) = (value(libc::AT_PHDR), value(libc::AT_PHNUM));
    let headers = pointer::<libc::Elf64_Phdr>(at);
    // SAFETY: the host reports the address of the program's headers, which nothing changes.
    let headers = unsafe { std::slice::from_raw_parts(headers, count as usize) };
    let find = |holds: &dyn Fn(&libc::Elf64_Phdr) -> bool| headers.iter().find(|one| holds(one));
    let own = find(&|one| one.p_type == libc::PT_PHDR)?;
    let code = find(&|one| one.p_type == libc::PT_LOAD && one.p_flags & libc::PF_X != 0)?;
    let begin = (at - own.p_vaddr) + code.p_vaddr;
    let pages = begin & !(PAGE - 1)..(begin + code.p_memsz).next_multiple_of(PAGE);
    (code.p_align >= LARGE).then_some(pages)
}

/// Moves code to memory in large pages that have no other contents.
fn copy(text: &Range<u64>) -> io::Result<()> {
    let all = text.start & !(LARGE - 1)..text.end.next_multiple_of(LARGE);
    let size = (all.end - all.start) as usize;
    // No child has the descriptor.
    let _fork_guard = host_fork::enter();
    // The host sends a signal for a file that is larger.
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if limit.rlim_cur < size as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // SAFETY: the name is a C string. The descriptor is this file's from here on.
    let file = unsafe {
        let fd = libc::memfd_create(c"fdtable-code".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.set_len(size as u64)?;
    // SAFETY: the pages are mapped, can be read, and nothing changes them.
    let code = unsafe {
        let size = (text.end - text.start) as usize;
        std::slice::from_raw_parts(pointer::<u8>(text.start), size)
    };
    file.write_all_at(code, text.start - all.start)?;
    let before = all.start..text.start;
    let behind = text.end..all.end;
    reserve(&before)?;
    if let Err(error) = reserve(&behind) {
        release(&before);
        return Err(error);
    }
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let (at, fd) = (pointer::<c_void>(all.start), file.as_raw_fd());
    // SAFETY: the mapping replaces the same code, at once, and the reservations beside it.
    unsafe {
        if libc::mmap(at, size, protection, flags, fd, 0) == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            release(&before);
            release(&behind);
            return Err(error);
        }
        // The result is not checked: in small pages the code is as good as before.
        libc::madvise(at, size, libc::MADV_COLLAPSE);
    }
    Ok(())
}

/// Reserves a range in which nothing is mapped.
fn reserve(range: &Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced.
    let place = unsafe { memory::map_anonymous(range.clone(), libc::PROT_NONE, flags) };
    place.map(drop).map_err(io::Error::from_raw_os_error)
}

/// Releases what was reserved.
fn release(range: &Range<u64>) {
    // SAFETY: nothing uses the range. For an empty one the host does nothing.
    unsafe { libc::munmap(pointer(range.start), (range.end - range.start) as usize) };
}
