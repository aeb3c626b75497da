//! The entry and exit of every call in a kernel, and the kernel's services as functions of C.
//!
//! The kernel defines a constant [`fdt_platform`](struct@fdt_platform), which the linker finds.
//! The library registers the functions in it as its platform, and as the global allocator.

use alloc::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write as _};
use core::hint;
use core::panic::PanicInfo;
use core::ptr::{self, NonNull};

use fdtable::platform::{Platform, resume_address};
use fdtable::rcu;

use crate::errno::{Errno, ReturnValue as _};

/// Services of a kernel. It defines one constant of this type, `fdt_platform`.
///
/// `allocate`, `free` and `panic` are required. Each of the others may be null, which is correct
/// where its comment says so, and costs time. A port begins with the three and adds one after the
/// other; `docs/porting.md` has the order, and the documentation of `Platform` in
/// `crates/sync/src/platform/kernel.rs` says what each may assume. No function may call the
/// library, but for `panic`, which does not return.
#[repr(C)]
pub struct fdt_platform {
    /// Allocates `size` bytes at a multiple of `align`, a power of two. Null if there is no memory.
    /// It must not sleep.
    pub allocate: Option<unsafe extern "C" fn(size: usize, align: usize) -> *mut c_void>,
    /// Frees what `allocate` returned for this size and alignment.
    pub free: Option<unsafe extern "C" fn(memory: *mut c_void, size: usize, align: usize)>,
    /// Stops the kernel, after a bug of the library, or where `fdt_private_new` has no memory: the
    /// text says where. Does not return.
    pub panic: Option<unsafe extern "C" fn(text: *const c_char, length: usize)>,
    /// Stores the errno of the calling thread. The numbers are those of Linux. If it is null, the
    /// return values alone say that a call has failed.
    pub set_errno: Option<unsafe extern "C" fn(error: c_int)>,
    /// Returns how many CPUs there can be: the same at each call. Null: one.
    pub cpus: Option<unsafe extern "C" fn() -> usize>,
    /// Returns the index of the CPU that runs the caller, below `cpus`. It may be out of date when
    /// it returns. Null: 0.
    pub cpu: Option<unsafe extern "C" fn() -> usize>,
    /// Returns the memory node of that CPU. Null: 0.
    pub node: Option<unsafe extern "C" fn() -> u16>,
    /// Returns the word of the calling thread: null before `set_thread_word`. Null, together with
    /// that: sections are slow, and a thread that waits inside one waits forever.
    pub thread_word: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Stores the word of the calling thread.
    pub set_thread_word: Option<unsafe extern "C" fn(word: *mut c_void)>,
    /// Keeps other code that uses the library off this CPU; nests. Null, together with
    /// `leave_lock`: no thread is preempted inside the library, and no interrupt handler uses it.
    pub enter_lock: Option<unsafe extern "C" fn()>,
    /// Undoes one `enter_lock`.
    pub leave_lock: Option<unsafe extern "C" fn()>,
    /// Waits in a loop for another CPU: its step of this number. Null: pauses.
    pub relax: Option<unsafe extern "C" fn(attempts: u32)>,
    /// Runs a full fence on all CPUs that run a thread. Null: sections have fences of their own.
    pub heavy_fence: Option<unsafe extern "C" fn()>,
    /// Allocates a page of 4,096 bytes in a node. Null, together with `free_page`: `allocate` does.
    pub allocate_page: Option<unsafe extern "C" fn(node: u16) -> *mut c_void>,
    /// Frees what `allocate_page` returned.
    pub free_page: Option<unsafe extern "C" fn(page: *mut c_void)>,
    /// Returns the time in nanoseconds, since any moment. Null: 0.
    pub nanoseconds: Option<unsafe extern "C" fn() -> u64>,
    /// Asks for an `fdt_tick` within some milliseconds. Null: `free` functions run in later calls.
    pub want_tick: Option<unsafe extern "C" fn()>,
    /// Distance of the area for restartable sequences from the base of `gs`, on x86-64 and with a
    /// heavy fence. 0: no sequences.
    pub sequence_area: isize,
}

unsafe extern "C" {
    /// The constant of the kernel.
    #[link_name = "fdt_platform"]
    static SERVICES: fdt_platform;
}

/// The kernel, as the library and `alloc` call it.
struct Kernel;

/// A kernel without services, which has the defaults of [`Platform`].
struct Nothing;

// SAFETY: the defaults are correct for a kernel that leaves the functions out, as the documentation
// of `fdt_platform` demands.
unsafe impl Platform for Nothing {}

/// Returns the constant of the kernel.
#[inline(always)]
fn services() -> &'static fdt_platform {
    // SAFETY: the kernel defines it, with this type, and it never changes.
    unsafe { &SERVICES }
}

/// Defines hooks that call the kernel's function of the same name, or the default.
macro_rules! hooks {
    ($(fn $hook:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        #[inline]
        fn $hook($($argument: $type),*) $(-> $answer)? {
            match services().$hook {
                // SAFETY: the kernel's function may be called by any thread.
                Some(hook) => unsafe { hook($($argument),*) },
                None => Nothing::$hook($($argument),*),
            }
        }
    )*};
}

