//! Panics of a caller's code: release hooks, wakers, callbacks, and `Drop` of objects.
//!
//! This library calls such code in the middle of its own work: in a loop over the files of a table,
//! or between two steps that belong together. A panic there ends the code that raised it and
//! nothing else. The loop continues, the second step is done, and then the panic propagates to the
//! caller, as in `Vec` when the drop of one of its elements panics.
//!
//! The rest is done while the thread unwinds, as there: code that asks `thread::panicking` is told
//! so.
//!
//! At most one panic propagates out of a call. Each other one is *contained*: the panic hook of
//! `std` has reported it, its payload is dropped, and it is counted ([`contained_panics`]). So
//! every panic either propagates out of a call or is counted. These are contained:
//! - each panic after the first one of the same call;
//! - each panic of a hook or a destructor while the thread unwinds already, where Rust would end
//!   the process;
//! - each panic on a thread that is not responsible for it: in an RCU callback, and so in `Drop` of
//!   an object that readers can borrow, and in a waker.
//!
//! Containing a panic needs `std`. Without it a panic mostly ends the program, and no work is left.
//! Where it unwinds all the same, loops and second steps are finished during the unwinding. Each
//! panic then propagates out of the call, also that of a callback or a waker, and a second one ends
//! the process.
//!
//! A close of a file without a release hook executes no additional instruction for this:
//! [`catch_unwind`] is an entry in a table until there is a panic. A close of a file with a release
//! hook executes a few.
//!
//! [`catch_unwind`]: https://doc.rust-lang.org/std/panic/fn.catch_unwind.html

#[cfg(all(feature = "std", not(loom)))]
pub use caught::{contain, contained_panics, run};
#[cfg(any(not(feature = "std"), loom))]
pub use uncaught::{contain, contained_panics, run};

#[cfg(all(feature = "std", not(loom)))]
mod caught {
    use core::any::Any;
    use core::mem;
    use core::panic::AssertUnwindSafe;
    use std::boxed::Box;
    use std::panic::{catch_unwind, resume_unwind};

    use crate::platform::atomic::AtomicU64;
    use crate::platform::atomic::Ordering::Relaxed;

    /// The payload of a panic.
    type Payload = Box<dyn Any + Send>;

    static CONTAINED: AtomicU64 = AtomicU64::new(0);

    /// Returns how many panics were contained since the process began. These did not propagate out
    /// of a call, because another one did, or because the thread was not responsible for them.
    /// Never blocks.
    ///
    /// If a program finds this number raised, it has a release hook, a waker or a `Drop` that
    /// panics; the panic hook of `std` has reported each. Always 0 without the feature `std`.
    pub fn contained_panics() -> u64 {
        // Relaxed: a figure, which orders nothing.
        CONTAINED.load(Relaxed)
    }

    /// Runs `work`. Its panic propagates out of this call, or is contained if the thread unwinds
    /// already.
    ///
    /// # Panics
    /// If `work` does.
    #[inline]
    pub fn run(work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            raise(panic);
        }
    }

    /// Runs `work`, and contains its panic.
    #[inline]
    pub fn contain(work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            discard(panic);
        }
    }

    /// Resumes a caught panic, unless it would meet another one, which would end the process.
    #[cold]
    fn raise(panic: Payload) {
        if std::thread::panicking() {
            discard(panic);
        } else {
            resume_unwind(panic);
        }
    }

    #[cold]
    fn discard(panic: Payload) {
        // Relaxed: as above.
        CONTAINED.fetch_add(1, Relaxed);
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            // Relaxed: as above.
            CONTAINED.fetch_add(1, Relaxed);
            // Its drop could panic in turn, and so on.
            mem::forget(another);
        }
    }
}

/// A failing model panics too, and ends at once.
#[cfg(any(not(feature = "std"), loom))]
mod uncaught {
    /// Returns 0: without the feature `std` no panic is contained.
    pub fn contained_panics() -> u64 {
        0
    }

