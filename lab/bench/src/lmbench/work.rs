//! The work of each row.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable::{FdFlags, rcu};
use fdtable_vfs::{Errno, FdSet, OpenFlags};
use parking_lot::Mutex;

use super::ring::Ring;
use super::row::Row;
use crate::affinity;
use crate::calls::Calls;
use crate::turn;

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

/// Does a chunk and returns the number of operations: 0 if a call failed.
type Work = Box<dyn FnMut() -> usize + Send>;

/// The rows of one configuration, with their processes and files.
pub(super) struct PreparedRows(Vec<(Row, Mutex<Work>)>);

impl PreparedRows {
    /// Prepares all rows. Starts threads, which wait.
    pub(super) fn new<P: Calls>() -> anyhow::Result<Self> {
        let works = Row::ALL.map(|row| {
            let work = work::<P>(row).with_context(|| row.name().to_owned())?;
            Ok((row, Mutex::new(work)))
        });
        let works = works.into_iter().collect::<anyhow::Result<_>>()?;
        Ok(PreparedRows(works))
    }

    /// Runs a row, and returns the nanoseconds of one operation.
    pub(super) fn turn(&self, row: Row, turn: Duration) -> anyhow::Result<f64> {
        let work = self.0.iter().find(|(other, _)| *other == row);
        let (_, work) = work.context("every row is there")?;
        let ns = turn::turn(1, turn, &|_| {
            let mut work = work.lock();
            Box::new(move || work.as_mut()())
        })?;
        rcu::barrier()?;
        ensure!(ns.is_finite(), "{}: a call failed", row.name());
        Ok(ns)
    }
}

fn work<P: Calls>(row: Row) -> Result<Work, Errno> {
    match row {
        Row::NullCall => {
            let process: P = new_process()?;
            Ok(repeat(4096, move || {
                black_box(black_box(&process).names().id());
                Ok(())
            }))
        }
        Row::OpenClose => {
            let process: P = with_files(1)?;
            process.close(0)?;
            Ok(open_close(process))
        }
        Row::Select10 => select::<P>(10),
        Row::Select100 => select::<P>(100),
        Row::Select1000 => select::<P>(1000),
        Row::ForkExit => fork::<P>(|_| Ok(())),
        Row::ForkExec => fork(P::exec),
        Row::PipeLatency => laps::<P>(2, 0, 1),
        Row::PipeLatencyApart => laps::<P>(2, 1, 1),
        Row::Ring2 => laps::<P>(2, 0, 2),
        Row::Ring8 => laps::<P>(8, 0, 8),
        Row::PipeBandwidth => stream::<P>(),
        Row::FileReread => {
            let (process, file) = with_long_file::<P>()?;
            let mut block = vec![0; BLOCK];
            Ok(Box::new(move || {
                read_whole(&process, file, &mut block).unwrap_or(0)
            }))
        }
    }
}

pub(super) fn new_process<P: Calls>() -> Result<P, Errno> {
    P::with_limit(1024)
}

fn repeat(times: usize, mut step: impl FnMut() -> Result<(), Errno> + Send + 'static) -> Work {
    Box::new(move || match (0..times).try_for_each(|_| step()) {
        Ok(()) => times,
        Err(_) => 0,
    })
}

/// Makes a process with so many descriptors of one file, of which the first three stay open in an
/// exec.
fn with_files<P: Calls>(open: usize) -> Result<P, Errno> {
    let process: P = new_process()?;
    for nth in 0..open {
        let fd = process.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR)?;
        if nth >= KEPT {
            process.set_flags(fd, FdFlags::CLOEXEC)?;
        }
    }
    Ok(process)
}

fn open_close<P: Calls>(process: P) -> Work {
    repeat(128, move || {
        let fd = process.open(PATH, OpenFlags::RDONLY)?;
        process.close(black_box(fd))
    })
}

