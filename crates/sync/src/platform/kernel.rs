//! Services of a kernel: the hooks of a program without `std`.
//!
//! A kernel implements [`Platform`] for a type of its own and registers it once with
//! [`set_platform!`](crate::set_platform), for a library with the feature `platform`. Each hook
//! has a default, so a port can begin with none of them and add one after the other. The
//! documentation of each says what the default costs. With the feature `std` the library uses the
//! operating system and no hook.
//!
//! The hooks are functions that the linker finds, not methods of an object: with link-time
//! optimization a read-side section has no call in it.
//!
//! ```
//! # // The linker joins what is registered here with a library that asks for it.
//! use fdtable_sync::platform::kernel::Platform;
//!
//! struct Machine;
//!
//! // SAFETY: two CPUs at most, of which one runs. The other hooks keep their defaults.
//! unsafe impl Platform for Machine {
//!     fn cpus() -> usize {
//!         2
//!     }
//! }
//! fdtable_sync::set_platform!(Machine);
//! ```

pub use crate::sequence::resume_address;

use core::alloc::Layout;
use core::ptr::{self, NonNull};

/// Services of a kernel. The [module](self) says how to register them.
///
/// All hooks may be called by any thread, and by interrupt handlers that use the library, with
/// locks of the library held. None may call the library, and none may panic.
///
/// # Interrupt handlers
///
/// A handler may use the library if [`enter_lock`](Self::enter_lock) disables interrupts. A close
/// in a handler runs release hooks, callbacks and `Drop` of objects there, and allocates; so what
/// they use must allow for that too. A lookup does none of it.
///
/// # Safety
/// The library relies on each hook to do what its documentation says.
pub unsafe trait Platform {
    /// Returns how many CPUs there can be, with those that start later: from 1 to 2^20, and the
    /// same at each call. The library has a copy of its per-CPU data for each of them.
    ///
    /// By default 1: all CPUs share one copy, and its cache lines.
    #[must_use]
    fn cpus() -> usize {
        1
    }

    /// Returns the index of the CPU that runs the caller, below [`cpus`](Self::cpus). The thread
    /// may be moved at any instruction, so the answer is a hint, and each index is correct.
    ///
    /// By default 0, as for `cpus`.
    #[must_use]
    fn cpu() -> usize {
        0
    }

    /// Returns the memory node of the CPU that runs the caller. A hint.
    ///
    /// By default 0: memory comes from any node.
    #[must_use]
    fn node() -> u16 {
        0
    }

    /// Returns the word of the calling thread that [`set_thread_word`](Self::set_thread_word)
    /// stored last, and null before. In an interrupt handler it returns the word of the
    /// interrupted thread, and on a CPU that runs no thread yet a word of the CPU.
    ///
    /// A read-side section begins with it. In a kernel it is one load, from the block of the CPU,
    /// where the context switch puts the word of the next thread. It belongs to the thread, and not
    /// to the CPU: a thread may be moved to another CPU inside of a section. Assembly that reads it
    /// is not both `pure` and `nomem`, since the word changes.
    ///
    /// By default null: each section claims a record by an atomic exchange, and takes a full fence,
    /// which costs about 25 times as much. And a thread that waits for itself waits forever, since
    /// [`synchronize`](crate::rcu::synchronize) cannot see that it is inside a section.
    #[must_use]
    #[inline(always)]
    fn thread_word() -> *mut () {
        ptr::null_mut()
    }

    /// Stores the word of the calling thread. The thread calls
    /// [`rcu::end_thread`](crate::rcu::end_thread) before it ends: else its record is never used
    /// again. A kernel whose interrupt handlers use the library looks at the word after it has
    /// disabled interrupts for the last switch, and repeats the call if a handler has stored one
    /// in between.
    ///
    /// By default it does nothing, as for [`thread_word`](Self::thread_word).
    ///
    /// # Safety
    /// Only the library calls it: it dereferences the word.
    unsafe fn set_thread_word(_word: *mut ()) {}

