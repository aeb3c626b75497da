//! A hook for every descriptor that leaves a table.
//!
//! A table with a hook is *watched*: the calls that can take a file out of it find the fast path
//! closed, and take the lock of the table. Each takes the hook with the lock held, and calls it
//! when the lock is released. So a table without a hook pays one load, and in one with a hook
//! lookups and opens of the lowest descriptor cost the same.
//!
//! | call | the hook gets |
//! |---|---|
//! | `close`, `close_if` | the descriptor |
//! | `dup2`, `dup3`, `replace`, `replace_if` | the descriptor, if it was open |
//! | `rename` | the descriptor that is free now, and the other one, if it was open |
//! | `close_range`, `close_on_exec` | each descriptor |
//! | `fork_into`, the drop of a table | each descriptor of the table that ends |

use alloc::sync::Arc;

use fdtable_sync::unwind;

use crate::close::Removed;
use crate::rare::{Hook, OnClose};
use crate::table::{ReadGuard, WriteGuard};
use crate::{Error, Fd, FdData, FileRef, Files};

/// # Watching closes
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Sets a hook that is called for every descriptor that is closed: by a call that closes one or
    /// many, by one that puts another file there, and by the end of the table. It gets the
    /// descriptor, its file, and the data that the descriptor had. It is for what belongs to a
    /// process and a file: record locks, interest lists, notifications.
    ///
    /// Set it before threads share the table; a second one replaces the first. A child made by
    /// [`fork`](Self::fork) has none: set one with the child's state. [Revocation](FileRef::revoke)
    /// closes no descriptor.
    ///
    /// The hook runs on the thread that closes, outside of all locks, before the call returns and
    /// thus before the table's reference is dropped; inside the caller's read-side section, if it
    /// has one. It may use this table and others; a hook that owns a reference to this table keeps
    /// the table from being dropped. Only when the table ends are the descriptors still open. If
    /// the hook panics, the descriptor stays closed and its file is released; calls that close many
    /// go on, and resume the first panic at the end.
    ///
    /// The descriptor is closed by then, and may have its next file, even the same one again, if
    /// another thread is fast. A list with descriptors as keys asks
    /// [`refers_to`](Self::refers_to) with its own lock held, and keeps the entry if that is true;
    /// or it compares a number that each open puts into the word.
    ///
    /// [`rename`](Self::rename) closes the old descriptor, so the hook is called for it, though the
    /// file is open at the new one. The end of a table that was [unshared](Self::fork) calls the
    /// hook for descriptors that the new table has too.
    ///
    /// In a table with a hook, calls that close, or open at a given descriptor, take the lock of
    /// the table; lookups and other opens do not. Allocates.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let locks = Arc::new(Mutex::new(vec![("data", 0..10), ("log", 5..6)]));
    /// let mut files = Files::new();
    /// files.on_close(Arc::new({
    ///     let locks = locks.clone();
    ///     // Any close of a file ends the process's record locks of it.
    ///     move |_fd, file: &FileRef<&str>, _data| {
    ///         locks.lock().unwrap().retain(|(name, _)| *name != **file);
    ///     }
    /// }))?;
    /// for name in ["data", "log"] {
    ///     files.open(FileRef::new(name), FdFlags::CLOEXEC)?;
    /// }
    /// drop(files.dup2(1, 0)?);
    /// assert_eq!(*locks.lock().unwrap(), [("log", 5..6)]);
    /// files.close_on_exec(drop)?;
    /// assert!(locks.lock().unwrap().is_empty());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory for it.
    #[doc(alias = "flush")]
    #[doc(alias = "filp_close")]
    pub fn on_close<F>(&mut self, hook: Arc<F>) -> Result<(), Error>
    where
        F: Fn(Fd, &FileRef<T>, FdData) + Send + Sync + 'static,
    {
        self.tree.data_mut().make_rare()?.on_close = Some(OnClose {
            hook,
            end: |files, hook| call_for_each(hook, files.iter()),
        });
        self.is_watched = true;
        Ok(())
    }

    /// Releases the lock, and then calls the hook for the files that descriptors had, if there is
    /// one.
    pub(crate) fn release_and_call<'t, const N: usize>(
        writer: WriteGuard<'t, T>,
        release: fn(WriteGuard<'t, T>),
        removed: [(usize, Option<&Removed<T>>); N],
    ) {
        let hook = Self::close_hook(&writer);
        release(writer);
        let shared = removed.into_iter().filter_map(|(number, removed)| {
            let (file, data) = removed?;
            Some((Fd::from_index(number), file.share(), *data))
        });
        if let Some(hook) = hook {
            call_for_each(&*hook, shared);
        }
    }

    /// Takes the read side, to remove files, unless the table is watched.
    #[inline(always)]
    pub(crate) fn read_to_remove(&self) -> Option<ReadGuard<'_, T>> {
        (!self.is_watched).then(|| self.tree.read())?
    }

    /// Returns the hook, if there is one, to call it when the lock is released.
    pub(crate) fn close_hook(writer: &WriteGuard<'_, T>) -> Option<Arc<Hook<T>>> {
        let on_close = writer.rare.as_ref()?.on_close.as_ref();
        on_close.map(|on_close| on_close.hook.clone())
    }
}

/// Calls a hook for files that have left their table, also if it panics.
pub(crate) fn call_for_each<T: ?Sized>(
    hook: &Hook<T>,
    mut removed: impl Iterator<Item = (Fd, FileRef<T>, FdData)>,
) {
    unwind::finish(|| {
        for (fd, file, data) in removed.by_ref() {
            hook(fd, &file, data);
        }
    });
}

impl<T: ?Sized> Drop for Files<T> {
    #[inline]
    fn drop(&mut self) {
        let rare = self.tree.data_mut().rare.as_mut();
        if let Some(OnClose { hook, end }) = rare.and_then(|rare| rare.on_close.take()) {
            let (table, shared) = (&*self, Arc::clone(&hook));
            // The drop of what the hook has captured may panic too.
            unwind::both(move || end(table, &*shared), move || drop(hook));
        }
    }
}
