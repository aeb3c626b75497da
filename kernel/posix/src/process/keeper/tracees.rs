//! The threads that the keeper traces, so that none dies in the middle of a call.
//!
//! A thread that SIGKILL ends is held by the host at its last stop, `PTRACE_EVENT_EXIT`: it runs no
//! more, but its registers, its memory, its descriptors and its working directory are still there.
//! When all threads of the process are held, or have ended, the process is *settled*:
//!
//! 1. If one was in a call of the kernel, a [stand-in](super::stand_in) completes these calls.
//! 2. The process is [buried](crate::process::tree::bury): its descriptors are closed.
//! 3. The threads are let go. Only then does its parent learn of its end.
//!
//! So what others share with it is never left in the middle of a change, and a parent that has
//! waited finds its pipes closed, as on Linux.
//!
//! The host attaches the children and the threads of a tracee as they are made, so there is no
//! moment at which one is not traced. Signals and stops pass through the keeper, which lets them go
//! on unchanged.
//!
//! A debugger takes the place of the keeper ([`Tracees::release`]). Such a process is then only
//! watched, as where the host does not let the keeper trace.

use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_void};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::time::{Duration, Instant};

use fdtable_vfs::Errno;

use super::stand_in::{Dead, StandIn};
use crate::host::check;
use crate::process::tree;

/// What the keeper has to know of the threads of a runner.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// Where the base of `fs` is that a thread has in the runner, in what `gs` leads to. A thread
    /// whose `gs` is 0 has that base always.
    pub fs_at: usize,
    /// Where the id of the thread is there.
    pub id_at: usize,
    /// The handler of signals.
    pub handler: unsafe extern "C" fn(),
    /// What it returns to.
    pub restorer: unsafe extern "C" fn(),
    /// The signal, and its code, by which a thread hears that its process is killed.
    pub killed: (c_int, c_int),
}

/// How long the calls of a killed process may take. Those that wait are interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// The stop in which a thread is that was interrupted, or has begun, or is stopped by a signal.
const EVENT_STOP: c_int = 128;

/// All that is traced.
pub(super) struct Tracees {
    threads: Threads,
    /// By the id of the process: its threads, and whether the host holds each at its end.
    processes: HashMap<c_int, HashMap<c_int, bool>>,
    /// By the id of a thread: its process.
    process_of: HashMap<c_int, c_int>,
    /// Processes whose threads are let go, as they stop.
    released: Vec<c_int>,
    /// Those that were let go, and are to be watched.
    pub(super) left: Vec<c_int>,
    /// Those that complete calls, by their ids; the process of each; and when each began.
    stand_ins: HashMap<c_int, (StandIn, c_int, Instant)>,
}

impl Tracees {
    pub(super) fn new(threads: Threads) -> Self {
        Self {
            threads,
            processes: HashMap::new(),
            process_of: HashMap::new(),
            released: Vec::new(),
            left: Vec::new(),
            stand_ins: HashMap::new(),
        }
    }

    /// Traces the first process, which has one thread.
    ///
    /// # Errors
    /// Those of the host's `ptrace`.
    pub(super) fn begin(&mut self, id: c_int) -> Result<(), Errno> {
        let options = libc::PTRACE_O_TRACEEXIT
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE;
        request(libc::PTRACE_SEIZE, id, options as c_long)?;
        self.add(id, id);
        Ok(())
    }

    /// Lets a process go, so that another one can trace it. Does nothing if it is not traced.
    pub(super) fn release(&mut self, process: c_int) {
        let Some(threads) = self.processes.get(&process) else {
            return;
        };
        for (&thread, _) in threads.iter().filter(|(_, is_held)| !**is_held) {
            // One that ends does not answer.
            let _ = request(libc::PTRACE_INTERRUPT, thread, 0);
        }
        self.released.push(process);
    }

