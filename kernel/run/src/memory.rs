//! Memory of the guest: its mappings, and its `brk`.
//!
//! The runner and the guest share an address space, and each has a C library that would move `brk`.
//! The host's is the runner's. The guest's is a reservation of its own, whose pages become
//! accessible when it grows.
//!
//! The list of mappings is for `execve`, which unmaps them, and for `/proc/self/maps`, which shows
//! the guest no other mappings.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use fdtable_posix::runner;
use fdtable_posix::runner::maps::{self, Mapping};

use crate::abi::checked_address;
use crate::guarded::Guarded;

pub(crate) const PAGE: u64 = 4096;

/// How far the guest's `brk` can grow, in bytes: the first size that a limit of addresses allows.
const BREAKS: [u64; 4] = [64 << 30, 16 << 30, 4 << 30, 1 << 30];

struct Memory {
    /// The guest's mappings: their ends, by their starts. They do not overlap.
    mappings: BTreeMap<u64, u64>,
    /// The guest's first stack.
    stack: Range<u64>,
    /// The guest's `brk`: its addresses, its current end, and the end of the accessible part.
    breaks: Range<u64>,
    end: u64,
    accessible: u64,
}

static MEMORY: Guarded<Memory> = Guarded::new(Memory {
    mappings: BTreeMap::new(),
    stack: 0..0,
    breaks: 0..0,
    end: 0,
    accessible: 0,
});

/// Returns a pointer to an address of the guest.
pub(crate) fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// A type without invalid values.
///
/// # Safety
/// Each pattern of its bits is a value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for i64 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: a raw pointer and integers.
unsafe impl Plain for libc::stack_t {}
// SAFETY: its elements have any values.
unsafe impl<T: Plain, const COUNT: usize> Plain for [T; COUNT] {}

/// Reads a value of the guest. It may be unaligned.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn get<T: Plain>(at: u64) -> Result<T, i32> {
    // SAFETY: each value is valid.
    unsafe { runner::value(pointer(at)) }
}

/// Reads a value of the guest, if its address is not 0.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn get_if_any<T: Plain>(at: u64) -> Result<Option<T>, i32> {
    (at != 0).then(|| get(at)).transpose()
}

/// Writes a value of the guest. It may be unaligned.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn put<T: Plain>(at: u64, value: T) -> Result<(), i32> {
    // SAFETY: the guest asks for it.
    unsafe { runner::put(pointer(at), value) }
}

/// Writes a value of the guest, if its address is not 0.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn put_if_any<T: Plain>(at: u64, value: T) -> Result<(), i32> {
    match at {
        0 => Ok(()),
        _ => put(at, value),
    }
}

/// Copies memory of the guest, as far as it can be read, in whole words.
pub(crate) fn read(address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let [here, there] = [bytes.as_mut_ptr().cast(), pointer(address)].map(|at| libc::iovec {
        iov_base: at,
        iov_len: size,
    });
    // SAFETY: there is room for the bytes; the kernel checks the other address.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0)
    };
    bytes.truncate(usize::try_from(read).unwrap_or(0) / 8 * 8);
    bytes
}

/// Returns the range of whole pages that a call on memory affects.
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

    /// Removes a range, and returns its parts that were mapped.
    fn remove(&mut self, start: u64, length: u64) -> Vec<Range<u64>> {
        let end = range(start, length).end;
        if end <= start {
            return Vec::new();
        }
        cut(
            &mut self.mappings,
            &(start..end),
            |&end| end,
            |_, _, part| part.end,
        )
    }
}

