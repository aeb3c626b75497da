//! A stand-in: a process that completes the calls in which another one was killed.
//!
//! The dead process is held by the host: see [`tracees`](super::tracees). All processes of the tree
//! are forks of one, and so is the keeper, so the code of the kernel and the shared memory have the
//! same addresses in a fork of it. The fork lacks the dead process's own memory. The stand-in
//!
//! 1. takes copies of the dead process's descriptors, under the same numbers, its working
//!    directory, and its user;
//! 2. replaces its own private memory by that of the dead process: memory that the runner needs is
//!    copied at once, and memory of the program page by page, when a call accesses it;
//! 3. has a thread for each thread that was in a call, which continues there with its registers,
//!    and for each other one that was in the runner, which may hold a private lock: that of the C
//!    library's heap, or the freezer in a fork.
//!
//! Its threads end with the outermost call ([`end_of_call`]), or when they would return to the
//! program, whose memory cannot be executed here. The stand-in exits when none of its threads has a
//! call left to complete. A filter has every attempt to make a thread or a process fail. The
//! threads are told that their process is killed, so calls that wait are interrupted. Locks know
//! the threads by the ids of the dead threads, which live until they are let go.
//!
//! # What remains
//!
//! A call that reads or writes a file of the host, with a buffer of the program, can fail with
//! `EFAULT`: the host does not ask for pages as the calls of this library do. Data that a call
//! stores in memory of the program is lost with that memory, also in a mapping that others share.
//!
//! # From the second step on
//!
//! The code that runs while the memory is replaced uses none of what is replaced: no static, no
//! thread-local variable, no heap. It makes the host's calls itself. Its stack, and all that it
//! reads, is in pages of shared memory.

use std::arch::x86_64::__cpuid_count;
use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_void};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;

use crossbeam_utils::atomic::AtomicCell;

use fdtable::host_fork;
use fdtable_sync::percpu::rseq;
use fdtable_sync::sequence::resume_address;

use super::tracees::{Threads, Vectors};
use crate::host;

/// A thread that was killed in the runner.
pub(super) struct Dead {
    pub(super) registers: libc::user_regs_struct,
    /// As [`in_frame`] returns them.
    pub(super) vectors: Box<Vectors>,
    pub(super) mask: u64,
    /// Its base of `fs` in the runner, and that of `gs`: 0 if it is none of the program.
    pub(super) fs: u64,
    pub(super) gs: u64,
    /// True if it was in a call, which the stand-in completes.
    pub(super) is_in_call: bool,
}

/// The address of the plan of this process if it is a stand-in, else 0.
static PLAN: AtomicCell<usize> = AtomicCell::new(0);

/// Returns true if this process is one.
pub(crate) fn is_here() -> bool {
    PLAN.load() != 0
}

/// Ends the calling thread if it stands in for one that was killed, and is in no call any more.
#[inline(always)]
pub(crate) fn end_of_call() {
    if is_here() && !fdtable_shm::is_in_call() {
        end_thread();
    }
}

/// Ends the calling thread, which is in no call; and the process, if no other thread has one to
/// complete.
#[cold]
pub(crate) fn end_thread() -> ! {
    let plan = ptr::with_exposed_provenance::<Plan>(PLAN.load());
    // SAFETY: it is in the shared pages, which stay as long as the process.
    if let Some(plan) = unsafe { plan.as_ref() }
        && plan.is_last_to_complete()
    {
        // Threads that were in no call may have begun one since.
        host_fork::freeze();
        end_process(0);
    }
    // It may have been about to fork. Others wait for it to end their calls.
    while host_fork::is_frozen_here() {
        host_fork::thaw();
    }
    loop {
        call(libc::SYS_exit, [0; 6]);
    }
}

/// Pages of the host, in bytes.
const PAGE: u64 = 4096;

/// Bytes of each thread in the shared pages: a [`Slot`] at their begin, and behind it the thread's
/// stack for signals.
const SLOT: usize = 128 << 10;

/// Header of the shared pages, before the slots.
#[repr(C)]
struct Plan {
    /// The descriptor of the memory of the dead process.
    memory: RawFd,
    threads: Threads,
    /// Held while a page is brought in: 1, else 0.
    lock: AtomicCell<u32>,
    slots: usize,
    /// Number of threads that have a call to complete.
    left: AtomicCell<u32>,
    /// How far the index of the CPU in a thread's rseq area is from its base of `fs`; 0 if there
    /// are no areas.
    cpu_at: isize,
    /// Ranges of the dead process's memory that are copied at once.
    taken: [Range<u64>; RANGES],
    /// Ranges of the keeper's memory that are unmapped. None of them overlaps one in `taken`.
    dropped: [Range<u64>; RANGES],
}

