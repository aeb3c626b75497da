//! A restart of the sequences of other processes, by a visit to each CPU.
//!
//! No command of `membarrier(2)` restarts the sequences of another process. But a CPU runs one
//! thread at a time: when the calling thread runs on it, every thread that ran there before was
//! preempted, of whichever process it is, and the system restarts a sequence that was preempted. A
//! thread that is moved to another CPU meanwhile was preempted too. So after a visit to each CPU
//! that is online, each sequence that had begun before has ended or begins again. A switch of
//! threads is a full fence on the CPU, so the order is that of a restart by `membarrier(2)`.
//!
//! A visit was measured at some 30 µs where the CPU is idle, and 0.6 ms where other threads compute
//! on it: the thread waits for its turn.

use std::fs::File;
use std::io::Read;
use std::mem;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;

use fdtable_sync::fence::NotRestarted;

/// The CPUs that are online, as the system lists them.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The kind of the file system that has this list.
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// How many bytes the list has at most.
const LIST: usize = 4096;

/// How many CPUs a set has room for: as many as Linux can have.
const CPUS: usize = 8192;

/// A set of CPUs, as the system reads it.
struct Set([u64; CPUS / 64]);

/// How often a CPU is visited again, if another thread moves this one away at once.
const ATTEMPTS: usize = 16;

/// Visits each CPU that is online with the calling thread, which then has its CPUs again. A change
/// of them by another thread meanwhile is lost. Waits for threads of a higher priority.
///
/// # Errors
/// [`NotRestarted`] if there is one that this thread may not run on, or the system does not list
/// them.
pub(crate) fn each_cpu() -> Result<(), NotRestarted> {
    let mut place = [0; LIST];
    let online = read_list(&mut place).ok_or(NotRestarted)?;
    let own = Set::of_thread().ok_or(NotRestarted)?;
    let visited = cpus_of(online).try_for_each(|cpus| cpus?.try_for_each(visit));
    // A thread that may use all gets those too that are added later. If its own are gone, the
    // system has given it others, and does so again.
    let may_use_all =
        cpus_of(online).all(|cpus| cpus.is_some_and(|mut cpus| own.has_all(&mut cpus)));
    if may_use_all || !own.use_here() {
        Set::ALL.use_here();
    }
    visited.ok_or(NotRestarted)
}

/// Reads the list of CPUs. `None` unless it is the system's own: a container may have another one
/// in its place, with those that programs are to count.
fn read_list(place: &mut [u8; LIST]) -> Option<&str> {
    let mut file = File::open(ONLINE).ok()?;
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut system: libc::statfs = unsafe { mem::zeroed() };
    // SAFETY: there is room for the answer.
    let answer = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) };
    if answer != 0 || system.f_type as u64 != SYSFS_MAGIC {
        return None;
    }
    let length = file.read(place).ok()?;
    // If it was cut, the line has no end.
    std::str::from_utf8(place.get(..length)?.strip_suffix(b"\n")?).ok()
}

/// Returns the ranges of a list of the system, as in `0-3,6`. One is `None` if it is none.
fn cpus_of(list: &str) -> impl Iterator<Item = Option<RangeInclusive<usize>>> {
    list.split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (last < CPUS).then_some(first..=last)
    })
}

/// Runs on a CPU. Returns `None` if the system refuses it.
fn visit(cpu: usize) -> Option<()> {
    let only = Set::of(cpu);
    for _ in 0..ATTEMPTS {
        if !only.use_here() {
            return None;
        }
        // Another thread may have changed the CPUs of this one at the same time.
        if current() == Some(cpu) {
            return Some(());
        }
    }
    None
}

/// Returns the CPU of this thread. Not from the rseq area: a thread may have none.
fn current() -> Option<usize> {
    let mut cpu = 0_u32;
    let (place, none) = (&raw mut cpu, 0_usize);
    // SAFETY: the call writes one integer, which is on this frame.
    let answer = unsafe { libc::syscall(libc::SYS_getcpu, place, none, none) };
    (answer == 0).then_some(cpu as usize)
}

impl Set {
    const ALL: Self = Self([u64::MAX; CPUS / 64]);

    fn has_all(&self, cpus: &mut RangeInclusive<usize>) -> bool {
        cpus.all(|cpu| self.0[cpu / 64] >> (cpu % 64) & 1 != 0)
    }

    fn of(cpu: usize) -> Self {
        let mut words = [0; CPUS / 64];
        words[cpu / 64] = 1 << (cpu % 64);
        Self(words)
    }

