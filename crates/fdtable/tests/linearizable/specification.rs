//! The required answers of a table in a sequential history: a pure state machine.
//!
//! An operation happens in one step or in a few. `open` takes a descriptor and then installs the
//! file: in between the descriptor is reserved, and other threads may see it reserved. `dup` finds
//! its file before that. `rename` puts the file at the new descriptor and then frees the old one:
//! in between lookups find it at both, and no operation but a lookup happens at either. Every other
//! operation is one step. Each step is a claim about the state in which it happens, since the
//! answer of the operation is known when it is judged: a step that does not hold in a state has no
//! legal outcome there.
//!
//! A new operation needs a variant of [`Operation`] and a line of [`Operation::steps`], and a new
//! kind of step if none of these describes it.

use std::collections::BTreeMap;

use fdtable::{Error, RawFd};

/// Identifies a file.
pub(crate) type File = u32;

/// An operation together with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Open(File, Result<RawFd, Error>),
    OpenAny(File, Result<RawFd, Error>),
    OpenPair([File; 2], Result<[RawFd; 2], Error>),
    Reserve(Result<RawFd, Error>),
    /// Of that many, 256 at most: more are not reserved atomically.
    ReserveMany(usize, Result<Vec<RawFd>, Error>),
    ReserveFrom(RawFd, Result<RawFd, Error>),
    /// Of a descriptor that this thread reserved.
    Install(RawFd, File),
    /// The drop of a reservation.
    Cancel(RawFd),
    Get(RawFd, Result<File, Error>),
    Close(RawFd, Result<(), Error>),
    Take(RawFd, Result<File, Error>),
    Dup(RawFd, Result<RawFd, Error>),
    DupFrom(RawFd, RawFd, Result<RawFd, Error>),
    DupTo(RawFd, RawFd, Result<RawFd, Error>),
    /// With the file that was there before.
    Replace(RawFd, File, Result<Option<File>, Error>),
    OpenAt(RawFd, File, Result<(), Error>),
    /// If the first file is there.
    ReplaceIf(RawFd, File, File, Result<(), Error>),
    CloseIf(RawFd, File, Result<(), Error>),
    /// With the file that was at the new descriptor before.
    Rename(RawFd, RawFd, Result<Option<File>, Error>),
    /// A child, with these files under these numbers.
    Fork(Vec<(RawFd, File)>),
    SetQuarantine(u32),
}

/// A step, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The lowest free descriptors from the first one on are those of the list, and are now
    /// reserved. Where too few are free, the rest are the oldest in quarantine.
    TakeLowest(RawFd, Vec<RawFd>),
    /// The descriptor is free and below the limit, or none is and it is the oldest in quarantine.
    /// It is now reserved.
    TakeAny(RawFd),
    /// From the descriptor to the limit, fewer than so many are free or in quarantine.
    Fewer(RawFd, usize),
    /// The descriptor is not below the limit, or negative.
    OutOfRange(RawFd),
    /// The descriptor is reserved, and now has this file.
    Install(RawFd, File),
    /// The descriptor is reserved, and now has the file that the operation has found.
    InstallFound(RawFd),
    /// The descriptor is reserved, and now free.
    Cancel(RawFd),
    /// The descriptor is open; the operation has found its file.
    Find(RawFd),
    /// The descriptor is open, and this is its file.
    Has(RawFd, File),
    /// The descriptor is free or reserved.
    NotOpen(RawFd),
    Reserved(RawFd),
    /// The descriptor is open, and now free or in quarantine.
    Remove(RawFd),
    /// The file of the first descriptor is now that of the second one, which is not reserved.
    Replace(RawFd, RawFd),
    /// The descriptor is below the limit, and open with the second file or free; it now has the
    /// first file.
    Put(RawFd, File, Option<File>),
    /// The descriptor is open, with another file.
    HasOther(RawFd, File),
    /// The first descriptor is open. The second one is below the limit, and open with this file or
    /// free. Lookups now find the file of the first at both.
    Move(RawFd, RawFd, Option<File>),
    /// Ends such a move: the first descriptor is free or in quarantine, and the second one open.
    EndMove(RawFd, RawFd),
    /// The first descriptor is not open, or the second one is not below the limit.
    NothingToReplace(RawFd, RawFd),
    /// Exactly these are open.
    Open(Vec<(RawFd, File)>),
    /// Closed descriptors wait for so many opens.
    SetQuarantine(u32),
    /// No table returns that.
    Never,
}

