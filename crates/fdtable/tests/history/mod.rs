//! Histories: random calls, replayed on two tables that must return equal answers.
//!
//! Their descriptors are at the critical places: small ones, open ones, both sides of a word, of a
//! node, of the limit, and invalid ones.

pub(crate) mod subject;

use fdtable::{FdFlags, Files, RawFd};
use proptest::prelude::*;
use proptest::sample::select;

/// Both sides of a word (64), of a page of words (4,096), of a node of the tree (32,768 and
/// 2^24), and of the range.
const BOUNDARIES: &[RawFd] = &[
    63,
    64,
    65,
    127,
    128,
    4095,
    4096,
    32_767,
    32_768,
    16_777_215,
    16_777_216,
    RawFd::MAX - 1,
    RawFd::MAX,
    -1,
    RawFd::MIN,
];

/// A descriptor, or how to find one when the call is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Plain(RawFd),
    /// The limit, with this added.
    NearLimit(i32),
    /// The first open descriptor from this one on, or else the first of all, or else this one.
    Open(RawFd),
}

impl Number {
    pub(crate) fn find<T: Send + Sync>(self, files: &Files<T>) -> RawFd {
        match self {
            Self::Plain(number) => number,
            Self::NearLimit(more) => {
                let number = i64::from(files.limit()) + i64::from(more);
                number.try_into().unwrap_or(RawFd::MAX)
            }
            Self::Open(from) => {
                let open = files
                    .iter_from(from)
                    .next()
                    .map(|(fd, ..)| fd)
                    .or_else(|| files.iter_from(0).next().map(|(fd, ..)| fd));
                open.map_or(from, RawFd::from)
            }
        }
    }
}

/// Any descriptor.
pub(crate) fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        6 => (0..8).prop_map(Number::Plain),
        6 => open_number(),
        3 => select(BOUNDARIES).prop_map(Number::Plain),
        2 => (-1..=1).prop_map(Number::NearLimit),
    ]
}

/// A descriptor that is most often open.
pub(crate) fn likely_open() -> impl Strategy<Value = Number> {
    prop_oneof![4 => open_number(), 1 => number()]
}

fn open_number() -> impl Strategy<Value = Number> {
    prop_oneof![0..8, 0..200, select(BOUNDARIES)].prop_map(Number::Open)
}

/// Some of these flags, and now and then unknown ones, which every call refuses.
pub(crate) fn flags_of(known: &'static [FdFlags]) -> impl Strategy<Value = FdFlags> + use<> {
    let unknown = (0..=1_u32).prop_map(|less| FdFlags::from_bits_retain(u32::MAX - less));
    prop_oneof![24 => select(known), 1 => unknown]
}

/// A call that every table has.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// That many times.
    Open(u32, FdFlags),
    Which(Number),
    Dup(Number),
    DupFrom(Number, Number, FdFlags),
    DupTo(Number, Number, FdFlags),
    Dup2(Number, Number),
    Close(Number),
    CloseRange(Number, Number),
    SetCloexecRange(Number, Number),
    Flags(Number),
    SetFlags(Number, FdFlags),
    SetLimit(u32),
}

/// A descriptor, flags, or 0 where there is nothing to return; or an errno.
pub(crate) type Answer = Result<i32, i32>;

/// A table that calls are made on.
pub(crate) trait Table {
    fn open(&mut self, flags: FdFlags) -> Answer;
    /// Returns which file is open under a descriptor: files are counted as they are opened, from 0.
    fn which(&mut self, fd: RawFd) -> Answer;
    fn dup(&mut self, old: RawFd) -> Answer;
    fn dup_min(&mut self, old: RawFd, min: RawFd, flags: FdFlags) -> Answer;
    fn dup3(&mut self, old: RawFd, new: RawFd, flags: FdFlags) -> Answer;
    fn dup2(&mut self, old: RawFd, new: RawFd) -> Answer;
    fn close(&mut self, fd: RawFd) -> Answer;
    fn close_range(&mut self, first: u32, last: u32) -> Answer;
    fn set_cloexec_range(&mut self, first: u32, last: u32) -> Answer;
    fn flags(&mut self, fd: RawFd) -> Answer;
    fn set_flags(&mut self, fd: RawFd, flags: FdFlags) -> Answer;
    fn set_limit(&mut self, limit: u32) -> Answer;
}

impl Call {
    /// Makes the call on a table. `files` is the table in which open descriptors are looked up.
    pub(crate) fn make<T: Send + Sync>(&self, on: &mut impl Table, files: &Files<T>) -> Answer {
        let find = |number: Number| number.find(files);
        let unsigned = |number: Number| number.find(files).cast_unsigned();
        match *self {
            Self::Open(count, flags) => (0..count).try_fold(0, |_, _| on.open(flags)),
            Self::Which(fd) => on.which(find(fd)),
            Self::Dup(old) => on.dup(find(old)),
            Self::DupFrom(old, min, flags) => on.dup_min(find(old), find(min), flags),
            Self::DupTo(old, new, flags) => on.dup3(find(old), find(new), flags),
            Self::Dup2(old, new) => on.dup2(find(old), find(new)),
            Self::Close(fd) => on.close(find(fd)),
            Self::CloseRange(first, last) => on.close_range(unsigned(first), unsigned(last)),
            Self::SetCloexecRange(first, last) => {
                on.set_cloexec_range(unsigned(first), unsigned(last))
            }
            Self::Flags(fd) => on.flags(find(fd)),
            Self::SetFlags(fd, flags) => on.set_flags(find(fd), flags),
            Self::SetLimit(limit) => on.set_limit(limit),
        }
    }
}

pub(crate) fn call(
    limits: Vec<u32>,
    known: &'static [FdFlags],
) -> impl Strategy<Value = Call> + use<> {
    let flags = || flags_of(known);
    let count = prop_oneof![8 => Just(1), 1 => 2..70_u32];
    prop_oneof![
        16 => (count, flags()).prop_map(|(count, flags)| Call::Open(count, flags)),
        6 => likely_open().prop_map(Call::Which),
        6 => likely_open().prop_map(Call::Dup),
        6 => (likely_open(), number(), flags()).prop_map(|(a, b, f)| Call::DupFrom(a, b, f)),
        6 => (likely_open(), number(), flags()).prop_map(|(a, b, f)| Call::DupTo(a, b, f)),
        4 => (likely_open(), number()).prop_map(|(a, b)| Call::Dup2(a, b)),
        16 => likely_open().prop_map(Call::Close),
        1 => (number(), number()).prop_map(|(a, b)| Call::CloseRange(a, b)),
        2 => (number(), number()).prop_map(|(a, b)| Call::SetCloexecRange(a, b)),
        4 => likely_open().prop_map(Call::Flags),
        4 => (likely_open(), flags()).prop_map(|(n, f)| Call::SetFlags(n, f)),
        1 => select(limits).prop_map(Call::SetLimit),
    ]
}
