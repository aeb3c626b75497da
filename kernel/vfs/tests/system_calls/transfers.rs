//! Which form of a transfer a process calls.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use fdtable::{Fd, FdFlags};
use fdtable_vfs::{Errno, Object, OpenFlags, Process, Transfer, TransferMode, file};

/// Object that records the calls, with fixed answers inside read-side sections.
struct Probe {
    answer: Result<usize, Errno>,
    status: OpenFlags,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Probe {
    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Object for Probe {
    fn status(&self) -> OpenFlags {
        self.status
    }

    fn read_to(&self, _: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        match how.mode {
            TransferMode::Section => {
                self.note("try_read");
                self.answer
            }
            _ => {
                self.note("read");
                Ok(7)
            }
        }
    }

    fn write_from(&self, _: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        match how.mode {
            TransferMode::Section => {
                self.note("try_write");
                self.answer
            }
            _ => {
                self.note("write");
                Ok(8)
            }
        }
    }

    fn release(&self) {
        self.note("release");
    }
}

/// Result of a read and of a write, and all calls up to a last close.
type Outcome = (
    Result<usize, Errno>,
    Result<usize, Errno>,
    Vec<&'static str>,
);

fn outcome(answer: Result<usize, Errno>, status: OpenFlags) -> Outcome {
    let process = Process::new();
    let calls = Arc::default();
    let probe = Probe {
        answer,
        status,
        calls: Arc::clone(&calls),
    };
    let fd: Fd = process
        .files()
        .open(file(probe).unwrap(), FdFlags::empty())
        .unwrap();
    let copy = process.dup(fd).unwrap();
    let read = process.read(fd, &mut [0]);
    let write = process.write(copy, b"x");
    process.close(fd).unwrap();
    process.close(copy).unwrap();
    let calls = calls.lock().unwrap().clone();
    (read, write, calls)
}

#[test]
fn a_transfer_that_need_not_block_calls_only_the_try_form() {
    let calls = vec!["try_read", "try_write", "release"];
    assert_eq!(outcome(Ok(3), OpenFlags::RDWR), (Ok(3), Ok(3), calls));
}

#[test]
fn a_transfer_that_must_block_calls_the_blocking_form_next() {
    let calls = vec!["try_read", "read", "try_write", "write", "release"];
    assert_eq!(
        outcome(Err(Errno::EAGAIN), OpenFlags::RDWR),
        (Ok(7), Ok(8), calls)
    );
}

#[test]
fn the_blocking_form_is_never_called_on_a_nonblocking_file() {
    let again = Err(Errno::EAGAIN);
    let calls = vec!["try_read", "try_write", "release"];
    assert_eq!(
        outcome(again, OpenFlags::RDWR | OpenFlags::NONBLOCK),
        (again, again, calls)
    );
}

#[test]
fn another_error_is_not_retried() {
    let error = Err(Errno::EPIPE);
    let calls = vec!["try_read", "try_write", "release"];
    assert_eq!(outcome(error, OpenFlags::RDWR), (error, error, calls));
}