impl Plan {
    /// Counts a thread that ends. Returns true if it was the last one that had a call to complete.
    fn is_last_to_complete(&self) -> bool {
        let own = call(libc::SYS_gettid, [0; 6]) as i32;
        // SAFETY: the slots were written, and other threads write their ids alone.
        let mut slots = (0..self.slots).map(|index| unsafe { &*slot_of(self, index) });
        let is_counted = slots.any(|slot| slot.is_in_call && slot.id.load() == own);
        is_counted && self.left.fetch_sub(1) == 1
    }
}

/// How many ranges of memory there may be of each kind.
const RANGES: usize = 400;

/// State with which a thread continues.
#[repr(C)]
struct Slot {
    plan: *const Plan,
    fs: u64,
    gs: u64,
    is_in_call: bool,
    /// The id of the thread that continues, or 0 before.
    id: AtomicCell<i32>,
    context: Context,
    vectors: Aligned,
}

#[repr(C, align(64))]
struct Aligned(Vectors);

/// The host's `struct ucontext`, which `rt_sigreturn` finds at the stack pointer.
#[repr(C)]
struct Context {
    flags: u64,
    link: u64,
    stack: libc::stack_t,
    registers: [u64; 23],
    vectors: *const Aligned,
    reserved: [u64; 8],
    mask: u64,
}

const _: () = assert!(size_of::<Plan>() <= SLOT && size_of::<Slot>() <= SLOT / 2);

/// The shared pages that are free for stand-ins. The keeper takes no lock of the kernel for them: a
/// process that holds one may wait for the keeper.
pub(super) struct Pages {
    /// How much of them was ever used, in bytes.
    used: usize,
    /// Where free ones begin, by their size.
    free: Vec<(usize, usize)>,
}

impl Pages {
    pub(super) const fn new() -> Self {
        Self {
            used: 0,
            free: Vec::new(),
        }
    }

    /// Takes pages of a size that is a power of two, and begin at a multiple of [`SLOT`].
    fn take(&mut self, size: usize) -> io::Result<usize> {
        if let Some(index) = self.free.iter().position(|&(_, free)| free == size) {
            return Ok(self.free.swap_remove(index).0);
        }
        let (_, all) = fdtable_shm::aside();
        if size > all - self.used {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        self.used += size;
        Ok(self.used - size)
    }

    /// Gives back those of a stand-in, which has ended.
    pub(super) fn give_back(&mut self, stand_in: &StandIn) {
        let place = fdtable_shm::aside().0.wrapping_add(stand_in.pages);
        // If the system refuses, the memory stays in use.
        // SAFETY: the process that used them has ended.
        unsafe { libc::madvise(place.cast(), stand_in.size, libc::MADV_REMOVE) };
        self.free.push((stand_in.pages, stand_in.size));
    }
}

/// A stand-in that was started, and its pages.
pub(super) struct StandIn {
    id: c_int,
    pages: usize,
    size: usize,
}

impl StandIn {
    pub(super) fn id(&self) -> c_int {
        self.id
    }

    /// Returns true if all calls are complete.
    pub(super) fn is_complete(&self) -> bool {
        let plan = fdtable_shm::aside()
            .0
            .wrapping_add(self.pages)
            .cast::<Plan>();
        // SAFETY: `begin` has written it, and the pages are this object's.
        unsafe { (*plan).left.load() == 0 }
    }

