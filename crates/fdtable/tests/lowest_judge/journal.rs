//! The record of a thread's calls.

use std::ops::Range;

/// A descriptor, or the limit, which may be one past the highest.
pub(crate) type Number = u32;

/// The effect of a call on descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Took the lowest descriptors from `min` on, all at one moment.
    TookLowest { min: Number, file: HasFile },
    /// Took a descriptor, not necessarily a low one.
    TookAny { file: HasFile },
    /// Freed descriptors, all at one moment.
    Freed,
    /// Found fewer descriptors than `count` free from `min` to the limit.
    Refused { count: u32, min: Number },
    /// Found that a descriptor is not open.
    FoundClosed,
    /// Set the limit. Only one thread does.
    SetLimit(Number),
}

/// State of a taken descriptor when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasFile {
    Installed,
    Reserved,
}

/// A call, or one of its steps. Its moment is after `start` and before `end`.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) deed: Deed,
    /// Range of the journal's descriptors.
    numbers: Range<u32>,
}

/// The events of one thread, in their order.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) events: Vec<Event>,
    numbers: Vec<Number>,
}

impl Journal {
    /// Records a step with the descriptors that it took, freed or found, all at one moment.
    pub(crate) fn write(
        &mut self,
        (start, end): (u64, u64),
        deed: Deed,
        numbers: impl IntoIterator<Item = Number>,
    ) {
        let first = self.numbers.len() as u32;
        self.numbers.extend(numbers);
        let numbers = first..self.numbers.len() as u32;
        self.events.push(Event {
            start,
            end,
            deed,
            numbers,
        });
    }

    pub(crate) fn numbers(&self, event: &Event) -> &[Number] {
        &self.numbers[event.numbers.start as usize..event.numbers.end as usize]
    }
}