impl Operation {
    /// The steps of the operation: all steps of a list hold at one moment, and the moments come in
    /// this order.
    pub(crate) fn steps(&self) -> Vec<Vec<Step>> {
        use Error::{BadFd, Busy, Exists, InvalidArgument, Stale, TooManyFiles};
        use Step::*;
        match *self {
            Self::Open(file, Ok(number)) => {
                vec![
                    vec![TakeLowest(0, vec![number])],
                    vec![Install(number, file)],
                ]
            }
            Self::OpenAny(file, Ok(number)) => {
                vec![vec![TakeAny(number)], vec![Install(number, file)]]
            }
            Self::OpenPair(files, Ok(numbers)) => vec![
                vec![TakeLowest(0, numbers.to_vec())],
                vec![Install(numbers[0], files[0])],
                vec![Install(numbers[1], files[1])],
            ],
            Self::OpenPair(_, Err(TooManyFiles)) => vec![vec![Fewer(0, 2)]],
            Self::ReserveMany(count, Ok(ref numbers)) if numbers.len() == count => {
                vec![vec![TakeLowest(0, numbers.clone())]]
            }
            Self::ReserveMany(count, Err(TooManyFiles)) => vec![vec![Fewer(0, count)]],
            Self::Reserve(Ok(number)) => vec![vec![TakeLowest(0, vec![number])]],
            Self::Open(_, Err(TooManyFiles))
            | Self::OpenAny(_, Err(TooManyFiles))
            | Self::Reserve(Err(TooManyFiles)) => {
                vec![vec![Fewer(0, 1)]]
            }
            Self::ReserveFrom(min, Ok(number)) => vec![vec![TakeLowest(min, vec![number])]],
            Self::ReserveFrom(min, Err(TooManyFiles)) => vec![vec![Fewer(min, 1)]],
            Self::ReserveFrom(min, Err(InvalidArgument)) => vec![vec![OutOfRange(min)]],
            Self::Install(number, file) => vec![vec![Install(number, file)]],
            Self::Cancel(number) => vec![vec![Cancel(number)]],
            Self::Get(number, Ok(file)) => vec![vec![Has(number, file)]],
            Self::Close(number, Ok(())) => vec![vec![Remove(number)]],
            Self::Take(number, Ok(file)) => vec![vec![Has(number, file), Remove(number)]],
            Self::Get(number, Err(BadFd))
            | Self::Close(number, Err(BadFd))
            | Self::Take(number, Err(BadFd))
            | Self::Dup(number, Err(BadFd))
            | Self::DupFrom(number, _, Err(BadFd)) => vec![vec![NotOpen(number)]],
            Self::Dup(old, Ok(number)) => found_and_installed(old, 0, number),
            Self::Dup(old, Err(TooManyFiles)) => vec![vec![Find(old)], vec![Fewer(0, 1)]],
            Self::DupFrom(old, min, Ok(number)) => found_and_installed(old, min, number),
            Self::DupFrom(old, min, Err(TooManyFiles)) => {
                vec![vec![Find(old)], vec![Fewer(min, 1)]]
            }
            Self::DupFrom(old, min, Err(InvalidArgument)) => {
                vec![vec![Find(old)], vec![OutOfRange(min)]]
            }
            Self::DupTo(old, new, Ok(number)) if new == number => vec![vec![Replace(old, new)]],
            Self::DupTo(old, new, Err(BadFd)) => vec![vec![NothingToReplace(old, new)]],
            Self::DupTo(old, new, Err(Busy)) => vec![vec![Find(old), Reserved(new)]],
            Self::DupTo(old, new, Err(InvalidArgument)) if old == new => vec![vec![]],
            Self::Replace(number, file, Ok(before)) => vec![vec![Put(number, file, before)]],
            Self::OpenAt(number, file, Ok(())) => vec![vec![Put(number, file, None)]],
            Self::Replace(number, _, Err(BadFd)) | Self::OpenAt(number, _, Err(BadFd)) => {
                vec![vec![OutOfRange(number)]]
            }
            Self::Replace(number, _, Err(Busy)) | Self::OpenAt(number, _, Err(Busy)) => {
                vec![vec![Reserved(number)]]
            }
            Self::OpenAt(number, _, Err(Exists)) => vec![vec![Find(number)]],
            Self::ReplaceIf(number, expected, file, Ok(())) => {
                vec![vec![Put(number, file, Some(expected))]]
            }
            Self::CloseIf(number, expected, Ok(())) => {
                vec![vec![Has(number, expected), Remove(number)]]
            }
            // Nothing is open above the limit.
            Self::ReplaceIf(number, _, _, Err(BadFd)) | Self::CloseIf(number, _, Err(BadFd)) => {
                vec![vec![NotOpen(number)]]
            }
            Self::ReplaceIf(number, expected, _, Err(Stale))
            | Self::CloseIf(number, expected, Err(Stale)) => {
                vec![vec![HasOther(number, expected)]]
            }
            Self::Rename(from, to, Ok(None)) if from == to => vec![vec![Find(from)]],
            Self::Rename(from, to, Ok(before)) => {
                vec![vec![Move(from, to, before)], vec![EndMove(from, to)]]
            }
            Self::Rename(from, to, Err(BadFd)) => vec![vec![NothingToReplace(from, to)]],
            Self::Rename(from, to, Err(Busy)) => vec![vec![Find(from), Reserved(to)]],
            Self::Fork(ref copy) => vec![vec![Open(copy.clone())]],
            Self::SetQuarantine(opens) => vec![vec![SetQuarantine(opens)]],
            _ => vec![vec![Never]],
        }
    }
}

