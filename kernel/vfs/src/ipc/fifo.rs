//! FIFOs: pipes with a name, and with any number of open ends.
//!
//! An inode holds a [`Fifo`]. Each open makes a [`FifoEnd`] for reading, writing or both, and a
//! side of the buffer is open as long as it has an end. Unread bytes are discarded with the last
//! end.
//!
//! # How an open waits
//!
//! An open for reading waits until there is a writer, and vice versa. It is enough that the other
//! opener *came*; it need not still exist. An opener that got in and closed at once lets the other
//! in too. So opens are counted, and a waiting open looks for a higher count (Linux
//! `wait_for_partner`). An open for both never waits. With `O_NONBLOCK`, an open for reading does
//! not wait, and an open for writing returns `ENXIO` if there is no reader.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FileRef;
use fdtable_shm::Mutex;

use crate::event::{self, Events, FileId, Limit, Pollee, WaitQueue, Wakeups};
use crate::fs::locks::LockSet;
use crate::fs::{Inode, Stat, VfsPath};
use crate::ipc::buffer::{Buffer, Form, Half, PIPE_CAPACITY, Sides};
use crate::vectored::{gather, scatter};
use crate::{Errno, Object, OpenFlags, RcuObject, Status, Transfer, TransferMode};

/// Shared state of a FIFO's open ends. The inode holds it.
#[derive(Debug)]
pub struct Fifo {
    buffer: Buffer,
    opens: Mutex<Opens>,
    locks: LockSet,
}

/// Counts of open ends. Its lock is taken before that of the buffer.
#[derive(Debug, Default)]
struct Opens {
    counts: Counts,
    /// Openers that wait for the other direction.
    waiting: WaitQueue,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    readers: Count,
    writers: Count,
}

/// Ends of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    now: usize,
    /// Total number of opens.
    ever: u64,
}

/// Access mode of an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    Read,
    Write,
    Both,
}

impl Default for Fifo {
    /// Makes a FIFO without open ends, with the capacity of a pipe.
    fn default() -> Self {
        let buffer = Buffer::new(PIPE_CAPACITY);
        buffer.set_sides(Sides::default()).run();
        Fifo {
            buffer,
            opens: Mutex::default(),
            locks: LockSet::new(),
        }
    }
}

impl Fifo {
    /// Makes a FIFO with one open end for reading and one for writing: a pipe.
    pub(crate) fn with_both_ends() -> Self {
        let one = Count { now: 1, ever: 1 };
        let counts = Counts {
            readers: one,
            writers: one,
        };
        Fifo {
            buffer: Buffer::new(PIPE_CAPACITY),
            opens: Mutex::new(Opens {
                counts,
                waiting: WaitQueue::new(),
            }),
            locks: LockSet::new(),
        }
    }

