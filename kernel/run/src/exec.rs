//! Replaces the program by another one: `execve(2)`.
//!
//! The process stays, and so do its descriptors, its working directory and the files in memory. If
//! the program cannot be run, the call fails before anything has changed.
//!
//! # Other threads
//!
//! All other threads exit. The caller marks them, and sends each one a signal. A thread in the
//! guest continues as if it had called `exit`. A thread in a call exits at the end of the call,
//! where it holds nothing of the runner; until then its sleeps end at once, as for any signal. The
//! caller marks and sends again until the host has no such thread, so it does not matter when a
//! thread has begun, or where the signal has interrupted it. The host releases robust locks at the
//! exit of a thread, so the guest's memory stays until then.
//!
//! The leader of the process cannot exit without the process, and a program runs on it, because its
//! id is that of the process. A leader that exits, by its own call or by the mark, waits in the
//! runner ([`wait_for_program`]). If the caller is not the leader, it hands the program over to the
//! leader, and exits. Its signal mask and its pending signals go with the program.
//!
//! A thread may have taken a signal for the process, and exit before it has run a handler. The
//! thread forwards it ([`signals::leave`]). If a thread executes a program, the signal is carried
//! until the actions are reset, and is then pending in the new program.
//!
//! One thread executes a program at a time. Another thread that calls `execve` or `exit_group`
//! meanwhile exits like all others.

use std::collections::BTreeSet;
use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use fdtable_posix::{fdt_fcntl, runner};

use crate::abi::{address_of, checked, host_now, thread_id};
use crate::block::{Block, Request};
use crate::entry::fdtable_run_stop;
use crate::frame::Frame;
use crate::guarded::Guarded;
use crate::memory::{self, pointer};
use crate::program::{self, Name, Program};
use crate::{ending, exit, observe, patch, prctl, robust, signals, thread, vfork};

/// A program that a thread hands over to the leader.
struct Handover {
    program: Program,
    caller: i32,
    mask: u64,
}

static HANDOVER: Guarded<Option<Handover>> = Guarded::new(None);
/// Changes to 1 when there is a [`Handover`]: the leader sleeps on it.
static IS_HANDED_OVER: AtomicI32 = AtomicI32::new(0);
/// The timers of the guest, by the ids that the host has given them.
static TIMERS: Guarded<BTreeSet<i32>> = Guarded::new(BTreeSet::new());

/// Makes a timer: `timer_create(2)`.
pub(crate) fn create_timer(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let result = host_now(r.number, *a);
    if result == 0
        && let Ok(id) = memory::get(a[2].cast_unsigned())
    {
        TIMERS.lock().insert(id);
    }
    result
}

/// Deletes a timer: `timer_delete(2)`.
pub(crate) fn delete_timer(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    // Before the call: the host may give the id to another timer afterwards.
    TIMERS.lock().remove(&(a[0] as i32));
    host_now(r.number, *a)
}

/// Forgets the timers, which belong to the parent, in the child of a fork.
pub(crate) fn forget_timers() {
    TIMERS.lock().clear();
}

/// Deletes all timers, which a new program does not inherit.
fn delete_timers() {
    for id in std::mem::take(&mut *TIMERS.lock()) {
        host_now(libc::SYS_timer_delete, [id.into(), 0, 0, 0, 0, 0]);
    }
}

/// The most bytes of an argument, with the one that ends it: `MAX_ARG_STRLEN` of Linux.
const ARGUMENT: usize = 32 * 4096;

/// Reads a string of the guest; `None` if it is longer than the limit.
fn string(at: u64, limit: usize) -> Result<Option<CString>, i32> {
    // SAFETY: as the guest's calls do, this one expects that no thread changes the string.
    unsafe { runner::string_below(pointer(at), limit) }
}

/// Reads a list of strings of the guest.
///
/// # Errors
/// `EFAULT`; `E2BIG` if one is too long, or no program could take them all.
fn strings(at: i64) -> Result<Vec<CString>, i32> {
    let mut list = Vec::new();
    if at == 0 {
        return Ok(list);
    }
    let mut size = 0;
    for index in 0.. {
        let place = at.cast_unsigned().wrapping_add(index * 8);
        let text: u64 = memory::get(place)?;
        if text == 0 {
            break;
        }
        let text = string(text, ARGUMENT)?.ok_or(libc::E2BIG)?;
        size += text.as_bytes_with_nul().len() + 8;
        if size > program::ARGUMENTS {
            return Err(libc::E2BIG);
        }
        list.push(text);
    }
    Ok(list)
}