    /// Starts one, for threads of a process that the host holds. `process` is the leader, or
    /// another of these threads if that has ended.
    ///
    /// # Errors
    /// Errors of the host's calls; `ENOMEM`; `E2BIG` if the process has too many mappings.
    pub(super) fn begin(
        process: c_int,
        dead: &[Dead],
        threads: Threads,
        pages: &mut Pages,
    ) -> io::Result<Self> {
        let descriptors = Descriptors::of(process)?;
        let ranges = Ranges::of(process, dead)?;
        let (taken, dropped) = (filled(ranges.taken)?, filled(ranges.dropped)?);
        let user = User::of(process)?;
        let in_call = dead.iter().filter(|dead| dead.is_in_call).count();
        let size = ((dead.len() + 1) * SLOT).next_power_of_two();
        let mut stand_in = StandIn {
            id: 0,
            pages: pages.take(size)?,
            size,
        };
        let plan = fdtable_shm::aside().0.wrapping_add(stand_in.pages);
        let plan = plan.cast::<Plan>();
        // SAFETY: the pages have room, and no other process knows them.
        unsafe {
            plan.write(Plan {
                memory: descriptors.own[0],
                threads,
                lock: AtomicCell::new(0),
                slots: dead.len(),
                left: AtomicCell::new(in_call as u32),
                cpu_at: rseq::cpu_id_offset().unwrap_or(0),
                taken,
                dropped,
            });
        }
        for (index, dead) in dead.iter().enumerate() {
            let slot = slot_of(plan, index);
            // SAFETY: as above.
            unsafe { slot.write(Slot::new(plan, slot, dead)) };
        }
        let keeper = host::process_id();
        // Without the handlers of forks: nothing in the shared memory is about this process.
        let nothing = 0_usize;
        let flags = libc::SIGCHLD as usize;
        // SAFETY: the child has a copy of this thread, the only one, and goes on below.
        let id =
            unsafe { libc::syscall(libc::SYS_clone, flags, nothing, nothing, nothing, nothing) };
        match id {
            -1 => {
                let error = io::Error::last_os_error();
                pages.give_back(&stand_in);
                Err(error)
            }
            0 => become_one(plan, &descriptors, &user, keeper),
            id => {
                stand_in.id = id as c_int;
                Ok(stand_in)
            }
        }
    }
}

/// Returns where a thread has its slot.
fn slot_of(plan: *const Plan, index: usize) -> *mut Slot {
    plan.cast::<u8>()
        .wrapping_add((index + 1) * SLOT)
        .cast_mut()
        .cast()
}

fn filled(ranges: Vec<Range<u64>>) -> io::Result<[Range<u64>; RANGES]> {
    if ranges.len() > RANGES {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let mut all = [const { 0..0 }; RANGES];
    for (place, range) in all.iter_mut().zip(ranges) {
        *place = range;
    }
    Ok(all)
}

impl Slot {
    fn new(plan: *const Plan, place: *mut Slot, dead: &Dead) -> Self {
        let r = &dead.registers;
        let interrupted = -516..=-512;
        // A call that was interrupted returns `EINTR`, in place of the host's internal code.
        let rax = match r.rax.cast_signed() {
            code if r.orig_rax.cast_signed() >= 0 && interrupted.contains(&code) => {
                i64::from(-libc::EINTR).cast_unsigned()
            }
            _ => r.rax,
        };
        // The host does not know of the sequence that it was in.
        let rip = resume_address(r.rip as usize) as u64;
        // `cs` and `ss`.
        let segments = r.cs & 0xFFFF | (r.ss & 0xFFFF) << 48;
        /// There are registers behind those of `fxsave`; `ss` is restored.
        const FLAGS: u64 = 7;
        // Bad addresses are reported whatever the thread has blocked.
        let faults = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);
        let told = 1 << (libc::SIGSYS - 1);
        let mask = (!told | dead.mask) & !faults;
        Slot {
            plan,
            fs: dead.fs,
            gs: dead.gs,
            is_in_call: dead.is_in_call,
            id: AtomicCell::new(0),
            context: Context {
                flags: FLAGS,
                link: 0,
                stack: libc::stack_t {
                    ss_sp: place.cast::<u8>().wrapping_add(SLOT / 2).cast(),
                    ss_flags: 0,
                    ss_size: SLOT / 2,
                },
                registers: [
                    r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp,
                    r.rbx, r.rdx, rax, r.rcx, r.rsp, rip, r.eflags, segments, 0, 0, 0, 0,
                ],
                // SAFETY: only the address is computed, inside of the slot.
                vectors: unsafe { &raw const (*place).vectors },
                reserved: [0; 8],
                mask,
            },
            vectors: Aligned(*dead.vectors),
        }
    }
}

/// Returns vector registers as `rt_sigreturn` reads them: with words which say how much there is.
/// Without these it would restore the lower halves alone.
///
/// # Errors
/// `E2BIG` if there are more than the place has room for.
pub(super) fn in_frame(mut vectors: Box<Vectors>) -> io::Result<Box<Vectors>> {
    const MAGIC: [u64; 2] = [0x4650_5853, 0x4650_5845];
    /// Index of the words for the program, and of the word in which `xsave` notes the stored parts.
    const WORDS: usize = 464 / size_of::<u64>();
    const STORED: usize = 512 / size_of::<u64>();
    /// Bits of the parts that `fxsave` stores, and the size of an area without others.
    const LEGACY: u64 = 3;
    const LEAST: u64 = 576;
    let stored = vectors[STORED] | LEGACY;
    let parts = (2..63).filter(|part| stored >> part & 1 != 0);
    let ends = parts.map(|part| {
        let place = __cpuid_count(0xD, part);
        u64::from(place.eax) + u64::from(place.ebx)
    });
    let size = ends.max().unwrap_or(0).max(LEAST);
    match vectors.get_mut(size as usize / size_of::<u64>()) {
        Some(end) => *end = MAGIC[1],
        None => return Err(io::Error::from_raw_os_error(libc::E2BIG)),
    }
    vectors[WORDS..STORED].fill(0);
    vectors[WORDS] = MAGIC[0] | (size + 4) << 32;
    vectors[WORDS + 1] = stored;
    vectors[WORDS + 2] = size;
    Ok(vectors)
}

/// The user of a process.
struct User {
    ids: [[u32; 4]; 2],
    groups: Vec<u32>,
    umask: u32,
}

impl User {
    fn of(process: c_int) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        let numbers = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            words
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        };
        let four =
            |name| <[u32; 4]>::try_from(numbers(name)).map_err(|_| io::ErrorKind::InvalidData);
        let mask = text.lines().find_map(|line| line.strip_prefix("Umask:"));
        Ok(Self {
            ids: [four("Uid:")?, four("Gid:")?],
            groups: numbers("Groups:"),
            umask: u32::from_str_radix(mask.unwrap_or("22").trim(), 8).unwrap_or(0o22),
        })
    }
}

