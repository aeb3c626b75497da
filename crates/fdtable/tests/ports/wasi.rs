//! The descriptors of WASI preview 1: rights belong to a descriptor, not to its file.
//!
//! The base rights are in the lower half of the word, and the inheriting ones in the upper half. A
//! bit marks preopened directories.

use fdtable::{Error, FdData, FdFlags, FileRef, Files};

bitflags::bitflags! {
    /// Permitted uses of a descriptor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Rights: u32 {
        const FD_READ = 1 << 1;
        const FD_SEEK = 1 << 2;
        const FD_WRITE = 1 << 6;
        const PATH_OPEN = 1 << 13;
    }
}

/// An error, with its number in WASI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    Badf = 8,
    Inval = 28,
    Mfile = 33,
    Noent = 44,
    Nomem = 48,
    Notcapable = 76,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileType {
    Directory = 3,
    RegularFile = 4,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) file_type: FileType,
}

/// Result of `fd_fdstat_get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FdStat {
    pub(crate) file_type: FileType,
    pub(crate) base: Rights,
    pub(crate) inheriting: Rights,
}

/// The descriptors of an instance.
pub(crate) struct Wasi {
    files: Files<Node>,
}

/// The highest bit of the word: no right has it.
const PREOPENED: u64 = 1 << 63;

impl Wasi {
    pub(crate) fn with_limit(limit: u32) -> Self {
        let files = Files::with_limit(limit);
        Self { files }
    }

    /// Opens a directory before the instance starts.
    pub(crate) fn preopen(&self, path: &str, base: Rights, inherit: Rights) -> Result<u32, Errno> {
        let data = FdData::new(FdFlags::empty(), packed(base, inherit) | PREOPENED);
        Ok(self.files.open(node(path), data)?.into())
    }

    /// Returns the preopened directories, as an instance finds them by `fd_prestat_get`.
    pub(crate) fn preopens(&self) -> impl Iterator<Item = (u32, FileRef<Node>)> {
        let preopened = |data: FdData| data.word & PREOPENED != 0;
        let all = self.files.iter();
        all.filter_map(move |(fd, node, data)| preopened(data).then(|| (fd.into(), node)))
    }

    pub(crate) fn fd_prestat_get(&self, fd: u32) -> Result<String, Errno> {
        let (node, data) = self.files.get_with_data(fd)?;
        if data.word & PREOPENED == 0 {
            return Err(Errno::Badf);
        }
        Ok(node.path.clone())
    }

    /// Opens a file below a directory. Its rights are at most those that the directory inherits.
    pub(crate) fn path_open(
        &self,
        directory: u32,
        path: &str,
        base: Rights,
        inheriting: Rights,
    ) -> Result<u32, Errno> {
        let (parent, has_inheriting) = self.checked(directory, Rights::PATH_OPEN)?;
        if !has_inheriting.contains(base | inheriting) {
            return Err(Errno::Notcapable);
        }
        if path.is_empty() {
            return Err(Errno::Noent);
        }
        let opened = node(&format!("{}{path}", parent.path));
        let word = packed(base, inheriting);
        Ok(self.files.open(opened, (FdFlags::empty(), word))?.into())
    }

    /// Returns the path of a file that may be read.
    pub(crate) fn fd_read(&self, fd: u32) -> Result<String, Errno> {
        let (node, _) = self.checked(fd, Rights::FD_READ)?;
        Ok(node.path.clone())
    }

    pub(crate) fn fd_fdstat_get(&self, fd: u32) -> Result<FdStat, Errno> {
        let (node, data) = self.files.get_with_data(fd)?;
        let (base, inheriting) = unpacked(data.word);
        Ok(FdStat {
            file_type: node.file_type,
            base,
            inheriting,
        })
    }

    /// Narrows the rights of a descriptor.
    pub(crate) fn fd_fdstat_set_rights(
        &self,
        fd: u32,
        base: Rights,
        inheriting: Rights,
    ) -> Result<(), Errno> {
        let new = packed(base, inheriting);
        let (_, data) = self.files.get_with_data(fd)?;
        let mut rights = data.word;
        while new & !rights == 0 {
            let preopened = rights & PREOPENED;
            match self.files.exchange_word(fd, rights, new | preopened)? {
                before if before == rights => return Ok(()),
                other => rights = other,
            }
        }
        Err(Errno::Notcapable)
    }

    /// Moves a descriptor, with its rights, and closes the one that was there.
    pub(crate) fn fd_renumber(&self, from: u32, to: u32) -> Result<(), Errno> {
        Ok(self.files.rename(from, to).map(drop)?)
    }

    pub(crate) fn fd_close(&self, fd: u32) -> Result<(), Errno> {
        Ok(self.files.close(fd).map(drop)?)
    }

