//! The keeper: a process beside a tree of processes that share one kernel.
//!
//! It runs the callbacks of RCU that no other thread has run: the processes have no thread for
//! them, which could die with a lock. It [traces](tracees) the processes of the tree: the calls of
//! one that is killed are completed, and it is [buried](super::tree::bury). And it keeps
//! descriptors of the host for objects that outlive the process that has opened them ([`keep`]): a
//! process that needs one opens it through `/proc`, or asks for it.
//!
//! It is made by two forks before the program starts, so it is no child of the tree. It has a
//! session of its own and no descriptor but its socket and what it keeps, and ends when the last
//! process of the tree has ended. If it is killed, the host lets go what it traces, processes are
//! buried by parents that wait for them, and what it kept is lost to all but those that have it
//! open.
//!
//! Where the host does not let it trace, it watches the processes, and buries each that has ended.
//! A call in which one is killed stays incomplete then.

mod queue;
#[cfg(target_arch = "x86_64")]
mod stand_in;
#[cfg(target_arch = "x86_64")]
mod tracees;
#[cfg(not(target_arch = "x86_64"))]
#[path = "keeper/untraced.rs"]
mod tracees;

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_sync::rcu;
use fdtable_vfs::Errno;

use crate::abi::guard::guarded;
use crate::host::{self, check, errno, number};
use crate::process::tree;

use queue::{Job, Receiver, Request, Sender, queue};
#[cfg(target_arch = "x86_64")]
pub(crate) use stand_in::{end_of_call, end_thread, is_here as is_stand_in};
pub use tracees::Threads;
use tracees::Tracees;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use tracees::{end_of_call, end_thread, is_here as is_stand_in};

/// The id of the keeper, or 0.
static ID: AtomicCell<c_int> = AtomicCell::new(0);

/// The socket on which processes write to it, or -1.
static SOCKET: AtomicCell<RawFd> = AtomicCell::new(-1);

/// 1 if the keeper traces this process, and so all that it makes; else 0. The keeper writes it too.
static IS_TRACED: AtomicCell<u64> = AtomicCell::new(0);

/// A message to the keeper: what to do, a process or a number, and the name of the process.
type Message = [c_int; 3];

/// The process has begun, and is not traced.
const WATCH: c_int = 1;
/// Keep the descriptor that comes with the message under the number.
const KEEP: c_int = 2;
/// Close the number.
const DROP: c_int = 3;
/// Trace the process. The answer has 1 if it is traced, or 0.
const TRACE: c_int = 4;
/// Do not trace the process any more: another one will.
const RELEASE: c_int = 5;
/// Send what is kept under the number to the socket that comes with the message.
const GIVE: c_int = 6;
/// There are [wake-ups](WAKES).
const WAKE: c_int = 7;

/// The time between two looks for callbacks that are due, in milliseconds: where some were, and
/// where none were.
const SOON: c_int = 5;
const LATE: c_int = 50;

/// The name of the keeper, which no process of the tree has.
const KEEPER: u32 = u32::MAX;

/// The keeper's own number of its socket.
const OWN_SOCKET: RawFd = 3;

/// The numbers of what is kept.
struct Numbers {
    free: Vec<c_int>,
    next: c_int,
    end: c_int,
}

fdtable_sync::global! {
    pub(super) static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
        free: Vec::new(),
        next: 0,
        end: 0,
    });
}

fdtable_sync::global! {
    /// The numbers of counters that the keeper makes readable before it does anything else.
    pub(super) static WAKES: Mutex<Vec<c_int>> = Mutex::new(Vec::new());
}

/// The numbers that the keeper itself drops, until it has followed all messages.
static DROPPED: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Returns the numbers for what is kept, of so many. Those below are for all else.
fn shares(limit: c_int) -> Range<c_int> {
    limit / 2..limit
}