/// The descriptors of a process, and what the stand-in takes them by.
struct Descriptors {
    /// In ascending order.
    numbers: Vec<RawFd>,
    process: Open,
    memory: Open,
    directory: Open,
    /// Under which numbers the stand-in has `memory` and `process`, in ascending order. The process
    /// uses neither.
    own: [RawFd; 2],
    /// The limit of descriptors of the keeper.
    limit: libc::rlimit,
}

/// Has a descriptor stand for a thread that is no leader, since Linux 6.9.
const PIDFD_THREAD: c_int = libc::O_EXCL;

impl Descriptors {
    /// # Errors
    /// Errors of the host's calls.
    fn of(process: c_int) -> io::Result<Self> {
        let limit = host::limit(libc::RLIMIT_NOFILE)
            .map_err(|e| io::Error::from_raw_os_error(e.errno()))?;
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(format!("/proc/{process}/cwd"))?;
        let mut pidfd = -1;
        for flags in [0, PIDFD_THREAD] {
            if pidfd < 0 {
                // SAFETY: it takes integers.
                pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, flags) } as RawFd;
            }
        }
        if pidfd < 0 {
            return Err(io::Error::last_os_error());
        }
        let pidfd = Open(pidfd);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
        numbers.sort_unstable();
        Ok(Self {
            own: free(&numbers, limit.rlim_cur as RawFd),
            numbers,
            process: raised(pidfd.0)?,
            memory: raised(memory.as_raw_fd())?,
            directory: raised(directory.as_raw_fd())?,
            limit,
        })
    }

    /// Takes the working directory, and copies of the descriptors under the same numbers, but for
    /// those above the limit. Returns false if one is missing.
    fn take(&self) -> bool {
        let limit = self.raise_limit();
        // SAFETY: these take integers. The descriptors are those of the keeper, of which this
        // process has no use but for three, and these are `raised`: neither copy replaces one.
        let is_ready = unsafe {
            libc::fchdir(self.directory.0) == 0
                && libc::dup2(self.memory.0, 0) == 0
                && libc::dup2(self.process.0, 1) == 1
                && libc::close_range(2, c_int::MAX.cast_unsigned(), 0) == 0
        };
        let [memory, process] = self.own;
        // In this order: the number of `process` is the higher one, so it is not 0.
        if !is_ready || !moved(1, process) || !moved(0, memory) {
            return false;
        }
        let is_taken = |&number: &RawFd| {
            // SAFETY: it takes integers.
            let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, number, 0) } as RawFd;
            // Numbers are taken in their order, so this one is free, and the copy is no higher.
            copy >= 0 && moved(copy, number)
        };
        let mut numbers = self.numbers.iter().take_while(|&&number| number < limit);
        let are_taken = numbers.all(is_taken);
        // SAFETY: as above.
        are_taken && unsafe { libc::close(process) } == 0
    }

    /// Allows this process all of these numbers, unless the host refuses it: a descriptor can be
    /// older than a limit below it. Returns the limit.
    fn raise_limit(&self) -> RawFd {
        let end = self.own[1].max(self.numbers.last().map_or(0, |&last| last)) + 1;
        let raised = libc::rlimit {
            rlim_cur: end as libc::rlim_t,
            rlim_max: self.limit.rlim_max.max(end as libc::rlim_t),
        };
        let limit = self.limit.rlim_cur as RawFd;
        // SAFETY: the limit is valid.
        if end > limit && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            end
        } else {
            limit
        }
    }
}