fn found_and_installed(old: RawFd, min: RawFd, number: RawFd) -> Vec<Vec<Step>> {
    vec![
        vec![Step::Find(old)],
        vec![Step::TakeLowest(min, vec![number])],
        vec![Step::InstallFound(number)],
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Free,
    Reserved,
    Open(File),
    /// In quarantine.
    Waiting,
    /// The file is being moved from or to the descriptor. Lookups find it.
    Moving(File),
}

/// The state of each descriptor: a long run of open descriptors from 0 on, then free ones, and the
/// exceptions from that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    limit: RawFd,
    /// The descriptors below this one are open, all with the file [`State::COMMON`].
    common: RawFd,
    exceptions: BTreeMap<RawFd, Place>,
    /// How many opens a closed descriptor waits for: 0 without quarantine.
    opens: u32,
    /// The descriptors in quarantine, the oldest first, and how many opens each has waited for.
    waiting: Vec<(RawFd, u32)>,
}

impl State {
    /// The file of the descriptors that are open from the beginning.
    pub(crate) const COMMON: File = 0;

    /// That many descriptors are open from 0 on, except these.
    pub(crate) fn new(limit: RawFd, common: RawFd, holes: &[RawFd]) -> Self {
        let exceptions = holes.iter().map(|&hole| (hole, Place::Free)).collect();
        Self {
            limit,
            common,
            exceptions,
            opens: 0,
            waiting: Vec::new(),
        }
    }

    fn at(&self, number: RawFd) -> Place {
        let usual = if number < self.common {
            Place::Open(Self::COMMON)
        } else {
            Place::Free
        };
        self.exceptions.get(&number).copied().unwrap_or(usual)
    }

    fn put(&mut self, number: RawFd, place: Place) {
        self.waiting.retain(|&(waiting, _)| waiting != number);
        // Without redundant exceptions, so that equal states compare equal.
        self.exceptions.remove(&number);
        if self.at(number) != place {
            self.exceptions.insert(number, place);
        }
    }

    fn lowest(&self, min: RawFd) -> RawFd {
        let mut exceptions = self.exceptions.range(min..);
        let hole = exceptions.find(|&(_, &place)| place == Place::Free);
        let past = (min.max(self.common)..).find(|&number| self.at(number) == Place::Free);
        let past = past.expect("numbers do not end");
        hole.map_or(past, |(&hole, _)| hole.min(past))
    }

    /// The free descriptors from `min` to the limit.
    fn free(&self, min: RawFd) -> impl Iterator<Item = RawFd> {
        let next = |last: &RawFd| Some(self.lowest(last + 1));
        let free = std::iter::successors(Some(self.lowest(min)), next);
        free.take_while(|&number| number < self.limit)
    }

    /// The descriptors that opens get that happen at one moment, in ascending order.
    fn next(&self, min: RawFd, count: usize) -> Vec<RawFd> {
        let in_range = move |number: &RawFd| (min..self.limit).contains(number);
        let waiting = self.waiting.iter().map(|&(number, _)| number);
        let next = self.free(min).chain(waiting.filter(in_range));
        let mut next: Vec<_> = next.take(count).collect();
        next.sort_unstable();
        next
    }

    /// Reserves descriptors, and counts the opens.
    fn reserve_if(&mut self, legal: bool, numbers: &[RawFd]) -> bool {
        if legal {
            for &number in numbers {
                self.put(number, Place::Reserved);
            }
            for (_, waited) in &mut self.waiting {
                *waited += numbers.len() as u32;
            }
            self.end_due();
        }
        legal
    }

    /// Frees the descriptors that have waited for long enough.
    fn end_due(&mut self) {
        while let Some(&(number, waited)) = self.waiting.first()
            && waited >= self.opens
        {
            self.put(number, Place::Free);
        }
    }

