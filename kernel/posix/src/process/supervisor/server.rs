//! The threads of the supervisor: one traces, and the other one does everything else.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;
use std::thread;

use fdtable_sync::rcu;
use fdtable_vfs::Errno;

use super::client::{ID, PIN_FDS, SOCKET, UNPINNED, WAKES, make_wakes};
use super::completion::plan::end_of_call;
use super::messages::{
    BEGUN, GIVE, Message, PIN, RELEASE, TRACE, UNPIN, WAKE, WATCH, receive, send_on, socket_pair,
};
use super::queue::{Job, Receiver, Request, Sender, queue};
use super::threads::Threads;
use super::tracees::Tracees;
use crate::abi::guard::{guarded, inside};
use crate::host::{self, OwnedHostFd, check, fd};
use crate::process::tree;

/// The time between two looks for callbacks that are due, in milliseconds: where some were, and
/// where none were.
const SOON: c_int = 5;

const LATE: c_int = 50;

/// The name of the supervisor, which no process of the tree has.
const SUPERVISOR: u32 = u32::MAX;

/// The supervisor's own descriptor of its socket.
const OWN_SOCKET: RawFd = 3;

/// Returns the upper half of the descriptors below `limit`, for pinned ones.
fn shares(limit: c_int) -> Range<c_int> {
    limit / 2..limit
}

/// Starts the supervisor, for this process and all that it makes. It [traces][begin_tracing] them
/// later. Call it once, while the process has one thread. It has called [`rcu::use_ticks`], which
/// the supervisor inherits.
///
/// # Errors
/// Errors of the host's `socketpair`; `EAGAIN` if it makes no process.
///
/// [begin_tracing]: super::begin_tracing
pub fn start(threads: Threads) -> Result<(), Errno> {
    let [ours, theirs] = socket_pair()?;
    fdtable_shm::after_last_calls(end_of_call);
    let limit = host::limit(libc::RLIMIT_NOFILE)?.rlim_max.min(1 << 20) as c_int;
    {
        let pinned = shares(limit);
        let mut fds = PIN_FDS.lock();
        (fds.next, fds.end) = (pinned.start, pinned.end);
    }
    fork_twice(theirs, limit, threads);
    host::close(theirs);
    // Without a supervisor, no process has the other end any more.
    let Some(([BEGUN, id, _], None)) = receive(ours) else {
        host::close(ours);
        return Err(Errno::EAGAIN);
    };
    ID.store(id);
    SOCKET.store(ours);
    Ok(())
}

/// Makes the supervisor by two forks, so that it is no child of this process.
fn fork_twice(socket: RawFd, limit: c_int, threads: Threads) {
    fdtable_shm::name_child(SUPERVISOR);
    // SAFETY: this process has one thread, which continues in the child.
    let first = unsafe { libc::fork() };
    if first == 0 {
        // SAFETY: as above.
        if unsafe { libc::fork() } == 0 {
            attend(socket, limit, threads);
        }
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(first, ptr::null_mut(), 0) };
}

/// Runs the supervisor: this thread traces, and another one does everything else.
fn attend(socket: RawFd, limit: c_int, threads: Threads) {
    // SAFETY: these take integers. This process does not use the descriptors of the program.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"fdt-supervisor".as_ptr());
        libc::dup2(socket, OWN_SOCKET);
        libc::close_range(0, 2, 0);
        libc::close_range(4, c_int::MAX.cast_unsigned(), 0);
    }
    if let Ok(before) = host::limit(libc::RLIMIT_NOFILE) {
        // A completion process raises it where a process of the tree has higher descriptors.
        let most = libc::rlimit {
            rlim_cur: limit as libc::rlim_t,
            ..before
        };
        // SAFETY: the limit is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) };
    }
    fd::forget_all();
    ID.store(host::process_id());
    send_on(OWN_SOCKET, [BEGUN, host::process_id(), 0], None);
    let queues = (signals_of_children(), queue(), queue());
    let (Ok(children), Ok((requests, requested)), Ok((jobs, asked))) = queues else {
        return;
    };
    let serve = move || {
        serve(requests, &asked, limit);
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(0) };
    };
    if thread::Builder::new().spawn(serve).is_ok() {
        let answer = |is_traced: bool| {
            send_on(OWN_SOCKET, [TRACE, is_traced.into(), 0], None);
        };
        Tracees::new(threads, jobs).run(&requested, children, OWN_SOCKET, answer);
    }
}

