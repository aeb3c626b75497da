//! The number of the CPU, where the C library keeps it.
//!
//! Since glibc 2.35 the kernel writes the number into each thread's *rseq area*, where
//! `sched_getcpu` and whoever has per-CPU data read it. A thread that simulates a CPU takes its
//! area back from the kernel and writes the number itself. There is a second reason to: the kernel
//! restarts a restartable sequence at each signal, so that under stepping none would ever get to
//! its end. Where the area is not registered, each is as if no signal had come.

use std::arch::asm;
use std::ffi::CStr;
use std::{fs, io};

use crate::error::Error;

/// The fields of `struct rseq`, as offsets.
const CPU_ID_START: usize = 0;
const CPU_ID: usize = 4;
const SEQUENCE: usize = 8;
const NODE_ID: usize = 20;
const MM_CID: usize = 24;

const UNREGISTER: u32 = 1;
/// What the C library has registered with, on x86.
const SIGNATURE: u32 = 0x5305_3053;
/// The size of the first `struct rseq`, and what later ones are at least registered with.
const FIRST_SIZE: u32 = 32;

/// The thread's number, taken from the kernel. Not to be sent: it is this thread's.
#[derive(Debug)]
pub(crate) struct CpuId(Option<Area>);

#[derive(Debug)]
struct Area {
    place: *mut u8,
    /// The size with which the kernel knew it, or nothing if it did not.
    registered: Option<u32>,
    /// The words of the processor numbers, as they were.
    former: [u32; 4],
}

/// The words that tell a processor.
const WORDS: [usize; 4] = [CPU_ID_START, CPU_ID, NODE_ID, MM_CID];

impl CpuId {
    /// Has this thread be on `cpu`, until it is dropped.
    ///
    /// # Safety
    /// - No other thread is on `cpu`, nor does the kernel ever run one there.
    /// - As for [`crate::CpuId::claim`].
    pub(crate) unsafe fn tell(cpu: usize) -> Result<Self, Error> {
        let cpu = u32::try_from(cpu).map_err(|_| Error::NoSuchCpu(cpu))?;
        let Some(place) = area() else {
            return Ok(Self(None));
        };
        let area = Area {
            place,
            registered: unregister(place)?,
            former: WORDS.map(|offset| word(place, offset)),
        };
        set(place, [cpu, cpu, 0, cpu]);
        Ok(Self(Some(area)))
    }
}

impl Drop for CpuId {
    fn drop(&mut self) {
        let Some(area) = &self.0 else {
            return;
        };
        set(area.place, area.former);
        if let Some(size) = area.registered {
            let sequence = area.place.wrapping_add(SEQUENCE).cast::<u64>();
            // The descriptor of the last sequence stays behind, and need not exist any more.
            // SAFETY: the area is this thread's, and nobody is in a sequence: the thread is here.
            unsafe { sequence.write_volatile(0) };
            // It was registered like this before. If the kernel refuses now, its number stays
            // negative, which tells everybody that there is none.
            let _ = rseq(area.place, size, 0);
        }
    }
}

/// Returns how many numbers the kernel may ever give to CPUs, those that are not there yet included.
pub(crate) fn possible_cpus() -> Result<usize, Error> {
    let failed = |error| Error::System(POSSIBLE, error);
    let list = fs::read_to_string(POSSIBLE).map_err(failed)?;
    let last = last_of(&list).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    Ok(last + 1)
}

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Returns the last number of a list such as `0-3,8-11`, which the kernel writes in their order.
fn last_of(list: &str) -> Option<usize> {
    list.trim_end().rsplit([',', '-']).next()?.parse().ok()
}

/// Returns where the area of this thread is, if this C library has one.
fn area() -> Option<*mut u8> {
    let offset: isize = symbol(c"__rseq_offset")?;
    let pointer: *mut u8;
    // SAFETY: the ABI keeps the thread pointer itself at `fs:0`; the load has no side effect.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
    }
    Some(pointer.wrapping_offset(offset))
}

/// Takes the area from the kernel. Returns the size that it had there, or nothing if the kernel did
/// not have it.
fn unregister(place: *mut u8) -> Result<Option<u32>, Error> {
    if word(place, CPU_ID).cast_signed() < 0 {
        return Ok(None);
    }
    // The kernel insists on the size of the registration. Libraries have used the size of the
    // structure, the size that they publish, and what the kernel asks for.
    let published: u32 = symbol(c"__rseq_size").unwrap_or(FIRST_SIZE);
    // SAFETY: reads a word that the kernel left to the process.
    let asked = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as u32;
    let rounded = asked.next_multiple_of(FIRST_SIZE);
    let sizes = [
        FIRST_SIZE,
        published,
        asked,
        rounded,
        rounded.next_multiple_of(64),
    ];
    for size in sizes {
        if rseq(place, size, UNREGISTER).is_ok() {
            return Ok(Some(size));
        }
    }
    Err(Error::System("rseq", io::Error::last_os_error()))
}

const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

fn rseq(place: *mut u8, size: u32, flags: u32) -> io::Result<()> {
    // SAFETY: the area belongs to this thread for as long as it lives.
    let answer = unsafe { libc::syscall(libc::SYS_rseq, place, size, flags, SIGNATURE) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn word(place: *mut u8, offset: usize) -> u32 {
    // SAFETY: all offsets are inside of the first size, and aligned, as the area is. Volatile,
    // because the kernel may write it.
    unsafe { place.wrapping_add(offset).cast::<u32>().read_volatile() }
}

fn set(place: *mut u8, words: [u32; 4]) {
    for (offset, value) in WORDS.into_iter().zip(words) {
        // SAFETY: as in `word`; the kernel does not have the area now.
        unsafe {
            place
                .wrapping_add(offset)
                .cast::<u32>()
                .write_volatile(value);
        };
    }
}

/// Reads a variable of the C library by its name, if this C library has it.
fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: the name is a C string, and `RTLD_DEFAULT` is a valid handle.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if place.is_null() {
        return None;
    }
    // SAFETY: both symbols are constants of the C library for the life of the process, of the
    // types that `sys/rseq.h` declares and the callers name.
    Some(unsafe { place.cast::<T>().read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_list_ends_it() {
        assert_eq!(last_of("0\n"), Some(0));
        assert_eq!(last_of("0-127\n"), Some(127));
        assert_eq!(last_of("0-3,8-11\n"), Some(11));
        assert_eq!(last_of("0-3,8\n"), Some(8));
        assert_eq!(last_of("\n"), None);
    }
}