    /// Closes a descriptor.
    fn remove(&mut self, number: RawFd) {
        if self.opens == 0 {
            self.put(number, Place::Free);
        } else {
            self.put(number, Place::Waiting);
            self.waiting.push((number, 0));
        }
    }

    fn open(&self) -> Vec<(RawFd, File)> {
        let last = self.exceptions.keys().next_back().copied().unwrap_or(0);
        let open = |number| match self.at(number) {
            Place::Open(file) => Some((number, file)),
            Place::Free | Place::Reserved | Place::Waiting | Place::Moving(_) => None,
        };
        (0..self.common.max(last + 1)).filter_map(open).collect()
    }

    /// Makes a step, if it is legal here. `found` is the file that the operation has found so far.
    pub(crate) fn make(&mut self, step: &Step, found: &mut Option<File>) -> bool {
        match *step {
            Step::TakeLowest(min, ref numbers) => {
                let next = self.next(min, numbers.len());
                self.reserve_if(next == *numbers, numbers)
            }
            Step::TakeAny(number) => {
                let free = number < self.limit && self.lowest(number) == number;
                let legal = free || self.next(0, 1) == [number];
                self.reserve_if(legal, &[number])
            }
            Step::Fewer(min, count) => self.next(min, count).len() < count,
            Step::OutOfRange(number) => !(0..self.limit).contains(&number),
            Step::Install(number, file) => {
                self.put_if(self.is_reserved(number), number, Place::Open(file))
            }
            Step::InstallFound(number) => {
                let file = found.take().expect("it found a file before");
                self.put_if(self.is_reserved(number), number, Place::Open(file))
            }
            Step::Cancel(number) => self.put_if(self.is_reserved(number), number, Place::Free),
            Step::Find(number) => {
                *found = self.found(number);
                found.is_some()
            }
            Step::Has(number, file) => self.found(number) == Some(file),
            Step::NotOpen(number) => self.found(number).is_none(),
            Step::Reserved(number) => self.is_reserved(number),
            Step::Remove(number) => {
                let legal = self.file(number).is_some();
                if legal {
                    self.remove(number);
                }
                legal
            }
            Step::Replace(old, new) => match self.file(old) {
                Some(file) => self.put_if(self.is_not_busy(new), new, Place::Open(file)),
                None => false,
            },
            Step::NothingToReplace(old, new) => {
                self.found(old).is_none() || !(0..self.limit).contains(&new)
            }
            Step::Put(number, file, before) => {
                self.put_if(self.is_target(number, before), number, Place::Open(file))
            }
            Step::HasOther(number, file) => self.file(number).is_some_and(|it| it != file),
            Step::Move(from, to, before) => match self.file(from) {
                Some(file) if self.is_target(to, before) => {
                    self.put(from, Place::Moving(file));
                    self.put(to, Place::Moving(file));
                    true
                }
                _ => false,
            },
            Step::EndMove(from, to) => {
                let file = self.found(from).expect("its file is being moved");
                self.remove(from);
                self.put(to, Place::Open(file));
                true
            }
            Step::Open(ref copy) => !self.is_moving() && self.open() == *copy,
            Step::SetQuarantine(opens) => {
                self.opens = opens;
                self.end_due();
                true
            }
            Step::Never => false,
        }
    }

    fn put_if(&mut self, legal: bool, number: RawFd, place: Place) -> bool {
        if legal {
            self.put(number, place);
        }
        legal
    }

    /// The file of an open descriptor, for operations that change it.
    fn file(&self, number: RawFd) -> Option<File> {
        match self.at(number) {
            Place::Open(file) => Some(file),
            Place::Free | Place::Reserved | Place::Waiting | Place::Moving(_) => None,
        }
    }

    /// The file that a lookup finds.
    fn found(&self, number: RawFd) -> Option<File> {
        match self.at(number) {
            Place::Open(file) | Place::Moving(file) => Some(file),
            Place::Free | Place::Reserved | Place::Waiting => None,
        }
    }

    fn is_not_busy(&self, number: RawFd) -> bool {
        matches!(
            self.at(number),
            Place::Free | Place::Waiting | Place::Open(_)
        )
    }

    /// Returns true if a file can be put at a descriptor that has had `before`.
    fn is_target(&self, number: RawFd, before: Option<File>) -> bool {
        (0..self.limit).contains(&number) && self.is_not_busy(number) && self.file(number) == before
    }

    fn is_moving(&self) -> bool {
        let mut places = self.exceptions.values();
        places.any(|place| matches!(place, Place::Moving(_)))
    }

    fn is_reserved(&self, number: RawFd) -> bool {
        self.at(number) == Place::Reserved
    }
}
