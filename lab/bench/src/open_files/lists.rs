//! The kinds of lists of open files: ours in parts, ours under one lock, slabs, and none.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use fdtable::{Access, FileRef, ReleaseReason, SuperBlock};
use fdtable_vfs::{MemFs, MemFsLimits};

pub(super) const PER_CPU: &str = "fdtable, a list for each CPU";
pub(super) const ONE_LIST: &str = "fdtable, one list under one lock";
pub(super) const MUTEX_SLAB: &str = "slab under parking_lot's mutex";
pub(super) const STD_MUTEX_SLAB: &str = "slab under std's mutex";
pub(super) const NO_LIST: &str = "floor: on no list";

named! {
    /// Kind of list of a file system.
    pub(super) enum Lists {
        /// One for each CPU.
        PerCpu = PER_CPU,
        /// One under one lock.
        One = ONE_LIST,
        /// None: open files are not tracked.
        None = NO_LIST,
    }
}

impl Lists {
    /// Creates a superblock with such lists.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn superblock<T: ?Sized>(self) -> anyhow::Result<Option<SuperBlock<T>>> {
        let made = match self {
            Lists::PerCpu => SuperBlock::new(),
            Lists::One => SuperBlock::with_one_list(),
            Lists::None => return Ok(None),
        };
        made.map(Some).context("lists of open files")
    }

    /// Creates an empty file system with such lists.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn file_system(self) -> anyhow::Result<MemFs> {
        Ok(MemFs::with_superblock(
            self.superblock()?,
            MemFsLimits::NONE,
        ))
    }
}

/// List of open files as the experiment sees it. A file leaves it when its last reference is
/// dropped.
pub(super) trait FileList: Sync + 'static {
    /// The open file.
    type File: Send + Sync + 'static;

    /// Creates an open file on the list, if there is memory.
    fn open(&self) -> Option<FileRef<Self::File>>;
}

/// Content of every open file, for any list.
#[derive(Default)]
pub(super) struct File {
    _inode: u64,
    _position: u64,
}

/// Represents the release hook of a file, for any list.
fn end(_file: &File, _end: ReleaseReason) {}

impl FileList for SuperBlock<File> {
    type File = File;

    #[inline]
    fn open(&self) -> Option<FileRef<File>> {
        FileRef::builder(File::default())
            .on(self, Access::Write)
            .on_release(end)
            .try_build()
            .ok()
    }
}

/// Tracks nothing.
pub(super) struct NoList;

impl FileList for NoList {
    type File = File;

    #[inline]
    fn open(&self) -> Option<FileRef<File>> {
        FileRef::builder(File::default())
            .on_release(end)
            .try_build()
            .ok()
    }
}

impl FileList for Option<SuperBlock<File>> {
    type File = File;

    #[inline]
    fn open(&self) -> Option<FileRef<File>> {
        match self {
            Some(superblock) => superblock.open(),
            None => NoList.open(),
        }
    }
}

/// Open file that knows its key in a list.
#[derive(Default)]
pub(super) struct Keyed {
    _file: File,
    key: AtomicUsize,
}

/// A list on cache lines of its own.
#[repr(align(128))]
struct Apart<L>(L);

/// The addresses of all open files.
type Addresses = slab::Slab<usize>;

/// Makes the usual list of a program: a global one under a lock, to which a file needs no pointer.
macro_rules! list_under_mutex {
    ($List:ident, $LIST:ident: $Mutex:ty $(, .$unpoisoned:ident($into:path))?) => {
        pub(super) struct $List;

        static $LIST: Apart<$Mutex> = Apart(<$Mutex>::new(Addresses::new()));

        impl FileList for $List {
            type File = Keyed;

            #[inline]
            fn open(&self) -> Option<FileRef<Keyed>> {
                let file = FileRef::builder(Keyed::default())
                    .on_release(|file, _| {
                        $LIST.0.lock()$(.$unpoisoned($into))?.try_remove(file.key());
                    })
                    .try_build();
                let file = file.ok()?;
                let key = $LIST.0.lock()$(.$unpoisoned($into))?.insert(Keyed::address(&file));
                file.keep(key);
                Some(file)
            }
        }
    };
}

list_under_mutex!(MutexSlab, ADDRESSES: parking_lot::Mutex<Addresses>);
// The same with the standard library's lock. No thread panics while it holds the lock.
list_under_mutex!(
    StdMutexSlab,
    STD_ADDRESSES: std::sync::Mutex<Addresses>,
    .unwrap_or_else(PoisonError::into_inner)
);

impl Keyed {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn keep(&self, key: usize) {
        // Relaxed: no other thread has the file yet, and passing it to one makes the store visible.
        self.key.store(key, Ordering::Relaxed);
    }

    fn key(&self) -> usize {
        // Relaxed: as in the store.
        self.key.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the files on the list while they are open and when all are closed.
    fn counts<L: FileList>(list: &L, count: impl Fn(&L) -> usize) -> [usize; 3] {
        let before = count(list);
        let files: Vec<_> = (0..10).map(|_| list.open()).collect();
        assert!(files.iter().all(Option::is_some));
        let open = count(list);
        drop(files);
        [before, open, count(list)]
    }

    #[test]
    fn open_files_are_on_the_list_and_closed_ones_are_not() {
        for lists in [Lists::PerCpu, Lists::One] {
            let superblock = lists.superblock::<File>().unwrap().unwrap();
            let counts = counts(&superblock, SuperBlock::open_files);
            assert_eq!(counts, [0, 10, 0], "{lists:?}");
        }
        assert!(Lists::None.superblock::<File>().unwrap().is_none());
    }

    #[test]
    fn the_list_in_the_slab_is_of_those_that_are_open() {
        // Other tests use the lists of the program meanwhile, but none keeps this many.
        let files: Vec<_> = (0..10_000).map(|_| MutexSlab.open().unwrap()).collect();
        let of_std: Vec<_> = (0..10_000).map(|_| StdMutexSlab.open().unwrap()).collect();
        for file in &files {
            let kept = ADDRESSES.0.lock().get(file.key()).copied();
            assert_eq!(kept, Some(file.address()));
        }
        for file in &of_std {
            let kept = STD_ADDRESSES.0.lock().unwrap().get(file.key()).copied();
            assert_eq!(kept, Some(file.address()));
        }
        drop((files, of_std));
        assert!(ADDRESSES.0.lock().len() < 10_000);
        assert!(STD_ADDRESSES.0.lock().unwrap().len() < 10_000);
    }
}