/// Returns two numbers in ascending order that are not among the given ones, which have the same
/// order: above all of these, if the limit allows it, else between them, else above the limit.
fn free(numbers: &[RawFd], limit: RawFd) -> [RawFd; 2] {
    let end = numbers.last().map_or(0, |&last| last + 1);
    let all = (end..limit).chain((0..end.min(limit)).rev()).chain(limit..);
    let mut free = all.filter(|number| numbers.binary_search(number).is_err());
    // There are more numbers than a process can have descriptors.
    let mut found = [0; 2].map(|_| free.next().unwrap_or(RawFd::MAX));
    found.sort_unstable();
    found
}

/// Moves a descriptor to a number that is free, or its own. Returns false if the host refuses it.
fn moved(fd: RawFd, to: RawFd) -> bool {
    // SAFETY: these take integers. The callers own the descriptor.
    fd == to || unsafe { libc::dup2(fd, to) == to && libc::close(fd) == 0 }
}

/// Returns a copy with a number that is at least 2.
fn raised(fd: RawFd) -> io::Result<Open> {
    // SAFETY: it takes integers.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 2) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Open(copy))
}

/// A host descriptor, until this is dropped.
struct Open(RawFd);

impl Drop for Open {
    fn drop(&mut self) {
        host::close(self.0);
    }
}

/// The memory that a stand-in takes over at once, and what it drops.
struct Ranges {
    taken: Vec<Range<u64>>,
    dropped: Vec<Range<u64>>,
}

impl Ranges {
    /// Finds them: the runner had some memory when the keeper was made; since then its heap has
    /// grown, and threads have got stacks. All else is the program's.
    fn of(process: c_int, dead: &[Dead]) -> io::Result<Self> {
        /// How far from its stack pointer, and from its thread-local variables, a thread may need
        /// memory: the size of a stack of the runner's threads, and more than these variables.
        const NEAR: u64 = 768 << 10;
        let own = private("self")?;
        let theirs = private(&process.to_string())?;
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (range, name) in &theirs {
            if matches!(name.as_str(), "[heap]" | "[stack]") {
                taken.push(range.clone());
                continue;
            }
            let near = dead.iter().flat_map(|dead| [dead.registers.rsp, dead.fs]);
            let near =
                near.map(|at| at.saturating_sub(NEAR)..at.saturating_add(NEAR) & !(PAGE - 1));
            let wanted = own.iter().map(|(range, _)| range.clone()).chain(near);
            for wanted in wanted {
                let part = range.start.max(wanted.start & !(PAGE - 1))..range.end.min(wanted.end);
                if !part.is_empty() {
                    taken.push(part);
                }
            }
        }
        let taken = joined(taken);
        let mut dropped = Vec::new();
        for (range, _) in own {
            let mut at = range.start;
            for part in taken
                .iter()
                .filter(|part| part.end > range.start && part.start < range.end)
            {
                if part.start > at {
                    dropped.push(at..part.start);
                }
                at = at.max(part.end);
            }
            if at < range.end {
                dropped.push(at..range.end);
            }
        }
        Ok(Self { taken, dropped })
    }
}

/// Returns the ranges, without what is in two of them.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// Returns the private mappings of a process that can be written, and their names.
fn private(process: &str) -> io::Result<Vec<(Range<u64>, String)>> {
    let text = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((start, end)) = range.split_once('-')
            && let (Some(start), Some(end)) = (number(start), number(end))
            && rights.starts_with("rw")
            && rights.ends_with('p')
        {
            found.push((start..end, words.nth(3).unwrap_or_default().to_owned()));
        }
    }
    Ok(found)
}

