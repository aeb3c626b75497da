//! Tables of other crates, as `peers` has them, whose descriptors are keys.

use conflict_tracer::MAX_CPUS;
use dashmap::DashMap;
use fdtable::Error;
use rustc_hash::FxBuildHasher;
use sharded_slab::Slab;

use super::{Container, Object};
use crate::lookup::Padded;
use crate::peers::theirs::{self, Counted, Dash};
use crate::subject::Subject;

pub(in super::super) type Dashed = Keyed<Counted<Dash>>;
pub(in super::super) type Sharded = Keyed<Slab<Object>>;
pub(in super::super) type Swapped = Keyed<theirs::Swapped>;

/// A rival whose keys are seen as numbers.
pub(in super::super) struct Keyed<S>(S);

/// A table of `peers` that is traced.
pub(in super::super) trait Traced:
    Subject<File = Object, Key: TryFrom<u64> + TryInto<u64>>
{
    const NAME: &'static str;
    /// Most CPUs that are traced in opens and closes.
    const OPENERS: usize = MAX_CPUS;

    fn new() -> Self {
        Self::with_room(1024)
    }
}

impl Traced for Slab<Object> {
    const NAME: &'static str = "sharded-slab";
}

impl Traced for theirs::Swapped {
    const NAME: &'static str = "array of ArcSwapOption";
    /// A store scans the debt slots of every thread that ever borrowed: that takes very many steps.
    const OPENERS: usize = 8;
}

impl Traced for Counted<Dash> {
    const NAME: &'static str = "dashmap";

    /// There are as many shards as the map would have on a machine with 256 CPUs.
    fn new() -> Self {
        Counted::of(DashMap::with_hasher_and_shard_amount(FxBuildHasher, 1024))
    }
}

impl<S: Traced> Keyed<S> {
    #[inline]
    fn find<R>(&self, key: u64, act: impl FnOnce(&S, S::Key) -> Option<R>) -> Result<R, Error> {
        let key = key.try_into().map_err(|_| Error::BadFd)?;
        act(&self.0, key).ok_or(Error::BadFd)
    }
}

impl<S: Traced> Container for Keyed<S> {
    const NAME: &'static str = S::NAME;
    const OPENERS: usize = S::OPENERS;

    fn with_limit(_: u64) -> Self {
        Keyed(S::new())
    }

    #[inline]
    fn open(&self, file: Object) -> Result<u64, Error> {
        let key = self.0.open(file).ok_or(Error::TooManyFiles)?;
        key.try_into().map_err(|_| Error::TooManyFiles)
    }

    #[inline]
    fn get(&self, key: u64) -> Result<Object, Error> {
        self.find(key, S::get)
    }

    #[inline]
    fn with<R>(&self, key: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error> {
        self.find(key, |table, key| table.with(key, look))
    }

    #[inline]
    fn close(&self, key: u64) -> Result<(), Error> {
        self.find(key, S::close)
    }
}
