//! Threads and processes of the guest: how they begin and end.
//!
//! A thread of the guest is a thread of the runner, with a stack of its own for calls. A process is
//! a fork of the runner, with a copy of its kernel. The leader, whose id is that of the process,
//! stays in the runner after its end, for a program that another thread executes (see `exec`).

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use fdtable::host_fork;
use fdtable_posix::runner;
use fdtable_vfs::CloneFlags;

use crate::calls::host_now;
use crate::code;
use crate::entry::{Frame, fdtable_run_start, fdtable_run_stop};
use crate::exec;
use crate::guarded::Guarded;
use crate::memory::{self, pointer};
use crate::observe;
use crate::patch;
use crate::signals;
use crate::thread::Block;
use crate::tracer;

/// The size of the runner's stack of each thread, in bytes.
const STACK: usize = 512 << 10;

/// How many threads of the guest there are.
static THREADS: AtomicUsize = AtomicUsize::new(1);

/// Returns true if the guest has one thread.
pub(crate) fn is_alone() -> bool {
    THREADS.load(Ordering::SeqCst) == 1
}

/// Returns and sets the base of a segment: `arch_prctl(2)`.
pub(crate) fn set_base(block: &Block, a: [i64; 6]) -> i64 {
    const ARCH_SET_FS: i64 = 0x1002;
    const ARCH_GET_FS: i64 = 0x1003;
    const ARCH_SET_GS: i64 = 0x1001;
    const ARCH_GET_GS: i64 = 0x1004;
    const SHADOW_STACK_FIRST: i64 = 0x5001;
    const SHADOW_STACK_LAST: i64 = 0x5005;
    patch::cpuid::end();
    match a[0] {
        ARCH_SET_FS => {
            block.guest_fs.set(a[1].cast_unsigned());
            0
        }
        ARCH_GET_FS => {
            // SAFETY: the guest's word.
            unsafe { pointer::<u64>(a[1].cast_unsigned()).write_unaligned(block.guest_fs.get()) };
            0
        }
        // Shadow stacks do not know the runner's stacks: as on a CPU without them.
        SHADOW_STACK_FIRST..=SHADOW_STACK_LAST => -i64::from(libc::EOPNOTSUPP),
        // It is the runner's.
        ARCH_SET_GS | ARCH_GET_GS => -i64::from(libc::EPERM),
        _ => host_now(libc::SYS_arch_prctl, a),
    }
}

