//! A thread that closes descriptors of its own, opens others, and records each call.
//!
//! It closes in ascending order, most often: an open that passes over the first of them and gets
//! the second is then at fault, however long it takes.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use fdtable::{Error, Fd, FileRef, Files, RawFd};

use crate::clock::Clock;
use crate::journal::{Deed, HasFile, Journal, Number};
use crate::judge::Start;
use crate::scene::{Aside, Closing, Habits, NONE, Opening, Pause};

/// The opened object: nothing of interest.
pub(crate) type File = u32;

/// How a file is opened under the lowest descriptor. Tests of the judge have a wrong one.
pub(crate) type Open = fn(&Files<File>, FileRef<File>) -> Result<Fd, Error>;

pub(crate) fn open(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    files.open(file, NONE)
}

/// That many descriptors are reserved atomically; more are reserved one after the other.
const AT_ONE_MOMENT: usize = 256;

/// How long a thread sleeps. The system adds some tens of microseconds.
const NAP: Duration = Duration::from_micros(10);

const OPEN: HasFile = HasFile::Installed;

pub(crate) struct Worker<'r> {
    pub(crate) files: &'r Files<File>,
    pub(crate) clock: Clock,
    pub(crate) habits: Habits,
    pub(crate) pause: Pause,
    pub(crate) start: &'r Start,
    /// All descriptors that threads close.
    pub(crate) numbers: &'r [Number],
    /// A descriptor that stays open.
    pub(crate) kept: Number,
    /// True for the thread that sets the limit.
    pub(crate) sets_limit: bool,
    /// How many descriptors it had at first.
    pub(crate) quota: usize,
    /// The descriptors that it alone may close.
    pub(crate) own: Vec<Number>,
    pub(crate) rng: Rng,
    pub(crate) journal: Journal,
}

fn fd(number: Number) -> RawFd {
    number.cast_signed()
}

fn number(fd: Fd) -> Number {
    fd.raw().cast_unsigned()
}

impl<'r> Worker<'r> {
    /// Closes some descriptors and opens as many.
    pub(crate) fn take_turn(&mut self) {
        let surplus = self.own.len().saturating_sub(self.quota);
        let count = self.rng.usize(1..=self.habits.closes) + surplus;
        let closed = self.close_some(count);
        if self.rng.u8(..) < 32 && !self.habits.asides.is_empty() {
            let aside = self.habits.asides[self.rng.usize(..self.habits.asides.len())];
            self.digress(aside);
        }
        let wanted = self.quota + self.rng.usize(0..=self.habits.more);
        while self.own.len() < wanted {
            let opening = self.habits.openings[self.rng.usize(..self.habits.openings.len())];
            if self.open_by(opening, &closed) == Err(Error::TooManyFiles) {
                break;
            }
        }
    }