    /// Keeps other code that uses the library off this CPU until
    /// [`leave_lock`](Self::leave_lock): disables preemption, and interrupts too if an interrupt
    /// handler uses the library. Calls nest, and are not always left in the order in which they
    /// were entered, so the kernel counts them for each CPU. It is called before a lock of a few
    /// instructions is taken. The compiler must not move accesses to memory across it, nor across
    /// `leave_lock`: assembly for them is not `nomem`.
    ///
    /// By default it does nothing. A thread that is preempted while it holds a lock then lets all
    /// others wait that want it, forever if they have a higher priority or are not preempted. That
    /// is correct only for threads that are never preempted while they use the library, and for
    /// interrupt handlers that do not use it.
    #[inline(always)]
    fn enter_lock() {}

    /// Undoes one [`enter_lock`](Self::enter_lock). The last one enables interrupts only if they
    /// were enabled at the first: code with interrupts disabled may use the library.
    ///
    /// # Safety
    /// This CPU has entered a lock that it did not leave yet.
    #[inline(always)]
    unsafe fn leave_lock() {}

    /// Waits in a loop for another CPU: pauses, or lets another thread run if no lock is entered.
    /// `attempts` counts the steps of the same wait. A kernel whose `enter_lock` disables
    /// interrupts also serves here the requests of [`heavy_fence`](Self::heavy_fence) on other
    /// CPUs: the thread that this one waits for may have made one.
    ///
    /// By default it pauses. With more threads than CPUs, a thread then waits for the end of its
    /// time slice.
    fn relax(_attempts: u32) {
        core::hint::spin_loop();
    }

    /// Returns true if [`heavy_fence`](Self::heavy_fence) reaches other CPUs. The same at each
    /// call.
    ///
    /// By default false: each section takes a full fence, and there are no
    /// [sequences](Self::sequence_area).
    #[must_use]
    fn has_heavy_fence() -> bool {
        false
    }

    /// Runs a full fence on this CPU and on all others that run a thread of the kernel, and returns
    /// when all have. Two ways are usual:
    ///
    /// - *An interrupt* to all other CPUs: some microseconds. The handler runs a full fence and
    ///   answers. (On x86-64 the interrupt itself is one.)
    /// - *Quiescent states* that the scheduler reports: each CPU counts its context switches and
    ///   timer interrupts with a full fence, such as an atomic addition, and the caller waits until
    ///   each count has changed. A CPU that leaves its idle loop passes a full fence before it uses
    ///   the library, also in a handler. This takes until the next tick and interrupts no CPU.
    ///
    /// The library calls it once for many closes. Several CPUs may call it at once, each with locks
    /// of the library entered: so a caller of an interrupt must serve the requests of the others
    /// while it waits, also if `enter_lock` has disabled its interrupts.
    ///
    /// By default a fence of this CPU alone.
    fn heavy_fence() {
        crate::fence::full();
    }

    /// Returns where the CPU has its area for [restartable sequences](mod@crate::sequence): how
    /// many bytes from the base of the segment `gs`. The area begins at a multiple of 32, and has
    /// the index of the CPU as a `u32` at 4 and room for a pointer at 8. The same at each call and
    /// on all CPUs, and not 0. Each CPU has its area, and `gs` its base, before it first uses the
    /// library. Only for x86-64 CPUs with `cmpxchg16b` (all but the first ones), and only with a
    /// heavy fence.
    ///
    /// The kernel calls [`resume_address`] whenever it interrupts code of its own, and has that
    /// continue where it says: a thread, a handler that another one interrupts, and also what an
    /// exception interrupts, if its handler uses the library or switches threads.
    ///
    /// By default none: allocation then takes a lock of the CPU.
    #[must_use]
    fn sequence_area() -> Option<isize> {
        None
    }

