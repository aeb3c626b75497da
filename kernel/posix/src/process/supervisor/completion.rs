//! A completion process completes the calls in which another process was killed.
//!
//! The host holds the dead process: see [`tracees`](super::tracees). All processes of the tree are
//! forks of one process, and so is the supervisor. So a fork of the supervisor has the code of the
//! kernel and the shared memory at the same addresses, and lacks only the private memory of the
//! dead process. The completion process
//!
//! 1. takes copies of the dead process's descriptors, as the same descriptors, its working
//!    directory, and its user;
//! 2. replaces its private memory by that of the dead process: memory that the runner needs is
//!    copied at once, and memory of the program page by page, when a call accesses it;
//! 3. starts a thread for each dead thread that was in a call, which continues there with the
//!    registers of that; and one for each other dead thread that was in the runner, because it may
//!    hold a private lock: that of the C library's heap, or the freezer in a fork.
//!
//! A thread ends with its outermost call ([`end_of_call`](plan::end_of_call)), or where it would
//! return to the program, whose memory is not executable here. The process exits when none of its
//! threads has a call left to complete. A filter denies the creation of threads and processes. The
//! threads are told that their process is killed, so calls that wait are interrupted. Locks know
//! the threads by the IDs of the dead threads, which exist until the host lets them go.
//!
//! # What remains
//!
//! A call that reads or writes a host file, with a buffer of the program, can fail with `EFAULT`:
//! the host does not ask for pages as the calls of this library do. A call may store data in memory
//! that the program shares with others: they do not see it, because this process has a copy.

mod descriptors;
pub(crate) mod plan;
mod ranges;
mod resume;

use std::arch::asm;
use std::ffi::c_int;
use std::io;
use std::ops::Range;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_sync::percpu::rseq;

use super::threads::Threads;
use crate::host;
use descriptors::{Descriptors, User};
use plan::{Dead, Plan, RANGES, SLOT, Slot, address, call, end_process, slot_of};
use ranges::Ranges;
use resume::{fault, take_over};

/// The shared pages that are free for completion processes. The supervisor takes no lock of the
/// kernel for them: a process that holds one may wait for the supervisor.
pub(super) struct Pages {
    /// How much of them was ever used, in bytes.
    used: usize,
    /// Offset and size of each free run.
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

    /// Gives back those of a completion process, which has ended.
    pub(super) fn give_back(&mut self, completion: &Completion) {
        let place = fdtable_shm::aside().0.wrapping_add(completion.pages);
        // If the system refuses, the memory stays in use.
        // SAFETY: the process that used them has ended.
        unsafe { libc::madvise(place.cast(), completion.size, libc::MADV_REMOVE) };
        self.free.push((completion.pages, completion.size));
    }
}

/// A completion process that was started, and its pages.
pub(super) struct Completion {
    id: c_int,
    pages: usize,
    size: usize,
}

impl Completion {
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
        let mut completion = Completion {
            id: 0,
            pages: pages.take(size)?,
            size,
        };
        let plan = fdtable_shm::aside().0.wrapping_add(completion.pages);
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
        let supervisor = host::process_id();
        // Without the handlers of forks: nothing in the shared memory is about this process.
        let nothing = 0_usize;
        let flags = libc::SIGCHLD as usize;
        // SAFETY: the child has a copy of this thread, the only one, and goes on below.
        let id =
            unsafe { libc::syscall(libc::SYS_clone, flags, nothing, nothing, nothing, nothing) };
        match id {
            -1 => {
                let error = io::Error::last_os_error();
                pages.give_back(&completion);
                Err(error)
            }
            0 => become_one(plan, &descriptors, &user, supervisor),
            id => {
                completion.id = id as c_int;
                Ok(completion)
            }
        }
    }
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

/// Becomes a completion process, in the child.
fn become_one(plan: *mut Plan, descriptors: &Descriptors, user: &User, supervisor: c_int) -> ! {
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
        libc::prctl(libc::PR_SET_NAME, c"fdt-completion".as_ptr());
        libc::umask(user.umask);
        libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr());
        let [
            [user, effective, saved, _],
            [group, effective_group, saved_group, _],
        ] = user.ids;
        libc::syscall(libc::SYS_setresgid, group, effective_group, saved_group);
        libc::syscall(libc::SYS_setresuid, user, effective, saved);
        // After the user is set, which undoes it. Without the supervisor, others take its locks.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
            0,
        );
    }
    // SAFETY: it takes nothing.
    if unsafe { libc::getppid() } != supervisor {
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
    let Some(offset) = rseq::sequence_area() else {
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