    /// Makes a call between two stamps.
    #[inline(always)]
    fn timed<R>(&self, call: impl FnOnce(&'r Files<File>) -> R) -> ((u64, u64), R) {
        let start = self.clock.start();
        let answer = call(self.files);
        let end = self.clock.end();
        ((start, end), answer)
    }

    fn close_some(&mut self, count: usize) -> Vec<Number> {
        let count = count.min(self.own.len());
        let mut chosen: Vec<Number> = (0..count)
            .map(|_| self.own.swap_remove(self.rng.usize(..self.own.len())))
            .collect();
        if self.rng.u8(..) < 224 {
            chosen.sort_unstable();
        }
        let closing = self.habits.closings[self.rng.usize(..self.habits.closings.len())];
        for &number in &chosen {
            match closing {
                Closing::Close => {
                    let (stamps, closed) = self.timed(|files| files.close(fd(number)).map(drop));
                    assert_eq!(closed, Ok(()), "{number} is this thread's own");
                    self.journal.write(stamps, Deed::Freed, [number]);
                }
                Closing::Take => {
                    let (stamps, taken) = self
                        .timed(|files| files.close(fd(number)).map(fdtable::ClosedFile::into_file));
                    taken.expect("it is this thread's own");
                    self.journal.write(stamps, Deed::Freed, [number]);
                }
                Closing::Range => self.close_range(number),
            }
        }
        chosen
    }

    /// Closes a descriptor and the neighbours of it that belong to this thread.
    fn close_range(&mut self, first: Number) {
        let mut last = first;
        while let Some(place) = self.own.iter().position(|&own| own == last + 1) {
            self.own.swap_remove(place);
            last += 1;
        }
        let (stamps, closed) = self.timed(|files| files.close_range(first, last, drop));
        assert_eq!(closed, Ok(()));
        // Each leaf in one step.
        let numbers: Vec<Number> = (first..=last).collect();
        for of_leaf in numbers.chunk_by(|one, other| one / 64 == other / 64) {
            self.journal
                .write(stamps, Deed::Freed, of_leaf.iter().copied());
        }
    }

    fn pause(&self) {
        match self.pause {
            Pause::Yield => thread::yield_now(),
            Pause::Nap => thread::sleep(NAP),
        }
    }

    fn digress(&mut self, aside: Aside) {
        match aside {
            Aside::Pause => self.pause(),
            Aside::Get => self.look_for_a_closed_one(),
            Aside::Fork => self.fork(),
            Aside::SetLimit if self.sets_limit => {
                let limit = self.start.limit - self.rng.u32(0..40);
                let (stamps, ()) = self.timed(|files| files.set_limit(limit));
                self.journal.write(stamps, Deed::SetLimit(limit), []);
            }
            Aside::SetLimit => {}
        }
    }

    /// Looks for a closed descriptor, opens a file, and closes the descriptor of that.
    pub(crate) fn watch(&mut self) {
        self.pause();
        self.look_for_a_closed_one();
        if self.open_by(Opening::Open, &[]).is_ok() {
            self.close_some(1);
        }
    }

    /// Looks at some descriptors of any thread until one is closed: an open that follows takes it,
    /// or finds it taken.
    fn look_for_a_closed_one(&mut self) {
        let first = self.rng.usize(..self.numbers.len());
        let is_closed = |number: &Number| self.files.get(fd(*number)).is_err();
        let some = self.numbers.iter().cycle().skip(first).take(100);
        // Without stamps, which take longer than a look.
        let Some(number) = some.copied().find(is_closed) else {
            return;
        };
        let (stamps, found) = self.timed(|files| files.get(fd(number)).map(drop));
        if found == Err(Error::BadFd) {
            self.journal.write(stamps, Deed::FoundClosed, [number]);
        }
    }

    fn open_by(&mut self, opening: Opening, closed: &[Number]) -> Result<(), Error> {
        let kept = fd(self.kept);
        let lowest = |min| Deed::TookLowest { min, file: OPEN };
        match opening {
            Opening::Open => {
                let (file, open) = (FileRef::new(0), self.habits.open);
                let (stamps, opened) = self.timed(|files| open(files, file));
                self.took_one(stamps, opened, lowest(0))
            }
            Opening::Dup => {
                let (stamps, opened) = self.timed(|files| files.dup(kept));
                self.took_one(stamps, opened, lowest(0))
            }
            Opening::DupFrom => {
                let min = self.start.mins[self.rng.usize(..self.start.mins.len())];
                let (stamps, opened) = self.timed(|files| files.dup_min(kept, fd(min), NONE));
                self.took_one(stamps, opened, lowest(min))
            }
            Opening::DupTo => self.dup3(closed),
            Opening::Any => {
                let file = FileRef::new(0);
                let (stamps, opened) = self.timed(|files| files.open_any(file, NONE));
                self.took_one(stamps, opened, Deed::TookAny { file: OPEN })
            }
            Opening::Reserve => self.reserve(),
            Opening::Pair => {
                let pair = (FileRef::new(0), FileRef::new(0));
                let (stamps, opened) = self.timed(|files| files.open_pair(pair, NONE));
                let opened = self.unless_refused(stamps, opened, 2, 0)?;
                let numbers = [number(opened.0), number(opened.1)];
                self.journal.write(stamps, lowest(0), numbers);
                self.own.extend(numbers);
                Ok(())
            }
            Opening::Many => self.reserve_many(),
        }
    }

    fn took_one(
        &mut self,
        stamps: (u64, u64),
        opened: Result<Fd, Error>,
        deed: Deed,
    ) -> Result<(), Error> {
        let min = match deed {
            Deed::TookLowest { min, .. } => min,
            _ => 0,
        };
        let opened = number(self.unless_refused(stamps, opened, 1, min)?);
        self.journal.write(stamps, deed, [opened]);
        self.own.push(opened);
        Ok(())
    }

    /// Records that fewer than `count` descriptors were free.
    fn unless_refused<R>(
        &mut self,
        stamps: (u64, u64),
        answer: Result<R, Error>,
        count: u32,
        min: Number,
    ) -> Result<R, Error> {
        match answer {
            Err(Error::TooManyFiles) => {
                self.journal.write(stamps, Deed::Refused { count, min }, []);
            }
            // Its `min` is past the limit.
            Err(Error::InvalidArgument) if min > 0 => {}
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
        answer
    }

    /// Opens, by name, a descriptor that this thread has closed, unless another thread has opened
    /// it.
    fn dup3(&mut self, closed: &[Number]) -> Result<(), Error> {
        let wanted = closed[self.rng.usize(..closed.len())];
        if self.own.contains(&wanted) {
            return Ok(());
        }
        let kept = fd(self.kept);
        let (stamps, opened) = self.timed(|files| {
            let replaced = files.dup3(kept, fd(wanted), NONE)?;
            Ok(replaced.is_some())
        });
        match opened {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.journal
                    .write(stamps, Deed::TookAny { file: OPEN }, [wanted]);
                self.own.push(wanted);
                Ok(())
            }
            // It is reserved, or past the limit.
            Err(Error::Busy | Error::BadFd) => Ok(()),
            Err(error) => panic!("{error}"),
        }
    }

    fn reserve(&mut self) -> Result<(), Error> {
        let (stamps, reserved) = self.timed(|files| files.reserve(NONE));
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(error) => return self.unless_refused(stamps, Err(error), 1, 0),
        };
        let taken = number(reserved.fd());
        let file = HasFile::Reserved;
        self.journal
            .write(stamps, Deed::TookLowest { min: 0, file }, [taken]);
        if self.rng.bool() {
            reserved.install(FileRef::new(0));
            self.own.push(taken);
        } else {
            let (stamps, ()) = self.timed(|_| drop(reserved));
            self.journal.write(stamps, Deed::Freed, [taken]);
        }
        Ok(())
    }