    /// Opens an end of the FIFO at a path, or of a pipe, whose path is its inode alone. Of `flags`,
    /// only the access mode and `NONBLOCK` matter. `make` makes the open file.
    /// In Linux: `fifo_open`.
    ///
    /// Without `NONBLOCK`, it blocks until the other direction is opened, if it is not open; the
    /// caller holds no lock and is not in a read-side section. Allocates.
    ///
    /// # Errors
    /// `ENXIO` if opened for writing only, with `NONBLOCK`, and there is no reader; `EINVAL` if the
    /// access mode is invalid; `EINTR` if a signal handler runs first; those of `make`.
    pub(crate) fn open(
        self: &Arc<Self>,
        flags: OpenFlags,
        path: VfsPath,
        is_pipe: bool,
        make: impl FnOnce(FifoEnd) -> Result<FileRef<RcuObject>, Errno>,
    ) -> Result<FileRef<RcuObject>, Errno> {
        let direction = Direction::of(flags)?;
        let before = match is_pipe {
            false => self.admit(direction, flags)?,
            // As on Linux, an open of a pipe finds it as if both directions were open.
            true => self.admit_to_pipe(direction),
        };
        let end = End {
            fifo: Arc::clone(self),
            direction,
            writers_before: before.writers,
            revoked: Arc::default(),
        };
        let opened = make(FifoEnd {
            end,
            status: Status::new(flags),
            path,
            is_pipe,
        });
        if opened.is_err() {
            self.remove(direction);
            return opened;
        }
        // If it is dropped, the drop of the end takes it off the counts.
        self.wait_for_partner(direction, flags, before)?;
        opened
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Counts a new end, and returns the counts before it.
    fn admit(&self, direction: Direction, flags: OpenFlags) -> Result<Counts, Errno> {
        // Dropped after the lock.
        let mut wakeups = Wakeups::default();
        let mut opens = self.opens.lock();
        let before = opens.counts;
        let alone = direction == Direction::Write && before.readers.now == 0;
        if alone && flags.contains(OpenFlags::NONBLOCK) {
            return Err(Errno::ENXIO);
        }
        wakeups.append(opens.add(direction, &self.buffer));
        Ok(before)
    }

    /// Counts a new end of a pipe.
    fn admit_to_pipe(&self, direction: Direction) -> Counts {
        let wakeups = self.opens.lock().add(direction, &self.buffer);
        wakeups.run();
        let one = Count { now: 1, ever: 1 };
        Counts {
            readers: one,
            writers: one,
        }
    }

    /// # Errors
    /// `EINTR`.
    fn wait_for_partner(
        &self,
        direction: Direction,
        flags: OpenFlags,
        before: Counts,
    ) -> Result<(), Errno> {
        match direction {
            Direction::Read if before.writers.now == 0 && !flags.contains(OpenFlags::NONBLOCK) => {
                self.wait(|counts| counts.writers.ever != before.writers.ever)
            }
            Direction::Write if before.readers.now == 0 => {
                self.wait(|counts| counts.readers.ever != before.readers.ever)
            }
            _ => Ok(()),
        }
    }

    /// Waits until another opener has come.
    ///
    /// # Errors
    /// `EINTR`.
    fn wait(&self, came: impl Fn(&Counts) -> bool) -> Result<(), Errno> {
        event::wait(
            &self.opens,
            |opens| &mut opens.waiting,
            Events::IN,
            Limit::FOREVER,
            |opens| came(&opens.counts).then_some(Ok(())),
        )
    }

    /// Takes a closed end off the counts.
    pub(crate) fn remove(&self, direction: Direction) {
        let mut opens = self.opens.lock();
        opens.counts.readers.remove(direction.reads());
        opens.counts.writers.remove(direction.writes());
        let wakeups = self.buffer.set_sides(opens.counts.sides());
        drop(opens);
        // Outside the lock: a notified watcher may ask the end for its events.
        wakeups.run();
    }
}

impl Opens {
    /// Counts a new end, and collects the waiters.
    fn add(&mut self, direction: Direction, buffer: &Buffer) -> Wakeups {
        self.counts.readers.add(direction.reads());
        self.counts.writers.add(direction.writes());
        let woken = buffer.set_sides(self.counts.sides());
        woken.and(self.waiting.wake_all(Events::IN))
    }
}

impl Counts {
    fn sides(self) -> Sides {
        Sides {
            reading: self.readers.now > 0,
            writing: self.writers.now > 0,
        }
    }
}

impl Count {
    fn add(&mut self, ends: usize) {
        self.now += ends;
        self.ever += ends as u64;
    }

    fn remove(&mut self, ends: usize) {
        self.now = self.now.saturating_sub(ends);
    }
}

impl Direction {
    fn of(flags: OpenFlags) -> Result<Self, Errno> {
        match (flags.can_read(), flags.can_write()) {
            (true, false) => Ok(Direction::Read),
            (false, true) => Ok(Direction::Write),
            (true, true) => Ok(Direction::Both),
            (false, false) => Err(Errno::EINVAL),
        }
    }

    fn reads(self) -> usize {
        usize::from(self != Direction::Write)
    }

    fn writes(self) -> usize {
        usize::from(self != Direction::Read)
    }
}

/// Open end of a FIFO or pipe.
#[derive(Debug)]
pub struct FifoEnd {
    end: End,
    status: Status,
    path: VfsPath,
    /// The path is the inode of a pipe, which is in no directory.
    is_pipe: bool,
}

/// Pollable part of an open end.
#[derive(Clone, Debug)]
struct End {
    fifo: Arc<Fifo>,
    direction: Direction,
    /// Writers when this end was opened. A reader that opens before the first writer sees no
    /// hangup.
    writers_before: Count,
    /// Shared by the clones.
    revoked: Arc<AtomicCell<bool>>,
}

impl FifoEnd {
    /// Makes the first end of its direction of a pipe with [both ends](Fifo::with_both_ends).
    pub(super) fn of_pipe(fifo: &Arc<Fifo>, inode: Arc<dyn Inode>, flags: OpenFlags) -> Self {
        let end = End {
            fifo: Arc::clone(fifo),
            direction: match flags.can_write() {
                true => Direction::Write,
                false => Direction::Read,
            },
            writers_before: Count { now: 1, ever: 1 },
            revoked: Arc::default(),
        };
        FifoEnd {
            end,
            status: Status::new(flags),
            path: VfsPath { mount: None, inode },
            is_pipe: true,
        }
    }