    /// Deals with all that has happened.
    pub(super) fn follow(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: there is room for the status.
            let id = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
            if id <= 0 {
                break;
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(id, libc::WSTOPSIG(status), status >> 16);
            } else if let Some((stand_in, process, _)) = self.stand_ins.remove(&id) {
                drop(stand_in);
                self.let_go(process);
            } else {
                self.forget(id);
            }
        }
    }

    /// Ends stand-ins that take too long. Returns true if there are some.
    pub(super) fn look_at_stand_ins(&self) -> bool {
        for (&id, (_, _, begun)) in &self.stand_ins {
            if begun.elapsed() > PATIENCE {
                // SAFETY: it takes integers. It is a child that was not waited for.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }
        }
        !self.stand_ins.is_empty()
    }

    fn stopped(&mut self, id: c_int, signal: c_int, event: c_int) {
        match event {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Some(child) = message(id) {
                    tree::born(id, child as c_int);
                    self.add(child as c_int, child as c_int);
                }
            }
            libc::PTRACE_EVENT_CLONE => {
                if let Some(child) = message(id) {
                    self.add(process_of(child as c_int), child as c_int);
                }
            }
            libc::PTRACE_EVENT_EXIT => return self.ends(id),
            _ => {
                // A child may stop before its parent reports it.
                if !self.process_of.contains_key(&id) {
                    self.add(process_of(id), id);
                }
            }
        }
        if let Some(process) = self.process_of.get(&id)
            && self.released.contains(process)
        {
            return self.release_thread(id, if event == 0 { signal } else { 0 });
        }
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let _ = match event {
            // The process stops, until the host hears otherwise.
            EVENT_STOP if stops.contains(&signal) => request(libc::PTRACE_LISTEN, id, 0),
            0 => request(libc::PTRACE_CONT, id, signal.into()),
            _ => request(libc::PTRACE_CONT, id, 0),
        };
    }

    fn add(&mut self, process: c_int, thread: c_int) {
        self.process_of.insert(thread, process);
        let threads = self.processes.entry(process).or_default();
        threads.entry(thread).or_insert(false);
    }

    /// Lets a thread go of a process that is not traced any more.
    fn release_thread(&mut self, id: c_int, signal: c_int) {
        let _ = request(libc::PTRACE_DETACH, id, signal.into());
        let process = self.process_of[&id];
        self.forget(id);
        if !self.processes.contains_key(&process) {
            self.released.retain(|&released| released != process);
            self.left.push(process);
        }
    }

    /// The host holds a thread at its end.
    fn ends(&mut self, id: c_int) {
        let killed_by = message(id).unwrap_or(0) & 0x7F;
        let process = *self.process_of.entry(id).or_insert_with(|| process_of(id));
        let threads = self.processes.entry(process).or_default();
        threads.insert(id, true);
        let is_last = threads.values().all(|&is_held| is_held);
        if is_last && tree::name_of(process).is_some() {
            return self.settle(process);
        }
        // A thread that ends by itself is in no call, and others may wait for its end. A process
        // that is not of the tree has no calls.
        if killed_by == 0 || is_last {
            let _ = request(libc::PTRACE_DETACH, id, 0);
            self.forget(id);
        }
    }

    /// A thread is not traced any more.
    fn forget(&mut self, id: c_int) {
        let Some(process) = self.process_of.remove(&id) else {
            return;
        };
        let Some(threads) = self.processes.get_mut(&process) else {
            return;
        };
        threads.remove(&id);
        if threads.is_empty() {
            self.processes.remove(&process);
        } else if threads.values().all(|&is_held| is_held) && tree::name_of(process).is_some() {
            self.settle(process);
        }
    }

    /// Completes the calls of a process, all of whose threads are held, and buries it.
    fn settle(&mut self, process: c_int) {
        if self.stand_ins.values().any(|(_, of, _)| *of == process) {
            return;
        }
        let threads: Vec<c_int> = self.processes[&process].keys().copied().collect();
        match self.begin_stand_in(process, &threads) {
            Ok(Some(stand_in)) => {
                let begun = (stand_in, process, Instant::now());
                self.stand_ins.insert(begun.0.id(), begun);
            }
            // Without one, what the calls have begun stays as it is.
            Ok(None) | Err(_) => self.let_go(process),
        }
    }

    /// Starts what completes the calls of a process, if it is in some.
    fn begin_stand_in(&self, process: c_int, threads: &[c_int]) -> io::Result<Option<StandIn>> {
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let mut dead = Vec::new();
        for &thread in threads {
            let registers = registers(thread)?;
            let fs = match registers.gs_base {
                0 => registers.fs_base,
                block => word(&memory, block + self.threads.fs_at as u64)?,
            };
            let state = word(&memory, fs.wrapping_add_signed(state_offset()))?;
            if state >= fdtable_shm::CALL_AT_LEAST as u64 {
                dead.push(Dead {
                    registers,
                    vectors: vectors(thread)?,
                    mask: mask(thread)?,
                    fs,
                });
            }
        }
        if dead.is_empty() {
            return Ok(None);
        }
        tree::ask_to_end(process);
        StandIn::begin(process, &memory, &dead, self.threads).map(Some)
    }

    /// Buries a process, and lets its threads end.
    fn let_go(&mut self, process: c_int) {
        let Some(threads) = self.processes.remove(&process) else {
            return;
        };
        // SAFETY: none of its threads runs any more, and none of its calls is under way.
        unsafe { tree::bury_held(process, |thread| threads.contains_key(&thread)) };
        for &thread in threads.keys() {
            self.process_of.remove(&thread);
            let _ = request(libc::PTRACE_DETACH, thread, 0);
        }
        self.released.retain(|&released| released != process);
    }
}

