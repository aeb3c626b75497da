//! litebox's descriptor table: objects of several kinds behind a trait.
//!
//! Data of the descriptor is a word: dup does not copy it. Data of the file is in the object, which
//! all its descriptors share. The removal of the last descriptor gives the object back.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd};

/// An object that descriptors refer to.
pub(crate) trait Entry: Any + Send + Sync {}

/// An object with the data of its file.
pub(crate) struct Open<E: ?Sized = dyn Entry> {
    /// The status flags, as `F_SETFL` sets them.
    pub(crate) status: AtomicU32,
    /// Set by the release hook, when the last reference has gone.
    is_released: OnceLock<()>,
    /// Set by the removal that gives the object back.
    is_given_back: OnceLock<()>,
    entry: E,
}

/// A counted reference to an open object.
pub(crate) type OpenRef = FileRef<Arc<Open>>;

/// A table of descriptors.
#[derive(Default)]
pub(crate) struct Descriptors {
    files: Files<Arc<Open>>,
}

impl Open {
    /// Makes an object with the status flags `status`.
    pub(crate) fn make<E: Entry>(entry: E, status: u32) -> Result<OpenRef, Error> {
        let open: Arc<Self> = Arc::new(Open {
            status: AtomicU32::new(status),
            is_released: OnceLock::new(),
            is_given_back: OnceLock::new(),
            entry,
        });
        let release = |open: &Arc<Self>, _| _ = open.is_released.set(());
        FileRef::builder(open).on_release(release).try_build()
    }

    /// Returns the object if it is of the kind `E`.
    pub(crate) fn entry<E: Entry>(&self) -> Option<&E> {
        let entry: &dyn Any = &self.entry;
        entry.downcast_ref()
    }
}

impl Descriptors {
    /// Opens an object at the lowest free descriptor.
    pub(crate) fn insert(&self, open: OpenRef, flags: FdFlags) -> Result<Fd, Error> {
        self.files.open(open, flags)
    }

    /// Opens an object at a free descriptor.
    pub(crate) fn insert_at(&self, fd: RawFd, open: OpenRef, flags: FdFlags) -> Result<(), Error> {
        self.files.open_at(fd, open, flags)
    }

    /// Duplicates a descriptor to `new`. Returns what was there, as [`remove`](Self::remove) does.
    pub(crate) fn duplicate_to(
        &self,
        old: RawFd,
        new: RawFd,
        flags: FdFlags,
    ) -> Result<Option<Removed>, Error> {
        let displaced = self.files.dup3(old, new, flags)?;
        Ok(displaced.map(|file| Removed::from(file.into_file())))
    }

    /// Returns the object of a descriptor.
    pub(crate) fn get(&self, fd: RawFd) -> Result<OpenRef, Error> {
        self.files.get(fd)
    }

    /// Calls `with` with the object of a descriptor, or returns [`Error::InvalidArgument`] if it is
    /// of another kind.
    pub(crate) fn with<E: Entry, R>(
        &self,
        fd: RawFd,
        with: impl FnOnce(&E) -> R,
    ) -> Result<R, Error> {
        let open = self.files.get(fd)?;
        open.entry().map(with).ok_or(Error::InvalidArgument)
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: RawFd) -> Result<Removed, Error> {
        Ok(Removed::from(self.files.close(fd)?.into_file()))
    }

    /// Sets the data of a descriptor, and returns the one before.
    pub(crate) fn set_metadata(&self, fd: RawFd, metadata: u64) -> Result<u64, Error> {
        self.files.set_word(fd, metadata)
    }

    /// Returns the flags and the data of a descriptor.
    pub(crate) fn metadata(&self, fd: RawFd) -> Result<(FdFlags, u64), Error> {
        let (_, data) = self.files.get_with_data(fd)?;
        Ok((data.flags, data.word))
    }

    /// Returns the open descriptors of objects of the kind `E`.
    pub(crate) fn of_kind<E: Entry>(&self) -> Vec<Fd> {
        let of_kind = |(fd, open, _): (Fd, OpenRef, _)| open.entry::<E>().map(|_| fd);
        self.files.iter().filter_map(of_kind).collect()
    }
}

/// Target of a removed descriptor.
pub(crate) enum Removed {
    /// The object: the removal has dropped the last reference.
    Last(Arc<Open>),
    /// Other descriptors refer to it, or calls that are under way.
    InUse,
}

impl From<OpenRef> for Removed {
    fn from(file: OpenRef) -> Self {
        let open = Arc::clone(&file);
        drop(file);
        // The hook may have run for a removal in another thread: one of them gets the object.
        if open.is_released.get().is_some() && open.is_given_back.set(()).is_ok() {
            Self::Last(open)
        } else {
            Self::InUse
        }
    }
}

mod tests {
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const NONE: FdFlags = FdFlags::empty();

