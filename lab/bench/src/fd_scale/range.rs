//! A range of open descriptors, of which one is closed and opened again.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use crate::cache::Cache;
use crate::opener::Opener;

/// The descriptor that is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// The one in the middle of the range.
    Middle,
    /// The last one of the range.
    End,
}

/// A range of descriptors of any table, as the experiment sees it.
pub(super) trait Measured: Send {
    fn name(&self) -> &'static str;
    /// Returns how many descriptors the range can hold.
    fn most(&self) -> u32;
    /// Opens descriptors until there are `open`, never fewer than before.
    fn grow(&mut self, open: u32) -> anyhow::Result<()>;
    /// Returns the mean nanoseconds of single opens, clock included: `batch` in the middle and as
    /// many at the end. The two alternate, so that a table which caches the last free descriptor
    /// has to move from one to the other.
    fn hot(&self, batch: u32) -> anyhow::Result<[f64; 2]>;
    /// Returns the mean nanoseconds of a close and an open in the middle, with no clock inside.
    fn pairs(&self, batch: u32) -> anyhow::Result<f64>;
    /// Returns the nanoseconds of one open after the cache was overwritten, clock included.
    fn cold(&self, place: Place, cache: &mut Cache) -> anyhow::Result<f64>;
}

/// Descriptors of one table, in ascending order.
pub(super) struct Range<O: Opener> {
    name: &'static str,
    opener: O,
    opened: Vec<RawFd>,
    most: u32,
}

impl<O: Opener> Range<O> {
    pub(super) fn new(name: &'static str, opener: O, most: u32) -> Self {
        Range {
            name,
            opener,
            opened: Vec::new(),
            most,
        }
    }

    fn number(&self, place: Place) -> RawFd {
        let last = self.opened.len() - 1;
        self.opened[match place {
            Place::Middle => last / 2,
            Place::End => last,
        }]
    }

    /// Closes one descriptor, opens it again, and returns the duration of the open. Between the
    /// two, `meanwhile` runs.
    #[inline]
    fn reopen(&self, place: Place, meanwhile: impl FnOnce()) -> anyhow::Result<Duration> {
        let number = self.number(place);
        let ready = self.opener.close(number)?;
        meanwhile();
        let ready = black_box(ready);
        let began = Instant::now();
        let opened = black_box(self.opener.open(ready));
        let took = began.elapsed();
        self.check(number, opened?)?;
        Ok(took)
    }

    fn check(&self, number: RawFd, opened: RawFd) -> anyhow::Result<()> {
        let name = self.name;
        ensure!(
            opened == number,
            "{name}: open returned {opened}, but {number} was the lowest free"
        );
        Ok(())
    }
}

impl<O: Opener> Measured for Range<O> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn most(&self) -> u32 {
        self.most
    }

    fn grow(&mut self, open: u32) -> anyhow::Result<()> {
        while self.opened.len() < open as usize {
            let ready = self.opener.prepare();
            self.opened.push(self.opener.open(ready)?);
        }
        Ok(())
    }

    fn hot(&self, batch: u32) -> anyhow::Result<[f64; 2]> {
        let mut sums = [Duration::ZERO; 2];
        for _ in 0..batch {
            sums[0] += self.reopen(Place::Middle, || ())?;
            sums[1] += self.reopen(Place::End, || ())?;
        }
        Ok(sums.map(|sum| sum.as_nanos() as f64 / f64::from(batch)))
    }

    fn pairs(&self, batch: u32) -> anyhow::Result<f64> {
        let number = self.number(Place::Middle);
        let began = Instant::now();
        for _ in 0..batch {
            let ready = self.opener.close(black_box(number))?;
            self.check(number, self.opener.open(ready)?)?;
        }
        Ok(began.elapsed().as_nanos() as f64 / f64::from(batch))
    }

    fn cold(&self, place: Place, cache: &mut Cache) -> anyhow::Result<f64> {
        let trash = || {
            cache.trash();
            // The clock has to be warm; the measured code does not.
            black_box(Instant::now());
        };
        Ok(self.reopen(place, trash)?.as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Table that returns scripted answers.
    struct Scripted {
        answers: Mutex<Vec<RawFd>>,
        closed: Mutex<Vec<RawFd>>,
    }

    impl Opener for Scripted {
        type Ready = ();

        fn prepare(&self) {}

        fn open(&self, (): ()) -> anyhow::Result<RawFd> {
            Ok(self.answers.lock().unwrap().remove(0))
        }

        fn close(&self, fd: RawFd) -> anyhow::Result<()> {
            self.closed.lock().unwrap().push(fd);
            Ok(())
        }
    }

    fn range(answers: &[RawFd]) -> Range<Scripted> {
        let scripted = Scripted {
            answers: Mutex::new(answers.to_vec()),
            closed: Mutex::default(),
        };
        Range::new("scripted", scripted, 10)
    }

    #[test]
    fn the_middle_and_the_end_are_closed_and_opened_again() {
        let mut range = range(&[0, 1, 2, 3, 4, 2, 4, 4, 2, 2]);
        range.grow(5).unwrap();
        range.hot(1).unwrap();
        range.cold(Place::End, &mut Cache::new()).unwrap();
        range.pairs(2).unwrap();
        assert_eq!(*range.opener.closed.lock().unwrap(), [2, 4, 4, 2, 2]);
    }

    #[test]
    fn an_open_that_returns_another_descriptor_is_an_error() {
        let mut range = range(&[0, 1, 2, 7]);
        range.grow(3).unwrap();
        let error = range.hot(1).unwrap_err();
        assert!(
            error.to_string().contains("returned 7, but 1 was"),
            "{error}"
        );
    }

    #[test]
    fn one_descriptor_is_the_middle_and_the_end() {
        let mut range = range(&[9, 9, 9]);
        range.grow(1).unwrap();
        range.hot(1).unwrap();
        assert_eq!(*range.opener.closed.lock().unwrap(), [9, 9]);
    }
}
