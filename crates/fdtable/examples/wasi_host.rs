//! A host for WASI preview 1: a table for each instance, with calls on `u32` descriptors.
//!
//! It shows a table of one type instead of a trait, preopened directories, a check of rights in
//! each call, errnos that are not those of Linux, a borrowed lookup in a call that does not block,
//! and `fd_renumber`, which moves a descriptor. `main` is the guest, and checks each call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fdtable::{Error, FdFlags, FileRef, Files, Rcu, rcu};

/// An errno of preview 1.
#[derive(Debug, PartialEq, Eq)]
struct Errno(u16);

const BADF: Errno = Errno(8);
const IO: Errno = Errno(29);
const MFILE: Errno = Errno(33);
const NOENT: Errno = Errno(44);
const NOMEM: Errno = Errno(48);
const NOTDIR: Errno = Errno(54);
const NOTCAPABLE: Errno = Errno(76);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::BadFd => BADF,
            Error::TooManyFiles => MFILE,
            Error::NoMemory => NOMEM,
            // The others are errors of features that this host does not use.
            _ => IO,
        }
    }
}

const FD_READ: u64 = 1 << 1;
const FD_WRITE: u64 = 1 << 6;
const PATH_OPEN: u64 = 1 << 13;

type Data = Arc<Mutex<Vec<u8>>>;

enum Node {
    Regular(Data),
    Directory(HashMap<&'static str, Data>),
}

/// The object that a descriptor refers to.
///
/// Preview 1 cannot duplicate a descriptor, so each open file has one, and the rights of the
/// descriptor are here.
struct OpenFile {
    node: Node,
    rights: u64,
    /// The upper bound for the rights of files that are opened below a directory.
    inheriting: u64,
}

impl OpenFile {
    fn check(&self, rights: u64) -> Result<(), Errno> {
        let has_all = self.rights & rights == rights;
        has_all.then_some(()).ok_or(NOTCAPABLE)
    }
    fn data(&self, rights: u64) -> Result<&Data, Errno> {
        self.check(rights)?;
        match &self.node {
            Node::Regular(data) => Ok(data),
            Node::Directory(_) => Err(BADF),
        }
    }
}

struct Instance(Files<Rcu<OpenFile>>);

impl Instance {
    /// Makes an instance with the standard output at 1, and a preopened directory at 3.
    fn new(stdout: Data, dir: HashMap<&'static str, Data>) -> Result<Self, Errno> {
        let instance = Self(Files::with_limit(8));
        for (data, rights) in [
            (Data::default(), 0),
            (stdout, FD_WRITE),
            (Data::default(), 0),
        ] {
            instance.add(Node::Regular(data), rights, 0)?;
        }
        instance.add(Node::Directory(dir), PATH_OPEN, FD_READ | FD_WRITE)?;
        Ok(instance)
    }

    fn add(&self, node: Node, rights: u64, inheriting: u64) -> Result<u32, Errno> {
        let file = FileRef::new_rcu(OpenFile {
            node,
            rights,
            inheriting,
        });
        Ok(self.0.open(file, FdFlags::empty())?.into())
    }

    /// Returns the type of the file and its rights. This does not block, so it takes no reference:
    /// the file is usable until the section ends.
    fn fd_fdstat_get(&self, fd: u32) -> Result<(u8, u64, u64), Errno> {
        let section = rcu::read_lock();
        let file = self.0.get_rcu(fd, &section)?;
        let filetype = match file.node {
            Node::Directory(_) => 3,
            Node::Regular(_) => 4,
        };
        Ok((filetype, file.rights, file.inheriting))
    }

    /// Takes a reference, since it may wait for the lock of the data.
    fn fd_read(&self, fd: u32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let file = self.0.get(fd)?;
        let data = file.data(FD_READ)?.lock().unwrap();
        let count = data.len().min(buffer.len());
        buffer[..count].copy_from_slice(&data[..count]);
        Ok(count)
    }

    fn fd_write(&self, fd: u32, bytes: &[u8]) -> Result<usize, Errno> {
        let file = self.0.get(fd)?;
        file.data(FD_WRITE)?
            .lock()
            .unwrap()
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn fd_close(&self, fd: u32) -> Result<(), Errno> {
        drop(self.0.close(fd)?);
        Ok(())
    }

    /// Moves `from` onto `to`, which must be open, and closes the file there. A lookup may find the
    /// file at both for a moment: only a guest with threads can see that.
    fn fd_renumber(&self, from: u32, to: u32) -> Result<(), Errno> {
        self.0.fd_flags(to)?; // `rename` would also take a free descriptor.
        drop(self.0.rename(from, to)?);
        Ok(())
    }

    fn path_open(&self, dir: u32, path: &str, rights: u64) -> Result<u32, Errno> {
        let dir = self.0.get(dir)?;
        dir.check(PATH_OPEN)?;
        let Node::Directory(entries) = &dir.node else {
            return Err(NOTDIR);
        };
        if dir.inheriting & rights != rights {
            return Err(NOTCAPABLE);
        }
        let data = entries.get(path).ok_or(NOENT)?;
        self.add(Node::Regular(data.clone()), rights, 0)
    }
}

pub(crate) fn main() {
    let stdout = Data::default();
    let motd = Arc::new(Mutex::new(b"hello".to_vec()));
    let guest = Instance::new(stdout.clone(), HashMap::from([("motd", motd.clone())])).unwrap();
    let other = Instance::new(stdout.clone(), HashMap::new()).unwrap();

    let fd = guest.path_open(3, "motd", FD_READ).unwrap();
    assert_eq!((fd, guest.fd_fdstat_get(fd)), (4, Ok((4, FD_READ, 0))));
    assert_eq!(
        other.fd_fdstat_get(fd),
        Err(BADF),
        "each instance has its own descriptors"
    );
    let mut buffer = [0; 8];
    assert_eq!(
        (guest.fd_read(fd, &mut buffer), &buffer[..5]),
        (Ok(5), &b"hello"[..])
    );
    assert_eq!(guest.fd_write(fd, b"!"), Err(NOTCAPABLE));
    assert_eq!(guest.path_open(fd, "motd", FD_READ), Err(NOTCAPABLE));
    assert_eq!(guest.path_open(3, "motd", PATH_OPEN), Err(NOTCAPABLE));
    assert_eq!(guest.path_open(3, "shadow", FD_READ), Err(NOENT));

    // As wasi-libc implements freopen("motd", "a", stdout).
    let log = guest.path_open(3, "motd", FD_WRITE).unwrap();
    assert_eq!(
        (guest.fd_renumber(log, 1), guest.fd_close(log)),
        (Ok(()), Err(BADF))
    );
    assert_eq!(
        (guest.fd_write(1, b", world"), stdout.lock().unwrap().len()),
        (Ok(7), 0)
    );
    assert_eq!(*motd.lock().unwrap(), b"hello, world");
    assert_eq!(
        (guest.fd_renumber(1, 1), guest.fd_renumber(1, 6)),
        (Ok(()), Err(BADF))
    );

    while guest.path_open(3, "motd", FD_READ).is_ok() {}
    assert_eq!(guest.path_open(3, "motd", FD_READ), Err(MFILE));
    assert_eq!(
        (guest.fd_close(7), guest.fd_close(u32::MAX)),
        (Ok(()), Err(BADF))
    );
    println!("wasi_host: rights, renumbering and limits are as expected");
}