    /// Allocates a page of [`PAGE`] bytes for slabs, at a multiple of its size, in that memory node
    /// if possible. Returns `None` if there is none. The library never asks for a run of pages.
    ///
    /// By default it asks the global allocator.
    #[must_use]
    fn allocate_page(_node: u16) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc::alloc::alloc(LAYOUT_OF_PAGE) })
    }

    /// Frees a page.
    ///
    /// # Safety
    /// [`allocate_page`](Self::allocate_page) returned it; it is freed once, and no longer used.
    unsafe fn free_page(page: NonNull<u8>) {
        // SAFETY: allocated with this layout, and the caller gives it up.
        unsafe { alloc::alloc::dealloc(page.as_ptr(), LAYOUT_OF_PAGE) };
    }

    /// Returns the time since a moment that is always the same, in nanoseconds. Used to see that
    /// several CPUs use a file often, whose count is then [spread](mod@crate::refcount::spread).
    ///
    /// By default 0: no count is spread.
    #[must_use]
    fn nanoseconds() -> u64 {
        0
    }

    /// Asks for a call of [`rcu::tick`](crate::rcu::tick) within some milliseconds, outside of
    /// interrupt handlers and locks: wakes a worker, or sets what the timer looks at. Called once
    /// until the next `tick`.
    ///
    /// By default it does nothing: callbacks run when others are queued, by `tick`, or by
    /// [`barrier`](crate::rcu::barrier).
    fn want_tick() {}
}

/// The hooks of a program that registers none; with `std`, its pages.
#[allow(dead_code, reason = "a program that registers hooks has no use for it")]
pub(super) struct Defaults;

// SAFETY: the defaults do what the documentation says.
unsafe impl Platform for Defaults {}

/// The size and the alignment of a page of [`Platform::allocate_page`], in bytes.
pub const PAGE: usize = 4096;

/// True if `set_platform!` has a use.
#[doc(hidden)]
pub const IS_ASKED: bool = cfg!(any(feature = "std", feature = "platform"));

const LAYOUT_OF_PAGE: Layout = match Layout::from_size_align(PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("the size is a power of two"),
};

/// Passes the hooks to a macro: the function of each that the linker finds, and its signature.
#[doc(hidden)]
#[macro_export]
macro_rules! platform_hooks {
    ($then:ident! $($first:tt)*) => {
        $then! {
            $($first)*
            [] fdtable_cpus: cpus() -> usize,
            [] fdtable_cpu: cpu() -> usize,
            [] fdtable_node: node() -> u16,
            [] fdtable_thread_word: thread_word() -> *mut (),
            [unsafe] fdtable_set_thread_word: set_thread_word(word: *mut ()) -> (),
            [] fdtable_enter_lock: enter_lock() -> (),
            [unsafe] fdtable_leave_lock: leave_lock() -> (),
            [] fdtable_relax: relax(attempts: u32) -> (),
            [] fdtable_has_heavy_fence: has_heavy_fence() -> bool,
            [] fdtable_heavy_fence: heavy_fence() -> (),
            [] fdtable_sequence_area: sequence_area() -> ::core::option::Option<isize>,
            [] fdtable_allocate_page: allocate_page(node: u16)
                -> ::core::option::Option<::core::ptr::NonNull<u8>>,
            [unsafe] fdtable_free_page: free_page(page: ::core::ptr::NonNull<u8>) -> (),
            [] fdtable_nanoseconds: nanoseconds() -> u64,
            [] fdtable_want_tick: want_tick() -> (),
        }
    };
}

/// Registers a type that implements [`Platform`](crate::platform::kernel::Platform) as the
/// platform of the program. Once in a program that has the feature `platform` and not `std`: the
/// linker reports a second one, and a missing one. With `std` it is not used. Without either of
/// the two it does not compile.
#[macro_export]
macro_rules! set_platform {
    ($platform:ty) => {
        const _: () = {
            assert!(
                $crate::platform::kernel::IS_ASKED,
                "the hooks are not used: the feature `platform` is off"
            );
            use $crate::platform::kernel::Platform;
            use $crate::platform_functions;
    $crate::platform_hooks!(platform_functions! $platform,);
        };
    };
}

/// Defines the functions that the linker finds, each by the hook of its name.
#[doc(hidden)]
#[macro_export]
macro_rules! platform_functions {
    ($platform:ty, $(
        [$($unsafe:tt)?]
        $symbol:ident: $hook:ident($($argument:ident: $type:ty),*) -> $answer:ty,
    )*) => {
        $(
            /// # Safety
            /// As for the hook.
            #[unsafe(no_mangle)]
            #[inline]
            #[allow(unused_unsafe)]
            $($unsafe)? extern "Rust" fn $symbol($($argument: $type),*) -> $answer {
                // SAFETY: as the caller promises.
                unsafe { <$platform as Platform>::$hook($($argument),*) }
            }
        )*
    };
}
