//! The threads that the supervisor traces, so that none dies in the middle of a call.
//!
//! A thread that SIGKILL ends is held by the host at its last stop, `PTRACE_EVENT_EXIT`: it runs no
//! more, but its registers, its memory, its descriptors and its working directory are still there.
//! When all threads of the process are held, or have ended, the process is *settled*:
//!
//! 1. If one was in a call of the kernel, a [completion process](super::completion) completes these
//!    calls.
//! 2. The process is [reaped](crate::process::tree::reap): its descriptors are closed.
//! 3. The threads are let go. Only then does its parent learn of its end.
//!
//! So shared state is never left in the middle of a change, and a parent that has waited finds the
//! pipes of its child closed, as on Linux.
//!
//! The host attaches new children and threads of a tracee, so each one is traced from its first
//! instruction on. Signals and stops pass through the supervisor, which lets them go on unchanged.
//!
//! A debugger takes the place of the supervisor ([`Request::Release`]). The supervisor then only
//! watches such a process, as if the host did not let it trace.
//!
//! A tracee may hold a lock of the kernel while it waits for the supervisor to let it go on. So the
//! tracing thread takes no such lock, and allocates no shared memory. Another thread of the
//! supervisor does the work that needs the kernel ([`Job`]).

use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use fdtable_vfs::Errno;

use super::client::IS_TRACED;
use super::completion::plan::{Dead, in_frame};
use super::completion::{Completion, Pages};
use super::ptrace::{
    is_in_event, is_leader, made, mask, message, noted, process_of, registers, request,
    take_signals, threads_of, tracer_of, vectors, words,
};
use super::queue::{Job, Receiver, Request, Sender};
use super::threads::Threads;
use crate::host;
use crate::host::direct::pollfd;

/// Time that the calls of a killed process may take. Calls that wait are interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same, if they are complete: other threads may have begun calls, or have died unseen in one.
const PATIENCE_FOR_OTHERS: Duration = Duration::from_secs(1);

/// The time between two looks for threads that have ended unseen.
const LOOKS: Duration = Duration::from_millis(10);

/// The stop in which a thread is that was interrupted, or has begun, or is stopped by a signal.
const EVENT_STOP: c_int = 128;

/// The traced processes and their threads.
pub(super) struct Tracees {
    layout: Threads,
    jobs: Sender<Job>,
    /// By their ids.
    processes: HashMap<c_int, Process>,
    /// The process of each thread.
    process_of: HashMap<c_int, c_int>,
    /// Processes some of whose threads are held, and that are not settled.
    unsettled: HashSet<c_int>,
    /// When those were looked at.
    looked: Instant,
    pages: Pages,
    /// Completion processes that complete calls, by their ids.
    completions: HashMap<c_int, Work>,
    /// The names of the processes that the other thread reaps, and when it was asked to.
    being_reaped: Vec<(u32, Instant)>,
}

/// A process that is traced.
#[derive(Default)]
struct Process {
    /// Its name, or 0 if it is none of the tree: then it shares memory with one, and is no fork.
    name: u32,
    threads: HashMap<c_int, Thread>,
    /// The `child` of each thread that has ended unseen.
    made: Vec<c_int>,
    state: State,
    /// The thread that has asked to let the process go. It is let go as the last one.
    asker: c_int,
    /// The signal with which it goes on, if it has stopped.
    goes_on_with: Option<c_int>,
}

impl Process {
    /// Returns true if there are threads beside the one that has asked to let the process go, and
    /// the host does not hold them at their ends.
    fn has_others(&self) -> bool {
        let mut threads = self.threads.iter();
        threads.any(|(&id, thread)| id != self.asker && !thread.is_held)
    }
}

/// Why a thread is no longer traced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It has ended, and the host has held it at its end.
    Ended,
    /// It was killed between a stop and its end.
    Unseen,
    /// It was let go.
    Released,
}

/// Progress of a process.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Lives,
    /// Its threads are let go, as they stop.
    Released,
    /// A completion process completes its calls, or it is reaped.
    Settled,
}

#[derive(Default)]
struct Thread {
    /// True if the host holds it at its end.
    is_held: bool,
    /// The thread or process that it has made last, or 0.
    child: c_int,
}