/// Reads the name of the program that the guest names. By a descriptor it has a path in `/dev/fd`.
///
/// # Errors
/// `EBADF` if there is no such descriptor; `EINVAL` for unknown flags; `ENOENT`, `ENAMETOOLONG`,
/// `EFAULT`.
fn name(directory: c_int, path: i64, flags: c_int) -> Result<Name, i32> {
    let path = string(path.cast_unsigned(), libc::PATH_MAX as usize)?;
    let path = path.ok_or(libc::ENAMETOOLONG)?;
    if path.is_empty() && flags & libc::AT_EMPTY_PATH == 0 {
        return Err(libc::ENOENT);
    }
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(libc::EINVAL);
    }
    let keeps_link = flags & libc::AT_SYMLINK_NOFOLLOW != 0 && !path.is_empty();
    let open_flags = if keeps_link { libc::O_NOFOLLOW } else { 0 };
    if directory == libc::AT_FDCWD || path.as_bytes().starts_with(b"/") {
        return Ok(Name {
            flags: open_flags,
            ..path.into()
        });
    }
    // SAFETY: the command has no argument.
    let fd_flags = checked(unsafe { fdt_fcntl(directory, libc::F_GETFD, 0) }.into())?;
    let mut whole = format!("/dev/fd/{directory}").into_bytes();
    if !path.is_empty() {
        whole.push(b'/');
        whole.extend(path.as_bytes());
    }
    let whole = CString::new(whole).map_err(|_| libc::EINVAL)?;
    Ok(Name {
        place: match path.is_empty() {
            true => (libc::AT_FDCWD, whole.clone()),
            false => (directory, path),
        },
        path: whole,
        flags: open_flags,
        is_closed: fd_flags & i64::from(libc::FD_CLOEXEC) != 0,
    })
}

/// Opens the program that the guest names.
fn open(directory: c_int, a: [i64; 3], flags: i32) -> Result<Program, i32> {
    let [path, arguments, environment] = a;
    let name = name(directory, path, flags)?;
    Program::open(name, || {
        let mut arguments = strings(arguments)?;
        if arguments.is_empty() {
            // As Linux does since 5.18.
            arguments.push(CString::default());
        }
        Ok([arguments, strings(environment)?])
    })
}

/// Runs another program in this process: `execve(2)`.
pub(crate) fn execve(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    execute(r, open(libc::AT_FDCWD, [a[0], a[1], a[2]], 0))
}

/// Runs another program in this process: `execveat(2)`.
pub(crate) fn execveat(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    execute(r, open(a[0] as i32, [a[1], a[2], a[3]], a[4] as i32))
}

fn execute(r: &mut Request<'_>, program: Result<Program, i32>) -> i64 {
    let block = r.block;
    let program = match program {
        Ok(program) => program,
        Err(errno) => return -i64::from(errno),
    };
    // The new program gets the signals.
    let mask = signals::defer_all(block);
    // A thread that exits is no longer counted, and still accesses the guest's memory.
    let is_only = exit::is_leader() && thread::is_alone() && thread::has_one_block();
    if !is_only {
        if !ending::claim() {
            drop(program);
            return exit::end_thread(0);
        }
        ending::end_others();
    }
    if exit::is_leader() {
        *r.frame = replace(block, program);
        return r.frame.rax.cast_signed();
    }
    // The leader counts in the place of this thread.
    block.clear_on_exit.set(0);
    *HANDOVER.lock() = Some(Handover {
        program,
        caller: thread_id(),
        mask,
    });
    IS_HANDED_OVER.store(1, Ordering::SeqCst);
    futex(&IS_HANDED_OVER, libc::FUTEX_WAKE, 1);
    // SAFETY: the thread runs in `fdtable_run_start`, and holds nothing.
    unsafe { fdtable_run_stop() }
}

fn futex(word: &AtomicI32, operation: i32, value: i64) -> i64 {
    host_now(
        libc::SYS_futex,
        [address_of(word), operation.into(), value, 0, 0, 0],
    )
}

/// Waits on the leader, which has exited, until another thread executes a program. Returns the
/// registers with which the program begins. Until then the leader blocks all signals, and other
/// threads get them.
pub(crate) fn wait_for_program(block: &Block) -> Frame {
    let handover = loop {
        if IS_HANDED_OVER.swap(0, Ordering::SeqCst) == 1
            && let Some(handover) = HANDOVER.lock().take()
        {
            break handover;
        }
        futex(&IS_HANDED_OVER, libc::FUTEX_WAIT, 0);
    };
    while ending::is_there(handover.caller) {
        std::thread::sleep(Duration::from_micros(50));
    }
    block.cancel_exit();
    signals::resume(block, handover.mask);
    let frame = replace(block, handover.program);
    block.begin_exit_to_guest();
    signals::deliver_emulated(block);
    frame
}

/// Replaces the program. The caller is the leader, and the only thread.
fn replace(block: &Block, program: Program) -> Frame {
    // From here on the call cannot fail.
    robust::release_locks(block);
    patch::clear();
    memory::clear();
    delete_timers();
    signals::reset(block);
    runner::close_on_exec();
    block.guest_fs.set(0);
    block.clear_on_exit.set(0);
    block.suspended.set(None);
    block.disable_signal_stack();
    observe::in_program();
    prctl::begin_program();
    let frame = program.load();
    // Its descriptors are not the guest's.
    drop(program);
    vfork::release_parent();
    ending::release_claim();
    frame.unwrap_or_else(|_| {
        // SAFETY: it takes an integer.
        unsafe { libc::raise(libc::SIGKILL) };
        std::process::abort()
    })
}
