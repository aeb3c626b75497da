//! Threads and processes of the guest: how they begin.
//!
//! A thread of the guest is a thread of the runner, with a stack of its own for calls. A process is
//! a fork of the runner, and uses the same kernel. The leader, whose id is that of the process,
//! stays in the runner after its end, for a program that another thread executes (see `exec`).

use std::sync::{OnceLock, mpsc};

use fdtable::host_fork;
use fdtable_posix::{fdt_close, runner};
use fdtable_vfs::CloneFlags;

use crate::abi::{answer, call, host_now, on_host, process_id, thread_id};
use crate::block::{Block, Request};
use crate::entry::fdtable_run_start;
use crate::frame::Frame;
use crate::memory::pointer;
use crate::{
    code, ending, exec, exit, memory, observe, patch, program, robust, signals, thread, tracer,
    vfork,
};

/// The size of the runner's stack of each thread, in bytes.
const STACK: usize = 512 << 10;

/// Runs the guest on the calling thread until it exits. Then the thread blocks all signals, also
/// those of the runner. Does not return on the leader.
pub(crate) fn run_guest(block: &Block, mut frame: Frame) {
    loop {
        // SAFETY: the frame is that of a program or a thread that begins, and this thread has a
        // block.
        unsafe { fdtable_run_start(&raw const frame) };
        signals::defer_all(block);
        if exit::is_leader() {
            robust::release_locks(block);
        }
        // First: a thread that waits for the exit expects the signals.
        signals::leave(block);
        announce_end(block);
        if !exit::is_leader() {
            return;
        }
        frame = exec::wait_for_program(block);
    }
}

/// Arguments of `clone` for a new thread or process.
#[derive(Clone, Copy, Default)]
struct Start {
    flags: u64,
    stack: u64,
    fs: u64,
    pidfd: u64,
    parent_id: u64,
    child_id: u64,
}

impl Start {
    fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag.cast_unsigned()) != 0
    }

    /// Returns true if the child begins without the handlers of its parent.
    fn clears_actions(&self) -> bool {
        self.flags & CLEAR_SIGHAND != 0
    }

    /// Returns the address of a word that a flag asks to write; 0 without the flag.
    fn word(&self, flag: i32, at: u64) -> u64 {
        if self.has(flag) { at } else { 0 }
    }
}

/// Starts a thread or a process: `clone(2)`.
pub(crate) fn clone(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let [flags, stack, parent_id, child_id, fs, _] = a.map(i64::cast_unsigned);
    let start = Start {
        flags: flags & LEGACY_FLAGS,
        stack,
        fs,
        // One argument for both.
        pidfd: parent_id,
        parent_id,
        child_id,
    };
    answer(begin(r, start))
}

/// Starts a thread or a process: `clone3(2)`.
pub(crate) fn clone3(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    answer(arguments(a).and_then(|start| begin(r, start)))
}

/// Reads the arguments of `clone3`.
///
/// # Errors
/// `EFAULT`; `EINVAL` if they contradict each other, or name ids or a control group; `E2BIG`.
fn arguments(a: &[i64; 6]) -> Result<Start, i32> {
    let (at, words) = (a[0].cast_unsigned(), a[1].cast_unsigned() / 8);
    if words < 8 {
        return Err(libc::EINVAL);
    }
    if words > memory::PAGE / 8 {
        return Err(libc::E2BIG);
    }
    let [flags, pidfd, child_id, parent_id, signal, stack, length, fs]: [u64; 8] = memory::get(at)?;
    // The ids and their count, the control group, and words of later versions.
    let rest = (8..words).map(|index| memory::get(at + 8 * index));
    let rest: Vec<u64> = rest.collect::<Result<_, _>>()?;
    if rest.iter().skip(3).any(|&word| word != 0) {
        return Err(libc::E2BIG);
    }
    let is_thread = flags & libc::CLONE_THREAD as u64 != 0;
    if rest.iter().take(2).any(|&word| word != 0)
        || flags & (EXIT_SIGNAL | libc::CLONE_DETACHED as u64) != 0
        || signal > LAST_SIGNAL
        || is_thread && signal != 0
        || (stack == 0) != (length == 0)
    {
        return Err(libc::EINVAL);
    }
    Ok(Start {
        flags: flags | signal,
        stack: stack.wrapping_add(length),
        fs,
        pidfd,
        parent_id,
        child_id,
    })
}

