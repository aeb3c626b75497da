//! Records the operations of a thread on a table, with their times.

use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd, Reservation};

// The clock orders what ends before it ticks with what begins after: a model must know that.
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::search::Event;
use crate::specification::{File, Operation};

const NONE: FdFlags = FdFlags::empty();

/// Real time: every tick of every thread has a number of its own, and a later tick a higher one.
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn tick(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }
}

/// How a subject opens a file under the lowest descriptor.
pub(crate) type Open = fn(&Files<File>, FileRef<File>) -> Result<Fd, Error>;

/// The open of the table itself.
pub(crate) fn open(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    files.open(file, NONE)
}

/// One thread at work on a table.
pub(crate) struct Recorder<'t> {
    files: &'t Files<File>,
    open: Open,
    clock: &'t Clock,
    /// The next file of this thread.
    file: File,
    reserved: Vec<Reservation<'t, File>>,
    events: Vec<Event>,
}

impl<'t> Recorder<'t> {
    /// The files that the thread opens have the numbers from `file` on.
    pub(crate) fn new(files: &'t Files<File>, open: Open, clock: &'t Clock, file: File) -> Self {
        Self {
            files,
            open,
            clock,
            file,
            reserved: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns the record. Drops the remaining reservations first, and records that too.
    pub(crate) fn finish(mut self) -> Vec<Event> {
        while self.cancel() {}
        self.events
    }

    fn record(&mut self, call: impl FnOnce() -> Operation) {
        let began = self.clock.tick();
        let operation = call();
        let ended = self.clock.tick();
        self.events.push(Event {
            operation,
            began,
            ended,
        });
    }

    fn next_file(&mut self) -> File {
        self.file += 1;
        self.file
    }

    pub(crate) fn open(&mut self) {
        let (files, open, file) = (self.files, self.open, self.next_file());
        let object = FileRef::new(file);
        self.record(|| Operation::Open(file, number(open(files, object))));
    }

    pub(crate) fn open_any(&mut self) {
        let (files, file) = (self.files, self.next_file());
        let object = FileRef::new(file);
        self.record(|| Operation::OpenAny(file, number(files.open_any(object, NONE))));
    }

    pub(crate) fn open_pair(&mut self) {
        let (files, both) = (self.files, [self.next_file(), self.next_file()]);
        let pair = (FileRef::new(both[0]), FileRef::new(both[1]));
        self.record(|| {
            let opened = files.open_pair(pair, NONE);
            Operation::OpenPair(both, opened.map(|(one, two)| [one.raw(), two.raw()]))
        });
    }

    /// Remembers the reservations, as [`reserve`](Self::reserve).
    pub(crate) fn reserve_many(&mut self, count: usize) {
        let (files, mut reserved) = (self.files, None);
        self.record(|| {
            let answer = files.reserve_many(count, NONE).map(|reservations| {
                let numbers = reservations.fds().iter().map(|fd| fd.raw()).collect();
                reserved = Some(reservations);
                numbers
            });
            Operation::ReserveMany(count, answer)
        });
        self.reserved.extend(reserved.into_iter().flatten());
    }

    /// Remembers the reservation for [`install`](Self::install) and [`cancel`](Self::cancel).
    pub(crate) fn reserve(&mut self) {
        let (files, mut reserved) = (self.files, None);
        self.record(|| Operation::Reserve(reserve(&mut reserved, files.reserve(NONE))));
        self.reserved.extend(reserved);
    }

    pub(crate) fn reserve_from(&mut self, min: RawFd) {
        let (files, mut reserved) = (self.files, None);
        self.record(|| {
            let answer = files.reserve_from(min, NONE);
            Operation::ReserveFrom(min, reserve(&mut reserved, answer))
        });
        self.reserved.extend(reserved);
    }

    /// Installs a file in the reservation that was made last, if there is one.
    pub(crate) fn install(&mut self) {
        let Some(reservation) = self.reserved.pop() else {
            return;
        };
        let file = self.next_file();
        let object = FileRef::new(file);
        self.record(|| Operation::Install(reservation.install(object).raw(), file));
    }

    /// Drops the reservation that was made last, if there is one.
    pub(crate) fn cancel(&mut self) -> bool {
        let Some(reservation) = self.reserved.pop() else {
            return false;
        };
        self.record(|| {
            let number = reservation.fd().raw();
            drop(reservation);
            Operation::Cancel(number)
        });
        true
    }

    pub(crate) fn get(&mut self, fd: RawFd) {
        let files = self.files;
        self.record(|| Operation::Get(fd, files.get(fd).map(|file| *file)));
    }

    pub(crate) fn close(&mut self, fd: RawFd) {
        let files = self.files;
        self.record(|| Operation::Close(fd, files.close(fd).map(drop)));
    }

    pub(crate) fn take(&mut self, fd: RawFd) {
        let files = self.files;
        self.record(|| Operation::Take(fd, files.close(fd).map(|file| *file)));
    }

    pub(crate) fn dup(&mut self, old: RawFd) {
        let files = self.files;
        self.record(|| Operation::Dup(old, number(files.dup(old))));
    }

    pub(crate) fn dup_min(&mut self, old: RawFd, min: RawFd) {
        let files = self.files;
        self.record(|| Operation::DupFrom(old, min, number(files.dup_min(old, min, NONE))));
    }

    pub(crate) fn dup3(&mut self, old: RawFd, new: RawFd) {
        let files = self.files;
        self.record(|| Operation::DupTo(old, new, files.dup3(old, new, NONE).map(|_| new)));
    }

    pub(crate) fn replace(&mut self, fd: RawFd) {
        let (files, file) = (self.files, self.next_file());
        let object = FileRef::new(file);
        self.record(|| {
            let replaced = files.replace(fd, object, NONE);
            Operation::Replace(fd, file, replaced.map(|before| before.map(|(it, _)| *it)))
        });
    }

    pub(crate) fn open_at(&mut self, fd: RawFd) {
        let (files, file) = (self.files, self.next_file());
        let object = FileRef::new(file);
        self.record(|| Operation::OpenAt(fd, file, files.open_at(fd, object, NONE)));
    }

    /// Expects the file that is open at another descriptor before the call, if there is one.
    pub(crate) fn replace_if(&mut self, fd: RawFd, of: RawFd) {
        let Ok(expected) = self.files.get(of) else {
            return;
        };
        let (files, file) = (self.files, self.next_file());
        let object = FileRef::new(file);
        self.record(|| {
            let replaced = files.replace_if(fd, &expected, object, NONE).map(drop);
            Operation::ReplaceIf(fd, *expected, file, replaced)
        });
    }

    /// Expects the file that is open at another descriptor before the call, if there is one.
    pub(crate) fn close_if(&mut self, fd: RawFd, of: RawFd) {
        let Ok(expected) = self.files.get(of) else {
            return;
        };
        let files = self.files;
        self.record(|| {
            let closed = files.close_if(fd, Some(&expected)).map(drop);
            Operation::CloseIf(fd, *expected, closed)
        });
    }

    pub(crate) fn rename(&mut self, from: RawFd, to: RawFd) {
        let files = self.files;
        self.record(|| {
            let renamed = files.rename(from, to);
            Operation::Rename(from, to, renamed.map(|before| before.map(|(it, _)| *it)))
        });
    }

    pub(crate) fn set_quarantine(&mut self, opens: u32) {
        let files = self.files;
        self.record(|| {
            files.set_quarantine(opens).expect("there is memory");
            Operation::SetQuarantine(opens)
        });
    }

    pub(crate) fn fork(&mut self) {
        let (files, mut child) = (self.files, None);
        self.record(|| {
            child = files.fork().ok();
            Operation::Fork(Vec::new())
        });
        // The files of the child are read later: no other thread changes it.
        let copy = listed(&child.expect("there is memory"));
        let event = self.events.last_mut().expect("it is recorded");
        event.operation = Operation::Fork(copy);
    }
}

fn number(fd: Result<Fd, Error>) -> Result<RawFd, Error> {
    fd.map(RawFd::from)
}

fn reserve<'t>(
    reserved: &mut Option<Reservation<'t, File>>,
    answer: Result<Reservation<'t, File>, Error>,
) -> Result<RawFd, Error> {
    let reservation = reserved.insert(answer?);
    Ok(reservation.fd().raw())
}

/// The file of each open descriptor, in a table that no thread changes.
fn listed(files: &Files<File>) -> Vec<(RawFd, File)> {
    let open = files.iter().map(|(fd, ..)| fd);
    open.map(|fd| (fd.raw(), *files.get(fd).expect("it is open")))
        .collect()
}