/// A completion process at work.
struct Work {
    completion: Completion,
    /// The process whose calls it completes.
    process: c_int,
    begun: Instant,
}

impl Tracees {
    pub(super) fn new(layout: Threads, jobs: Sender<Job>) -> Self {
        Self {
            layout,
            jobs,
            processes: HashMap::new(),
            process_of: HashMap::new(),
            unsettled: HashSet::new(),
            looked: Instant::now(),
            pages: Pages::new(),
            completions: HashMap::new(),
            being_reaped: Vec::new(),
        }
    }

    /// Traces until no process has the other end of `socket` any more. `children` is ready when the
    /// host has something to report. Calls `answer` after a request to begin.
    pub(super) fn run(
        &mut self,
        requests: &Receiver<Request>,
        children: RawFd,
        socket: RawFd,
        answer: impl Fn(bool),
    ) {
        loop {
            let has_work = !self.completions.is_empty() || !self.being_reaped.is_empty();
            let pause = match (self.unsettled.is_empty(), has_work) {
                (false, _) => LOOKS.as_millis() as c_int,
                (true, true) => 1000,
                (true, false) => -1,
            };
            let mut waits = [
                pollfd(children, libc::POLLIN),
                pollfd(requests.eventfd, libc::POLLIN),
                // The other thread reads it.
                pollfd(socket, 0),
            ];
            // SAFETY: there are three entries.
            unsafe { libc::poll(waits.as_mut_ptr(), 3, pause) };
            if waits[2].revents != 0 {
                // The other thread finds that too, unless it waits for a lock of a dead process.
                return;
            }
            if waits[0].revents != 0 {
                take_signals(children);
            }
            self.follow();
            if waits[1].revents != 0 {
                for request in requests.take() {
                    match request {
                        Request::Begin { id, name } => answer(self.begin(id, name).is_ok()),
                        Request::Release { id, asker } => self.release(id, asker),
                        Request::Reaped(name) => self.let_go(name),
                    }
                }
            }
            self.let_go_late();
            self.end_late_completions();
            self.look_for_ends();
        }
    }

    /// Traces the first process. The host attaches what its traced threads make.
    ///
    /// # Errors
    /// Errors of the host's `ptrace` for its first thread.
    fn begin(&mut self, id: c_int, name: u32) -> Result<(), Errno> {
        let options = libc::PTRACE_O_TRACEEXIT
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE;
        let seize = |thread| request(libc::PTRACE_SEIZE, thread, options as c_long);
        seize(id)?;
        self.add(id, id).name = name;
        loop {
            // It fails for a thread that is traced already.
            let new: Vec<_> = threads_of(id).filter(|&id| seize(id).is_ok()).collect();
            if new.is_empty() {
                return Ok(());
            }
            new.into_iter().for_each(|thread| _ = self.add(id, thread));
        }
    }

    /// Lets a process go, so that another one can trace it. Does nothing if it is not traced.
    fn release(&mut self, process: c_int, asker: c_int) {
        let Some(process) = self.processes.get_mut(&process) else {
            return;
        };
        if process.state == State::Lives {
            process.state = State::Released;
            process.asker = asker;
            for (&thread, _) in process.threads.iter().filter(|(_, thread)| !thread.is_held) {
                // One that ends does not answer.
                let _ = request(libc::PTRACE_INTERRUPT, thread, 0);
            }
        }
    }