/// Starts the keeper, for this process and all that it makes. Call it once, while the process has
/// one thread.
///
/// # Errors
/// Errors of the host's `socketpair` and `fork`.
pub fn start(threads: Threads) -> Result<(), Errno> {
    let [ours, theirs] = socket_pair()?;
    fdtable_shm::after_last_calls(end_of_call);
    let limit = host::limit(libc::RLIMIT_NOFILE)?.rlim_max.min(1 << 20) as c_int;
    {
        let kept = shares(limit);
        let mut numbers = NUMBERS.lock();
        (numbers.next, numbers.end) = (kept.start, kept.end);
    }
    // The keeper inherits that.
    rcu::use_ticks();
    let started = begin(theirs, limit, threads);
    host::close(theirs);
    ID.store(started.inspect_err(|_| host::close(ours))?);
    SOCKET.store(ours);
    trace_this();
    Ok(())
}

/// Has the keeper trace this process, or watch it if the host does not let it.
fn trace_this() {
    let (id, name) = (host::process_id(), fdtable_shm::process());
    // Some hosts let a process trace only its children, and processes that allow it.
    // SAFETY: it takes integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, ID.load()) };
    send([TRACE, id, name.cast_signed()], None);
    let answer = receive(SOCKET.load());
    IS_TRACED.store(matches!(answer, Some(([TRACE, 1, _], None))).into());
    see(id, name);
}

/// Has the keeper let this process go, for another one that traces it. Returns when it has, or
/// after ten seconds. The process and its later children are watched from then on.
pub fn release() {
    const LOOKS: u32 = 10_000;
    if !is_traced() {
        return;
    }
    // SAFETY: it takes nothing.
    let asker = unsafe { libc::gettid() };
    send([RELEASE, host::process_id(), asker], None);
    for _ in 0..LOOKS {
        thread::sleep(Duration::from_millis(1));
        if !is_traced() {
            return;
        }
    }
}

/// Makes the process, by two forks. Returns its id.
fn begin(socket: RawFd, limit: c_int, threads: Threads) -> Result<c_int, Errno> {
    let mut told = [-1; 2];
    // SAFETY: there is room for two descriptors.
    check(unsafe { libc::pipe2(told.as_mut_ptr(), libc::O_CLOEXEC) })?;
    fdtable_shm::name_child(KEEPER);
    // SAFETY: this process has one thread, which continues in the child.
    let first = unsafe { libc::fork() };
    if first == 0 {
        // SAFETY: as above.
        let second = unsafe { libc::fork() };
        if second == 0 {
            attend(socket, limit, threads);
        } else {
            // SAFETY: the bytes are those of an integer.
            unsafe { libc::write(told[1], (&raw const second).cast(), size_of_val(&second)) };
        }
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(0) };
    }
    host::close(told[1]);
    let mut id: c_int = -1;
    // SAFETY: there is room for an integer.
    unsafe { libc::read(told[0], (&raw mut id).cast(), size_of_val(&id)) };
    host::close(told[0]);
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(first, ptr::null_mut(), 0) };
    if first < 0 || id < 0 {
        Err(Errno::EAGAIN)
    } else {
        Ok(id)
    }
}

/// Returns true if the keeper traces this process, or did so until it ended.
pub(crate) fn is_traced() -> bool {
    IS_TRACED.load() != 0
}

/// Has the keeper watch a process of the tree, unless it traces it.
pub(crate) fn see(id: c_int, name: u32) {
    if !is_traced() {
        send([WATCH, id, name.cast_signed()], None);
    }
}

/// Has the keeper keep a host descriptor. Returns the number there.
///
/// # Errors
/// `ENFILE` if there is no keeper, or it has no number left.
pub(crate) fn keep(fd: RawFd) -> Result<c_int, Errno> {
    let number = {
        let mut numbers = NUMBERS.lock();
        match numbers.free.pop() {
            Some(number) => number,
            None if numbers.next == numbers.end => return Err(Errno::ENFILE),
            None => {
                numbers.next += 1;
                numbers.next - 1
            }
        }
    };
    if !send([KEEP, number, 0], Some(fd)) {
        NUMBERS.lock().free.push(number);
        return Err(Errno::ENFILE);
    }
    Ok(number)
}

