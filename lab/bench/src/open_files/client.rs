//! One client of a load file: a process, its directory, and its open files.
//!
//! The calls are those of dbench for a local file system. Where the file records more than dbench
//! checks, we check it: every count, every error, and the number of names that a pattern matches.
//! - Every file is opened for reading and writing.
//! - A search opens the directory, reads its names, and closes it.
//! - Locks of ranges, and changes of times, do not exist here: such a line finds its file, and
//!   describes it.
//! - `Mkdir` of an existing directory, and `Deltree` of a missing one, succeed: all clients create
//!   their common directory, and the first line removes a directory that does not exist.

use std::sync::Arc;

use anyhow::ensure;
use fdtable::{Fd, Files};
use fdtable_vfs::{Errno, MemFs, OpenFlags, Process};

use super::loadfile::{Disposition, Kind, Line, Loadfile, Operation, PathId, Slot, Status};
use super::outcome::Tally;

/// Names that every directory has besides those that the vfs returns: `.` and `..`.
const DOTS: usize = 2;

/// Client that executes lines.
pub(super) struct Client<'a> {
    loadfile: &'a Loadfile,
    process: Process,
    /// The paths of the load file, with the client's own directory.
    paths: Vec<String>,
    open: Vec<Option<Fd>>,
    buffer: Vec<u8>,
    tally: Tally,
}

impl<'a> Client<'a> {
    /// Creates the client with this number, counted from 1.
    pub(super) fn new(loadfile: &'a Loadfile, number: usize, fs: &Arc<MemFs>) -> Self {
        Client {
            loadfile,
            process: Process::with(Files::new(), Arc::clone(fs)),
            paths: loadfile.paths_of(&format!("client{number}")),
            open: vec![None; loadfile.slots()],
            buffer: vec![1; loadfile.longest()],
            tally: Tally::default(),
        }
    }

    /// Executes one line.
    ///
    /// # Errors
    /// If the result differs from the recorded one.
    pub(super) fn play(&mut self, line: &Line) -> anyhow::Result<()> {
        let answer = self.answer(&line.operation);
        self.tally.operations += 1;
        let (status, count) = (line.status, line.count);
        let agrees = match answer {
            Ok(got) => status == Status::Ok && got == count as usize,
            Err(errno) => status.stands_for(errno),
        };
        ensure!(
            agrees,
            "line {}: the result is {answer:?}, and should be {status} with {count}",
            line.number
        );
        Ok(())
    }

    /// Closes all open files.
    pub(super) fn close_all(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.open.len() {
            if self.open[slot].is_some() {
                self.close(slot as Slot)?;
            }
        }
        Ok(())
    }

    /// Ends the client, and returns its tally.
    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    /// Executes an operation, and returns how many bytes it moved or names it found.
    fn answer(&mut self, operation: &Operation) -> Result<usize, Errno> {
        match *operation {
            Operation::Create {
                path,
                kind,
                disposition,
                slot,
            } => self.create(path, kind, disposition, slot),
            Operation::Close(slot) => self.close(slot),
            Operation::Read {
                slot,
                offset,
                count,
            } => self.read(slot, offset, count as usize),
            Operation::Write {
                slot,
                offset,
                count,
            } => self.write(slot, offset, count as usize),
            Operation::Flush(slot) => none(self.process.fsync(self.fd(slot)?)),
            Operation::Lock(slot) | Operation::QueryFile(slot) | Operation::SetFile(slot) => {
                none(self.process.fstat(self.fd(slot)?))
            }
            Operation::QueryPath(path) => none(self.process.stat(self.path(path))),
            // The root represents the file system.
            Operation::QueryFileSystem => none(self.process.stat("/")),
            Operation::Find { directory, pattern } => self.find(directory, pattern),
            Operation::Unlink(path) => none(self.process.unlink(self.path(path))),
            Operation::Rename { from, to } => {
                none(self.process.rename(self.path(from), self.path(to)))
            }
            Operation::Mkdir(path) => unless(Errno::EEXIST, self.process.mkdir(self.path(path))),
            Operation::Rmdir(path) => none(self.process.rmdir(self.path(path))),
            Operation::Deltree(path) => {
                let removed = self.process.fs().remove_tree(self.path(path));
                unless(Errno::ENOENT, removed)
            }
        }
    }