/// Starts a copy of the process: `fork(2)`.
pub(crate) fn fork(r: &mut Request<'_>, _: &[i64; 6]) -> i64 {
    copy(r, 0)
}

/// Starts a copy of the process, and waits for it: `vfork(2)`.
pub(crate) fn vfork(r: &mut Request<'_>, _: &[i64; 6]) -> i64 {
    copy(r, libc::CLONE_VFORK | libc::CLONE_VM)
}

fn copy(r: &Request<'_>, flags: i32) -> i64 {
    let start = Start {
        flags: (flags | libc::SIGCHLD) as u64,
        ..Start::default()
    };
    answer(begin(r, start))
}

/// The bits of the signal that a process sends at its end.
const EXIT_SIGNAL: u64 = 0xFF;
const LAST_SIGNAL: u64 = 64;
/// The flags of `clone`, with the signal.
const LEGACY_FLAGS: u64 = 0xFFFF_FFFF;
/// A flag of `clone3` alone: the child begins without the handlers of its parent.
const CLEAR_SIGHAND: u64 = 1 << 32;

fn begin(r: &Request<'_>, start: Start) -> Result<i64, i32> {
    let (block, frame) = (r.block, &*r.frame);
    patch::cpuid::end();
    const NAMESPACES: u64 = 0x7E02_0000 | 0x80;
    // The fork of the host makes only children of this process.
    const REFUSED: u64 = NAMESPACES | libc::CLONE_PARENT as u64 | !(LEGACY_FLAGS | CLEAR_SIGHAND);
    let has = |flag| start.has(flag);
    let is_one_word = has(libc::CLONE_PARENT_SETTID) && start.parent_id == start.pidfd;
    let has_no_pidfd = has(libc::CLONE_THREAD) || has(libc::CLONE_DETACHED) || is_one_word;
    if start.flags & REFUSED != 0
        || has(libc::CLONE_THREAD) && !has(libc::CLONE_SIGHAND)
        || has(libc::CLONE_SIGHAND) && (!has(libc::CLONE_VM) || start.clears_actions())
        || has(libc::CLONE_PIDFD) && has_no_pidfd
    {
        return Err(libc::EINVAL);
    }
    if has(libc::CLONE_THREAD) {
        return begin_thread(block, frame, start);
    }
    if start.flags & !EXIT_SIGNAL == tracer::FLAGS {
        return Ok(tracer::begin(block, frame, start.flags, start.stack));
    }
    // A copy would wait forever for a store of the other process. The child of a `vfork` has a
    // copy, because its parent waits, and then gets the child's changes of its stack.
    let shares = start.flags & (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    if shares == libc::CLONE_VM as u64 {
        return Err(libc::EINVAL);
    }
    // The working directory and the umask are each process's own.
    if has(libc::CLONE_FS) {
        return Err(libc::EINVAL);
    }
    begin_process(block, frame, start)
}

fn begin_thread(parent: &Block, frame: &Frame, start: Start) -> Result<i64, i32> {
    let mut frame = frame.clone();
    frame.rax = 0;
    frame.rsp = start.stack;
    let fs = match start.has(libc::CLONE_SETTLS) {
        true => start.fs,
        false => parent.guest_fs.get(),
    };
    let clear = start.word(libc::CLONE_CHILD_CLEARTID, start.child_id);
    let set = start.word(libc::CLONE_CHILD_SETTID, start.child_id);
    let parent_word = start.word(libc::CLONE_PARENT_SETTID, start.parent_id);
    let serve = parent.serve;
    let (sender, receiver) = mpsc::channel();
    // No signal arrives in the new thread before it has a block.
    let mask = signals::defer_all(parent);
    thread::count();
    let body = move || {
        let block = match Block::prepare(serve) {
            Ok(block) => block,
            Err(error) => {
                let _ = sender.send(Err(error.raw_os_error().unwrap_or(libc::EAGAIN)));
                return;
            }
        };
        let id = thread_id();
        block.guest_fs.set(fs);
        block.clear_on_exit.set(clear);
        // Both before it runs: it may exit, and clear the word, before its parent continues.
        for word in [set, parent_word] {
            // As on the host, one that cannot be written is left out.
            let _ = memory::put_if_any(word, id);
        }
        frame.rip = patch::return_to(&block, frame.rip);
        signals::take_back();
        // At the end of the exit to the guest.
        block.begin_exit_to_guest();
        signals::set_guest_mask(&block, mask);
        signals::deliver_emulated(&block);
        let _ = sender.send(Ok(id));
        drop(sender);
        run_guest(&block, frame);
        Block::end(block);
    };
    let check = program::CHECK.lock();
    let started = std::thread::Builder::new().stack_size(STACK).spawn(body);
    drop(check);
    let id = match started {
        Ok(_) => receiver.recv().unwrap_or(Err(libc::EAGAIN)),
        Err(_) => Err(libc::EAGAIN),
    };
    if id.is_err() {
        thread::uncount();
    }
    id.map(i64::from)
}

/// Wakes the threads that wait for the exit of this one. They may free its memory from then on.
fn announce_end(block: &Block) {
    let at = block.clear_on_exit.take();
    if at != 0 {
        // SAFETY: the guest's word, in memory of its own.
        unsafe { pointer::<i32>(at).write_volatile(0) };
        host_now(
            libc::SYS_futex,
            [at.cast_signed(), libc::FUTEX_WAKE.into(), 1, 0, 0, 0],
        );
    }
}

/// The reason why the host cannot run processes that share the kernel, if there is one.
static MISSING: OnceLock<String> = OnceLock::new();

/// Has a fork end the program, with a sentence that gives the reason.
pub(crate) fn refuse_forks(missing: String) {
    // The first reason stays.
    let _ = MISSING.set(missing);
}

/// A descriptor for a child of this process: `CLONE_PIDFD`.
struct Pidfd {
    fd: i64,
    /// Address of the guest's word for it.
    at: u64,
}

impl Pidfd {
    /// Opens the descriptor before there is a child, for this process.
    ///
    /// # Errors
    /// `EFAULT`; those of `pidfd_open`.
    fn reserve(at: u64) -> Result<Self, i32> {
        memory::get::<i32>(at).and_then(|word| memory::put(at, word))?;
        let fd = open_pidfd(process_id())?;
        Ok(Pidfd { fd, at })
    }

    /// Lets the descriptor lead to the child.
    fn lead_to(self, child: i32) {
        let at = self.at;
        // The next one is the same, unless another thread takes it.
        drop(self);
        let fd = open_pidfd(child).unwrap_or(-1);
        let _ = memory::put(at, fd as i32);
    }
}

impl Drop for Pidfd {
    fn drop(&mut self) {
        call!(fdt_close(self.fd));
    }
}

fn open_pidfd(process: i32) -> Result<i64, i32> {
    let fd = on_host(libc::SYS_pidfd_open, [process.into(), 0, 0, 0, 0, 0]);
    if fd < 0 { Err(-fd as i32) } else { Ok(fd) }
}

fn begin_process(block: &Block, frame: &Frame, start: Start) -> Result<i64, i32> {
    signals::defer_all(block);
    if MISSING.get().is_none() && !runner::begin_tracing() {
        refuse_forks("the host does not allow ptrace(2)".to_owned());
    }
    if let Some(missing) = MISSING.get() {
        eprintln!("fdtable: the program forks, and its processes cannot share a kernel: {missing}");
        return Ok(exit::end_process(125));
    }
    let files = match start.has(libc::CLONE_FILES) {
        true => CloneFlags::FILES,
        false => CloneFlags::empty(),
    };
    let is_shown = start.has(libc::CLONE_PIDFD);
    let pidfd = is_shown.then(|| Pidfd::reserve(start.pidfd)).transpose()?;
    let waits = start.has(libc::CLONE_VFORK);
    let pipe = if waits { vfork::open_pipe() } else { None };
    if waits && pipe.is_none() {
        return Err(libc::EAGAIN);
    }
    patch::catch_up();
    code::count_fork();
    // The table is copied first, and the host's descriptors by the fork: another thread that closes
    // one does that before both, or after them.
    host_fork::freeze();
    let child = match runner::Child::prepare(files) {
        Ok(child) => child,
        Err(errno) => {
            host_fork::thaw();
            pipe.into_iter().flatten().for_each(vfork::close_end);
            return Err(errno.errno());
        }
    };
    // SAFETY: the child continues on a copy of this thread. The fork handlers release what other
    // threads hold.
    let id = unsafe { libc::fork() };
    host_fork::thaw();
    match id {
        -1 => {
            pipe.into_iter().flatten().for_each(vfork::close_end);
            Err(libc::EAGAIN)
        }
        0 => {
            child.begin();
            let shared_stack = start.has(libc::CLONE_VM).then_some(frame.rsp);
            vfork::in_child(pipe, shared_stack);
            begin_child(block, start);
            if start.has(libc::CLONE_FILES) {
                // The parent closes it for both.
                std::mem::forget(pidfd);
            }
            Ok(0)
        }
        id => {
            child.leave_to(id);
            let parent_word = start.word(libc::CLONE_PARENT_SETTID, start.parent_id);
            let _ = memory::put_if_any(parent_word, id);
            if let Some(pidfd) = pidfd {
                pidfd.lead_to(id);
            }
            if let Some(pipe) = pipe {
                vfork::wait_for_child(block, pipe);
            }
            Ok(id.into())
        }
    }
}

/// Continues in the child of a fork, which has this thread alone.
fn begin_child(block: &Block, start: Start) {
    code::forget();
    patch::open_all();
    ending::release_claim();
    exec::forget_timers();
    signals::forget_carried();
    tracer::forget();
    thread::forget_others();
    observe::in_child();
    if block.intercept().is_err() {
        exit::end(127);
    }
    if start.has(libc::CLONE_SETTLS) {
        block.guest_fs.set(start.fs);
    }
    let clear = start.word(libc::CLONE_CHILD_CLEARTID, start.child_id);
    block.clear_on_exit.set(clear);
    // As on the host, the list is not inherited.
    block.robust_list.set(0);
    let word = start.word(libc::CLONE_CHILD_SETTID, start.child_id);
    let _ = memory::put_if_any(word, thread_id());
    if start.clears_actions() {
        signals::reset(block);
    }
    if start.stack != 0 {
        block.child_stack.set(start.stack);
    }
}

/// Waits for a child: `wait4(2)` and `waitid(2)`. `host` makes the call.
pub(crate) fn wait(number: i64, mut a: [i64; 6], host: impl FnOnce([i64; 6]) -> i64) -> i64 {
    let end = runner::next_name();
    // The status says whether the child has exited, also where the program does not ask for it.
    let mut own = [0_i32; 32];
    let (answer, size) = match number {
        libc::SYS_wait4 => (1, 1),
        _ => (2, own.len()),
    };
    let place = a[answer].cast_unsigned();
    if place == 0 {
        a[answer] = own.as_mut_ptr().expose_provenance() as i64;
    }
    let result = host(a);
    if result < 0 {
        return result;
    }
    if place != 0 {
        for (at, word) in (place..).step_by(4).zip(&mut own[..size]) {
            *word = memory::get(at).unwrap_or(0);
        }
    }
    let id = if number == libc::SYS_wait4 {
        let has_ended = libc::WIFEXITED(own[0]) || libc::WIFSIGNALED(own[0]);
        if has_ended { result as i32 } else { 0 }
    } else {
        let [_, _, code, _, id, ..] = own;
        match code {
            libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED => id,
            _ => 0,
        }
    };
    if id > 0 {
        // SAFETY: the host has reported its end, and it had begun before.
        unsafe { runner::reap(id, end) };
    }
    result
}
