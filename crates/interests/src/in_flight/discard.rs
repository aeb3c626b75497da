//! Drops of files, however deeply sockets hold each other.
//!
//! Dropping a file may release a socket, whose queue holds files, and so on. The first
//! [`discard`] of a thread drops in a loop: one inside a drop appends to a list of the thread.
//! Without `std` there is no such list, and drops recurse.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fdtable::FileRef;

use super::InFlight;

/// Drops files that came out of a message. A socket that is released with them may hold others,
/// and those others: with `std` they are dropped in a loop, on this thread, before the outermost
/// call returns.
///
/// Runs release hooks; the caller holds no lock of a socket, and is in no read-side section.
pub fn discard<T: ?Sized + 'static>(files: Vec<FileRef<T>>) {
    if !files.is_empty() {
        thread::drop_later(files);
    }
}

/// Collects garbage, at the end of the thread's outermost [`discard`].
pub(super) fn collect_later<T: ?Sized + Send + Sync + 'static>(registry: &Arc<InFlight<T>>) {
    thread::collect_later(registry);
}

#[cfg(any(loom, not(feature = "std")))]
mod thread {
    use super::{FileRef, InFlight, Vec};

    pub(super) fn drop_later<T: ?Sized>(files: Vec<FileRef<T>>) {
        drop(files);
    }

    pub(super) fn collect_later<T: ?Sized + 'static>(registry: &InFlight<T>) {
        registry.collect();
    }
}

#[cfg(all(feature = "std", not(loom)))]
mod thread {
    use std::boxed::Box;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::{Arc, FileRef, InFlight, Vec};

    type Job = Box<dyn FnOnce()>;

    /// Drops in progress on a thread.
    #[derive(Default)]
    struct Pending {
        is_busy: bool,
        drops: Vec<Job>,
        /// Collections after the drops, by the addresses of their registries.
        collections: BTreeMap<usize, Job>,
    }

    std::thread_local! {
        static PENDING: RefCell<Pending> = RefCell::default();
    }

    /// Returns nothing after the variables of the thread are destroyed.
    fn with_pending<R>(act: impl FnOnce(&mut Pending) -> R) -> Option<R> {
        PENDING
            .try_with(|pending| act(&mut pending.borrow_mut()))
            .ok()
    }

    pub(super) fn drop_later<T: ?Sized + 'static>(files: Vec<FileRef<T>>) {
        // A thread that exits drops them recursively.
        add(move |pending| pending.drops.push(Box::new(move || drop(files))));
    }

    pub(super) fn collect_later<T: ?Sized + Send + Sync + 'static>(registry: &Arc<InFlight<T>>) {
        let (address, registry) = (Arc::as_ptr(registry).addr(), Arc::clone(registry));
        let collect = move || {
            registry.collect();
        };
        add(move |pending| {
            pending.collections.insert(address, Box::new(collect));
        });
    }

    /// Adds to what is pending, and does all of it, unless a caller on this thread does.
    fn add(job: impl FnOnce(&mut Pending)) {
        let is_busy = with_pending(|pending| {
            job(pending);
            std::mem::replace(&mut pending.is_busy, true)
        });
        if is_busy == Some(false) {
            let _busy = Busy;
            while let Some(job) = with_pending(Pending::next).flatten() {
                job();
            }
        }
    }

    impl Pending {
        fn next(&mut self) -> Option<Job> {
            let collection = || self.collections.pop_first().map(|(_, collect)| collect);
            self.drops.pop().or_else(collection)
        }
    }

    struct Busy;

    /// After a hook that panics, the next call goes on.
    impl Drop for Busy {
        fn drop(&mut self) {
            with_pending(|pending| {
                pending.is_busy = false;
                if pending.drops.is_empty() {
                    // Without the memory of the list, which a fork would give to the child as well.
                    pending.drops = Vec::new();
                }
            });
        }
    }
}