    /// Handles all reports of the host.
    fn follow(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: there is room for the status.
            let id = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
            if id <= 0 {
                break;
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(id, libc::WSTOPSIG(status), status >> 16);
            } else if let Some(work) = self.completions.remove(&id) {
                let is_complete = status == 0 || work.completion.is_complete();
                self.pages.give_back(&work.completion);
                if is_complete {
                    self.reap(work.process);
                } else {
                    self.abandon(work.process);
                }
            } else {
                self.forget(id);
            }
        }
    }

    /// Ends completion processes that take too long.
    fn end_late_completions(&self) {
        for (&id, work) in &self.completions {
            let patience = match work.completion.is_complete() {
                true => PATIENCE_FOR_OTHERS,
                false => PATIENCE,
            };
            if work.begun.elapsed() > patience {
                // SAFETY: it takes integers. It is a child that was not waited for.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }
        }
    }

    fn stopped(&mut self, id: c_int, signal: c_int, event: c_int) {
        match event {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                // In this order: a thread that is killed meanwhile stops at its end, and that stop
                // has another message.
                let child = message(id);
                if !is_in_event(id, event) {
                    return;
                }
                self.has_made(id, child.unwrap_or(0) as c_int);
            }
            libc::PTRACE_EVENT_EXIT => return self.ends(id),
            _ if !self.process_of.contains_key(&id) => self.begins(id),
            _ => {}
        }
        let process = self.process_of.get(&id);
        let process = process.and_then(|process| self.processes.get(process));
        if process.is_some_and(|process| process.state == State::Released) {
            return self.release_thread(id, if event == 0 { signal } else { 0 });
        }
        // One that was killed since then is at its end, which the host reports. Between this look
        // and the request it may still be killed: then it is not held there.
        if is_in_event(id, libc::PTRACE_EVENT_EXIT) {
            return;
        }
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let _ = match event {
            // The process stops until it gets SIGCONT.
            EVENT_STOP if stops.contains(&signal) => request(libc::PTRACE_LISTEN, id, 0),
            0 => request(libc::PTRACE_CONT, id, signal.into()),
            _ => request(libc::PTRACE_CONT, id, 0),
        };
    }

    /// Returns the process with this id.
    fn add(&mut self, process: c_int, thread: c_int) -> &mut Process {
        self.process_of.insert(thread, process);
        let process = self.processes.entry(process).or_default();
        process.threads.entry(thread).or_default();
        process
    }

    /// Handles the first stop of a thread. A new process has a copy of the words of the thread that
    /// has forked it, which have its name.
    fn begins(&mut self, id: c_int) {
        let process = match is_leader(id) {
            true => id,
            false => process_of(id),
        };
        if self.processes.contains_key(&process) {
            self.add(process, id);
            return;
        }
        // A thread that forks is in the runner, and so is its child. If the child is killed
        // meanwhile, this is tried again at its end.
        let noted = registers(id).and_then(|registers| noted(id, registers.fs_base));
        if let Ok(noted) = noted {
            self.add(process, id).name = noted.child;
        }
    }

    /// A thread has made a thread or a process.
    fn has_made(&mut self, maker: c_int, child: c_int) {
        let process = self.process_of.get(&maker).copied();
        if let Some(thread) = process.and_then(|process| self.thread(process, maker))
            && is_leader(child)
        {
            thread.child = child;
        }
    }

    fn thread(&mut self, process: c_int, thread: c_int) -> Option<&mut Thread> {
        self.processes.get_mut(&process)?.threads.get_mut(&thread)
    }

    /// Returns a thread that the host holds, if it was in the runner.
    fn dead(&self, thread: c_int) -> io::Result<Option<Dead>> {
        let registers = registers(thread)?;
        let word = |at: usize| {
            let [word] = words::<1>(thread, registers.gs_base.wrapping_add(at as u64))?;
            Ok::<u64, io::Error>(word)
        };
        // A thread of the runner's libraries has no block, or that of the thread that started it.
        let has_block =
            registers.gs_base != 0 && word(self.layout.id_at)? as u32 == thread.cast_unsigned();
        let (fs, gs) = match has_block {
            true => (word(self.layout.fs_at)?, registers.gs_base),
            false => (registers.fs_base, 0),
        };
        let is_inside = !has_block || word(self.layout.inside_at)? as u8 != 0;
        let is_in_call = noted(thread, fs)?.is_in_call;
        if !is_inside && !is_in_call {
            return Ok(None);
        }
        Ok(Some(Dead {
            vectors: in_frame(vectors(thread)?)?,
            mask: mask(thread)?,
            registers,
            fs,
            gs,
            is_in_call,
        }))
    }

    /// Releases a thread of a process that is no longer traced. The thread that has asked for this
    /// is released last, because another tracer follows.
    fn release_thread(&mut self, id: c_int, signal: c_int) {
        let process = self.process_of.get(&id).copied();
        if let Some(process) = process.and_then(|process| self.processes.get_mut(&process))
            && process.asker == id
            && process.has_others()
        {
            process.goes_on_with = Some(signal);
            return;
        }
        let at = ptr::without_provenance_mut::<c_void>(IS_TRACED.as_ptr().addr());
        // SAFETY: the word is in the memory of the tracee, where it has the same address.
        unsafe { libc::ptrace(libc::PTRACE_POKEDATA, id, at, 0_u64) };
        let _ = request(libc::PTRACE_DETACH, id, signal.into());
        let Some(id) = self.process_of.remove(&id).map(|process| (id, process)) else {
            return;
        };
        self.remove_thread(id, Gone::Released);
    }

    /// Forgets a thread; and its process, if it was the last one.
    fn remove_thread(&mut self, (id, process): (c_int, c_int), how: Gone) {
        let Some(of) = self.processes.get_mut(&process) else {
            return;
        };
        let thread = of.threads.remove(&id);
        if how == Gone::Unseen {
            of.made.extend(thread.map(|thread| thread.child));
        }
        if !of.threads.is_empty() {
            if let (asker, Some(signal)) = (of.asker, of.goes_on_with)
                && !of.has_others()
            {
                of.goes_on_with = None;
                self.release_thread(asker, signal);
            }
            return;
        }
        if how == Gone::Released {
            let name = of.name;
            self.processes.remove(&process);
            if name != 0 {
                self.jobs.send_later(Job::Watch { id: process, name });
            }
        } else {
            self.finish(process);
        }
    }

    /// Forgets a process that has no threads left.
    fn finish(&mut self, id: c_int) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        if self.has_unseen_child(process) {
            self.unsettled.insert(id);
            return;
        }
        self.unsettled.remove(&id);
        if process.name != 0 {
            self.report_children(process);
            // A process that ends by itself has closed its files, so the reaping may wait.
            self.jobs.send_later(Job::ReapEnded(process.name));
        }
        self.processes.remove(&id);
    }

    /// Handles the end of a thread, at which the host holds it.
    fn ends(&mut self, id: c_int) {
        if !self.process_of.contains_key(&id) {
            self.begins(id);
        }
        let Some(&process) = self.process_of.get(&id) else {
            let _ = request(libc::PTRACE_DETACH, id, 0);
            return;
        };
        let is_killed = message(id).is_ok_and(|status| status & 0x7F != 0);
        if is_killed {
            // A thread that is killed in a fork does not stop to report it.
            if let Some(child) = registers(id).ok().and_then(|registers| made(&registers)) {
                self.has_made(id, child);
            }
        }
        let is_of_tree = self
            .processes
            .get(&process)
            .is_some_and(|process| process.name != 0);
        if is_killed && is_of_tree {
            if let Some(thread) = self.thread(process, id) {
                thread.is_held = true;
            }
            // It is not let go any more.
            if let Some(process) = self.processes.get_mut(&process)
                && process.asker == id
            {
                process.goes_on_with = None;
            }
        } else {
            // A thread that ends by itself is in no call, and others may wait for its end.
            let _ = request(libc::PTRACE_DETACH, id, 0);
            self.process_of.remove(&id);
            self.remove_thread((id, process), Gone::Ended);
        }
        self.settle(process);
    }

    /// Handles the death of a thread that the host has not held.
    fn forget(&mut self, id: c_int) {
        if let Some(process) = self.process_of.remove(&id) {
            self.remove_thread((id, process), Gone::Unseen);
            self.settle(process);
        }
    }

    /// Completes the calls of a process and reaps it, once all of its threads are held.
    fn settle(&mut self, id: c_int) {
        let Some(process) = self.processes.get(&id) else {
            self.unsettled.remove(&id);
            return;
        };
        if process.state == State::Settled || !process.threads.values().any(|one| one.is_held) {
            return;
        }
        let are_held = process.threads.values().all(|thread| thread.is_held);
        if !are_held || self.has_unseen_child(process) {
            self.unsettled.insert(id);
            return;
        }
        self.unsettled.remove(&id);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.state = State::Settled;
        let threads: Vec<c_int> = process.threads.keys().copied().collect();
        match self.begin_completion(id, &threads) {
            Ok(Some(completion)) => {
                let work = Work {
                    completion,
                    process: id,
                    begun: Instant::now(),
                };
                self.completions.insert(work.completion.id(), work);
            }
            Ok(None) => self.reap(id),
            Err(_) => self.abandon(id),
        }
    }

    /// Returns what the threads of a process have made last.
    fn children(process: &Process) -> impl Iterator<Item = c_int> + '_ {
        let last = process.threads.values().map(|thread| thread.child);
        last.chain(process.made.iter().copied())
            .filter(|&id| id != 0)
    }

    /// Returns true if a process has made one that has not stopped for the first time, so that its
    /// name is not known. A child that a process has only prepared is freed with it.
    fn has_unseen_child(&self, process: &Process) -> bool {
        Self::children(process)
            .any(|id| !self.process_of.contains_key(&id) && tracer_of(id) == host::process_id())
    }

    /// Settles processes that wait for threads which have ended unseen: they were killed between a
    /// stop and its end, and the host does not report a leader before its other threads.
    fn look_for_ends(&mut self) {
        if self.unsettled.is_empty() || self.looked.elapsed() < LOOKS {
            return;
        }
        self.looked = Instant::now();
        for id in Vec::from_iter(self.unsettled.iter().copied()) {
            let threads = self.processes.get(&id).map(|process| &process.threads);
            let missing = threads.into_iter().flatten();
            let gone: Vec<c_int> = missing
                .filter(|(thread, one)| {
                    !one.is_held && fdtable_shm::has_died(thread.cast_unsigned())
                })
                .map(|(&thread, _)| thread)
                .collect();
            for thread in gone {
                self.process_of.remove(&thread);
                self.remove_thread((thread, id), Gone::Unseen);
            }
            match self.processes.get(&id) {
                Some(process) if process.threads.is_empty() => self.finish(id),
                _ => self.settle(id),
            }
        }
    }

    /// Starts a completion process, if a process was killed in a call.
    fn begin_completion(
        &mut self,
        process: c_int,
        threads: &[c_int],
    ) -> io::Result<Option<Completion>> {
        let mut dead = Vec::new();
        for &thread in threads {
            dead.extend(self.dead(thread)?);
        }
        if !dead.iter().any(|dead| dead.is_in_call) {
            return Ok(None);
        }
        // The first one continues on the thread that the others are made by.
        dead.sort_by_key(|dead| !dead.is_in_call);
        // A leader that has ended unseen has nothing any more.
        let from = match threads.contains(&process) {
            true => Some(process),
            false => threads.first().copied(),
        };
        let from = from.ok_or(io::ErrorKind::NotFound)?;
        Completion::begin(from, &dead, self.layout, &mut self.pages).map(Some)
    }

    /// Requests that a process is reaped. None of its calls is under way.
    fn reap(&mut self, process: c_int) {
        if let Some(process) = self.processes.get(&process) {
            self.report_children(process);
            self.jobs.send(Job::Reap(process.name));
            self.being_reaped.push((process.name, Instant::now()));
        }
    }

    /// Lets processes go whose reaping takes too long: the other thread may wait for a lock of a
    /// process that was [abandoned](Self::abandon).
    fn let_go_late(&mut self) {
        let late = |&mut (_, begun): &mut (u32, Instant)| begun.elapsed() > PATIENCE;
        for (name, _) in Vec::from_iter(self.being_reaped.extract_if(.., late)) {
            self.let_go(name);
        }
    }

    /// Reports the last children of a process, which it may not have noted itself.
    fn report_children(&self, process: &Process) {
        for id in Self::children(process) {
            let child = self.processes.get(&id);
            if let Some(&Process { name, .. }) = child.filter(|child| child.name != 0) {
                self.jobs.send(Job::Born { name, id });
            }
        }
    }

    /// Releases a process whose calls cannot be completed, and requests that it is reaped. The
    /// calls stay incomplete. Its threads are released first, because others wait for locks that
    /// these hold until they are dead.
    fn abandon(&mut self, process: c_int) {
        if let Some(process) = self.processes.get(&process) {
            let name = process.name;
            self.report_children(process);
            self.let_go(name);
            self.jobs.send(Job::ReapEnded(name));
        }
    }

    /// Lets the threads of a process end.
    fn let_go(&mut self, name: u32) {
        self.being_reaped.retain(|&(other, _)| other != name);
        let found = self.processes.extract_if(|_, process| process.name == name);
        for thread in found.flat_map(|(_, process)| process.threads.into_keys()) {
            self.process_of.remove(&thread);
            let _ = request(libc::PTRACE_DETACH, thread, 0);
        }
    }
}
