//! The index of the CPU in the rseq area, `linux/rseq.h`.
//!
//! The kernel writes it there each time it lets the thread run. glibc ≥ 2.35 registers an area for
//! each thread and publishes its place as an offset from the thread pointer, in `__rseq_offset`.

use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// True where the area is looked for: elsewhere the thread pointer is not worth the assembly.
const IS_LOOKED_FOR: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The offset of `cpu_id` in `struct rseq`. Negative values of the field mean that the thread
/// has no registered area.
const CPU_ID: isize = 4;

/// Returns how far the index of the CPU is from the thread pointer of a thread, or nothing where
/// there are no areas. A thread with a negative one has none.
pub fn cpu_id_offset() -> Option<isize> {
    Some(sequence_area()? + CPU_ID)
}

/// Returns the CPU of this thread, or nothing where there is no rseq area.
#[inline]
pub fn cpu_id() -> Option<usize> {
    cpu_id_at(sequence_area()?)
}

/// Returns what [`current`](crate::percpu::current) does, but only where the thread's own memory
/// tells it. For paths that must not call anything.
#[inline]
pub fn try_cpu() -> Option<usize> {
    // Relaxed: the value is all that is published.
    match OFFSET.load(Relaxed) {
        offset if IS_LOOKED_FOR && offset != NONE => cpu_id_at(offset),
        _ => None,
    }
}

#[inline]
fn cpu_id_at(offset: isize) -> Option<usize> {
    let place = thread_pointer()
        .wrapping_offset(offset + CPU_ID)
        .cast::<i32>();
    // SAFETY: glibc keeps `struct rseq` at this offset of the thread pointer, in the thread's
    // own memory, for as long as the thread lives. The kernel writes the field while the
    // thread is stopped, and a volatile read asks for it anew each time.
    let cpu = unsafe { place.read_volatile() };
    usize::try_from(cpu).ok()
}

fn thread_pointer() -> *const u8 {
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unreachable!("no area was looked for");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI keeps the thread pointer itself at `fs:0`; the load has no side effect.
    unsafe {
        let pointer: *const u8;
        core::arch::asm!("mov {}, fs:0", out(reg) pointer,
            options(nostack, preserves_flags, readonly, pure));
        pointer
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reading the thread pointer register has no side effect.
    unsafe {
        let pointer: *const u8;
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer,
            options(nostack, preserves_flags, nomem, pure));
        pointer
    }
}

/// The offset of the area, looked up once.
static OFFSET: AtomicIsize = AtomicIsize::new(NONE);
/// No area, or it has not been looked up. The thread pointer itself has other contents.
const NONE: isize = 0;
/// True if it was looked up and there is none.
static MISSING: AtomicBool = AtomicBool::new(false);

/// Returns how far the area of a thread is from its thread pointer, or nothing where there are no
/// areas. A thread whose own area is not registered finds a negative CPU in it.
#[inline]
pub fn sequence_area() -> Option<isize> {
    if !IS_LOOKED_FOR {
        return None;
    }
    // Relaxed: the value is all that is published, and every thread that looks it up finds the same
    // one.
    match OFFSET.load(Relaxed) {
        NONE => look_up_area(),
        offset => Some(offset),
    }
}

#[cold]
fn look_up_area() -> Option<isize> {
    // Relaxed, all: as in `sequence_area`.
    if MISSING.load(Relaxed) {
        return None;
    }
    let found = find_area().filter(|&offset| offset != NONE);
    match found {
        Some(offset) => OFFSET.store(offset, Relaxed),
        None => MISSING.store(true, Relaxed),
    }
    found
}

fn find_area() -> Option<isize> {
    // glibc sets the size to zero when the kernel refused the registration.
    let size: u32 = symbol(c"__rseq_size")?;
    let offset: isize = symbol(c"__rseq_offset")?;
    (size > 0).then_some(offset)
}

/// Reads a variable of the C library by its name, if this C library has it.
fn symbol<T: Copy>(name: &core::ffi::CStr) -> Option<T> {
    // SAFETY: the name is a C string, and `RTLD_DEFAULT` is a valid handle.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if place.is_null() {
        return None;
    }
    // SAFETY: both symbols are constants of the C library for the life of the process, of the
    // types that `sys/rseq.h` declares and the callers name.
    Some(unsafe { place.cast::<T>().read() })
}
