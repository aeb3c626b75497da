//! What a thread writes down of its calls.

use std::ops::Range;

/// The number of a descriptor, or the limit, which may be one past the highest.
pub(crate) type Number = u32;

/// What a call did to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Took the lowest numbers from `min` on, all at one moment.
    TookLowest { min: Number, file: HasFile },
    /// Took a number, not necessarily a low one.
    TookAny { file: HasFile },
    /// Freed numbers, all at one moment.
    Freed,
    /// Found fewer numbers than `count` free from `min` to the limit.
    Refused { count: u32, min: Number },
    /// Found that a number is not open.
    FoundClosed,
    /// Set the limit. One thread alone does.
    SetLimit(Number),
}

/// Whether a number that was taken is open when the call returns.
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
    /// Where the journal has its numbers.
    numbers: Range<u32>,
}

/// The events of one thread, in their order.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) events: Vec<Event>,
    numbers: Vec<Number>,
}

impl Journal {
    /// Writes down a step with the numbers that it took, freed or found, all at one moment.
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