/// Cuts a range out of ranges that do not overlap, which are by their starts. `end` returns the end
/// of one, and `part` the value of a part of one and its start. Returns the parts that were in it.
pub(crate) fn cut<T: Copy>(
    all: &mut BTreeMap<u64, T>,
    range: &Range<u64>,
    end: impl Fn(&T) -> u64,
    part: impl Fn(T, u64, &Range<u64>) -> T,
) -> Vec<Range<u64>> {
    let before_end = all.range(..range.end).rev();
    let touched = before_end.take_while(|(_, one)| end(one) > range.start);
    let touched: Vec<_> = touched.map(|(&start, &one)| (start, one)).collect();
    let mut removed = Vec::new();
    for (start, one) in touched {
        all.remove(&start);
        let old = start..end(&one);
        for rest in [old.start..range.start, range.end..old.end] {
            if !rest.is_empty() {
                all.insert(rest.start, part(one, start, &rest));
            }
        }
        removed.push(old.start.max(range.start)..old.end.min(range.end));
    }
    removed
}

/// Records that the guest has mapped memory.
pub(crate) fn record(start: u64, length: u64) {
    MEMORY.lock().add(start, length);
}

/// Makes a call that unmaps memory of the guest, and returns its result: negative if it has failed.
pub(crate) fn unmap(start: u64, length: u64, call: impl FnOnce() -> i64) -> i64 {
    if !start.is_multiple_of(PAGE) {
        // The call fails.
        return call();
    }
    // Before the call: afterwards another thread may map something there, and record it.
    let removed = MEMORY.lock().remove(start, length);
    let result = call();
    if (-4095..0).contains(&result) {
        for part in removed {
            record(part.start, part.end - part.start);
        }
    }
    result
}

/// Returns true if no mapping of the guest is in a range of pages that is not empty.
pub(crate) fn is_foreign(range: &Range<u64>) -> bool {
    let memory = MEMORY.lock();
    let last = memory.mappings.range(..range.end).next_back();
    // The host refuses all other ranges.
    range.start.is_multiple_of(PAGE)
        && !range.is_empty()
        && range.end < 1 << 47
        && last.is_none_or(|(_, &end)| end <= range.start)
}

/// Returns the size of the guest's mapping that begins at an address; 0 if there is none.
pub(crate) fn size_at(start: u64) -> u64 {
    let memory = MEMORY.lock();
    let end = memory.mappings.get(&start);
    end.map_or(0, |end| end - start)
}

/// Returns how many bytes from an address on belong to mappings of the guest.
pub(crate) fn size_from(address: u64) -> u64 {
    let memory = MEMORY.lock();
    let first = memory.mappings.range(..=address).next_back();
    let mut end = first.map_or(address, |(_, &end)| end.max(address));
    while let Some(&next) = memory.mappings.get(&end) {
        end = next;
    }
    end - address
}

/// Maps private memory of no file: in a range, or of its length anywhere if it starts at 0.
///
/// # Errors
/// Errors of `mmap`.
///
/// # Safety
/// With `MAP_FIXED`, nothing uses what was mapped in the range.
pub(crate) unsafe fn map_anonymous(
    range: Range<u64>,
    protection: i32,
    flags: i32,
) -> Result<u64, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let size = (range.end - range.start) as usize;
    // SAFETY: as the caller promises.
    checked_address(unsafe { libc::mmap(pointer(range.start), size, protection, flags, -1, 0) })
}

/// Reserves address space for a program: at an address, or anywhere.
///
/// # Errors
/// Errors of `mmap`; `EEXIST` if a mapping overlaps the range.
pub(crate) fn reserve(at: Option<u64>, length: u64) -> Result<u64, i32> {
    let fixed = at.map_or(0, |_| libc::MAP_FIXED_NOREPLACE);
    let (start, flags) = (at.unwrap_or(0), libc::MAP_NORESERVE | fixed);
    // SAFETY: nothing is replaced.
    let place = unsafe { map_anonymous(start..start + length, libc::PROT_NONE, flags) }?;
    record(place, length);
    Ok(place)
}

/// Makes the guest's `brk`, anew for each program.
///
/// # Errors
/// Errors of `mmap`.
pub(crate) fn begin_break() -> Result<(), i32> {
    let reserved = |size| Some((reserve(None, size).ok()?, size));
    let found = BREAKS.into_iter().find_map(reserved);
    let (start, size) = found.ok_or(libc::ENOMEM)?;
    let mut memory = MEMORY.lock();
    memory.breaks = start..start + size;
    (memory.end, memory.accessible) = (start, start);
    Ok(())
}

