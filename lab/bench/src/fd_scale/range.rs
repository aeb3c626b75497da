//! A range of open descriptors, of which one is closed and opened again.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::cache::Cache;

/// The descriptor that is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// The one in the middle of the range.
    Middle,
    /// The last one of the range.
    End,
}

/// The operations that a measured table provides. The clock runs only around [`open`](Self::open).
pub(super) trait Opener: Send {
    /// Input of an open, prepared before the clock starts.
    type Ready;
    /// An open descriptor.
    type Opened: Send;
    /// Name in reports.
    const NAME: &'static str;

    fn prepare(&mut self) -> Self::Ready;
    fn open(&mut self, ready: Self::Ready) -> anyhow::Result<Self::Opened>;
    fn number(opened: &Self::Opened) -> RawFd;
    fn close(&mut self, opened: Self::Opened) -> anyhow::Result<()>;
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
    fn hot(&mut self, batch: u32) -> anyhow::Result<[f64; 2]>;
    /// Returns the nanoseconds of one open after the cache was overwritten, clock included.
    fn cold(&mut self, place: Place, cache: &mut Cache) -> anyhow::Result<f64>;
}

/// Descriptors of one table, in ascending order.
pub(super) struct Range<O: Opener> {
    opener: O,
    /// Empty only between a close and the open that follows it.
    opened: Vec<Option<O::Opened>>,
    most: u32,
}

impl<O: Opener> Range<O> {
    pub(super) fn new(opener: O, most: u32) -> Self {
        Range {
            opener,
            opened: Vec::new(),
            most,
        }
    }

    fn index(&self, place: Place) -> usize {
        match place {
            Place::Middle => (self.opened.len() - 1) / 2,
            Place::End => self.opened.len() - 1,
        }
    }

    /// Closes the descriptor at `index` and returns it.
    fn close(&mut self, index: usize) -> anyhow::Result<RawFd> {
        let opened = self.opened[index]
            .take()
            .context("an earlier open failed")?;
        let number = O::number(&opened);
        self.opener.close(opened)?;
        Ok(number)
    }

    /// Keeps the opened descriptor, if it is the one that was free.
    fn keep(&mut self, index: usize, number: RawFd, opened: O::Opened) -> anyhow::Result<()> {
        let answer = O::number(&opened);
        self.opened[index] = Some(opened);
        if answer != number {
            bail!(
                "{}: open returned {answer}, but {number} was the lowest free",
                O::NAME
            );
        }
        Ok(())
    }

    /// Closes one descriptor, opens it again, and returns the duration of the open. Between the
    /// two, `meanwhile` runs.
    #[inline]
    fn reopen(&mut self, place: Place, meanwhile: impl FnOnce()) -> anyhow::Result<Duration> {
        let index = self.index(place);
        let ready = self.opener.prepare();
        let number = self.close(index)?;
        meanwhile();
        let ready = black_box(ready);
        let began = Instant::now();
        let opened = black_box(self.opener.open(ready));
        let took = began.elapsed();
        self.keep(index, number, opened?)?;
        Ok(took)
    }
}

impl<O: Opener> Measured for Range<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn most(&self) -> u32 {
        self.most
    }

    fn grow(&mut self, open: u32) -> anyhow::Result<()> {
        while self.opened.len() < open as usize {
            let ready = self.opener.prepare();
            self.opened.push(Some(self.opener.open(ready)?));
        }
        Ok(())
    }

    fn hot(&mut self, batch: u32) -> anyhow::Result<[f64; 2]> {
        let mut sums = [Duration::ZERO; 2];
        for _ in 0..batch {
            sums[0] += self.reopen(Place::Middle, || ())?;
            sums[1] += self.reopen(Place::End, || ())?;
        }
        Ok(sums.map(|sum| sum.as_nanos() as f64 / f64::from(batch)))
    }

    fn cold(&mut self, place: Place, cache: &mut Cache) -> anyhow::Result<f64> {
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
    use super::*;

    /// Table that returns scripted answers.
    struct Scripted {
        answers: Vec<RawFd>,
        closed: Vec<RawFd>,
    }

    impl Opener for Scripted {
        type Ready = ();
        type Opened = RawFd;
        const NAME: &'static str = "scripted";

        fn prepare(&mut self) {}

        fn open(&mut self, (): ()) -> anyhow::Result<RawFd> {
            Ok(self.answers.remove(0))
        }

        fn number(opened: &RawFd) -> RawFd {
            *opened
        }

        fn close(&mut self, opened: RawFd) -> anyhow::Result<()> {
            self.closed.push(opened);
            Ok(())
        }
    }

    fn range(answers: &[RawFd]) -> Range<Scripted> {
        Range::new(
            Scripted {
                answers: answers.to_vec(),
                closed: Vec::new(),
            },
            10,
        )
    }

    #[test]
    fn the_middle_and_the_end_are_closed_and_opened_again() {
        let mut range = range(&[0, 1, 2, 3, 4, 2, 4, 4]);
        range.grow(5).unwrap();
        range.hot(1).unwrap();
        range.cold(Place::End, &mut Cache::new()).unwrap();
        assert_eq!(range.opener.closed, [2, 4, 4]);
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
        assert_eq!(range.opener.closed, [9, 9]);
    }
}