    fn reserve_many(&mut self) -> Result<(), Error> {
        let has_room = self.start.limit - self.start.open > 10_000;
        let count = match self.rng.u8(..) {
            0..2 if has_room => self.rng.usize(200..300),
            _ => self.rng.usize(1..9),
        };
        let (stamps, reserved) = self.timed(|files| files.reserve_many(count, NONE));
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(error) => return self.unless_refused(stamps, Err(error), count as u32, 0),
        };
        let taken: Vec<Number> = reserved.fds().iter().copied().map(number).collect();
        let deed = Deed::TookLowest {
            min: 0,
            file: HasFile::Reserved,
        };
        let of_one_moment = if count > AT_ONE_MOMENT { 1 } else { count };
        for numbers in taken.chunks(of_one_moment) {
            self.journal.write(stamps, deed, numbers.iter().copied());
        }
        // Most of them are dropped, so that a thread does not have too many.
        for reserved in reserved {
            let taken = number(reserved.fd());
            if self.own.len() < self.quota {
                reserved.install(FileRef::new(0));
                self.own.push(taken);
            } else {
                let (stamps, ()) = self.timed(|_| drop(reserved));
                self.journal.write(stamps, Deed::Freed, [taken]);
            }
        }
        Ok(())
    }

    /// Makes a child and drops it, or opens descriptors in it. No other thread changes the child.
    fn fork(&mut self) {
        let child = self.files.fork().expect("there is memory");
        if self.rng.bool() {
            return;
        }
        let limit = self.start.limit;
        child.set_limit(limit);
        let is_free = |number: Number| child.get(fd(number)).is_err();
        for _ in 0..3 {
            let closed = self.numbers[self.rng.usize(..self.numbers.len())];
            let _ = child.close(fd(closed));
            let candidates = self.numbers.iter().copied().chain(self.start.open..limit);
            let lowest = candidates.into_iter().find(|&number| is_free(number));
            let opened = child.open(FileRef::new(0), NONE).map(number);
            assert_eq!(opened.ok(), lowest, "in a child");
        }
    }
}