    /// Returns the CPUs that this thread may use.
    fn of_thread() -> Option<Self> {
        let mut set = Self([0; CPUS / 64]);
        let (size, place) = (size_of::<Self>(), set.0.as_mut_ptr());
        // SAFETY: the set has the size that is passed.
        let count = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size, place) };
        (count > 0).then_some(set)
    }

    /// Lets this thread run on these CPUs alone. On return it does.
    fn use_here(&self) -> bool {
        let (size, place) = (size_of::<Self>(), self.0.as_ptr());
        // SAFETY: as above; the call only reads.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size, place) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    use fdtable_sync::sequence::Area;

    #[test]
    fn lists_of_the_system_are_read() {
        let cpus = |list| cpus_of(list).collect::<Option<Vec<_>>>();
        assert_eq!(cpus("0-3,6"), Some(vec![0..=3, 6..=6]));
        assert_eq!(cpus("0"), Some(vec![0..=0]));
        for list in ["", "x", "0-", "8192", "1,,2"] {
            assert_eq!(cpus(list), None, "{list}");
        }
    }

    #[test]
    fn a_visit_leaves_the_thread_its_cpus() {
        let before = Set::of_thread().expect("the system tells");
        let visited = each_cpu();
        assert_eq!(Set::of_thread().expect("the system tells").0, before.0);
        // One that it may not use is not passed over.
        assert!(visit(CPUS - 1).is_none());
        if visited.is_ok() {
            let last = (0..CPUS).rfind(|&cpu| before.has_all(&mut (cpu..=cpu)));
            let only = Set::of(last.expect("there is one"));
            assert!(only.use_here());
            let is_alone = only.0 == before.0;
            assert!(is_alone || each_cpu().is_ok());
            assert_eq!(Set::of_thread().expect("the system tells").0, only.0);
            assert!(before.use_here());
        }
    }

    /// Words that two processes share.
    struct Shared {
        /// Word that the sequences store to.
        value: AtomicU64,
        stored: AtomicU64,
        count: AtomicU64,
    }

    /// A process runs sequences that load `value`, linger, and store it in `stored`. After a
    /// restart none of them stores what it has loaded before.
    #[test]
    fn a_visit_restarts_the_sequences_of_another_process() {
        let Some(area) = Area::find() else { return };
        if each_cpu().is_err() {
            println!("this process may not use all CPUs");
            return;
        }
        let cpus = Set::of_thread().expect("the system tells");
        let last = (0..CPUS).rfind(|&cpu| cpus.has_all(&mut (cpu..=cpu)));
        let last = last.expect("there is one");
        let (size, rights) = (size_of::<Shared>(), libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0) };
        assert_ne!(place, libc::MAP_FAILED);
        // SAFETY: it is mapped, zeroed and as large, and stays.
        let shared: &'static Shared = unsafe { &*place.cast() };
        // SAFETY: the child makes no call, and allocates nothing.
        let _child = match unsafe { libc::fork() } {
            0 => {
                // SAFETY: it takes integers. The process ends with the thread that made it.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                Set::of(last).use_here();
                loop {
                    store_slowly(area, shared);
                    shared.count.fetch_add(1, SeqCst);
                }
            }
            child => Child(child),
        };
        let end = Instant::now() + Duration::from_millis(500);
        let mut value = 0;
        while Instant::now() < end || value < 10 {
            let count = shared.count.load(SeqCst);
            while shared.count.load(SeqCst) < count + 2 {
                std::thread::yield_now();
            }
            // Where the other process is not, if there are two CPUs.
            visit(0);
            value += 1;
            shared.value.store(value, SeqCst);
            each_cpu().expect("this thread may use all CPUs");
            shared.stored.store(value, SeqCst);
            let until = Instant::now() + Duration::from_micros(300);
            while Instant::now() < until {
                assert_eq!(shared.stored.load(SeqCst), value, "an old one was stored");
            }
        }
        println!("{value} restarts, {} sequences", shared.count.load(SeqCst));
    }

    /// A child that runs until this is dropped.
    struct Child(libc::pid_t);

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: it takes integers, and the child was not waited for before.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
            // SAFETY: there is no status to store.
            unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
        }
    }

    fn store_slowly(area: Area, shared: &Shared) {
        // SAFETY: the thread has its area there. The sequence writes a word of the mapping.
        unsafe {
            fdtable_sync::restartable!(
                registers: ("{at}", "{area}"),
                around: ["", ""],
                steps: [
                    "mov {at}, qword ptr [{value}]",
                    "mov {left:e}, 1000",
                    "8:",
                    "pause",
                    "dec {left:e}",
                    "jnz 8b",
                    "mov qword ptr [{stored}], {at}",
                ],
                otherwise: "",
                at = out(reg) _,
                area = in(reg) area.offset(),
                value = in(reg) &raw const shared.value,
                stored = in(reg) &raw const shared.stored,
                left = out(reg) _,
            );
        }
    }
}