fn select<P: Calls>(files: usize) -> Result<Work, Errno> {
    let process: P = with_files(1)?;
    for _ in 1..files {
        process.dup(0)?;
    }
    let nfds = files as RawFd;
    let mut set = FdSet::new();
    (0..nfds).for_each(|fd| set.insert(fd));
    Ok(repeat((2000 / files).max(1), move || {
        match process.select(nfds, &mut set)? {
            // All are ready, so the set stays as it is.
            ready if ready == files => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }))
}

/// A process forks, and its child ends after what it does `then`.
fn fork<P: Calls>(then: fn(&mut P) -> Result<(), Errno>) -> Result<Work, Errno> {
    let process: P = with_files(OPEN)?;
    Ok(repeat(64, move || {
        let mut child = process.fork()?;
        then(&mut child)?;
        drop(black_box(child));
        Ok(())
    }))
}

/// A token goes round, and each lap counts as `each` operations.
fn laps<P: Calls>(members: usize, cpu: usize, each: usize) -> Result<Work, Errno> {
    const LAPS: usize = 4;
    let ring = Ring::<P>::new(members, cpu)?;
    Ok(Box::new(move || {
        ring.go_round(LAPS).map_or(0, |()| LAPS * each)
    }))
}

/// A child writes into a pipe for as long as there is a reader.
fn stream<P: Calls>() -> Result<Work, Errno> {
    let process: P = new_process()?;
    let (from, to) = process.pipe()?;
    let child = process.fork()?;
    child.close(from)?;
    process.close(to)?;
    spawn(move || {
        affinity::pin(0);
        let block = vec![1; BLOCK];
        while child.write(to, &block).is_ok() {}
    });
    let mut block = vec![0; BLOCK];
    Ok(repeat(PIPE_BLOCKS, move || {
        let mut read = 0;
        while read < BLOCK {
            read += process.read(from, &mut block[read..])?;
        }
        Ok(())
    }))
}

fn with_long_file<P: Calls>() -> Result<(P, RawFd), Errno> {
    let process: P = new_process()?;
    let file = process.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR)?;
    let block = vec![1; BLOCK];
    for _ in 0..FILE_BLOCKS {
        process.write(file, &block)?;
    }
    Ok((process, file))
}

/// Reads a file from its beginning, and returns the number of whole blocks.
fn read_whole(process: &impl Calls, file: RawFd, block: &mut [u8]) -> Result<usize, Errno> {
    process.seek(file, 0)?;
    let mut blocks = 0;
    while process.read(file, block)? == block.len() {
        blocks += 1;
    }
    Ok(blocks)
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
            let mut work = work::<P>(row).unwrap();
            assert!(work() > 0 && work() > 0, "{row:?}");
        }
    }

    #[test]
    fn every_row_does_the_work_that_it_counts_on_every_table() {
        every_row_does_the_work_that_it_counts::<Process>();
        every_row_does_the_work_that_it_counts::<Plain>();
    }

    fn an_exec_leaves_three_descriptors<P: Calls>() {
        let process: P = with_files(OPEN).unwrap();
        let mut child = process.fork().unwrap();
        child.exec().unwrap();
        let open = |process: &P| (0..64).filter(|&fd| process.get_flags(fd).is_ok()).count();
        assert_eq!((open(&process), open(&child)), (OPEN, KEPT));
    }

    #[test]
    fn an_exec_leaves_three_descriptors_on_every_table() {
        an_exec_leaves_three_descriptors::<Process>();
        an_exec_leaves_three_descriptors::<Plain>();
    }

    fn a_file_is_read_whole<P: Calls>() {
        let (process, file) = with_long_file::<P>().unwrap();
        let mut block = vec![0; BLOCK];
        for _ in 0..2 {
            assert_eq!(read_whole(&process, file, &mut block), Ok(FILE_BLOCKS));
        }
        assert!(block.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_file_is_read_whole_on_every_table() {
        a_file_is_read_whole::<Process>();
        a_file_is_read_whole::<Plain>();
    }

    #[test]
    fn a_call_that_fails_counts_nothing() {
        let process: Process = with_files(1).unwrap();
        process.unlink(PATH).unwrap();
        assert_eq!(open_close(process)(), 0);
    }
}
