//! The CPU number in the C library's rseq area.
//!
//! Since glibc 2.35 the kernel writes the number into each thread's *rseq area*, where
//! `sched_getcpu` and code with per-CPU data read it. A thread that simulates a CPU unregisters its
//! area from the kernel and writes the number itself. There is a second reason for this: the kernel
//! restarts a restartable sequence at each signal, so that under stepping none would ever finish.
//! Without a registered area, none is restarted.

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
/// The signature of the C library's registration on x86.
const SIGNATURE: u32 = 0x5305_3053;
/// The size of the first `struct rseq`, the smallest size of a registration.
const FIRST_SIZE: u32 = 32;

/// The thread's CPU number, taken over from the kernel. Not `Send`: it belongs to this thread.
#[derive(Debug)]
pub(crate) struct CpuId(Option<Area>);

#[derive(Debug)]
struct Area {
    place: *mut u8,
    /// The size of the kernel's registration, or none if there was none.
    registered: Option<u32>,
    /// The former words of the CPU numbers.
    former: [u32; 4],
}

/// The words that contain a CPU number.
const WORDS: [usize; 4] = [CPU_ID_START, CPU_ID, NODE_ID, MM_CID];

impl CpuId {
    /// Sets the number of this thread to `cpu`, until this is dropped.
    ///
    /// # Safety
    /// - No other thread is on `cpu`, nor does the kernel ever run one there.
    /// - As for [`crate::CpuId::claim`].
    pub(crate) unsafe fn set(cpu: usize) -> Result<Self, Error> {
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
            // The descriptor of the last sequence is still there, and may be stale.
            // SAFETY: the area is this thread's, and the thread is in no sequence: it is here.
            unsafe { sequence.write_volatile(0) };
            // It was registered like this before. If the kernel refuses now, its number stays
            // negative, which means for all readers that there is none.
            let _ = rseq(area.place, size, 0);
        }
    }
}

/// Returns an exclusive upper bound of the kernel's CPU numbers, including CPUs that are not
/// present yet.
pub(crate) fn possible_cpus() -> Result<usize, Error> {
    let failed = |error| Error::System(POSSIBLE, error);
    let list = fs::read_to_string(POSSIBLE).map_err(failed)?;
    let last = last_of(&list).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    Ok(last + 1)
}

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Returns the last number of a list such as `0-3,8-11`, which the kernel writes in ascending
/// order.
fn last_of(list: &str) -> Option<usize> {
    list.trim_end().rsplit([',', '-']).next()?.parse().ok()
}

/// Returns the address of this thread's area, if this C library has one.
fn area() -> Option<*mut u8> {
    let offset: isize = symbol(c"__rseq_offset")?;
    let pointer: *mut u8;
    // SAFETY: the ABI keeps the thread pointer itself at `fs:0`; the load has no side effect.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
    }
    Some(pointer.wrapping_offset(offset))
}

/// Unregisters the area from the kernel. Returns the size of the registration, or none if there was
/// none.
fn unregister(place: *mut u8) -> Result<Option<u32>, Error> {
    if word(place, CPU_ID).cast_signed() < 0 {
        return Ok(None);
    }
    // The kernel requires the size of the registration. Libraries have used the size of the
    // structure, the size that they publish, and the size that the kernel requests.
    let published: u32 = symbol(c"__rseq_size").unwrap_or(FIRST_SIZE);
    // SAFETY: reads a word of the auxiliary vector.
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
        // SAFETY: as in `word`; the area is not registered with the kernel now.
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
