//! Requests about a tracee: its stops, its registers and its memory.

use std::ffi::{c_int, c_long, c_void};
use std::fs;
use std::os::fd::RawFd;
use std::ptr;

use fdtable_shm::Noted;
use fdtable_vfs::Errno;

use crate::host::{check, done, stored};

/// Takes what a descriptor of signals reports, which the host may have merged.
pub(super) fn take_signals(children: RawFd) {
    let mut info = [0_u8; 4 * size_of::<libc::signalfd_siginfo>()];
    // SAFETY: there is room for so many bytes.
    unsafe { libc::read(children, info.as_mut_ptr().cast(), info.len()) };
}

/// Makes a request about a tracee.
pub(super) fn request(what: libc::c_uint, id: c_int, data: c_long) -> Result<(), Errno> {
    let nowhere = ptr::null_mut::<c_void>();
    // SAFETY: none of the requests without an address touches memory of this process.
    done(unsafe { libc::ptrace(what, id, nowhere, data) })
}

/// Stores what the host answers about a tracee.
///
/// # Errors
/// Errors of `ptrace(2)`.
///
/// # Safety
/// The request with this address writes at most a `T`, for which all bytes are valid.
pub(super) unsafe fn answer<T>(what: libc::c_uint, id: c_int, address: usize) -> Result<T, Errno> {
    let address = ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: as the caller promises.
    unsafe { stored(|place: *mut T| libc::ptrace(what, id, address, place) as c_int) }
}

/// Returns the message of the event that has stopped a tracee.
pub(super) fn message(id: c_int) -> Result<u64, Errno> {
    // SAFETY: it writes a long integer.
    unsafe { answer(libc::PTRACE_GETEVENTMSG, id, 0) }
}

/// Returns true if a tracee is still in the stop for an event.
pub(super) fn is_in_event(id: c_int, event: c_int) -> bool {
    // SAFETY: it writes such a struct of integers.
    let info = unsafe { answer::<libc::siginfo_t>(libc::PTRACE_GETSIGINFO, id, 0) };
    info.is_ok_and(|info| info.si_code == libc::SIGTRAP | event << 8)
}

pub(super) fn registers(id: c_int) -> Result<libc::user_regs_struct, Errno> {
    // SAFETY: it writes such a struct of integers.
    unsafe { answer(libc::PTRACE_GETREGS, id, 0) }
}

/// The vector registers, as `xsave` stores them.
pub(super) type Vectors = [u64; 1536];

pub(super) fn vectors(id: c_int) -> Result<Box<Vectors>, Errno> {
    const NT_X86_XSTATE: usize = 0x202;
    let mut vectors = Box::new([0; 1536]);
    let mut place = libc::iovec {
        iov_base: (&raw mut *vectors).cast(),
        iov_len: size_of::<Vectors>(),
    };
    let kind = ptr::without_provenance_mut::<c_void>(NT_X86_XSTATE);
    // SAFETY: there is room for so many bytes.
    done(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, id, kind, &raw mut place) })?;
    Ok(vectors)
}

pub(super) fn mask(id: c_int) -> Result<u64, Errno> {
    // SAFETY: with this size it writes such an integer.
    unsafe { answer(libc::PTRACE_GETSIGMASK, id, size_of::<u64>()) }
}

/// Returns what a thread has noted that has this base of `fs` in the runner.
pub(super) fn noted(thread: c_int, fs: u64) -> Result<Noted, Errno> {
    let noted = words(thread, fs.wrapping_add_signed(words_offset()))?;
    Ok(Noted::of(noted))
}

/// Returns words of the memory of a tracee.
pub(super) fn words<const N: usize>(thread: c_int, address: u64) -> Result<[u64; N], Errno> {
    let mut words = [0; N];
    let size = size_of_val(&words);
    let here = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: size,
    };
    let there = libc::iovec {
        iov_base: ptr::without_provenance_mut(address as usize),
        iov_len: size,
    };
    // SAFETY: there is room for so many bytes.
    let count =
        unsafe { libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0) };
    match check(count)? as usize == size {
        true => Ok(words),
        false => Err(Errno::EFAULT),
    }
}

/// Returns where the words of a thread are, from its base of `fs` on. It is the same for all.
pub(super) fn words_offset() -> i64 {
    let base: u64;
    // SAFETY: the first word that `fs` leads to is its base.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) base, options(nostack, readonly));
    }
    (fdtable_shm::words_of_thread().addr() as u64)
        .wrapping_sub(base)
        .cast_signed()
}

/// Returns the process that a thread has made by the call in which it has stopped.
pub(super) fn made(registers: &libc::user_regs_struct) -> Option<c_int> {
    let makes = [
        libc::SYS_clone,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_clone3,
    ];
    let child = registers.rax.cast_signed();
    let has_made = makes.contains(&registers.orig_rax.cast_signed()) && child > 0;
    has_made.then_some(child as c_int)
}

/// Returns true if there is a process with this id.
pub(super) fn is_leader(id: c_int) -> bool {
    // SAFETY: it takes integers, and sends no signal.
    unsafe { libc::syscall(libc::SYS_tgkill, id, id, 0) == 0 }
}

/// Returns the process of a thread.
pub(super) fn process_of(thread: c_int) -> c_int {
    number_of(thread, "Tgid:").unwrap_or(thread)
}

/// Returns the threads of a process.
pub(super) fn threads_of(process: c_int) -> impl Iterator<Item = c_int> {
    let all = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the process that traces a thread, or 0.
pub(super) fn tracer_of(thread: c_int) -> c_int {
    number_of(thread, "TracerPid:").unwrap_or(0)
}

/// Returns a number from the host's status of a thread.
pub(super) fn number_of(thread: c_int, name: &str) -> Option<c_int> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix(name))?;
    number.trim().parse().ok()
}
