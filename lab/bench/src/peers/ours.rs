//! Our table as a rival.
//!
//! It opens on the lowest free descriptor or on any, and is read in sections or between quiescent
//! states.

use std::os::fd::RawFd;

use fdtable::rcu::qsbr::Reader;
use fdtable::{Files, Rcu, rcu};

use super::player::Player;
use super::rival::{Rival, Side};
use crate::any_free::AnyFree;
use crate::lookup::{Padded, sum_until_quiescent};
use crate::subject::Subject;
use crate::table::{NewFile, RcuFile, Table};

pub(super) const LOWEST: &str = "fdtable, lowest free number";
pub(super) const ANY: &str = "fdtable, any free number";
pub(super) const LOWEST_QUIESCENT: &str = "fdtable, lowest free, quiescent states";
pub(super) const ANY_QUIESCENT: &str = "fdtable, any free, quiescent states";

/// Lists ours.
pub(super) fn all() -> Vec<Box<dyn Rival>> {
    vec![
        Player::<Files<Rcu<Padded>>>::boxed(LOWEST, Side::Ours),
        Player::<AnyFree<Padded>>::boxed(ANY, Side::Ours),
        Player::<Quiescent<Files<Rcu<Padded>>>>::boxed(LOWEST_QUIESCENT, Side::Ours),
        Player::<Quiescent<AnyFree<Padded>>>::boxed(ANY_QUIESCENT, Side::Ours),
    ]
}

/// A table of ours, in either mode of allocation.
trait Ours: NewFile<Padded, Padded> + Table<Padded, Ref = RcuFile<Padded>> {
    fn files(&self) -> &Files<Rcu<Padded>>;
}

impl Ours for Files<Rcu<Padded>> {
    #[inline]
    fn files(&self) -> &Files<Rcu<Padded>> {
        self
    }
}

impl Ours for AnyFree<Padded> {
    #[inline]
    fn files(&self) -> &Files<Rcu<Padded>> {
        self.as_ref()
    }
}

/// A table whose readers announce a quiescent state after each batch, as worker loops do.
struct Quiescent<Tb>(Tb);

impl<Tb: Ours> Subject for Quiescent<Tb> {
    type File = RcuFile<Padded>;
    type Key = RawFd;
    type Reader = Reader;

    fn with_room(most: u32) -> Self {
        Quiescent(Tb::with_limit(most))
    }

    fn reader() -> Reader {
        Reader::online()
    }

    #[inline]
    fn open(&self, file: Self::File) -> Option<RawFd> {
        Subject::open(&self.0, file)
    }

    #[inline]
    fn take(&self, key: RawFd) -> Option<Self::File> {
        Subject::take(&self.0, key)
    }

    #[inline]
    fn close(&self, key: RawFd) -> Option<()> {
        Subject::close(&self.0, key)
    }

    #[inline]
    fn with<R>(&self, key: RawFd, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        Subject::with(&self.0, key, read)
    }

    #[inline]
    fn get(&self, key: RawFd) -> Option<Self::File> {
        Subject::get(&self.0, key)
    }

    #[inline]
    fn sum_borrowed(&self, reader: &mut Reader, keys: &[RawFd]) -> u64 {
        sum_until_quiescent(self.0.files(), reader, keys)
    }

    fn run_deferred() -> anyhow::Result<()> {
        Ok(rcu::barrier()?)
    }
}
