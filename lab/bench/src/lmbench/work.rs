//! The work of each row.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable::{FdFlags, rcu};
use fdtable_vfs::{Errno, FdSet, OpenFlags};

use super::ring::Ring;
use super::row::Row;
use crate::affinity;
use crate::calls::Calls;
use crate::turn::{self, Worker};

/// Path of the opened file.
const PATH: &str = "/file";

/// Bytes of one transfer.
const BLOCK: usize = 64 * 1024;

/// Blocks of the file that is read again: 8 MiB, as in lmbench.
const FILE_BLOCKS: usize = 128;

/// Blocks through a pipe between two reads of the clock.
const PIPE_BLOCKS: usize = 8;

/// Descriptors of a process that forks.
const OPEN: usize = 10;

/// Descriptors that stay open in an exec: input, output, and messages.
const KEPT: usize = 3;

/// The rows of one configuration, with their processes and files.
pub(super) struct PreparedRows(Vec<(Row, Box<dyn Work>)>);

/// The work of a row.
trait Work: Sync {
    /// Returns a worker that does a chunk and returns the number of operations: 0 if a call failed.
    fn worker(&self) -> Worker<'_>;
}

impl PreparedRows {
    /// Prepares all rows. Starts threads, which wait.
    pub(super) fn new<P: Calls>() -> anyhow::Result<Self> {
        let works = Row::ALL.map(|row| {
            let work = work::<P>(row).with_context(|| row.name().to_owned())?;
            Ok((row, work))
        });
        let works = works.into_iter().collect::<anyhow::Result<_>>()?;
        Ok(PreparedRows(works))
    }

    /// Runs a row, and returns the nanoseconds of one operation.
    pub(super) fn turn(&self, row: Row, turn: Duration) -> anyhow::Result<f64> {
        let work = self.0.iter().find(|(other, _)| *other == row);
        let (_, work) = work.context("every row is there")?;
        let ns = turn::turn(1, turn, &|_| work.worker())?;
        // One row must not free the memory that another left.
        rcu::barrier()?;
        ensure!(ns.is_finite(), "{}: a call failed", row.name());
        Ok(ns)
    }
}

fn work<P: Calls>(row: Row) -> anyhow::Result<Box<dyn Work>> {
    Ok(match row {
        Row::NullCall => Box::new(NullCall(new_process::<P>()?)),
        Row::OpenClose => Box::new(OpenClose::<P>::new()?),
        Row::Select10 => Box::new(Select::<P>::new(10)?),
        Row::Select100 => Box::new(Select::<P>::new(100)?),
        Row::Select1000 => Box::new(Select::<P>::new(1000)?),
        Row::ForkExit => Box::new(Fork::<P>::new(|_| Ok(()))?),
        Row::ForkExec => Box::new(Fork::<P>::new(P::exec)?),
        Row::PipeLatency => Box::new(Laps::<P>::new(2, 0, 1)?),
        Row::PipeLatencyApart => Box::new(Laps::<P>::new(2, 1, 1)?),
        Row::Ring2 => Box::new(Laps::<P>::new(2, 0, 2)?),
        Row::Ring8 => Box::new(Laps::<P>::new(8, 0, 8)?),
        Row::PipeBandwidth => Box::new(Stream::<P>::new()?),
        Row::FileReread => Box::new(Reread::<P>::new()?),
    })
}

/// Creates a process with as many descriptors as most processes have.
pub(super) fn new_process<P: Calls>() -> Result<P, Errno> {
    P::with_limit(1024)
}

/// Makes a worker that does a step `times` times between two reads of the clock.
fn repeat<'w>(times: usize, mut step: impl FnMut() -> Result<(), Errno> + 'w) -> Worker<'w> {
    Box::new(move || match (0..times).try_for_each(|_| step()) {
        Ok(()) => times,
        Err(_) => 0,
    })
}

/// A call that does nothing: it returns the process ID.
struct NullCall<P>(P);

