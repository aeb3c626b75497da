//! Memory of the guest: what it has mapped, and its `brk`.
//!
//! The runner and the guest share an address space, and each has a C library that would move `brk`.
//! The host's is the runner's. The guest's is a reservation of its own, whose pages become
//! accessible when it grows.
//!
//! The list of mappings is for `execve`, which unmaps what the guest has, and for
//! `/proc/self/maps`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::calls::checked_address;
use crate::guarded::Guarded;

const PAGE: u64 = 4096;

/// How far the guest's `brk` can grow, in bytes.
const BREAK: u64 = 64 << 30;

struct Memory {
    /// The guest's mappings: from where to where. None overlap.
    mappings: BTreeMap<u64, u64>,
    /// Begin, current end, and end of what is accessible, of the guest's `brk`.
    start: u64,
    end: u64,
    accessible: u64,
}

static MEMORY: Guarded<Memory> = Guarded::new(Memory {
    mappings: BTreeMap::new(),
    start: 0,
    end: 0,
    accessible: 0,
});

/// Returns a pointer to an address of the guest.
pub(crate) fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Returns the addresses that a call on memory concerns: whole pages.
pub(crate) fn range(start: u64, length: u64) -> Range<u64> {
    let end = start.saturating_add(length);
    start..end.checked_next_multiple_of(PAGE).unwrap_or(end)
}

impl Memory {
    fn add(&mut self, start: u64, length: u64) {
        let end = start + length.next_multiple_of(PAGE);
        self.remove(start, end - start);
        self.mappings.insert(start, end);
    }

    fn remove(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length.next_multiple_of(PAGE));
        let touched: Vec<_> = self
            .mappings
            .range(..end)
            .rev()
            .take_while(|&(_, &to)| to > start)
            .map(|(&from, &to)| (from, to))
            .collect();
        for (from, to) in touched {
            self.mappings.remove(&from);
            if from < start {
                self.mappings.insert(from, start);
            }
            if to > end {
                self.mappings.insert(end, to);
            }
        }
    }
}

/// Notes that the guest has mapped memory.
pub(crate) fn note(start: u64, length: u64) {
    MEMORY.lock().add(start, length);
}

/// Notes that the guest has unmapped memory.
pub(crate) fn forget(start: u64, length: u64) {
    MEMORY.lock().remove(start, length);
}

/// Reserves address space for a program: at an address, or anywhere.
///
/// # Errors
/// Those of `mmap`; `EEXIST` if something is there.
pub(crate) fn reserve(at: Option<u64>, length: u64) -> Result<u64, i32> {
    let fixed = if at.is_some() {
        libc::MAP_FIXED_NOREPLACE
    } else {
        0
    };
    // SAFETY: nothing is replaced.
    let place = unsafe {
        libc::mmap(
            pointer(at.unwrap_or(0)),
            length as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed,
            -1,
            0,
        )
    };
    let place = checked_address(place)?;
    note(place, length);
    Ok(place)
}

/// Makes the guest's `brk`, anew for each program.
///
/// # Errors
/// Those of `mmap`.
pub(crate) fn begin_break() -> Result<(), i32> {
    let start = reserve(None, BREAK)?;
    let mut memory = MEMORY.lock();
    (memory.start, memory.end, memory.accessible) = (start, start, start);
    Ok(())
}

/// Moves the guest's `brk`, and returns where it is: `brk(2)`.
pub(crate) fn set_break(to: u64) -> u64 {
    let mut memory = MEMORY.lock();
    if to < memory.start || to > memory.start + BREAK {
        return memory.end;
    }
    let (accessible, wanted) = (memory.accessible, to.next_multiple_of(PAGE));
    let is_done = if wanted > accessible {
        // SAFETY: within the reservation.
        unsafe {
            libc::mprotect(
                pointer(accessible),
                (wanted - accessible) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            ) == 0
        }
    } else if wanted < accessible {
        // Fresh pages, when it grows again.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: within the reservation, and given up by the guest.
        unsafe {
            libc::mmap(
                pointer(wanted),
                (accessible - wanted) as usize,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            ) != libc::MAP_FAILED
        }
    } else {
        true
    };
    if is_done {
        memory.end = to;
        memory.accessible = wanted;
    }
    memory.end
}

/// Unmaps everything that the guest has.
pub(crate) fn clear() {
    let mut memory = MEMORY.lock();
    for (start, end) in std::mem::take(&mut memory.mappings) {
        // SAFETY: the guest's, which ends.
        unsafe { libc::munmap(pointer(start), (end - start) as usize) };
    }
}
