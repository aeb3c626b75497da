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
    use super::{Arc, FileRef, InFlight, Vec};

    pub(super) fn drop_later<T: ?Sized>(files: Vec<FileRef<T>>) {
        drop(files);
    }

    pub(super) fn collect_later<T: ?Sized + 'static>(registry: &InFlight<T>) {
        registry.collect();
    }
}

#[cfg(all(feature = "std", not(loom)))]
mod thread {
    use std::any::Any;
    use std::boxed::Box;
    use std::cell::RefCell;

    use super::{Arc, FileRef, InFlight, Vec};

    /// Drops in progress on a thread.
    #[derive(Default)]
    struct Pending {
        is_busy: bool,
        files: Vec<Box<dyn Any>>,
        /// Registries in which a socket was released.
        registries: Vec<Arc<dyn Collect>>,
    }

    trait Collect {
        fn collect_garbage(&self);
    }

    impl<T: ?Sized + 'static> Collect for InFlight<T> {
        fn collect_garbage(&self) {
            self.collect();
        }
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
        let mut files = Some(files);
        with_pending(|pending| {
            pending
                .files
                .extend(files.take().map(|files| Box::new(files) as _));
        });
        // A thread that exits drops them recursively.
        drop(files);
        work();
    }

    pub(super) fn collect_later<T: ?Sized + Send + Sync + 'static>(registry: &Arc<InFlight<T>>) {
        let address = Arc::as_ptr(registry).addr();
        let added = with_pending(|pending| {
            let mut registries = pending.registries.iter();
            if !registries.any(|other| Arc::as_ptr(other).addr() == address) {
                pending.registries.push(Arc::clone(registry) as _);
            }
        });
        match added {
            Some(()) => work(),
            None => registry.collect_garbage(),
        }
    }

    /// Does all that is pending, unless a caller of this thread does.
    fn work() {
        struct Busy;

        impl Drop for Busy {
            fn drop(&mut self) {
                // Without the memory of the lists too, which a fork would give to the child as well.
                with_pending(|pending| match pending.files.is_empty() {
                    true => *pending = Pending::default(),
                    // A hook has panicked: the next call goes on.
                    false => pending.is_busy = false,
                });
            }
        }

        let is_busy = with_pending(|pending| std::mem::replace(&mut pending.is_busy, true));
        if is_busy != Some(false) {
            return;
        }
        let _busy = Busy;
        while let Some(next) = with_pending(next).flatten() {
            next();
        }
    }

    /// Takes the next file to drop, or collection to do when there is none.
    fn next(pending: &mut Pending) -> Option<Box<dyn FnOnce()>> {
        if let Some(files) = pending.files.pop() {
            return Some(Box::new(move || drop(files)));
        }
        let registry = pending.registries.pop()?;
        Some(Box::new(move || registry.collect_garbage()))
    }
}
