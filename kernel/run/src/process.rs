//! Threads and processes of the guest: how they begin.
//!
//! A thread of the guest is a thread of the runner, with a stack of its own for calls. A process is
//! a fork of the runner, and uses the same kernel. The leader, whose id is that of the process,
//! stays in the runner after its end, for a program that another thread executes (see `exec`).

use std::sync::{OnceLock, mpsc};

use fdtable::host_fork;
use fdtable_posix::runner;
use fdtable_vfs::CloneFlags;

use crate::abi::{host_now, thread_id};
use crate::block::{Block, Request};
use crate::entry::fdtable_run_start;
use crate::frame::Frame;
use crate::memory::pointer;
use crate::{
    code, ending, exec, exit, memory, observe, patch, robust, signals, thread, tracer, vfork,
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

/// Flags of `clone` for threads.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;

/// Arguments of `clone` for a new thread or process.
#[derive(Clone, Copy, Default)]
struct Start {
    flags: u64,
    stack: u64,
    fs: u64,
    parent_id: u64,
    child_id: u64,
}

impl Start {
    fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag.cast_unsigned()) != 0
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
        flags,
        stack,
        fs,
        parent_id,
        child_id,
    };
    begin(r, start)
}

/// Starts a thread or a process: `clone3(2)`.
pub(crate) fn clone3(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    if (a[1] as usize) < size_of::<[u64; 8]>() {
        return -i64::from(libc::EINVAL);
    }
    let Ok(arguments) = memory::get::<[u64; 8]>(a[0].cast_unsigned()) else {
        return -i64::from(libc::EFAULT);
    };
    let [flags, _pidfd, child_id, parent_id, signal, stack, size, fs] = arguments;
    let start = Start {
        flags: flags | signal,
        stack: if stack == 0 { 0 } else { stack + size },
        fs,
        parent_id,
        child_id,
    };
    begin(r, start)
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
    begin(r, start)
}

fn begin(r: &Request<'_>, start: Start) -> i64 {
    let (block, frame) = (r.block, &*r.frame);
    patch::cpuid::end();
    const PIDFD: u64 = libc::CLONE_PIDFD as u64;
    const NAMESPACES: u64 = 0x7E02_0000 | 0x80;
    if start.flags & (PIDFD | NAMESPACES) != 0 {
        return -i64::from(libc::EINVAL);
    }
    if start.flags & THREAD == THREAD {
        return begin_thread(block, frame, start);
    }
    const EXIT_SIGNAL: u64 = 0xFF;
    if start.flags & !EXIT_SIGNAL == tracer::FLAGS {
        return tracer::begin(block, frame, start.flags, start.stack);
    }
    // A copy would wait forever for a store of the other process. The child of a `vfork` has a
    // copy, because its parent waits, and then gets the child's changes of its stack.
    let shares = start.flags & (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    if shares == libc::CLONE_VM as u64 {
        return -i64::from(libc::EINVAL);
    }
    // The working directory and the umask are each process's own.
    if start.has(libc::CLONE_FS) {
        return -i64::from(libc::EINVAL);
    }
    begin_process(block, frame, start)
}

fn begin_thread(parent: &Block, frame: &Frame, start: Start) -> i64 {
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
    let started = std::thread::Builder::new().stack_size(STACK).spawn(body);
    let id = match started {
        Ok(_) => receiver.recv().unwrap_or(Err(libc::EAGAIN)),
        Err(_) => Err(libc::EAGAIN),
    };
    match id {
        Ok(id) => id.into(),
        Err(errno) => {
            thread::uncount();
            -i64::from(errno)
        }
    }
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

fn begin_process(block: &Block, frame: &Frame, start: Start) -> i64 {
    if let Some(missing) = MISSING.get() {
        eprintln!("fdtable: the program forks, and its processes cannot share a kernel: {missing}");
        return exit::end_process(125);
    }
    let files = match start.has(libc::CLONE_FILES) {
        true => CloneFlags::FILES,
        false => CloneFlags::empty(),
    };
    let waits = start.has(libc::CLONE_VFORK);
    let pipe = if waits { vfork::open_pipe() } else { None };
    if waits && pipe.is_none() {
        return -i64::from(libc::EAGAIN);
    }
    patch::catch_up();
    code::count_fork();
    signals::defer_all(block);
    // The table is copied first, and the host's descriptors by the fork: another thread that closes
    // one does that before both, or after them.
    host_fork::freeze();
    let child = match runner::Child::prepare(files) {
        Ok(child) => child,
        Err(errno) => {
            host_fork::thaw();
            pipe.into_iter().flatten().for_each(vfork::close_end);
            return -i64::from(errno.errno());
        }
    };
    // SAFETY: the child continues on a copy of this thread. The fork handlers release what other
    // threads hold.
    let id = unsafe { libc::fork() };
    host_fork::thaw();
    match id {
        -1 => {
            pipe.into_iter().flatten().for_each(vfork::close_end);
            -i64::from(libc::EAGAIN)
        }
        0 => {
            child.begin();
            let shared_stack = start.has(libc::CLONE_VM).then_some(frame.rsp);
            vfork::in_child(pipe, shared_stack);
            begin_child(block, start);
            0
        }
        id => {
            child.leave_to(id);
            let parent_word = start.word(libc::CLONE_PARENT_SETTID, start.parent_id);
            let _ = memory::put_if_any(parent_word, id);
            if let Some(pipe) = pipe {
                vfork::wait_for_child(block, pipe);
            }
            id.into()
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