/// Returns true if the id of the calling thread is that of the process.
pub(crate) fn is_leader() -> bool {
    // SAFETY: they take nothing.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Value that the guest has set by `PR_SET_DUMPABLE`. If the supervisor traces the process, the
/// runner does not tell the host, which would no longer let the supervisor read the memory of the
/// process.
static IS_DUMPABLE: AtomicBool = AtomicBool::new(true);

/// Lets others look at the process, or not: `PR_SET_DUMPABLE`.
pub(crate) fn set_dumpable(a: [i64; 6]) -> i64 {
    match (host_fork::shares_memory(), a[1]) {
        (false, _) => host_now(libc::SYS_prctl, a),
        (true, 0 | 1) => {
            IS_DUMPABLE.store(a[1] == 1, Ordering::SeqCst);
            0
        }
        (true, _) => -i64::from(libc::EINVAL),
    }
}

/// Returns the value that was set: `PR_GET_DUMPABLE`.
pub(crate) fn dumpable(a: [i64; 6]) -> i64 {
    match host_fork::shares_memory() {
        false => host_now(libc::SYS_prctl, a),
        true => IS_DUMPABLE.load(Ordering::SeqCst).into(),
    }
}

/// Resets the value for a new program.
pub(crate) fn begin_program() {
    IS_DUMPABLE.store(true, Ordering::SeqCst);
}

/// The exit status of the process if all threads end one by one: that of the leader.
static LEADER_STATUS: AtomicI32 = AtomicI32::new(0);

/// Set once another process of the tree has killed this one.
static IS_KILLED: AtomicBool = AtomicBool::new(false);

/// Returns true if another process of the tree kills this one, which ends at the end of its calls.
pub(crate) fn is_killed() -> bool {
    let is_killed = runner::must_exit();
    if is_killed {
        IS_KILLED.store(true, Ordering::SeqCst);
    }
    is_killed
}

/// Has a process of the tree end at the end of its calls, before it is killed. Waits for that, for
/// a tenth of a second at most. Returns false, and does nothing, for other processes.
pub(crate) fn end_before_kill(id: i32) -> bool {
    const PATIENCE: i32 = 100;
    // SAFETY: it takes integers.
    if unsafe { libc::kill(id, 0) } != 0 || !runner::request_exit(id) {
        return false;
    }
    // SAFETY: it takes integers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) } as i32;
    if pidfd < 0 {
        return true;
    }
    signals::kill(id);
    let mut ended = libc::pollfd {
        fd: pidfd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one entry.
    unsafe { libc::poll(&raw mut ended, 1, PATIENCE) };
    // SAFETY: it takes an integer.
    unsafe { libc::close(pidfd) };
    true
}

/// Ends the calling thread: `_exit(2)` of one thread.
pub(crate) fn end_thread(code: i32) -> i64 {
    runner::end_completion();
    if IS_KILLED.load(Ordering::SeqCst) && exec::claim() {
        exec::end_others();
        leave_tree();
        // SAFETY: it takes an integer. It does not return.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    if is_leader() {
        LEADER_STATUS.store(code, Ordering::SeqCst);
    }
    if THREADS.fetch_sub(1, Ordering::SeqCst) == 1 {
        end(LEADER_STATUS.load(Ordering::SeqCst));
    }
    // SAFETY: the thread runs in `fdtable_run_start`, and nothing of the call is needed any more.
    unsafe { fdtable_run_stop() }
}

/// Runs the guest on the calling thread until its end, from which on the thread blocks all signals,
/// also those of the runner. Does not return on the leader.
pub(crate) fn run_guest(block: &Block, mut frame: Frame) {
    loop {
        // SAFETY: the frame is that of a program or a thread that begins, and this thread has a
        // block.
        unsafe { fdtable_run_start(&raw const frame) };
        signals::hold_all(block);
        if is_leader() {
            exec::release_robust_locks(block);
        }
        // Before: a thread that waits for the end expects the signals.
        signals::leave(block);
        announce_end(block);
        if !is_leader() {
            return;
        }
        frame = exec::wait_for_program(block);
    }
}

/// Ends the process: `exit_group(2)`.
pub(crate) fn end_process(code: i32) -> i64 {
    if exec::is_beginning() {
        // Another thread has been first, and ends this one.
        return end_thread(code);
    }
    end(code)
}

/// Closes the files of this process, which is about to end, if it shares the kernel with others.
pub(crate) fn leave_tree() {
    if host_fork::shares_memory() {
        if !is_alone() && exec::claim() {
            exec::end_others();
        }
        runner::end();
        // No other thread ends inside of a call.
        host_fork::freeze();
    }
}

/// Ends the process.
fn end(code: i32) -> ! {
    observe::at_end();
    leave_tree();
    report_to_parent();
    // SAFETY: it takes an integer.
    unsafe { libc::_exit(code) }
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

/// Starts a thread or a process: `clone(2)`.
pub(crate) fn clone(block: &'static Block, frame: &Frame, a: [i64; 6]) -> i64 {
    let [flags, stack, parent_id, child_id, fs, _] = a.map(i64::cast_unsigned);
    begin(
        block,
        frame,
        Start {
            flags,
            stack,
            fs,
            parent_id,
            child_id,
        },
    )
}

/// Starts a thread or a process: `clone3(2)`.
pub(crate) fn clone3(block: &'static Block, frame: &Frame, a: [i64; 6]) -> i64 {
    #[repr(C)]
    struct Arguments {
        flags: u64,
        pidfd: u64,
        child_id: u64,
        parent_id: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        fs: u64,
    }
    if (a[1] as usize) < size_of::<Arguments>() {
        return -i64::from(libc::EINVAL);
    }
    // SAFETY: the guest's struct.
    let all = unsafe { pointer::<Arguments>(a[0].cast_unsigned()).read_unaligned() };
    let stack = if all.stack == 0 {
        0
    } else {
        all.stack + all.stack_size
    };
    let start = Start {
        flags: all.flags | all.exit_signal,
        stack,
        fs: all.fs,
        parent_id: all.parent_id,
        child_id: all.child_id,
    };
    begin(block, frame, start)
}

/// Starts a copy of the process: `fork(2)` and `vfork(2)`.
pub(crate) fn fork(block: &'static Block, frame: &Frame, flags: u64) -> i64 {
    begin(
        block,
        frame,
        Start {
            flags: flags | libc::SIGCHLD as u64,
            ..Start::default()
        },
    )
}

fn begin(block: &'static Block, frame: &Frame, start: Start) -> i64 {
    patch::cpuid::end();
    const PIDFD: u64 = libc::CLONE_PIDFD as u64;
    const NAMESPACES: u64 = 0x7E02_0000 | 0x80;
    if start.flags & (PIDFD | NAMESPACES) != 0 {
        return -i64::from(libc::EINVAL);
    }
    if start.flags & THREAD == THREAD {
        return begin_thread(frame, start);
    }
    const EXIT_SIGNAL: u64 = 0xFF;
    if start.flags & !EXIT_SIGNAL == tracer::FLAGS {
        return tracer::begin(block, frame, start.flags, start.stack);
    }
    // A copy would wait forever for what the other process writes. The child of a `vfork` has a
    // copy, because its parent waits, and gets what the child has written to its stack.
    let shares = start.flags & (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    if shares == libc::CLONE_VM as u64 {
        return -i64::from(libc::EINVAL);
    }
    // The working directory and the umask are each process's own.
    let shared = (libc::CLONE_FS | libc::CLONE_FILES) as u64 & start.flags;
    let is_known = shared == 0 || shared == libc::CLONE_FILES as u64 && host_fork::shares_memory();
    if !is_known {
        return -i64::from(libc::EINVAL);
    }
    begin_process(block, frame, start)
}

fn begin_thread(frame: &Frame, start: Start) -> i64 {
    let mut frame = frame.clone();
    frame.rax = 0;
    frame.rsp = start.stack;
    let fs = (start.flags & libc::CLONE_SETTLS as u64 != 0).then_some(start.fs);
    let fs = fs.unwrap_or_else(|| Block::current().guest_fs.get());
    let clears = start.flags & libc::CLONE_CHILD_CLEARTID as u64 != 0;
    let clear = if clears { start.child_id } else { 0 };
    let sets = start.flags & libc::CLONE_CHILD_SETTID as u64 != 0;
    let set = if sets { start.child_id } else { 0 };
    let tells = start.flags & libc::CLONE_PARENT_SETTID as u64 != 0;
    let parent = if tells { start.parent_id } else { 0 };
    let (tell, hear) = mpsc::channel();
    // No signal arrives in the new thread before it has a block.
    let mask = signals::hold_all(Block::current());
    THREADS.fetch_add(1, Ordering::SeqCst);
    let body = move || {
        let block = match Block::prepare() {
            Ok(block) => block,
            Err(error) => {
                let _ = tell.send(Err(error.raw_os_error().unwrap_or(libc::EAGAIN)));
                return;
            }
        };
        // SAFETY: it takes nothing.
        let id = unsafe { libc::gettid() };
        block.guest_fs.set(fs);
        block.clear_on_exit.set(clear);
        // Both before it runs: it may end, and clear the word, before its parent continues.
        for word in [set, parent].into_iter().filter(|&word| word != 0) {
            // SAFETY: the guest's word.
            unsafe { pointer::<i32>(word).write_unaligned(id) };
        }
        frame.rip = patch::return_to(&block, frame.rip);
        signals::take_back();
        // At the end of the way to the guest.
        block.begin_way_out();
        signals::set_guest_mask(&block, mask);
        signals::deliver_kept(&block);
        let _ = tell.send(Ok(id));
        drop(tell);
        run_guest(&block, frame);
        Block::end(block);
    };
    let started = thread::Builder::new().stack_size(STACK).spawn(body);
    let id = match started {
        Ok(_) => hear.recv().unwrap_or(Err(libc::EAGAIN)),
        Err(_) => Err(libc::EAGAIN),
    };
    match id {
        Ok(id) => id.into(),
        Err(errno) => {
            THREADS.fetch_sub(1, Ordering::SeqCst);
            -i64::from(errno)
        }
    }
}

/// Tells the guest that the thread has ended. It may free the thread's memory from then on.
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

/// The parent that waits in `vfork`, in its child.
struct Parent {
    /// The writing end of the pipe by which the child lets the parent continue. The end of the
    /// process closes it too.
    pipe: i32,
    /// The parent's stack above its frame, as it was; nothing if memory is not shared.
    stack: Vec<u8>,
    stack_at: u64,
}

static PARENT: Guarded<Option<Parent>> = Guarded::new(None);

/// The ends of all pipes of threads in `vfork`. Each child closes those of other threads: nothing
/// else does, as no program is executed on the host, and a thread waits until its pipe has no
/// writer.
static PIPES: Guarded<Vec<i32>> = Guarded::new(Vec::new());

/// Makes a pipe of a thread in `vfork`.
fn open_pipe() -> Option<[i32; 2]> {
    // A fork of another thread waits for the lock: its child sees the descriptors and the list.
    let mut pipes = PIPES.lock();
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    pipes.extend(pipe);
    Some(pipe)
}

/// Closes an end of such a pipe.
fn close_end(end: i32) {
    let mut pipes = PIPES.lock();
    pipes.retain(|fd| *fd != end);
    // SAFETY: it takes an integer.
    unsafe { libc::close(end) };
}

/// Closes all such pipes in the child of a fork, but for the end that it writes to.
fn leave_pipes(own: Option<i32>) {
    let mut pipes = PIPES.lock();
    for fd in pipes.extract_if(.., |fd| Some(*fd) != own) {
        // SAFETY: it takes an integer.
        unsafe { libc::close(fd) };
    }
}

/// How much of the parent's stack a child of `vfork` shares, in bytes.
const SHARED: usize = 16 << 10;

/// A word of the guest's memory, as the child writes it to the pipe: its address, what it was, and
/// what it is.
type Word = [u64; 3];

/// Lets the parent continue that waits in `vfork`.
pub(crate) fn release_parent() {
    let parent = PARENT.lock().take();
    if let Some(Parent { pipe, .. }) = parent {
        close_end(pipe);
    }
}

/// Passes on to a parent in `vfork` what this process has written to its stack. The process ends
/// without a program: so `posix_spawn` reports why there is none.
fn report_to_parent() {
    let Some(parent) = PARENT.lock().take() else {
        return;
    };
    let now = memory::read(parent.stack_at, parent.stack.len());
    let words = |bytes: &[u8]| {
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    };
    let (before, now): (Vec<u64>, Vec<u64>) = (words(&parent.stack), words(&now));
    let changed = (parent.stack_at..).step_by(8).zip(before.iter().zip(&now));
    let changed: Vec<Word> = changed
        .filter(|(_, (before, now))| before != now)
        .map(|(at, (before, now))| [at, *before, *now])
        .collect();
    // Without a reader there is no receiver, and SIGPIPE is not for the program.
    signals::hold_all(Block::current());
    let bytes: Vec<u8> = changed
        .iter()
        .flatten()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    // SAFETY: the descriptor is open, and stays so until the process ends.
    let mut pipe = ManuallyDrop::new(unsafe { File::from_raw_fd(parent.pipe) });
    // All of it: a signal of the runner may arrive in between. A parent that ends reads nothing.
    let _ = pipe.write_all(&bytes);
}

/// Waits for the child of a `vfork`, and stores what it passes on. As on the host, signals are
/// blocked, and the end of the thread ends the wait.
fn wait_for_child(block: &Block, fd: i32) {
    // Not on the stack, where each fork would pay for it.
    let mut words: Vec<Word> = vec![[0; 3]; SHARED / 8];
    let (mut at, mut left) = (words.as_mut_ptr().cast::<u8>(), size_of_val(&*words));
    loop {
        // SAFETY: there is room for so many bytes.
        let count = unsafe { libc::read(fd, at.cast(), left) };
        match usize::try_from(count) {
            Ok(0) => break,
            Ok(count) => {
                // SAFETY: so many bytes were stored there.
                at = unsafe { at.add(count) };
                left -= count;
            }
            Err(_) if block.is_to_end() => return,
            // A signal of the runner.
            Err(_) => {}
        }
    }
    let count = (size_of_val(&*words) - left) / size_of::<Word>();
    for [at, before, now] in &words[..count] {
        let bytes = before.to_ne_bytes().into_iter().zip(now.to_ne_bytes());
        // The others may be those of another thread, which has changed them since.
        let changed = (*at..)
            .zip(bytes)
            .filter(|(_, (before, now))| before != now);
        changed.for_each(|(at, (_, now))| memory::write(at, &[now]));
    }
}

fn begin_process(block: &Block, frame: &Frame, start: Start) -> i64 {
    let files = match start.flags & libc::CLONE_FILES as u64 {
        0 => CloneFlags::empty(),
        _ => CloneFlags::FILES,
    };
    let waits = start.flags & libc::CLONE_VFORK as u64 != 0;
    let shares = waits && start.flags & libc::CLONE_VM as u64 != 0;
    let pipe = if waits { open_pipe() } else { None };
    if waits && pipe.is_none() {
        return -i64::from(libc::EAGAIN);
    }
    patch::catch_up();
    code::count_fork();
    signals::hold_all(block);
    // The table is copied first, and the host's descriptors by the fork: another thread that closes
    // one does that before both, or after them.
    host_fork::freeze();
    let child = match host_fork::shares_memory()
        .then(|| runner::Child::prepare(files))
        .transpose()
    {
        Ok(child) => child,
        Err(errno) => {
            host_fork::thaw();
            pipe.into_iter().flatten().for_each(close_end);
            return -i64::from(errno.errno());
        }
    };
    // SAFETY: the child continues on a copy of this thread; what other threads hold is dealt with
    // by the handlers of forks.
    let id = unsafe { libc::fork() };
    host_fork::thaw();
    match id {
        -1 => {
            pipe.into_iter().flatten().for_each(close_end);
            -i64::from(libc::EAGAIN)
        }
        0 => {
            if let Some(child) = child {
                child.begin();
            }
            code::forget();
            patch::open_all();
            // It is the parent's.
            *PARENT.lock() = None;
            leave_pipes(pipe.map(|[_, writes]| writes));
            if let Some([_, writes]) = pipe {
                // Not before: what other threads of the parent change is not the child's. Not what
                // is mapped behind the stack: it may be the runner's.
                let size = match shares {
                    true => SHARED.min(memory::size_from(frame.rsp) as usize),
                    false => 0,
                };
                let stack = memory::read(frame.rsp, size);
                *PARENT.lock() = Some(Parent {
                    pipe: writes,
                    stack,
                    stack_at: frame.rsp,
                });
            }
            THREADS.store(1, Ordering::SeqCst);
            exec::forget();
            tracer::forget();
            crate::thread::forget_others();
            observe::in_child();
            if block.intercept().is_err() {
                end(127);
            }
            begin_child(block, start);
            0
        }
        id => {
            if let Some(child) = child {
                child.leave_to(id);
            }
            if start.flags & libc::CLONE_PARENT_SETTID as u64 != 0 {
                // SAFETY: the guest's word.
                unsafe { pointer::<i32>(start.parent_id).write_unaligned(id) };
            }
            if let Some([reads, writes]) = pipe {
                close_end(writes);
                wait_for_child(block, reads);
                close_end(reads);
            }
            id.into()
        }
    }
}

/// Waits for a child: `wait4(2)` and `waitid(2)`. `host` makes the call.
pub(crate) fn wait(number: i64, mut a: [i64; 6], host: impl FnOnce([i64; 6]) -> i64) -> i64 {
    if !host_fork::shares_memory() {
        return host(a);
    }
    let end = runner::next_name();
    // The answers say whether the child has ended, also where the program does not ask for them.
    let (mut status, mut info) = (0, [0_i32; 32]);
    let at = match number {
        libc::SYS_wait4 => 1,
        _ => 2,
    };
    let is_ours = a[at] == 0;
    if is_ours {
        a[at] = match number {
            libc::SYS_wait4 => (&raw mut status).expose_provenance() as i64,
            _ => info.as_mut_ptr().expose_provenance() as i64,
        };
    }
    let result = host(a);
    if result < 0 {
        return result;
    }
    let id = if number == libc::SYS_wait4 {
        if !is_ours {
            let place = pointer::<i32>(a[at].cast_unsigned());
            // SAFETY: the guest's word, which the call has written.
            status = unsafe { runner::value(place) }.unwrap_or(0);
        }
        let has_ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        if has_ended { result as i32 } else { 0 }
    } else {
        if !is_ours {
            let place = pointer::<[i32; 32]>(a[at].cast_unsigned());
            // SAFETY: the guest's struct, which the call has written.
            info = unsafe { runner::value(place) }.unwrap_or([0; 32]);
        }
        let [_, _, code, _, id, ..] = info;
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

fn begin_child(block: &Block, start: Start) {
    if start.flags & libc::CLONE_SETTLS as u64 != 0 {
        block.guest_fs.set(start.fs);
    }
    let clears = start.flags & libc::CLONE_CHILD_CLEARTID as u64 != 0;
    block
        .clear_on_exit
        .set(if clears { start.child_id } else { 0 });
    // As on the host, the list is not inherited.
    block.robust_list.set(0);
    if start.flags & libc::CLONE_CHILD_SETTID as u64 != 0 {
        // SAFETY: the guest's word.
        unsafe { pointer::<i32>(start.child_id).write_unaligned(libc::gettid()) };
    }
    if start.stack != 0 {
        block.child_stack.set(start.stack);
    }
}