/// Has the keeper close what it keeps under a number.
pub(crate) fn drop_kept(number: c_int) {
    if ID.load() == host::process_id() {
        // This is it, and the message with the descriptor may still be before it.
        let _private = fdtable_shm::leave();
        DROPPED.lock().push(number);
    } else {
        send([DROP, number, 0], None);
    }
}

/// Makes a counter readable that the keeper keeps under a number. The caller keeps it from being
/// dropped meanwhile. Does not wait for the keeper, which may wait for a lock of the caller.
pub(crate) fn wake_kept(number: c_int) {
    let is_new = {
        let _shared = fdtable_shm::enter();
        let mut wakes = WAKES.lock();
        let is_new = !wakes.contains(&number);
        if is_new {
            wakes.push(number);
        }
        is_new
    };
    if ID.load() == host::process_id() {
        // This is it.
        make_wakes();
    } else if is_new {
        // If there is no room, the keeper has a message before it, and looks for wake-ups then.
        send_now([WAKE, 0, 0]);
    }
}

/// Makes the counters in `WAKES` readable, in the keeper. A counter stays there if the keeper does
/// not have it yet: the message with it is still before the keeper.
fn make_wakes() {
    let _ = guarded(|| {
        WAKES.lock().retain(|&number| !host::eventfd_set(number));
        Ok(())
    });
}

/// Opens what the keeper keeps under a number, for reading and writing.
///
/// # Errors
/// As [`ask_for`]; `EMFILE`, `ENFILE`.
pub(crate) fn open_kept(number: c_int) -> Result<RawFd, Errno> {
    let path = format!("/proc/{}/fd/{number}\0", ID.load());
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd >= 0 {
        return Ok(fd);
    }
    match errno() {
        errno @ (Errno::EMFILE | Errno::ENFILE) => Err(errno),
        // Another user, a root without `/proc`, or the keeper has the message still before it: the
        // request comes behind that.
        _ => ask_for(number),
    }
}

/// Asks the keeper for what it keeps under a number.
///
/// # Errors
/// `EIO` if it does not answer; those of the host's `socketpair`.
pub(crate) fn ask_for(number: c_int) -> Result<RawFd, Errno> {
    /// How long it may take, in milliseconds.
    const PATIENCE: c_int = 2_000;
    let [ours, theirs] = socket_pair()?;
    let is_sent = send([GIVE, number, 0], Some(theirs));
    host::close(theirs);
    let mut answer = libc::pollfd {
        fd: ours,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one entry.
    let is_there = is_sent && unsafe { libc::poll(&raw mut answer, 1, PATIENCE) } > 0;
    let fd = is_there.then(|| receive(ours)).flatten();
    host::close(ours);
    fd.and_then(|(_, fd)| fd).ok_or(Errno::EIO)
}

/// Makes two sockets for messages between processes.
fn socket_pair() -> Result<[RawFd; 2], Errno> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok(ends)
}

/// Room for a control message with a descriptor.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// Calls `act` with the head of a message that has these bytes and this room.
fn with_head<R>(
    message: &mut Message,
    control: &mut Control,
    act: impl FnOnce(&mut libc::msghdr) -> R,
) -> R {
    let mut bytes = libc::iovec {
        iov_base: message.as_mut_ptr().cast(),
        iov_len: size_of::<Message>(),
    };
    // SAFETY: all zeroes is a valid value of this struct of integers and pointers.
    let mut head: libc::msghdr = unsafe { mem::zeroed() };
    head.msg_iov = &raw mut bytes;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut control.0).cast();
    head.msg_controllen = size_of::<Control>();
    act(&mut head)
}

/// Sends a message. Returns false if there is no keeper.
fn send(message: Message, fd: Option<RawFd>) -> bool {
    send_on(SOCKET.load(), message, fd)
}

/// Sends a message, if there is room.
fn send_now(message: Message) {
    send_with(SOCKET.load(), message, None, libc::MSG_DONTWAIT);
}

fn send_on(socket: RawFd, message: Message, fd: Option<RawFd>) -> bool {
    send_with(socket, message, fd, 0)
}