impl<P: Calls> Work for NullCall<P> {
    fn worker(&self) -> Worker<'_> {
        repeat(4096, || {
            black_box(black_box(&self.0).names().id());
            Ok(())
        })
    }
}

/// Opens and closes a file.
struct OpenClose<P>(P);

impl<P: Calls> OpenClose<P> {
    fn new() -> Result<Self, Errno> {
        let process: P = new_process()?;
        let made = process.open(PATH, OpenFlags::CREAT | OpenFlags::WRONLY)?;
        process.close(made)?;
        Ok(OpenClose(process))
    }
}

impl<P: Calls> Work for OpenClose<P> {
    fn worker(&self) -> Worker<'_> {
        repeat(128, || {
            let fd = self.0.open(PATH, OpenFlags::RDONLY)?;
            self.0.close(black_box(fd))
        })
    }
}

/// Polls files that are ready.
struct Select<P> {
    process: P,
    set: FdSet,
    nfds: RawFd,
}

impl<P: Calls> Select<P> {
    fn new(files: usize) -> Result<Self, Errno> {
        let process: P = new_process()?;
        let mut set = FdSet::new();
        let mut last = process.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR)?;
        set.insert(last);
        for _ in 1..files {
            last = process.dup(last)?;
            set.insert(last);
        }
        Ok(Select {
            process,
            set,
            nfds: last + 1,
        })
    }
}

impl<P: Calls> Work for Select<P> {
    fn worker(&self) -> Worker<'_> {
        let files = self.nfds as usize;
        // All of them are ready, and stay in the set.
        let mut set = self.set.clone();
        repeat((2000 / files).max(1), move || {
            match self.process.select(self.nfds, &mut set)? {
                ready if ready == files => Ok(()),
                _ => Err(Errno::EINVAL),
            }
        })
    }
}

/// Creates a child that does something and ends.
struct Fork<P> {
    process: P,
    then: fn(&mut P) -> Result<(), Errno>,
}

impl<P: Calls> Fork<P> {
    fn new(then: fn(&mut P) -> Result<(), Errno>) -> Result<Self, Errno> {
        let process: P = new_process()?;
        for nth in 0..OPEN {
            let fd = process.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR)?;
            if nth >= KEPT {
                process.set_flags(fd, FdFlags::CLOEXEC)?;
            }
        }
        Ok(Fork { process, then })
    }
}

impl<P: Calls> Work for Fork<P> {
    fn worker(&self) -> Worker<'_> {
        repeat(64, || {
            let mut child = self.process.fork()?;
            (self.then)(&mut child)?;
            drop(black_box(child));
            Ok(())
        })
    }
}

/// Passes a token around a ring.
struct Laps<P: Calls> {
    ring: Ring<P>,
    /// Number of operations of one lap.
    each: usize,
}

impl<P: Calls> Laps<P> {
    fn new(members: usize, cpu: usize, each: usize) -> Result<Self, Errno> {
        let ring = Ring::new(members, cpu)?;
        Ok(Laps { ring, each })
    }
}

impl<P: Calls> Work for Laps<P> {
    fn worker(&self) -> Worker<'_> {
        const LAPS: usize = 4;
        Box::new(|| match self.ring.go_round(LAPS) {
            Some(()) => LAPS * self.each,
            None => 0,
        })
    }
}

/// Reads blocks from a pipe, which another process keeps full.
struct Stream<P> {
    /// Ends the writer when it is dropped: no other process can read the pipe.
    process: Option<P>,
    from: RawFd,
    writer: Option<JoinHandle<()>>,
}

impl<P: Calls> Stream<P> {
    fn new() -> Result<Self, Errno> {
        let process: P = new_process()?;
        let (from, to) = process.pipe()?;
        let child = process.fork()?;
        child.close(from)?;
        process.close(to)?;
        let writer = spawn(move || {
            affinity::pin(0);
            let block = vec![1; BLOCK];
            while child.write(to, &block).is_ok() {}
        });
        Ok(Stream {
            process: Some(process),
            from,
            writer: Some(writer),
        })
    }
}