    /// Returns the FIFO.
    pub fn fifo(&self) -> &Arc<Fifo> {
        &self.end.fifo
    }

    /// Checks that the end is open for a direction, and not revoked.
    fn check(&self, open: usize) -> Result<(), Errno> {
        match (open, self.end.is_revoked()) {
            (_, true) => Err(Errno::EIO),
            (0, false) => Err(Errno::EBADF),
            (_, false) => Ok(()),
        }
    }

    /// Records a read of `count` bytes in the times of the name. A pipe has none that change.
    #[inline]
    fn was_read(&self, count: usize) -> Result<usize, Errno> {
        if !self.is_pipe && count > 0 && !self.status.get().contains(OpenFlags::NOATIME) {
            self.path.inode.was_read();
        }
        Ok(count)
    }

    /// Records a write of `count` bytes in the times of the name.
    #[inline]
    fn was_modified(&self, count: usize) -> Result<usize, Errno> {
        if !self.is_pipe && count > 0 {
            self.path.inode.was_modified();
        }
        Ok(count)
    }
}

impl Object for FifoEnd {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn path(&self) -> Option<VfsPath> {
        (!self.is_pipe).then(|| self.path.clone())
    }

    /// # Errors
    /// `EIO` if revoked.
    fn stat(&self) -> Result<Stat, Errno> {
        if self.end.is_revoked() {
            return Err(Errno::EIO);
        }
        Ok(self.path.inode.stat())
    }

    fn inode(&self) -> Option<Arc<dyn Inode>> {
        self.is_pipe.then(|| Arc::clone(&self.path.inode))
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.end.fifo.locks)
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::new(self.end.clone()))
    }

    fn forget(&self) {
        self.end.forget(FileId::of(self));
    }

    fn events(&self) -> Events {
        self.end.events()
    }

    fn readable_bytes(&self) -> Result<usize, Errno> {
        Ok(self.end.fifo.buffer.readable_bytes())
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        let check = || self.check(self.end.direction.reads());
        check()?;
        let buffer = &self.end.fifo.buffer;
        self.was_read(scatter(bufs, |buf| match waits {
            true => buffer.read_while(check, buf),
            false => buffer.try_read(buf),
        })?)
    }

    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        how.waits_in_stream()?;
        let check = || self.check(self.end.direction.writes());
        check()?;
        let buffer = &self.end.fifo.buffer;
        let status = self.status.get();
        let form = match status.contains(OpenFlags::DIRECT) {
            true => Form::Packets,
            false => Form::Stream,
        };
        self.was_modified(gather(bufs, |bytes| match (how.mode, form) {
            (TransferMode::Wait, _) => buffer.write_while(check, bytes, form, Limit::FOREVER),
            (TransferMode::Section, Form::Stream) => buffer.try_write_by(&self.status, bytes),
            // It could not write all packets, and their count would be the final one.
            (TransferMode::Section, _) if !status.contains(OpenFlags::NONBLOCK) => {
                Err(Errno::EAGAIN)
            }
            _ => buffer.write_while(check, bytes, form, Limit::NOW),
        })?)
    }

    fn release(&self) {
        self.end.fifo.remove(self.end.direction);
    }

    fn revoke(&self) {
        self.end.revoked.store(true);
        self.end.fifo.remove(self.end.direction);
        self.end.fifo.buffer.wake_all();
    }
}

impl End {
    /// Returns true if there were writers since this end was opened, and all have closed.
    fn writers_have_gone(&self) -> bool {
        let writers = self.fifo.opens.lock().counts.writers;
        let came = self.writers_before.now > 0 || writers.ever != self.writers_before.ever;
        came && writers.now == 0
    }
}

impl Pollee for End {
    fn events(&self) -> Events {
        let buffer = &self.fifo.buffer;
        let mut events = Events::empty();
        if self.direction != Direction::Write {
            events |= buffer.events(Half::Read);
            if events.contains(Events::HUP) {
                events.set(Events::HUP, self.writers_have_gone());
            }
        }
        if self.direction != Direction::Read {
            events |= buffer.events(Half::Write);
        }
        if self.is_revoked() {
            events |= Events::ERR;
        }
        events
    }

    fn with_queues(&self, visit: &mut dyn FnMut(&mut WaitQueue)) {
        if self.direction != Direction::Write {
            self.fifo.buffer.with_queue(Half::Read, visit);
        }
        if self.direction != Direction::Read {
            self.fifo.buffer.with_queue(Half::Write, visit);
        }
    }

    fn is_revoked(&self) -> bool {
        self.revoked.load()
    }
}

#[cfg(test)]
mod tests;