/// Becomes a stand-in, in the child.
fn become_one(plan: *mut Plan, descriptors: &Descriptors, user: &User, keeper: c_int) -> ! {
    // The host lets every user read what is open already.
    let all = !0_u64;
    call(
        libc::SYS_rt_sigprocmask,
        [
            libc::SIG_SETMASK.into(),
            address(&raw const all),
            0,
            8,
            0,
            0,
        ],
    );
    forget_rseq_area();
    if !descriptors.take() {
        end_process(4);
    }
    // SAFETY: these take integers, and lists of them.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"fdtable-stand-in".as_ptr());
        libc::umask(user.umask);
        libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr());
        let [
            [user, effective, saved, _],
            [group, effective_group, saved_group, _],
        ] = user.ids;
        libc::syscall(libc::SYS_setresgid, group, effective_group, saved_group);
        libc::syscall(libc::SYS_setresuid, user, effective, saved);
        // After the user is set, which undoes it. Without the keeper, others take its locks.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
            0,
        );
    }
    // SAFETY: it takes nothing.
    if unsafe { libc::getppid() } != keeper {
        end_process(5);
    }
    // SAFETY: `begin` has written it.
    let threads = unsafe { (*plan).threads };
    let faults = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);
    for (signal, handler) in [
        (libc::SIGSEGV, fault as *const ()),
        (libc::SIGBUS, fault as *const ()),
        (threads.killed.0, threads.handler as *const ()),
    ] {
        const SA_RESTORER: u64 = 0x0400_0000;
        let action = [
            handler.addr() as u64,
            (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | SA_RESTORER,
            (threads.restorer as *const ()).addr() as u64,
            !faults,
        ];
        call(
            libc::SYS_rt_sigaction,
            [signal.into(), address(&raw const action), 0, 8, 0, 0],
        );
    }
    let stack = slot_of(plan, 0).cast::<u8>().wrapping_add(SLOT);
    // SAFETY: the stack is in the shared pages, and is the first thread's until it has one of its
    // own. Nothing returns.
    unsafe {
        asm!(
            "mov rsp, {stack}",
            "call {take_over}",
            "ud2",
            stack = in(reg) stack,
            take_over = sym take_over,
            in("rdi") plan,
            options(noreturn),
        );
    }
}

/// Has the host forget the rseq area of this thread: it would write to its place whatever is there
/// later.
fn forget_rseq_area() {
    const UNREGISTER: i64 = 1;
    const SIGNATURE: i64 = 0x5305_3053;
    let Some(offset) = rseq::area_offset() else {
        return;
    };
    let base: *const u8;
    // SAFETY: the ABI keeps the base itself there.
    unsafe { asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly)) };
    if rseq::cpu_id().is_none() {
        // It has none.
        return;
    }
    let area = address(base.wrapping_offset(offset));
    // The C library has registered it with a size that depends on its version.
    let mut sizes = (32..=1024).step_by(32);
    if !sizes.any(|size| call(libc::SYS_rseq, [area, size, UNREGISTER, SIGNATURE, 0, 0]) == 0) {
        end_process(6);
    }
}

fn address<T>(place: *const T) -> i64 {
    place.expose_provenance() as i64
}

/// Makes a call of the host.
#[inline(always)]
fn call(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the callers pass what the call takes.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            out("rcx") _, out("r11") _,
            options(nostack),
        );
    }
    result
}

/// Replaces the memory, and continues the calls.
unsafe extern "C" fn take_over(plan: *const Plan) -> ! {
    // SAFETY: it is in the shared pages, and no other process writes it.
    let plan = unsafe { &*plan };
    const FIXED: i64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as i64;
    const RIGHTS: i64 = (libc::PROT_READ | libc::PROT_WRITE) as i64;
    let mut index = 0;
    while index < RANGES {
        let Range { start, end } = plan.taken[index];
        index += 1;
        let (at, length) = (start.cast_signed(), (end - start).cast_signed());
        if length == 0 {
            continue;
        }
        if call(libc::SYS_mmap, [at, length, RIGHTS, FIXED, -1, 0]) != at {
            end_process(1);
        }
        let mut done = 0;
        while done < length {
            let place = at + done;
            let arguments = [plan.memory.into(), place, length - done, place, 0, 0];
            let count = call(libc::SYS_pread64, arguments);
            if count <= 0 {
                end_process(2);
            }
            done += count;
        }
    }
    index = 0;
    while index < RANGES {
        let Range { start, end } = plan.dropped[index];
        index += 1;
        if end > start {
            call(
                libc::SYS_munmap,
                [start.cast_signed(), (end - start).cast_signed(), 0, 0, 0, 0],
            );
        }
    }
    // From here on it has the statics of the dead process.
    PLAN.store(ptr::from_ref(plan).expose_provenance());
    let has_filters = has_filters();
    index = 1;
    while index < plan.slots {
        let slot = slot_of(plan, index);
        // Without a filter, one that was in a fork would make a process.
        // SAFETY: `StandIn::begin` has written the slot.
        if has_filters || unsafe { (*slot).is_in_call } {
            begin_thread(slot);
        }
        index += 1;
    }
    // SAFETY: `StandIn::begin` has written the slot.
    unsafe { resume(slot_of(plan, 0)) }
}