fn send_with(socket: RawFd, mut message: Message, fd: Option<RawFd>, flags: c_int) -> bool {
    let mut control = Control([0; 24]);
    with_head(&mut message, &mut control, |head| {
        match fd {
            None => head.msg_controllen = 0,
            Some(fd) => {
                let first = head.msg_control.cast::<libc::cmsghdr>();
                let of_message = libc::cmsghdr {
                    cmsg_len: size_of::<libc::cmsghdr>() + size_of::<c_int>(),
                    cmsg_level: libc::SOL_SOCKET,
                    cmsg_type: libc::SCM_RIGHTS,
                };
                // SAFETY: there is room for it, and a descriptor behind it.
                unsafe { first.write(of_message) };
                // SAFETY: as above.
                unsafe { first.add(1).cast::<c_int>().write(fd) };
            }
        }
        loop {
            // SAFETY: the head is that of a message with these bytes and this control message.
            if unsafe { libc::sendmsg(socket, head, libc::MSG_NOSIGNAL | flags) } >= 0 {
                return true;
            }
            if errno() != Errno::EINTR {
                return false;
            }
        }
    })
}

/// Receives a message, and the descriptor that comes with it. `None` if no process can send one.
fn receive(socket: RawFd) -> Option<(Message, Option<RawFd>)> {
    let (mut message, mut control) = ([0; 3], Control([0; 24]));
    with_head(&mut message, &mut control, |head| {
        // SAFETY: there is room for these bytes and this control message.
        let count = unsafe { libc::recvmsg(socket, head, libc::MSG_CMSG_CLOEXEC) };
        let has_fd = head.msg_controllen > size_of::<libc::cmsghdr>();
        // SAFETY: the host has written a descriptor there.
        let fd = has_fd.then(|| unsafe {
            head.msg_control
                .cast::<libc::cmsghdr>()
                .add(1)
                .cast::<RawFd>()
                .read()
        });
        (count > 0).then_some(fd)
    })
    .map(|fd| (message, fd))
}

/// The life of the keeper: this thread traces, and another one does all else.
fn attend(socket: RawFd, limit: c_int, threads: Threads) {
    // SAFETY: these take integers. The descriptors are those of the program, of which this process
    // has no use.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"fdtable-keeper".as_ptr());
        libc::dup2(socket, OWN_SOCKET);
        libc::close_range(0, 2, 0);
        libc::close_range(4, c_int::MAX.cast_unsigned(), 0);
    }
    if let Ok(before) = host::limit(libc::RLIMIT_NOFILE) {
        // A stand-in raises it where a process of the tree has higher numbers.
        let most = libc::rlimit {
            rlim_cur: limit as libc::rlim_t,
            ..before
        };
        // SAFETY: the limit is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) };
    }
    number::forget_all();
    ID.store(host::process_id());
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

/// Does what messages and the thread that traces ask for, until the tree has ended.
fn serve(requests: Sender<Request>, asked: &Receiver<Job>, limit: c_int) {
    let Ok(epoll) = host::epoll_create() else {
        return;
    };
    // Neither has a name of a process.
    if !add(epoll, OWN_SOCKET, MESSAGES) || !add(epoll, asked.bell, JOBS) {
        return;
    }
    let mut keeper = Keeper {
        epoll,
        numbers: shares(limit).start,
        watched: HashMap::new(),
        left_out: Vec::new(),
        requests,
    };
    // Until something happens, or callbacks may be due.
    let mut pause = SOON;
    loop {
        let ready = host::epoll_wait_for(epoll, pause).unwrap_or_default();
        if !ready.iter().any(|&(name, _)| name as u32 == MESSAGES) {
            let dropped = mem::take(&mut *DROPPED.lock());
            dropped.into_iter().for_each(close_kept);
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
                keeper.follow(message, fd);
            } else if let Some(pidfd) = keeper.watched.remove(&name) {
                host::close(pidfd);
                // SAFETY: its pidfd says that it has ended.
                unsafe { tree::bury_named(name) };
            }
        }
        asked.take().into_iter().for_each(|job| keeper.work(job));
        if !DROPPED.lock().is_empty() {
            pause = 0;
        }
        for (id, name) in mem::take(&mut keeper.left_out) {
            keeper.watch(id, name);
        }
        if keeper.watched.is_empty() && tree::is_empty() {
            return;
        }
    }
}