// SAFETY: the kernel's functions do what the documentation of `fdt_platform` says; the others are
// the defaults.
unsafe impl Platform for Kernel {
    hooks! {
        fn cpus() -> usize;
        fn cpu() -> usize;
        fn node() -> u16;
        fn enter_lock();
        fn relax(attempts: u32);
        fn heavy_fence();
        fn nanoseconds() -> u64;
        fn want_tick();
    }

    #[inline]
    fn thread_word() -> *mut () {
        // SAFETY: the kernel's function may be called by any thread.
        let word = services().thread_word.map(|word| unsafe { word() });
        word.unwrap_or(ptr::null_mut()).cast()
    }

    unsafe fn set_thread_word(word: *mut ()) {
        if let Some(set) = services().set_thread_word {
            // SAFETY: as above.
            unsafe { set(word.cast()) };
        }
    }

    #[inline]
    unsafe fn leave_lock() {
        if let Some(leave) = services().leave_lock {
            // SAFETY: as above; a lock is entered, as the caller promises.
            unsafe { leave() };
        }
    }

    fn has_heavy_fence() -> bool {
        services().heavy_fence.is_some()
    }

    fn sequence_area() -> Option<isize> {
        Some(services().sequence_area).filter(|&distance| distance != 0)
    }

    fn allocate_page(node: u16) -> Option<NonNull<u8>> {
        match services().allocate_page {
            // SAFETY: as above.
            Some(allocate) => NonNull::new(unsafe { allocate(node) }.cast()),
            None => Nothing::allocate_page(node),
        }
    }

    unsafe fn free_page(page: NonNull<u8>) {
        match services().free_page {
            // SAFETY: the other function of the kernel allocated it, as the caller promises.
            Some(free) => unsafe { free(page.as_ptr().cast()) },
            // SAFETY: as the caller promises: the default allocated it.
            None => unsafe { Nothing::free_page(page) },
        }
    }
}

fdtable::set_platform!(Kernel);

#[global_allocator]
static ALLOCATOR: Kernel = Kernel;

// SAFETY: the kernel's functions do what the documentation of `fdt_platform` says.
unsafe impl GlobalAlloc for Kernel {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match services().allocate {
            // SAFETY: the kernel's function may be called by any thread.
            Some(allocate) => unsafe { allocate(layout.size(), layout.align()) }.cast(),
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(free) = services().free {
            // SAFETY: the other function allocated it with this layout, as the caller promises.
            unsafe { free(memory.cast(), layout.size(), layout.align()) };
        }
    }
}

/// Text of a panic, without what does not fit.
struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let length = part.len().min(room.len());
        room[..length].copy_from_slice(&part.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

#[panic_handler]
fn stop(panic: &PanicInfo<'_>) -> ! {
    let mut text = Text {
        bytes: [0; 256],
        length: 0,
    };
    // A text that is too long is cut.
    let _ = write!(text, "fdtable: {panic}");
    if let Some(stop) = services().panic {
        // SAFETY: the text has this length.
        unsafe { stop(text.bytes.as_ptr().cast(), text.length) };
    }
    loop {
        hint::spin_loop();
    }
}

/// Runs `free` functions that are due. A kernel calls it after `want_tick`, outside of interrupt
/// handlers, sections and locks, and again some milliseconds after a call that returned 1.
///
/// Returns 1 if some are still queued, 0 if none is, or -1 with `EDEADLK` inside a section or a
/// `free` function.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tick() -> c_int {
    rcu::tick().map_or_else(
        |_| {
            set_errno(Errno::EDEADLK);
            c_int::FAILED
        },
        c_int::from,
    )
}

/// Ends the use of the library by the calling thread. A thread calls it before it ends, if the
/// kernel has `thread_word`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_end_thread() {
    rcu::end_thread();
}

/// Returns where code continues that an interrupt has interrupted at this address. A kernel with a
/// `sequence_area` calls it in the handler of each interrupt of its own code.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_resume_address(interrupted: usize) -> usize {
    resume_address(interrupted)
}

/// Right to run inside the library. There are no forks of a host process to keep away.
pub(crate) struct Entry;

pub(crate) fn enter() -> Entry {
    Entry
}

/// Prepares for the first table: does nothing.
pub(crate) fn prepare() -> Result<(), Errno> {
    Ok(())
}

/// Runs a body. A panic does not return.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    body()
}

/// Sets errno of the calling thread.
#[cold]
pub(crate) fn set_errno(errno: Errno) {
    if let Some(set) = services().set_errno {
        // SAFETY: the kernel's function may be called by any thread.
        unsafe { set(errno.number()) };
    }
}

/// Waits until all callbacks that are queued now have run.
///
/// # Errors
/// `EDEADLK` inside a section or a callback.
pub(crate) fn wait_for_callbacks() -> Result<(), Errno> {
    rcu::barrier().map_err(|_| Errno::EDEADLK)
}