    struct Pipe(&'static str);

    impl Entry for Pipe {}

    /// A socket, which closes its connection in `Drop`.
    struct Socket {
        connection: Arc<()>,
    }

    impl Entry for Socket {}

    fn pipe(name: &'static str) -> OpenRef {
        Open::make(Pipe(name), 0).unwrap()
    }

    fn name(open: &Open) -> &str {
        open.entry::<Pipe>().unwrap().0
    }

    fn name_of_last(removed: Removed) -> Option<String> {
        match removed {
            Removed::Last(open) => Some(name(&open).to_owned()),
            Removed::InUse => None,
        }
    }

    /// Makes a socket, and a weak reference to its connection.
    fn socket() -> (OpenRef, Weak<()>) {
        let connection = Arc::new(());
        let seen = Arc::downgrade(&connection);
        (Open::make(Socket { connection }, 0).unwrap(), seen)
    }

    #[test]
    fn an_object_is_inserted_at_the_lowest_or_at_a_given_descriptor() {
        let files = Descriptors::default();
        assert_eq!(files.insert(pipe("in"), NONE).unwrap().raw(), 0);
        files.insert_at(2, pipe("err"), NONE).unwrap();
        assert_eq!(files.insert(pipe("out"), NONE).unwrap().raw(), 1);
        assert_eq!(files.insert(pipe("log"), NONE).unwrap().raw(), 3);
        assert_eq!(name(&files.get(2).unwrap()), "err");
        let taken = files.insert_at(2, pipe("other"), NONE);
        assert_eq!(taken, Err(Error::Exists));
        let negative = files.insert_at(-1, pipe("other"), NONE);
        assert_eq!(negative, Err(Error::BadFd));
    }

    #[test]
    fn a_duplicate_returns_what_it_has_displaced() {
        let files = Descriptors::default();
        files.insert(pipe("in"), NONE).unwrap();
        files.insert(pipe("out"), NONE).unwrap();
        assert!(files.duplicate_to(0, 5, NONE).unwrap().is_none());
        let displaced = files.duplicate_to(0, 1, NONE).unwrap().unwrap();
        assert_eq!(name_of_last(displaced).as_deref(), Some("out"));
        // The object is at other descriptors too.
        let displaced = files.duplicate_to(1, 5, NONE).unwrap().unwrap();
        assert_eq!(name_of_last(displaced), None);
        assert_eq!(name(&files.get(5).unwrap()), "in");
    }

    #[test]
    fn the_last_removal_gives_the_object_back() {
        let files = Descriptors::default();
        files.insert(pipe("in"), NONE).unwrap();
        files.duplicate_to(0, 1, NONE).unwrap();
        assert_eq!(name_of_last(files.remove(0).unwrap()), None);
        let last = files.remove(1).unwrap();
        assert_eq!(name_of_last(last).as_deref(), Some("in"));
        assert_eq!(files.remove(1).err(), Some(Error::BadFd));
    }

    #[test]
    fn one_of_two_removals_at_once_gives_the_object_back() {
        let files = Descriptors::default();
        let (given_back, arrived) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // A spin, so that both go on at the same time.
        let meet = |meetings: usize| {
            arrived.fetch_add(1, SeqCst);
            while arrived.load(SeqCst) < 2 * meetings {
                std::hint::spin_loop();
            }
        };
        let deadline = Instant::now() + Duration::from_secs(1);
        let rounds = AtomicUsize::new(0);
        let run = |fd: RawFd| {
            for round in 0.. {
                if fd == 0 && Instant::now() < deadline {
                    files.insert_at(0, pipe("in"), NONE).unwrap();
                    files.duplicate_to(0, 1, NONE).unwrap();
                    rounds.store(round + 1, SeqCst);
                }
                meet(2 * round + 1);
                if rounds.load(SeqCst) == round {
                    break;
                }
                if let Removed::Last(_) = files.remove(fd).unwrap() {
                    given_back.fetch_add(1, SeqCst);
                }
                meet(2 * round + 2);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| run(1));
            run(0);
        });
        assert_eq!(given_back.into_inner(), rounds.into_inner());
    }

    #[test]
    fn descriptors_have_their_own_data_and_share_that_of_the_file() {
        let files = Descriptors::default();
        files.insert(pipe("in"), FdFlags::CLOEXEC).unwrap();
        assert_eq!(files.set_metadata(0, 7), Ok(0));
        files.duplicate_to(0, 1, NONE).unwrap();
        assert_eq!(files.metadata(0), Ok((FdFlags::CLOEXEC, 7)));
        assert_eq!(files.metadata(1), Ok((NONE, 0)));
        files.get(0).unwrap().status.store(0o4000, SeqCst);
        assert_eq!(files.get(1).unwrap().status.load(SeqCst), 0o4000);
        assert_eq!(files.set_metadata(2, 7), Err(Error::BadFd));
    }

    #[test]
    fn objects_of_several_kinds_are_in_one_table() {
        let files = Descriptors::default();
        files.insert(pipe("in"), NONE).unwrap();
        files.insert(socket().0, NONE).unwrap();
        assert_eq!(files.with(0, |pipe: &Pipe| pipe.0), Ok("in"));
        let peers = files.with(1, |socket: &Socket| Arc::strong_count(&socket.connection));
        assert_eq!(peers, Ok(1));
        let wrong = files.with(1, |pipe: &Pipe| pipe.0);
        assert_eq!(wrong, Err(Error::InvalidArgument));
        let sockets = files.of_kind::<Socket>();
        assert_eq!(sockets, [Fd::new(1).unwrap()]);
    }

    #[test]
    fn a_socket_closes_in_drop_after_its_last_descriptor() {
        let files = Descriptors::default();
        let (socket, connection) = socket();
        files.insert(socket, NONE).unwrap();
        files.duplicate_to(0, 1, NONE).unwrap();
        drop(files.remove(0).unwrap());
        assert_eq!(connection.strong_count(), 1);
        let used = files.get(1).unwrap();
        drop(files.remove(1).unwrap());
        assert_eq!(connection.strong_count(), 1, "a call uses it");
        drop(used);
        assert_eq!(connection.strong_count(), 0);
    }
}