    /// Runs `work`.
    ///
    /// # Panics
    /// If `work` does.
    #[inline]
    pub fn run(work: impl FnOnce()) {
        work();
    }

    pub use self::run as contain;
}

/// Runs `work` again after each panic of it, until it returns. Then the first panic propagates out
/// of this call, or is contained if the thread unwinds already; the others are contained.
///
/// A panic must leave less to do: `work` takes an element off its list before it calls code that
/// may panic.
///
/// # Panics
/// If `work` does.
#[inline]
pub fn finish(work: impl FnMut()) {
    struct Work<W: FnMut()> {
        work: W,
        has_returned: bool,
    }
    impl<W: FnMut()> Work<W> {
        fn go_on(&mut self) {
            (self.work)();
            self.has_returned = true;
        }
    }
    impl<W: FnMut()> Drop for Work<W> {
        fn drop(&mut self) {
            while !self.has_returned {
                run(|| self.go_on());
            }
        }
    }
    let has_returned = false;
    run(|| Work { work, has_returned }.go_on());
}

/// Runs `first`, and then `second`, also if `first` panics. The first panic propagates out of this
/// call, or is contained if the thread unwinds already; the second one is contained.
///
/// # Panics
/// If `first` or `second` does.
#[inline]
pub fn both(first: impl FnOnce(), second: impl FnOnce()) {
    struct Second<S: FnOnce()>(Option<S>);
    impl<S: FnOnce()> Drop for Second<S> {
        fn drop(&mut self) {
            if let Some(second) = self.0.take() {
                run(second);
            }
        }
    }
    run(|| {
        let _second = Second(Some(second));
        first();
    });
}

#[cfg(all(test, not(loom), feature = "std"))]
mod tests {
    use super::*;
    use core::panic::AssertUnwindSafe;
    use std::panic::{catch_unwind, panic_any};

    /// Returns the number with which `work` panics.
    fn number(work: impl FnOnce()) -> Option<u32> {
        let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
        panic.downcast_ref().copied()
    }

    #[test]
    fn work_is_finished_and_its_first_panic_comes_out() {
        let (mut left, mut done) = (0..9_u32, 0);
        let panic = number(|| {
            finish(|| {
                for step in left.by_ref() {
                    done += 1;
                    if step % 3 == 1 {
                        panic_any(step);
                    }
                }
            });
        });
        assert_eq!((panic, done), (Some(1), 9));
    }

    #[test]
    fn both_steps_are_done_and_the_first_panic_comes_out() {
        for (first, second, expected) in [
            (None::<u32>, None::<u32>, None),
            (Some(1), None, Some(1)),
            (None, Some(2), Some(2)),
            (Some(1), Some(2), Some(1)),
        ] {
            let mut done = 0;
            let panic = number(|| {
                both(
                    || {
                        if let Some(number) = first {
                            panic_any(number);
                        }
                    },
                    || {
                        done += 1;
                        if let Some(number) = second {
                            panic_any(number);
                        }
                    },
                );
            });
            assert_eq!((panic, done), (expected, 1));
        }
    }

    #[test]
    fn while_a_thread_unwinds_each_panic_is_contained_and_counted() {
        struct Drops;
        impl Drop for Drops {
            fn drop(&mut self) {
                run(|| panic_any(2_u32));
                both(|| panic_any(3_u32), || panic_any(4_u32));
                let mut left = 5..7_u32;
                finish(|| {
                    if let Some(step) = left.next() {
                        panic_any(step);
                    }
                });
            }
        }
        let before = contained_panics();
        let panic = number(|| {
            let _drops = Drops;
            panic_any(1_u32);
        });
        assert_eq!(panic, Some(1));
        // Other tests contain some meanwhile.
        assert!(contained_panics() >= before + 5);
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_is_contained_with_its_panic() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic_any(Bomb);
            }
        }
        let before = contained_panics();
        contain(|| panic_any(Bomb));
        assert!(contained_panics() >= before + 2);
    }
}