/// State of the keeper.
struct Keeper {
    epoll: RawFd,
    /// Limit of the descriptors of pidfds: those from it on are for kept descriptors.
    numbers: RawFd,
    /// The pidfds of processes, by their names.
    watched: HashMap<u32, RawFd>,
    /// Processes for which there was no pidfd left, with their ids.
    left_out: Vec<(c_int, u32)>,
    requests: Sender<Request>,
}

impl Keeper {
    /// Does what a message asks for.
    fn follow(&mut self, [kind, what, name]: Message, fd: Option<RawFd>) {
        // Before what is kept is dropped.
        make_wakes();
        match (kind, fd) {
            (WATCH, None) => self.watch(what, name.cast_unsigned()),
            (KEEP, Some(fd)) => {
                // SAFETY: it takes integers.
                let kept = check(unsafe { libc::dup3(fd, what, libc::O_CLOEXEC) });
                host::close(fd);
                match kept {
                    Ok(_) => make_wakes(),
                    Err(_) => forget_wakes(what),
                }
            }
            (DROP, None) => close_kept(what),
            (WAKE, None) => {}
            (GIVE, Some(to)) => {
                // Without an answer, the process hears that its socket is closed.
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

    /// Does what the thread that traces asks for.
    fn work(&mut self, job: Job) {
        match job {
            Job::Born { name, id } => tree::born(name, id),
            Job::Bury(name) => {
                // SAFETY: the host holds its threads, and none of its calls is under way. The jobs
                // for the children that it has forked came before.
                unsafe { tree::bury_traced(name) };
                self.requests.send(Request::Buried(name));
            }
            // SAFETY: its threads have ended, and as above.
            Job::BuryEnded(name) => unsafe { tree::bury_traced(name) },
            Job::Watch { id, name } => self.watch(id, name),
        }
    }

    fn watch(&mut self, id: c_int, name: u32) {
        if self.watched.contains_key(&name) {
            return;
        }
        // SAFETY: it takes integers.
        let pidfd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) });
        match pidfd.map(|pidfd| pidfd as RawFd) {
            Ok(pidfd) if pidfd < self.numbers && add(self.epoll, pidfd, name) => {
                self.watched.insert(name, pidfd);
            }
            // It has ended, and its parent knows.
            // SAFETY: the host does not know it.
            Err(Errno::ESRCH) => unsafe { tree::bury_named(name) },
            full => {
                full.into_iter().for_each(host::close);
                self.left_out.push((id, name));
            }
        }
    }
}

/// The keys of the two descriptors that are no process: names are neither.
const MESSAGES: u32 = 0;
const JOBS: u32 = KEEPER;

/// Opens a descriptor that is ready when the host reports something about what is traced.
fn signals_of_children() -> Result<RawFd, Errno> {
    // Of a signal that is ignored, as this process may have inherited it, the host tells nothing.
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

fn forget_wakes(number: c_int) {
    let _ = guarded(|| {
        WAKES.lock().retain(|&other| other != number);
        Ok(())
    });
}

/// Closes what is kept under a number, in the keeper.
fn close_kept(number: c_int) {
    make_wakes();
    host::close(number);
    forget_wakes(number);
    let _ = guarded(|| {
        NUMBERS.lock().free.push(number);
        Ok(())
    });
}

/// Adds a descriptor to the epoll, under the name of a process. Returns true if it is there.
fn add(epoll: RawFd, fd: RawFd, name: u32) -> bool {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: name.into(),
    };
    // SAFETY: the event is valid.
    unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_where_there_is_no_keeper() {
        {
            let mut numbers = NUMBERS.lock();
            (numbers.next, numbers.end) = (7, 8);
        }
        for _ in 0..2 {
            assert_eq!(keep(0), Err(Errno::ENFILE));
            assert_eq!(NUMBERS.lock().free, [7]);
        }
    }
}