/// Makes a request about a tracee.
fn request(what: libc::c_uint, id: c_int, data: c_long) -> Result<(), Errno> {
    let nowhere = ptr::null_mut::<c_void>();
    // SAFETY: none of the requests without an address touches memory of this process.
    check(unsafe { libc::ptrace(what, id, nowhere, data) }).map(drop)
}

/// Stores what the host answers about a tracee.
///
/// # Errors
/// Those of `ptrace(2)`.
///
/// # Safety
/// The request with this address writes at most a `T`, any bytes of which are valid.
unsafe fn answer<T>(what: libc::c_uint, id: c_int, address: usize) -> io::Result<T> {
    // Zeroes: for what the host does not write.
    let mut place = MaybeUninit::<T>::zeroed();
    let address = ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: as the caller promises.
    let result = unsafe { libc::ptrace(what, id, address, place.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { place.assume_init() })
}

/// Returns the message of the event for which a tracee has stopped.
fn message(id: c_int) -> Option<u64> {
    // SAFETY: it writes a long integer.
    unsafe { answer(libc::PTRACE_GETEVENTMSG, id, 0) }.ok()
}

fn registers(id: c_int) -> io::Result<libc::user_regs_struct> {
    // SAFETY: it writes such a struct of integers.
    unsafe { answer(libc::PTRACE_GETREGS, id, 0) }
}

/// The vector registers, as `fxsave` stores them.
pub(super) type Vectors = [u64; 64];

fn vectors(id: c_int) -> io::Result<Vectors> {
    // SAFETY: it writes 512 bytes.
    unsafe { answer(libc::PTRACE_GETFPREGS, id, 0) }
}

fn mask(id: c_int) -> io::Result<u64> {
    const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
    // SAFETY: with this size it writes such an integer.
    unsafe { answer(PTRACE_GETSIGMASK, id, size_of::<u64>()) }
}

/// Returns a word of the memory of a tracee.
fn word(memory: &File, address: u64) -> io::Result<u64> {
    let mut bytes = [0; size_of::<u64>()];
    memory.read_exact_at(&mut bytes, address)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns where the state of a thread is, from its base of `fs` on. It is the same for all.
fn state_offset() -> i64 {
    let base: u64;
    // SAFETY: the first word that `fs` leads to is its base.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) base, options(nostack, readonly));
    }
    (fdtable_shm::state_of_thread().addr() as u64)
        .wrapping_sub(base)
        .cast_signed()
}

/// Returns the process of a thread.
fn process_of(thread: c_int) -> c_int {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|id| id.trim().parse().ok()).unwrap_or(thread)
}

const _: () = assert!(size_of::<Vectors>() == size_of::<libc::user_fpregs_struct>());