    /// Returns the file of a descriptor that has all of `rights`, and what it inherits.
    fn checked(&self, fd: u32, rights: Rights) -> Result<(FileRef<Node>, Rights), Errno> {
        let (node, data) = self.files.get_with_data(fd)?;
        let (base, inheriting) = unpacked(data.word);
        if !base.contains(rights) {
            return Err(Errno::Notcapable);
        }
        Ok((node, inheriting))
    }
}

/// Makes a file, or a directory if the path ends with a slash.
fn node(path: &str) -> FileRef<Node> {
    let path = path.to_owned();
    let file_type = match path.ends_with('/') {
        true => FileType::Directory,
        false => FileType::RegularFile,
    };
    FileRef::new(Node { path, file_type })
}

fn packed(base: Rights, inheriting: Rights) -> u64 {
    u64::from(base.bits()) | u64::from(inheriting.bits()) << 32
}

fn unpacked(word: u64) -> (Rights, Rights) {
    let rights = |half: u64| Rights::from_bits_truncate(half as u32);
    (rights(word), rights(word >> 32))
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::BadFd => Self::Badf,
            Error::TooManyFiles => Self::Mfile,
            Error::NoMemory => Self::Nomem,
            _ => Self::Inval,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use fdtable::Fd;

    use super::*;

    const READ: Rights = Rights::FD_READ;
    const WRITE: Rights = Rights::FD_WRITE;
    const SEEK: Rights = Rights::FD_SEEK;
    const NONE: Rights = Rights::empty();

    fn instance() -> Wasi {
        let wasi = Wasi::with_limit(1024);
        for path in ["in", "out", "err"] {
            let stream = node(path);
            let word = packed(READ | WRITE, NONE);
            wasi.files.open(stream, (FdFlags::empty(), word)).unwrap();
        }
        let home = wasi.preopen("home/", Rights::PATH_OPEN, READ | WRITE | SEEK);
        assert_eq!(home, Ok(3));
        wasi
    }

    #[test]
    fn a_file_has_no_more_rights_than_its_directory_inherits() {
        let wasi = instance();
        assert_eq!(wasi.path_open(3, "log", READ | WRITE, NONE), Ok(4));
        let stat = FdStat {
            file_type: FileType::RegularFile,
            base: READ | WRITE,
            inheriting: NONE,
        };
        assert_eq!(wasi.fd_fdstat_get(4), Ok(stat));
        assert_eq!(wasi.fd_read(4).as_deref(), Ok("home/log"));
        for (base, inheriting) in [(Rights::PATH_OPEN, NONE), (READ, Rights::PATH_OPEN)] {
            let more = wasi.path_open(3, "log", base, inheriting);
            assert_eq!(more, Err(Errno::Notcapable));
        }
        let below_a_file = wasi.path_open(4, "log", NONE, NONE);
        assert_eq!(below_a_file, Err(Errno::Notcapable));
        assert_eq!(wasi.path_open(3, "", NONE, NONE), Err(Errno::Noent));
        assert_eq!(wasi.path_open(9, "log", NONE, NONE), Err(Errno::Badf));
    }

    #[test]
    fn rights_are_narrowed_and_never_widened() {
        let wasi = instance();
        let fd = wasi.path_open(3, "dir/", READ | WRITE, READ).unwrap();
        wasi.fd_fdstat_set_rights(fd, WRITE, READ).unwrap();
        assert_eq!(wasi.fd_read(fd), Err(Errno::Notcapable));
        for (base, inheriting) in [(READ | WRITE, READ), (WRITE, READ | WRITE), (SEEK, NONE)] {
            let wider = wasi.fd_fdstat_set_rights(fd, base, inheriting);
            assert_eq!(wider, Err(Errno::Notcapable));
        }
        let closed = wasi.fd_fdstat_set_rights(9, NONE, NONE);
        assert_eq!(closed, Err(Errno::Badf));
        let stat = wasi.fd_fdstat_get(fd).unwrap();
        assert_eq!((stat.base, stat.inheriting), (WRITE, READ));
    }

    #[test]
    fn preopened_directories_are_found_from_3_on() {
        let wasi = instance();
        wasi.path_open(3, "log", READ, NONE).unwrap();
        wasi.preopen("tmp/", NONE, NONE).unwrap();
        let found: Vec<_> = wasi
            .preopens()
            .map(|(fd, node)| (fd, node.path.clone()))
            .collect();
        assert_eq!(found, [(3, "home/".to_owned()), (5, "tmp/".to_owned())]);
        assert_eq!(wasi.fd_prestat_get(3).as_deref(), Ok("home/"));
        assert_eq!(wasi.fd_prestat_get(4), Err(Errno::Badf));
        // A renumbered one stays preopened.
        wasi.fd_renumber(5, 4).unwrap();
        assert_eq!(wasi.fd_prestat_get(4).as_deref(), Ok("tmp/"));
        assert_eq!(wasi.fd_prestat_get(5), Err(Errno::Badf));
    }

    #[test]
    fn a_descriptor_is_renumbered_with_its_rights() {
        let wasi = instance();
        let fd = wasi.path_open(3, "log", READ, NONE).unwrap();
        wasi.fd_renumber(fd, 1).unwrap();
        assert_eq!(wasi.fd_read(1).as_deref(), Ok("home/log"));
        assert_eq!(wasi.fd_fdstat_get(1).unwrap().base, READ);
        assert_eq!(wasi.fd_close(fd), Err(Errno::Badf));
        wasi.fd_renumber(1, 1).unwrap();
        wasi.fd_renumber(1, 70).unwrap();
        assert_eq!(wasi.fd_close(1), Err(Errno::Badf));
        assert_eq!(wasi.fd_renumber(1, 2), Err(Errno::Badf));
        assert_eq!(wasi.fd_renumber(2, u32::MAX), Err(Errno::Badf));
        assert_eq!(wasi.fd_close(70), Ok(()));
    }

    #[test]
    fn two_threads_that_narrow_rights_both_do() {
        for _ in 0..500 {
            let wasi = instance();
            let fd = wasi.path_open(3, "log", READ | WRITE | SEEK, NONE).unwrap();
            let narrow = |without: Rights| {
                loop {
                    let rights = wasi.fd_fdstat_get(fd).unwrap().base - without;
                    // Another thread may have narrowed them meanwhile.
                    if wasi.fd_fdstat_set_rights(fd, rights, NONE).is_ok() {
                        return;
                    }
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| narrow(READ));
                narrow(WRITE);
            });
            assert_eq!(wasi.fd_fdstat_get(fd).unwrap().base, SEEK);
        }
    }

    /// The rights of the file with a number, as its path says.
    fn rights_of(path: &str) -> Rights {
        match path.bytes().last() {
            Some(b'0' | b'2' | b'4' | b'6' | b'8') => READ,
            _ => WRITE,
        }
    }

    /// Looks a descriptor up, and checks that the rights are those of the file that was found.
    fn look(wasi: &Wasi, fd: u32) -> Result<String, Errno> {
        let (node, data) = wasi.files.get_with_data(fd)?;
        let (base, _) = unpacked(data.word);
        assert_eq!(base, rights_of(&node.path), "{}", node.path);
        Ok(node.path.clone())
    }

    /// Renumbers files of changing rights from 10 to `to`, while other threads look both up and one
    /// closes 10.
    fn renumber_beside_lookups_and_closes(to: u32) {
        const FROM: u32 = 10;
        let wasi = instance();
        let open_at = |fd: u32, number: u64| {
            let path = number.to_string();
            let word = packed(rights_of(&path), NONE);
            let file = node(&path);
            wasi.files
                .open_at(fd, file, (FdFlags::empty(), word))
                .unwrap();
        };
        open_at(to, 0);
        let deadline = Instant::now() + Duration::from_millis(300);
        let until_over = |step: &dyn Fn()| {
            while Instant::now() < deadline {
                step();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                until_over(&|| {
                    // Never EBADF, and never an older file than before.
                    let (one, other) = (look(&wasi, to).unwrap(), look(&wasi, to).unwrap());
                    let number = |path: String| path.parse::<u64>().unwrap();
                    assert!(number(one) <= number(other));
                });
            });
            scope.spawn(|| {
                until_over(&|| {
                    // The file that is replaced is never here.
                    if let Ok(old) = look(&wasi, FROM) {
                        assert_ne!(old, "0");
                    }
                });
            });
            scope.spawn(|| until_over(&|| _ = wasi.fd_close(FROM)));
            let mut moved = 0;
            for number in 1.. {
                open_at(FROM, number);
                match wasi.fd_renumber(FROM, to) {
                    Ok(()) => moved += 1,
                    Err(error) => assert_eq!(error, Errno::Badf),
                }
                assert_eq!(look(&wasi, FROM), Err(Errno::Badf));
                if Instant::now() > deadline {
                    break;
                }
            }
            assert!(moved > 0);
        });
        assert_eq!(
            wasi.files
                .iter_from(Fd::new(4).unwrap())
                .next()
                .map(|(fd, ..)| fd)
                .map(u32::from),
            Some(to)
        );
    }

    #[test]
    fn a_renumbered_descriptor_is_never_missing_nor_has_others_rights() {
        renumber_beside_lookups_and_closes(11);
    }

    #[test]
    fn nor_is_one_far_away() {
        renumber_beside_lookups_and_closes(1000);
    }
}