    fn create(
        &mut self,
        path: PathId,
        kind: Kind,
        disposition: Disposition,
        slot: Option<Slot>,
    ) -> Result<usize, Errno> {
        let path = self.path(path);
        let opened = match kind {
            Kind::File => self.process.open(path, file_flags(disposition)),
            Kind::Directory => self.open_directory(path, disposition),
            Kind::Any => match self.process.open(path, file_flags(disposition)) {
                Err(Errno::EISDIR) => self.process.open(path, OpenFlags::DIRECTORY),
                opened => opened,
            },
        }?;
        self.tally.opens += 1;
        match slot {
            Some(slot) => self.open[usize::from(slot)] = Some(opened),
            // It should have failed, and the caller is about to report this.
            None => drop(self.process.close(opened)),
        }
        Ok(0)
    }

    fn open_directory(&self, path: &str, disposition: Disposition) -> Result<Fd, Errno> {
        match disposition {
            Disposition::Create => self.process.mkdir(path)?,
            Disposition::OpenIf | Disposition::OverwriteIf => {
                unless(Errno::EEXIST, self.process.mkdir(path))?;
            }
            Disposition::Open | Disposition::Overwrite => {}
        }
        self.process.open(path, OpenFlags::DIRECTORY)
    }

    fn close(&mut self, slot: Slot) -> Result<usize, Errno> {
        let open = self.open[usize::from(slot)].take();
        self.process.close(open.ok_or(Errno::EBADF)?)?;
        self.tally.closes += 1;
        Ok(0)
    }

    fn read(&mut self, slot: Slot, offset: u64, count: usize) -> Result<usize, Errno> {
        let fd = self.fd(slot)?;
        let count = self.process.pread(fd, &mut self.buffer[..count], offset)?;
        self.tally.bytes += count as u64;
        Ok(count)
    }

    fn write(&mut self, slot: Slot, offset: u64, count: usize) -> Result<usize, Errno> {
        let fd = self.fd(slot)?;
        let count = self.process.pwrite(fd, &self.buffer[..count], offset)?;
        self.tally.bytes += count as u64;
        Ok(count)
    }

    /// Counts the matching names, and returns `ENOENT` if there are none.
    fn find(&mut self, directory: PathId, pattern: u32) -> Result<usize, Errno> {
        let pattern = self.loadfile.pattern(pattern);
        let directory = self
            .process
            .open(self.path(directory), OpenFlags::DIRECTORY)?;
        self.tally.opens += 1;
        let entries = self.process.getdents(directory);
        self.process.close(directory)?;
        self.tally.closes += 1;
        // The load file has only names that are valid text.
        let is_match = |name: &[u8]| str::from_utf8(name).is_ok_and(|name| pattern.matches(name));
        let names = entries?.iter().filter(|e| is_match(&e.name)).count();
        let dots = if pattern.matches("..") { DOTS } else { 0 };
        match names + dots {
            0 => Err(Errno::ENOENT),
            found => Ok(found),
        }
    }

    fn path(&self, path: PathId) -> &str {
        &self.paths[path as usize]
    }

    fn fd(&self, slot: Slot) -> Result<Fd, Errno> {
        self.open[usize::from(slot)].ok_or(Errno::EBADF)
    }
}

fn file_flags(disposition: Disposition) -> OpenFlags {
    OpenFlags::RDWR
        | match disposition {
            Disposition::Open => OpenFlags::empty(),
            Disposition::Create => OpenFlags::CREAT | OpenFlags::EXCL,
            Disposition::OpenIf => OpenFlags::CREAT,
            Disposition::Overwrite => OpenFlags::TRUNC,
            Disposition::OverwriteIf => OpenFlags::CREAT | OpenFlags::TRUNC,
        }
}

/// Converts a result without a count.
fn none<T>(answer: Result<T, Errno>) -> Result<usize, Errno> {
    answer.map(|_| 0)
}

/// Converts a result without a count, for which one error is a success.
fn unless(error: Errno, answer: Result<(), Errno>) -> Result<usize, Errno> {
    match answer {
        Err(errno) if errno != error => Err(errno),
        _ => Ok(0),
    }
}