/// Ends the process.
fn end_process(status: i64) -> ! {
    loop {
        call(libc::SYS_exit_group, [status, 0, 0, 0, 0, 0]);
    }
}

/// Returns true if the host has filters of calls.
fn has_filters() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    let ask = i64::from(libc::SECCOMP_GET_ACTION_AVAIL);
    call(
        libc::SYS_seccomp,
        [ask, 0, address(&raw const action), 0, 0, 0],
    ) == 0
}

/// Has all calls of this thread fail that would make a thread or a process.
fn forbid_making() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NUMBER: u32 = offset_of!(libc::seccomp_data, nr) as u32;
    const FAIL: u32 = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    /// The C library goes on to `clone` then.
    const MISSING: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    const fn step(code: u16, jt: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf: 0, k }
    }
    let filter = [
        step(LOAD, 0, NUMBER),
        step(IF_EQUAL, 4, libc::SYS_fork as u32),
        step(IF_EQUAL, 3, libc::SYS_vfork as u32),
        step(IF_EQUAL, 2, libc::SYS_clone as u32),
        step(IF_EQUAL, 2, libc::SYS_clone3 as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, FAIL),
        step(RETURN, 0, MISSING),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: (&raw const filter).cast_mut().cast(),
    };
    let plain = i64::from(libc::PR_SET_NO_NEW_PRIVS);
    call(libc::SYS_prctl, [plain, 1, 0, 0, 0, 0]);
    let mode = i64::from(libc::SECCOMP_SET_MODE_FILTER);
    call(
        libc::SYS_seccomp,
        [mode, 0, address(&raw const program), 0, 0, 0],
    );
}

/// Starts a thread that continues from a slot.
fn begin_thread(slot: *mut Slot) {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    let stack = slot.cast::<u8>().wrapping_add(SLOT);
    let result: i64;
    // SAFETY: the thread begins on a stack in its slot, which nothing else uses.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call {resume}",
            "ud2",
            "2:",
            resume = sym resume,
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") i64::from(flags),
            in("rsi") stack,
            in("rdx") 0_u64,
            in("r10") 0_u64,
            in("r8") 0_u64,
            in("r12") slot,
            out("rcx") _, out("r11") _,
        );
    }
    if result < 0 {
        end_process(3);
    }
}

/// Continues from a slot.
///
/// # Safety
/// The slot was written, and no other thread continues from it. The memory is that of the dead
/// process.
unsafe extern "C" fn resume(slot: *mut Slot) -> ! {
    // SAFETY: as the caller promises.
    let Slot {
        fs,
        gs,
        plan,
        id: own,
        ..
    } = unsafe { &*slot };
    own.store(call(libc::SYS_gettid, [0; 6]) as i32);
    forbid_making();
    // SAFETY: as the caller promises.
    let Plan {
        threads: Threads { id_at, killed, .. },
        cpu_at,
        ..
    } = unsafe { &**plan };
    let (id_at, killed, cpu_at) = (*id_at, *killed, *cpu_at);
    if cpu_at != 0 {
        // This thread has no rseq area: no sequence, and no lookup of the CPU, may believe it.
        let cpu =
            ptr::with_exposed_provenance_mut::<i32>((*fs as usize).wrapping_add_signed(cpu_at));
        // SAFETY: the area is in the memory of the dead thread.
        unsafe { cpu.write_volatile(-1) };
    }
    // SAFETY: both lead to the memory of the dead thread.
    unsafe {
        asm!("wrfsbase {}", in(reg) *fs, options(nostack));
        asm!("wrgsbase {}", in(reg) *gs, options(nostack));
    }
    if *gs != 0 {
        let thread = call(libc::SYS_gettid, [0; 6]);
        let process = call(libc::SYS_getpid, [0; 6]);
        let id = ptr::with_exposed_provenance_mut::<i32>(*gs as usize + id_at);
        // SAFETY: the id of the thread, in what the runner has for it.
        unsafe { id.write_volatile(thread as i32) };
        let (signal, code) = killed;
        let mut info = [0_i32; 32];
        (info[0], info[2]) = (signal, code);
        let info = address(&raw const info);
        call(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, signal.into(), info, 0, 0],
        );
    }
    // SAFETY: the context is complete, and the thread has no other use of its stack.
    unsafe {
        asm!(
            "mov rsp, {context}",
            "mov eax, 15",
            "syscall",
            "ud2",
            context = in(reg) &raw const (*slot).context,
            options(noreturn),
        );
    }
}

