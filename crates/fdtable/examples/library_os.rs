//! A library operating system: each process has a table of `dyn File` objects. Its system calls
//! take descriptors as `i32`, and return a value or an errno.
//!
//! It shows a descriptor that is reserved before its file exists, a pipe whose release hook
//! announces the end of file, `dup2`, fork, exec, and a `read` that blocks on an owned reference.
//! `main` is a shell that runs `echo hello | upper`, and checks each step.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use fdtable::{Error, FdFlags, FileRef, Files};

#[derive(Debug, PartialEq, Eq)]
struct Errno(i32);

const ENOENT: Errno = Errno(2);
const EBADF: Errno = Errno(Error::BadFd.errno());
const EPIPE: Errno = Errno(32);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(error.errno())
    }
}

type Answer = Result<i32, Errno>;

/// Returns from a system call as Linux does: a value, or a negative errno.
fn for_libc(answer: Answer) -> i32 {
    answer.unwrap_or_else(|errno| -errno.0)
}

/// The object that a descriptor refers to.
trait File: Send + Sync {
    fn read(&self, _buffer: &mut [u8]) -> Answer {
        Err(EBADF)
    }
    fn write(&self, _data: &[u8]) -> Answer {
        Err(EBADF)
    }
}

#[derive(Clone, Default)]
struct Console(Arc<Mutex<Vec<u8>>>);

impl File for Console {
    fn write(&self, data: &[u8]) -> Answer {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len() as i32)
    }
}

/// The bytes in a pipe, and true once an end was released.
#[derive(Default)]
struct Pipe(Mutex<(VecDeque<u8>, bool)>, Condvar);
struct ReadEnd(Arc<Pipe>);
struct WriteEnd(Arc<Pipe>);

impl Pipe {
    /// The release hook of both ends. It runs inside the call that closes the last descriptor.
    /// `Drop` runs some time later, and the other end would sleep until then.
    fn hang_up(&self) {
        self.0.lock().unwrap().1 = true;
        self.1.notify_all();
    }
}

impl File for ReadEnd {
    fn read(&self, buffer: &mut [u8]) -> Answer {
        let Pipe(state, changed) = &*self.0;
        let is_waiting = |state: &mut (VecDeque<u8>, bool)| state.0.is_empty() && !state.1;
        let mut state = changed
            .wait_while(state.lock().unwrap(), is_waiting)
            .unwrap();
        let count = state.0.len().min(buffer.len());
        buffer[..count].fill_with(|| state.0.pop_front().unwrap());
        Ok(count as i32)
    }
}

impl File for WriteEnd {
    fn write(&self, data: &[u8]) -> Answer {
        let Pipe(state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        if state.1 {
            return Err(EPIPE);
        }
        state.0.extend(data);
        changed.notify_all();
        Ok(data.len() as i32)
    }
}

#[derive(Default)]
struct Process {
    files: Files<dyn File>,
    console: Console,
}

impl Process {
    /// Takes the descriptor first. If the path is wrong, it is free again, without a trace.
    fn open(&self, path: &str, flags: FdFlags) -> Answer {
        let fd = self.files.reserve(flags)?;
        if path != "/dev/console" {
            return Err(ENOENT);
        }
        let file = FileRef::new_dyn(self.console.clone(), |it| it as &dyn File);
        Ok(fd.install(file).raw())
    }
    fn pipe2(&self, flags: FdFlags) -> Result<[i32; 2], Errno> {
        let pipe = Arc::new(Pipe::default());
        let reader = FileRef::builder(ReadEnd(pipe.clone())).on_release(|end, _| end.0.hang_up());
        let writer = FileRef::builder(WriteEnd(pipe)).on_release(|end, _| end.0.hang_up());
        let (reader, writer) = (
            reader.build_dyn(|it| it as _),
            writer.build_dyn(|it| it as _),
        );
        let (reader, writer) = self.files.open_pair((reader, writer), flags)?;
        Ok([reader.raw(), writer.raw()])
    }
    /// Takes a reference, since it may block. The descriptor may be closed meanwhile.
    fn read(&self, fd: i32, buffer: &mut [u8]) -> Answer {
        self.files.get(fd)?.read(buffer)
    }
    fn write(&self, fd: i32, data: &[u8]) -> Answer {
        self.files.get(fd)?.write(data)
    }
    fn dup2(&self, old: i32, new: i32) -> Answer {
        drop(self.files.dup2(old, new)?); // The hook of the replaced file may run here.
        Ok(new)
    }
    fn close(&self, fd: i32) -> Answer {
        drop(self.files.close(fd)?);
        Ok(0)
    }
    fn fork(&self) -> Result<Self, Errno> {
        Ok(Self {
            files: self.files.fork()?,
            console: self.console.clone(),
        })
    }
    fn exec(&self) -> Answer {
        self.files.close_on_exec(drop)?;
        Ok(0)
    }
}

pub(crate) fn main() {
    let shell = Process::default();
    assert_eq!(shell.open("/dev/null", FdFlags::empty()), Err(ENOENT));
    for stdio in 0..3 {
        let fd = shell.open("/dev/console", FdFlags::empty());
        assert_eq!(fd, Ok(stdio), "the lowest that is free");
    }
    let [read, write] = shell.pipe2(FdFlags::CLOEXEC).unwrap();

    let (echo, upper) = (shell.fork().unwrap(), shell.fork().unwrap());
    assert_eq!((echo.dup2(write, 1), echo.exec()), (Ok(1), Ok(0)));
    assert_eq!((upper.dup2(read, 0), upper.exec()), (Ok(0), Ok(0)));
    assert_eq!((shell.close(read), shell.close(write)), (Ok(0), Ok(0)));
    assert_eq!(for_libc(upper.close(write)), -9, "exec has closed it");

    let running = thread::spawn(move || {
        let mut buffer = [0; 4];
        while let Ok(count @ 1..) = upper.read(0, &mut buffer) {
            let text = buffer[..count as usize].to_ascii_uppercase();
            assert_eq!(upper.write(1, &text), Ok(count));
        }
    });
    assert_eq!(echo.write(1, b"hello"), Ok(5));
    drop(echo); // Exit releases the last writing end. The hook wakes the reader: end of file.
    running.join().unwrap();
    assert_eq!(*shell.console.0.lock().unwrap(), b"HELLO");

    let [read, write] = shell.pipe2(FdFlags::empty()).unwrap();
    assert_eq!(shell.close(read), Ok(0));
    assert_eq!(shell.write(write, b"lost"), Err(EPIPE));
    assert_eq!(shell.dup2(99, 1), Err(EBADF), "not open");
    assert_eq!(shell.dup2(1, 1024), Err(EBADF), "at the limit");
    println!("library_os: `echo hello | upper` wrote HELLO");
}