/// Records the first stack of a program.
pub(crate) fn set_stack(stack: Range<u64>) {
    MEMORY.lock().stack = stack;
}

/// Returns the lines of `/proc/self/maps` about the guest's memory: without the runner's, the stubs
/// of call sites, and the reservation for `brk`. The host may show a mapping of the guest and one
/// of the runner as one.
pub(crate) fn shown() -> Vec<u8> {
    let all = maps::read();
    let memory = MEMORY.lock();
    let mut shown = String::new();
    for mapping in maps::parse(&all) {
        memory.show(&mapping, &mut shown);
    }
    shown.into_bytes()
}

/// Adds the line of a part of a mapping, under a name.
fn print(mapping: &Mapping<'_>, part: &Range<u64>, name: &str, to: &mut String) {
    let is_of_file = !mapping.file.ends_with(" 0");
    let offset = match is_of_file {
        true => mapping.offset + (part.start - mapping.range.start),
        false => mapping.offset,
    };
    let begun = to.len();
    let (begin, end) = (part.start, part.end);
    let _ = write!(
        to,
        "{begin:08x}-{end:08x} {} {offset:08x} {} ",
        mapping.permissions, mapping.file
    );
    if !name.is_empty() {
        let column = begun + NAME_COLUMN;
        let spaces = column.saturating_sub(to.len());
        to.extend(std::iter::repeat_n(' ', spaces));
        to.push_str(name);
    }
    to.push('\n');
}

/// Offset of the name of a mapping in its line, in bytes.
const NAME_COLUMN: usize = 73;

impl Memory {
    /// Adds the lines about the guest's parts of a mapping of the host.
    fn show(&self, mapping: &Mapping<'_>, to: &mut String) {
        // Mappings of the host's kernel.
        if matches!(mapping.name, "[vdso]" | "[vsyscall]") || mapping.name.starts_with("[vvar") {
            return print(mapping, &mapping.range, mapping.name, to);
        }
        let Range { start, end } = mapping.range;
        let first = self.mappings.range(..=start).next_back();
        let others = self.mappings.range(start + 1..end);
        for (&from, &to_end) in first.into_iter().chain(others) {
            let part = from.max(start)..to_end.min(end);
            if part.is_empty() {
                continue;
            }
            let is_break = self.breaks.contains(&part.start);
            let is_stack = self.stack.contains(&part.start);
            let is_reserved = (is_break || is_stack) && mapping.permissions.starts_with("---");
            let name = match (is_break, is_stack) {
                (true, _) => "[heap]",
                (_, true) => "[stack]",
                _ => mapping.name,
            };
            if !is_reserved {
                print(mapping, &part, name, to);
            }
        }
    }
}

/// Moves the guest's `brk`, and returns where it is: `brk(2)`.
pub(crate) fn set_break(to: u64) -> u64 {
    let mut memory = MEMORY.lock();
    if to < memory.breaks.start || to > memory.breaks.end {
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
        let flags = libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: within the reservation, and given up by the guest.
        unsafe { map_anonymous(wanted..accessible, libc::PROT_NONE, flags) }.is_ok()
    } else {
        true
    };
    if is_done {
        memory.end = to;
        memory.accessible = wanted;
    }
    memory.end
}

/// Unmaps all mappings of the guest.
pub(crate) fn clear() {
    let mut memory = MEMORY.lock();
    let mut mappings = std::mem::take(&mut memory.mappings).into_iter().peekable();
    while let Some((start, mut end)) = mappings.next() {
        // Libraries have several mappings, one behind the other.
        while let Some((_, next)) = mappings.next_if(|&(next, _)| next == end) {
            end = next;
        }
        // SAFETY: the guest's, which ends.
        unsafe { libc::munmap(pointer(start), (end - start) as usize) };
    }
}
