//! Processes and their system calls.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use fdtable::{FdFlags, FileRef, Files, Rcu};

use crate::file::{Answer, Console, ENOENT, Errno, File, MemoryFile, Node, pipe};
use crate::lock::Lock;
use crate::threads::{self, JoinHandle};

/// The files in memory, by their names.
#[derive(Default)]
pub struct FileSystem(Lock<BTreeMap<String, Arc<Node>>>);

/// A process, which several threads may share.
pub struct Process {
    pub files: Files<Rcu<dyn File>>,
    file_system: Arc<FileSystem>,
}

impl Process {
    /// Makes the first process: the console is open at 0 to 2.
    pub fn first(file_system: Arc<FileSystem>) -> Result<Arc<Self>, Errno> {
        let files = Files::new();
        let console = FileRef::new_dyn_rcu(Console, |it| it as &dyn File);
        let fd = files.open(console, FdFlags::empty())?;
        files.dup(fd)?;
        files.dup(fd)?;
        Ok(Arc::new(Self { files, file_system }))
    }

    /// Opens a file, and makes it if it is not there and `create` says so.
    pub fn open(&self, path: &str, create: Create, flags: FdFlags) -> Answer {
        let fd = self.files.reserve(flags)?;
        let mut nodes = self.file_system.0.lock();
        let node = match (nodes.get(path), create) {
            (Some(node), _) => node.clone(),
            (None, Create::No) => return Err(ENOENT),
            (None, Create::Yes) => nodes.entry(path.into()).or_default().clone(),
        };
        drop(nodes);
        Ok(fd.install(MemoryFile::open(node)).index())
    }

    /// Reads from a file, and may block: so the lookup takes a reference.
    pub fn read(&self, fd: usize, buffer: &mut [u8]) -> Answer {
        self.files.get(fd as i32)?.read(buffer)
    }

    /// Writes to a file, and may block.
    pub fn write(&self, fd: usize, data: &[u8]) -> Answer {
        self.files.get(fd as i32)?.write(data)
    }

    pub fn close(&self, fd: usize) -> Answer {
        Ok(self.files.close(fd as i32).map(|_| 0)?)
    }

    pub fn dup2(&self, old: usize, new: usize) -> Answer {
        Ok(self.files.dup2(old as i32, new as i32).map(|_| new)?)
    }

    pub fn pipe(&self, flags: FdFlags) -> Result<(usize, usize), Errno> {
        let ends = pipe()?;
        let (read, write) = self.files.open_pair(ends, flags)?;
        Ok((read.index(), write.index()))
    }

    pub fn close_range(&self, first: usize, last: usize) -> Answer {
        self.files.close_range(first as i32, last as i32, drop)?;
        Ok(0)
    }

    /// Makes a process with a copy of the table, and runs `main` in it. Its descriptors are closed
    /// when it ends.
    pub fn fork(&self, main: impl FnOnce(&Self) + Send + 'static) -> Result<JoinHandle, Errno> {
        let child = Self {
            files: self.files.fork()?,
            file_system: self.file_system.clone(),
        };
        Ok(threads::spawn(move || main(&child)))
    }

    /// Closes what is not passed on to a new program.
    pub fn exec(&self) -> Answer {
        Ok(self.files.close_on_exec(drop).map(|()| 0)?)
    }
}

/// Choice for an open of a file that is not there: to fail, or to make it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Create {
    No,
    Yes,
}