/// The handler of bad addresses. An address in no page of the dead process is left to the runner's
/// handler.
#[unsafe(naked)]
unsafe extern "C" fn fault() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {on_fault}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2: ret",
        on_fault = sym on_fault,
    );
}

/// Brings in the page at a bad address. Returns the handler for it if there is none, or 0.
///
/// # Safety
/// The arguments are those of a handler, which runs on the stack for signals in a slot.
unsafe extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> usize {
    /// Bits of a page fault's error code: the page is there; the access was to execute it.
    const IS_THERE: u64 = 1;
    const EXECUTES: u64 = 1 << 4;
    const ERROR: usize = 19;
    // SAFETY: the host's context.
    let error = unsafe { (*context.cast::<Context>()).registers[ERROR] };
    let slot = context.map_addr(|at| at & !(SLOT - 1)).cast::<Slot>();
    // A thread that was killed in a handler of the runner has the stack of that again, when it has
    // returned from it.
    // SAFETY: a word of memory of this thread's stack, of any value. If there is none, the host
    // ends the process, because this signal is blocked here.
    if unsafe { (*slot).id.load() } != call(libc::SYS_gettid, [0; 6]) as i32 {
        end_process(4);
    }
    if error & EXECUTES != 0 {
        // The way back to the program, which has its own base.
        // SAFETY: the context is in the slot, and the base leads to the thread's own memory.
        unsafe { asm!("wrfsbase {}", in(reg) (*slot).fs, options(nostack)) };
        end_thread();
    }
    // SAFETY: the context is in the slot.
    let plan = unsafe { &*(*slot).plan };
    let handler = (plan.threads.handler as *const ()).addr();
    // SAFETY: the host's information.
    let page = unsafe { (*info).si_addr() }.addr() as u64 & !(PAGE - 1);
    if error & IS_THERE != 0 {
        return handler;
    }
    while plan.lock.compare_exchange(0, 1).is_err() {
        call(libc::SYS_sched_yield, [0; 6]);
    }
    let is_here = bring_in(plan.memory, page.cast_signed());
    plan.lock.store(0);
    if is_here { 0 } else { handler }
}

/// Brings in a page of the dead process. Returns true if it is there.
fn bring_in(memory: RawFd, page: i64) -> bool {
    const LENGTH: i64 = PAGE as i64;
    let mut is_mapped = 0_u8;
    if call(
        libc::SYS_mincore,
        [page, LENGTH, address(&raw mut is_mapped), 0, 0, 0],
    ) == 0
    {
        // Another thread was first.
        return true;
    }
    let rights = i64::from(libc::PROT_READ | libc::PROT_WRITE);
    let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let copy = call(libc::SYS_mmap, [0, LENGTH, rights, flags, -1, 0]);
    if (-4095..0).contains(&copy) {
        return false;
    }
    if call(libc::SYS_pread64, [memory.into(), copy, LENGTH, page, 0, 0]) != LENGTH {
        call(libc::SYS_munmap, [copy, LENGTH, 0, 0, 0, 0]);
        return false;
    }
    // At once: another thread may access it from here on.
    let flags = i64::from(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
    call(libc::SYS_mremap, [copy, LENGTH, LENGTH, flags, page, 0]) == page
}

const _: () = assert!(offset_of!(Context, mask) == 296 && align_of::<Aligned>() == 64);

#[cfg(test)]
mod tests {
    use super::free;

    #[test]
    fn a_stand_in_has_numbers_that_the_process_does_not_use() {
        assert_eq!(free(&[0, 1, 2], 64), [3, 4]);
        // One above the others, and one between them; both between them; and none is left.
        assert_eq!(free(&[0, 1, 4, 62], 64), [61, 63]);
        assert_eq!(free(&[0, 3, 4, 5], 6), [1, 2]);
        assert_eq!(free(&[0, 1, 2, 3], 4), [4, 5]);
        // A number is above the limit.
        assert_eq!(free(&[0, 2, 9], 4), [1, 3]);
        assert_eq!(free(&[0, 1, 2, 4], 4), [3, 5]);
    }
}
