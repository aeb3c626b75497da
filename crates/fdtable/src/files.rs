//! The table of one process: how it is made and dropped.

use fdtable_objects::free_hint::FreeHint;
use fdtable_sync::bitmap::Word;

use crate::table::{MAX_LIMIT, TableState, Tree};

/// The descriptors of one process.
///
/// All operations take `&self`. Threads share one `Files` in an `Arc`, and so do processes that
/// share descriptors, as `clone(2)` does with `CLONE_FILES`. The documentation of each operation
/// says which of its effects are atomic, and which happen in steps that other threads may see. A
/// lookup never returns a file that was not open at the descriptor it asked for.
///
/// `T` is the type of the objects that descriptors refer to: any type that threads may share, sized
/// or `dyn`. The [guide](crate::guide) has examples of both, and says which system call is which
/// operation.
///
/// A `Files<Rcu<T>>` has lookups without a reference, and drops its objects late (see
/// [`Rcu`](crate::Rcu) and [`lifetimes`](crate::lifetimes)).
///
/// Dropping a table closes its descriptors, and runs the release hooks and `Drop` of files whose
/// last reference goes. Unless the table was made by a fork, it also drops all `Rcu` files of the
/// process that have lost their last reference, if no reader prevents that. It waits for no reader;
/// [`rcu::barrier`](crate::rcu::barrier) does. Inside a read-side section it leaves these files to
/// the next table, to the end of a thread that has closed a descriptor, to later closes, or to
/// the thread of the library.
///
/// So the drop of a table, even of an empty one, may run `Drop` of any `Rcu` object of the process.
/// So may a call that closes, and the end of a thread that has closed a descriptor. The caller must
/// not hold a lock that `Drop` of such an object takes while it drops a table or joins a thread,
/// nor, where threads enter the [freezer](crate::host_fork), in a call of `fork(2)`.
///
/// ```
/// use std::sync::Arc;
/// use fdtable::{FdFlags, FileRef, Files};
///
/// let files: Arc<Files<&str>> = Arc::new(Files::with_limit(256));
/// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
/// let reader = {
///     let files = Arc::clone(&files);
///     std::thread::spawn(move || files.get(fd).map(|file| file.len()))
/// };
/// assert_eq!(reader.join().unwrap(), Ok(3));
/// # Ok::<(), fdtable::Error>(())
/// ```
#[doc(alias = "files_struct")]
pub struct Files<T: ?Sized> {
    pub(crate) tree: Tree<T>,
    /// Hint at free descriptors of the tree.
    pub(crate) free_hint: FreeHint,
    /// Calls that remove files take the slow path, for the hook of [`on_close`](Self::on_close).
    pub(crate) is_watched: bool,
    /// Set if a descriptor may have close-on-exec, or close-on-fork, or has had it.
    pub(crate) flags_noted: [Word; 2],
    /// Dropped after the tree.
    pub(crate) end: TableEnd,
}

/// # Making a table
impl<T: ?Sized + Send + Sync> Files<T> {
    /// The soft limit of a new process: 1,024, as on most systems.
    pub const DEFAULT_LIMIT: u32 = 1024;

    /// Makes an empty table with the limit [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT). Does not
    /// allocate.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// Makes an empty table whose descriptors are below `limit`, 0 to 2^31. Does not allocate:
    /// memory use depends on the descriptors in use, not on the limit.
    #[must_use]
    pub fn with_limit(limit: u32) -> Self {
        let free_hint = FreeHint::new();
        free_hint.set_limit((limit as usize).min(MAX_LIMIT));
        Self {
            tree: Tree::new(TableState::new()),
            free_hint,
            is_watched: false,
            flags_noted: [Word::new(), Word::new()],
            end: TableEnd(Origin::New),
        }
    }
}

impl<T: ?Sized + Send + Sync> Default for Files<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a table was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    New,
    Fork,
}

/// The end of a table: it drops files that this and other tables have released.
///
/// It runs the queued callbacks when dropped, unless its table was made by a fork. It does not
/// wait. Inside a read-side section or a callback it does nothing.
///
/// A file that has lost its last reference is dropped after a grace period, by a callback.
/// Callbacks run in batches, and only while more are queued (see [`fdtable_sync::rcu`]); after the
/// last table no more follow. So the end of a table runs the queued callbacks, if no reader
/// prevents that.
///
/// With other threads that costs a heavy fence, more than the end of a small table costs. Processes
/// that fork and exit would pay for it each time, without need: each fork and exit queues more
/// callbacks, and the table from which all of them come has an end too, or lives as long as the
/// process. So a table that was made by a fork leaves its callbacks to their batch.
#[derive(Debug)]
pub(crate) struct TableEnd(pub(crate) Origin);

/// The models of tables run their own callbacks; the model of an end is in `fdtable_sync::rcu`.
#[cfg(not(loom))]
impl Drop for TableEnd {
    fn drop(&mut self) {
        if self.0 == Origin::New {
            // Inside a section or a callback, a later call runs them.
            let _ = fdtable_sync::rcu::try_barrier();
        }
    }
}