impl<P: Calls> Work for Stream<P> {
    fn worker(&self) -> Worker<'_> {
        let mut block = vec![0; BLOCK];
        repeat(PIPE_BLOCKS, move || {
            let process = self.process.as_ref().ok_or(Errno::EBADF)?;
            let mut read = 0;
            while read < BLOCK {
                read += process.read(self.from, &mut block[read..])?;
            }
            Ok(())
        })
    }
}

impl<P> Drop for Stream<P> {
    fn drop(&mut self) {
        self.process = None;
        if let Some(writer) = self.writer.take() {
            // The writer's panic was reported when it happened.
            let _ = writer.join();
        }
    }
}

/// Reads a file in memory from its beginning to its end.
struct Reread<P> {
    process: P,
    file: RawFd,
}

impl<P: Calls> Reread<P> {
    fn new() -> Result<Self, Errno> {
        let process: P = new_process()?;
        let file = process.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR)?;
        let block = vec![1; BLOCK];
        for _ in 0..FILE_BLOCKS {
            process.write(file, &block)?;
        }
        Ok(Reread { process, file })
    }

    fn read(&self, block: &mut [u8]) -> Result<usize, Errno> {
        self.process.seek(self.file, 0)?;
        let mut blocks = 0;
        while self.process.read(self.file, block)? == block.len() {
            blocks += 1;
        }
        Ok(blocks)
    }
}

impl<P: Calls> Work for Reread<P> {
    fn worker(&self) -> Worker<'_> {
        let mut block = vec![0; BLOCK];
        Box::new(move || self.read(&mut block).unwrap_or(0))
    }
}

/// Bytes of one operation, if the figure of the row is a bandwidth.
pub(super) fn bytes(row: Row) -> Option<usize> {
    matches!(row, Row::PipeBandwidth | Row::FileReread).then_some(BLOCK)
}

#[cfg(test)]
mod tests {
    use fdtable_vfs::Process;

    use super::super::configuration::Plain;
    use super::*;

    fn every_row_does_the_work_that_it_counts<P: Calls>() {
        for row in Row::ALL {
            let work = work::<P>(row).unwrap();
            let mut worker = work.worker();
            assert!(worker() > 0 && worker() > 0, "{row:?}");
        }
    }

    #[test]
    fn every_row_does_the_work_that_it_counts_on_every_table() {
        every_row_does_the_work_that_it_counts::<Process>();
        every_row_does_the_work_that_it_counts::<Plain>();
    }

    fn an_exec_leaves_three_descriptors<P: Calls>() {
        let fork = Fork::<P>::new(P::exec).unwrap();
        let mut child = fork.process.fork().unwrap();
        child.exec().unwrap();
        let open = |process: &P| (0..64).filter(|&fd| process.get_flags(fd).is_ok()).count();
        assert_eq!((open(&fork.process), open(&child)), (OPEN, KEPT));
    }

    #[test]
    fn an_exec_leaves_three_descriptors_on_every_table() {
        an_exec_leaves_three_descriptors::<Process>();
        an_exec_leaves_three_descriptors::<Plain>();
    }

    fn a_file_is_read_whole<P: Calls>() {
        let reread = Reread::<P>::new().unwrap();
        let mut block = vec![0; BLOCK];
        assert_eq!(reread.read(&mut block), Ok(FILE_BLOCKS));
        assert_eq!(reread.read(&mut block), Ok(FILE_BLOCKS));
        assert!(block.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_file_is_read_whole_on_every_table() {
        a_file_is_read_whole::<Process>();
        a_file_is_read_whole::<Plain>();
    }

    #[test]
    fn a_call_that_fails_counts_nothing() {
        let opens = OpenClose::<Process>::new().unwrap();
        opens.0.unlink(PATH).unwrap();
        assert_eq!(opens.worker()(), 0);
    }
}
