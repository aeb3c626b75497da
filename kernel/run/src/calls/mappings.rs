//! Calls that map, change and unmap memory. Sites in code that goes get their bytes back first.

use fdtable_posix::fdt_mmap;

use crate::abi::{call, is_error, on_host};
use crate::block::{Request, Row};
use crate::memory;
use crate::patch;

pub(super) const ROWS: &[Row] = &[
    (libc::SYS_mmap, map),
    (libc::SYS_mprotect, protect),
    (libc::SYS_pkey_mprotect, protect),
    (libc::SYS_madvise, advise),
    (libc::SYS_process_madvise, advise_all),
    (libc::SYS_munmap, unmap),
    (libc::SYS_mremap, remap),
    (libc::SYS_shmat, attach),
    (libc::SYS_shmdt, detach),
    (libc::SYS_brk, |_, a| {
        memory::set_break(a[0].cast_unsigned()).cast_signed()
    }),
];

/// The most ranges of one call.
const IOV_MAX: u64 = 1024;

/// Maps memory, and records that it is the guest's: `mmap(2)`.
fn map(_: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let [at, length, protection, flags, fd, offset] = *a;
    let is_fixed = flags & i64::from(libc::MAP_FIXED) != 0;
    let closed = is_fixed.then(|| patch::forget([range(at, length)]));
    let result = call!(fdt_mmap(at, length, protection, flags, fd, offset));
    drop(closed);
    if !is_error(result) {
        let (start, length) = (result.cast_unsigned(), length.cast_unsigned());
        memory::record(start, length);
        let mapping = patch::FileMapping {
            protection: protection as i32,
            flags: flags as i32,
            fd: fd as i32,
            offset: offset.cast_unsigned(),
        };
        patch::map(start, length, mapping);
    }
    result
}

fn protect(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let _closed = (a[2] != patch::CODE.into()).then(|| patch::restore(range(a[0], a[1])));
    on_host(r.number, *a)
}

fn advise(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let _closed = discards(a[2]).then(|| patch::discard(range(a[0], a[1])));
    on_host(r.number, *a)
}

fn advise_all(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let ranges = match discards(a[3]) {
        true => a[2].cast_unsigned().min(IOV_MAX),
        false => 0,
    };
    // The call fails if a range cannot be read.
    let discarded = |index: u64| {
        let at = a[1].cast_unsigned().wrapping_add(16 * index);
        let [start, length] = memory::get(at).ok()?;
        Some(patch::discard(range(start, length)))
    };
    let _closed: Vec<_> = (0..ranges).map_while(discarded).collect();
    on_host(r.number, *a)
}

fn unmap(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    if memory::is_foreign(&range(a[0], a[1])) {
        // It has nothing of the guest. The runner uses the `vdso`, which valgrind unmaps.
        return 0;
    }
    let _closed = patch::forget([range(a[0], a[1])]);
    memory::unmap(a[0].cast_unsigned(), a[1].cast_unsigned(), || {
        on_host(r.number, *a)
    })
}

fn remap(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let [old, old_size, new_size, flags, new, _] = a.map(i64::cast_unsigned);
    let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
    let replaced = match has(libc::MREMAP_FIXED) {
        true => memory::range(new, new_size),
        false => 0..0,
    };
    let _closed = patch::forget([memory::range(old, old_size), replaced]);
    let unmapped = if has(libc::MREMAP_DONTUNMAP) {
        0
    } else {
        old_size
    };
    let result = memory::unmap(old, unmapped, || on_host(r.number, *a));
    if result >= 0 {
        memory::record(result.cast_unsigned(), new_size);
    }
    result
}

fn attach(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let size = segment_size(a[0] as i32);
    let replaces = a[2] & i64::from(libc::SHM_REMAP) != 0;
    let _closed = replaces.then(|| patch::forget([memory::range(a[1].cast_unsigned(), size)]));
    let result = on_host(r.number, *a);
    if !is_error(result) {
        memory::record(result.cast_unsigned(), size);
    }
    result
}

fn detach(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let start = a[0].cast_unsigned();
    memory::unmap(start, memory::size_at(start), || on_host(r.number, *a))
}

fn range(start: i64, length: i64) -> std::ops::Range<u64> {
    memory::range(start.cast_unsigned(), length.cast_unsigned())
}

/// Returns the size of an attached segment of shared memory.
fn segment_size(id: i32) -> u64 {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut segment: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    match unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut segment) } {
        -1 => 0,
        _ => segment.shm_segsz as u64,
    }
}

/// Returns true if advice to the host discards pages.
fn discards(advice: i64) -> bool {
    const MADV_GUARD_INSTALL: i32 = 102;
    let all = [
        libc::MADV_DONTNEED,
        libc::MADV_DONTNEED_LOCKED,
        libc::MADV_FREE,
        MADV_GUARD_INSTALL,
    ];
    all.contains(&(advice as i32))
}