/// Handles messages and jobs of the tracing thread until the tree has ended.
fn serve(requests: Sender<Request>, asked: &Receiver<Job>, limit: c_int) {
    let Ok(owner) = host::epoll_create() else {
        return;
    };
    let epoll = owner.0;
    // Neither has a name of a process.
    if !add(epoll, OWN_SOCKET, MESSAGES) || !add(epoll, asked.eventfd, JOBS) {
        return;
    }
    let mut supervisor = Supervisor {
        epoll,
        pidfd_end: shares(limit).start,
        watched: HashMap::new(),
        left_out: Vec::new(),
        requests,
    };
    // Until something happens, or callbacks may be due.
    let mut pause = SOON;
    loop {
        let ready = host::epoll_wait(epoll, pause).unwrap_or_default();
        if !ready.iter().any(|&(name, _)| name as u32 == MESSAGES) {
            let unpinned = mem::take(&mut *UNPINNED.lock());
            unpinned.into_iter().for_each(close_pinned);
        }
        // For one whose message was lost.
        make_wakes();
        let is_idle = guarded(|| Ok(!rcu::tick().unwrap_or(true))).unwrap_or(true);
        pause = if is_idle && ready.is_empty() {
            LATE
        } else {
            SOON
        };
        for (name, _) in ready {
            let name = name as u32;
            if name == MESSAGES {
                let Some((message, fd)) = receive(OWN_SOCKET) else {
                    return;
                };
                supervisor.follow(message, fd);
            } else if supervisor.watched.remove(&name).is_some() {
                // SAFETY: its pidfd says that it has ended.
                unsafe { tree::reap_named(name) };
            }
        }
        asked
            .take()
            .into_iter()
            .for_each(|job| supervisor.work(job));
        if !UNPINNED.lock().is_empty() {
            pause = 0;
        }
        for (id, name) in mem::take(&mut supervisor.left_out) {
            supervisor.watch(id, name);
        }
        if supervisor.watched.is_empty() && tree::is_empty() {
            return;
        }
    }
}

/// State of the thread that does not trace.
struct Supervisor {
    epoll: RawFd,
    /// Limit of the descriptors of pidfds: those from it on are for pinned ones.
    pidfd_end: RawFd,
    /// The pidfds of processes, by their names.
    watched: HashMap<u32, OwnedHostFd>,
    /// Processes that got no pidfd, with their ids.
    left_out: Vec<(c_int, u32)>,
    requests: Sender<Request>,
}

impl Supervisor {
    /// Handles a message.
    fn follow(&mut self, [kind, what, name]: Message, fd: Option<RawFd>) {
        // Before a pinned descriptor is closed.
        make_wakes();
        match (kind, fd) {
            (WATCH, None) => self.watch(what, name.cast_unsigned()),
            (PIN, Some(fd)) => {
                // SAFETY: it takes integers.
                let pinned = check(unsafe { libc::dup3(fd, what, libc::O_CLOEXEC) });
                host::close(fd);
                match pinned {
                    Ok(_) => make_wakes(),
                    Err(_) => forget_wakes(what),
                }
            }
            (UNPIN, None) => close_pinned(what),
            (WAKE, None) => {}
            (GIVE, Some(to)) => {
                // Without an answer, the process finds its socket closed.
                send_on(to, [GIVE, what, 0], Some(what));
                host::close(to);
            }
            (TRACE, None) => self.requests.send(Request::Begin {
                id: what,
                name: name.cast_unsigned(),
            }),
            (RELEASE, None) => self.requests.send(Request::Release {
                id: what,
                asker: name,
            }),
            (_, fd) => fd.into_iter().for_each(host::close),
        }
    }

    /// Handles a job of the tracing thread.
    fn work(&mut self, job: Job) {
        match job {
            Job::Born { name, id } => tree::born(name, id),
            Job::Reap(name) => {
                // SAFETY: the host holds its threads, and none of its calls is under way. The jobs
                // for the children that it has forked came before.
                unsafe { tree::reap_traced(name) };
                self.requests.send(Request::Reaped(name));
            }
            // SAFETY: its threads have ended, and as above.
            Job::ReapEnded(name) => unsafe { tree::reap_traced(name) },
            Job::Watch { id, name } => self.watch(id, name),
        }
    }

    fn watch(&mut self, id: c_int, name: u32) {
        if self.watched.contains_key(&name) {
            return;
        }
        match host::pidfd_open(id, 0) {
            Ok(pidfd) if pidfd.0 < self.pidfd_end && add(self.epoll, pidfd.0, name) => {
                self.watched.insert(name, pidfd);
            }
            // It has ended, and its parent knows.
            // SAFETY: the host does not know it.
            Err(Errno::ESRCH) => unsafe { tree::reap_named(name) },
            _ => self.left_out.push((id, name)),
        }
    }
}

/// The keys of the two descriptors that are no process: names are neither.
const MESSAGES: u32 = 0;

const JOBS: u32 = SUPERVISOR;

/// Opens a descriptor that is ready when the host reports something about what is traced.
fn signals_of_children() -> Result<RawFd, Errno> {
    // The host reports no signal that is ignored, and this process may have inherited that.
    // SAFETY: it takes integers.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: all zeroes is a valid value of this set of bits.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set is valid.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: as above.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    // SAFETY: as above.
    check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })
}

fn forget_wakes(pinned: c_int) {
    inside(|| WAKES.lock().retain(|&other| other != pinned));
}

/// Closes a pinned descriptor, in the supervisor.
fn close_pinned(pinned: c_int) {
    make_wakes();
    host::close(pinned);
    forget_wakes(pinned);
    inside(|| PIN_FDS.lock().free.push(pinned));
}

/// Adds a descriptor to the epoll, under the name of a process. Returns true if it is there.
fn add(epoll: RawFd, fd: RawFd, name: u32) -> bool {
    let event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: name.into(),
    };
    host::epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, Some(event)).is_ok()
}
