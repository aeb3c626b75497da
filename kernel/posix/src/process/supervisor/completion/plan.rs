//! The plan of a completion process, in pages that it shares with the supervisor, and the ends of
//! its threads.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::host_fork;
use fdtable_sync::sequence::resume_address;

use crate::process::supervisor::ptrace::Vectors;
use crate::process::supervisor::threads::Threads;

/// Pages of the host, in bytes.
pub(super) const PAGE: u64 = 4096;

/// Bytes of each thread in the shared pages: a [`Slot`] at their begin, and behind it the thread's
/// stack for signals.
pub(super) const SLOT: usize = 128 << 10;

/// How many ranges of memory there may be of each kind.
pub(super) const RANGES: usize = 400;

/// The address of the plan of this process if it is a completion process, else 0.
pub(super) static PLAN: AtomicCell<usize> = AtomicCell::new(0);

/// Returns true if this process is a completion process.
pub(crate) fn is_completion_process() -> bool {
    PLAN.load() != 0
}

/// Ends the calling thread of a completion process if it is in no call any more.
#[inline(always)]
pub(crate) fn end_of_call() {
    if is_completion_process() && !fdtable_shm::is_in_call() {
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

/// Ends the process.
pub(super) fn end_process(status: i64) -> ! {
    loop {
        call(libc::SYS_exit_group, [status, 0, 0, 0, 0, 0]);
    }
}

/// Header of the shared pages, before the slots.
#[repr(C)]
pub(super) struct Plan {
    /// The descriptor of the memory of the dead process.
    pub(super) memory: RawFd,
    pub(super) threads: Threads,
    /// Held while a page is brought in: 1, else 0.
    pub(super) lock: AtomicCell<u32>,
    pub(super) slots: usize,
    /// Number of threads that have a call to complete.
    pub(super) left: AtomicCell<u32>,
    /// How far the index of the CPU in a thread's rseq area is from its base of `fs`; 0 if there
    /// are no areas.
    pub(super) cpu_at: isize,
    /// Ranges of the dead process's memory that are copied at once.
    pub(super) taken: [Range<u64>; RANGES],
    /// Ranges of the supervisor's memory that are unmapped. None of them overlaps one in `taken`.
    pub(super) dropped: [Range<u64>; RANGES],
}

impl Plan {
    /// Counts a thread that ends. Returns true if it was the last one that had a call to complete.
    pub(super) fn is_last_to_complete(&self) -> bool {
        let own = call(libc::SYS_gettid, [0; 6]) as i32;
        // SAFETY: the slots were written, and other threads write their ids alone.
        let mut slots = (0..self.slots).map(|index| unsafe { &*slot_of(self, index) });
        let is_counted = slots.any(|slot| slot.is_in_call && slot.id.load() == own);
        is_counted && self.left.fetch_sub(1) == 1
    }
}

/// State with which a thread continues.
#[repr(C)]
pub(super) struct Slot {
    pub(super) plan: *const Plan,
    pub(super) fs: u64,
    pub(super) gs: u64,
    pub(super) is_in_call: bool,
    /// The id of the thread that continues, or 0 before.
    pub(super) id: AtomicCell<i32>,
    pub(super) context: Context,
    pub(super) vectors: Aligned,
}

#[repr(C, align(64))]
pub(super) struct Aligned(pub(super) Vectors);

/// The host's `struct ucontext`, which `rt_sigreturn` finds at the stack pointer.
#[repr(C)]
pub(super) struct Context {
    pub(super) flags: u64,
    pub(super) link: u64,
    pub(super) stack: libc::stack_t,
    pub(super) registers: [u64; 23],
    pub(super) vectors: *const Aligned,
    pub(super) reserved: [u64; 8],
    pub(super) mask: u64,
}

/// Returns where a thread has its slot.
pub(super) fn slot_of(plan: *const Plan, index: usize) -> *mut Slot {
    plan.cast::<u8>()
        .wrapping_add((index + 1) * SLOT)
        .cast_mut()
        .cast()
}

/// Makes a call of the host.
#[inline(always)]
pub(super) fn call(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> i64 {
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

pub(super) fn address<T>(place: *const T) -> i64 {
    place.expose_provenance() as i64
}

/// A thread that was killed in the runner.
pub(crate) struct Dead {
    pub(crate) registers: libc::user_regs_struct,
    /// As [`in_frame`] returns them.
    pub(crate) vectors: Box<Vectors>,
    pub(crate) mask: u64,
    /// Its base of `fs` in the runner, and that of `gs`: 0 if it is none of the program.
    pub(crate) fs: u64,
    pub(crate) gs: u64,
    /// True if it was in a call, which the completion process completes.
    pub(crate) is_in_call: bool,
}

impl Slot {
    pub(super) fn new(plan: *const Plan, place: *mut Slot, dead: &Dead) -> Self {
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
pub(crate) fn in_frame(mut vectors: Box<Vectors>) -> io::Result<Box<Vectors>> {
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

const _: () = assert!(size_of::<Plan>() <= SLOT && size_of::<Slot>() <= SLOT / 2);

const _: () = assert!(offset_of!(Context, mask) == 296 && align_of::<Aligned>() == 64);
