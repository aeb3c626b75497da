//! Code of files in memory, by the parts that are mapped.

use std::collections::BTreeMap;
use std::ops::Range;

use super::change::Change;
use super::known::Identity;
use crate::memory;

/// Code of a file: a private mapping that cannot be written.
#[derive(Clone, Copy)]
pub(super) struct Mapped {
    pub(super) end: u64,
    /// The place in the file of its begin.
    pub(super) place: u64,
    pub(super) identity: Identity,
}

impl Mapped {
    /// Returns the place in the file of an address. The mapping begins at `start`.
    pub(super) fn place_of(&self, start: u64, at: u64) -> u64 {
        at - start + self.place
    }
}

/// Code of files, by where it begins.
pub(super) struct CodeOfFiles(pub(super) BTreeMap<u64, Mapped>);

impl CodeOfFiles {
    /// Returns the part of a file at an address, and where the part begins.
    pub(super) fn mapped_at(&self, at: u64) -> Option<(u64, Mapped)> {
        let (&start, &mapped) = self.0.range(..=at).next_back()?;
        (at < mapped.end).then_some((start, mapped))
    }

    /// Returns the code of a file of which a part begins at an address: all parts beside it that
    /// are mapped as they are in the file.
    pub(super) fn code_of_file(&self, start: u64) -> Range<u64> {
        let Some(&part) = self.0.get(&start) else {
            return start..start;
        };
        let is_same = |at: u64, other: &Mapped| {
            other.identity == part.identity
                && other.place.wrapping_sub(part.place) == at.wrapping_sub(start)
        };
        let mut code = start..part.end;
        for (&at, other) in self.0.range(..start).rev() {
            if other.end != code.start || !is_same(at, other) {
                break;
            }
            code.start = at;
        }
        for (&at, other) in self.0.range(code.end..) {
            if at != code.end || !is_same(at, other) {
                break;
            }
            code.end = other.end;
        }
        code
    }

    /// Returns a change of code of a file, at its place there.
    pub(super) fn in_file(&self, start: u64, mapped: &Mapped, change: &Change) -> Change {
        let mut in_file = change.moved_by(mapped.place.wrapping_sub(start));
        let Some(searched) = &mut in_file.searched else {
            return in_file;
        };
        if mapped.identity.changes_unseen() {
            *searched = 0..0;
            return in_file;
        }
        // Without the code of other files beside it.
        let of_file = self.code_of_file(start);
        let there = |at: u64| change.begin.wrapping_add(at);
        let begin = there(searched.start).max(of_file.start);
        let end = there(searched.end).min(of_file.end);
        *searched = begin.wrapping_sub(change.begin)..end.wrapping_sub(change.begin);
        in_file
    }

    /// Forgets the code of files in a range.
    pub(super) fn unmap(&mut self, range: &Range<u64>) {
        let part = |mapped: Mapped, start, part: &Range<u64>| Mapped {
            end: part.end,
            place: mapped.place + (part.start - start),
            ..mapped
        };
        memory::cut(&mut self.0, range, |mapped| mapped.end, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_forgotten_by_parts() {
        let mut code = CodeOfFiles(BTreeMap::new());
        let identity = Identity::EMPTY;
        let mapped = Mapped {
            end: 0x9000,
            place: 0x3000,
            identity,
        };
        code.0.insert(0x4000, mapped);
        code.unmap(&(0x9000..0xA000));
        code.unmap(&(0x5000..0x7000));
        let place = |at| {
            code.mapped_at(at)
                .map(|(start, mapped)| at - start + mapped.place)
        };
        assert_eq!(place(0x4FFF), Some(0x3FFF));
        assert_eq!(place(0x5000), None);
        assert_eq!(place(0x6FFF), None);
        assert_eq!(place(0x7000), Some(0x6000));
        assert_eq!(place(0x8FFF), Some(0x7FFF));
        assert_eq!(place(0x9000), None);
        assert_eq!(code.code_of_file(0x4000), 0x4000..0x5000);
        let hole = Mapped {
            end: 0x7000,
            place: 0x4000,
            identity,
        };
        code.0.insert(0x5000, hole);
        assert_eq!(code.code_of_file(0x5000), 0x4000..0x9000);
        // Another part of the file.
        code.0.insert(0x5000, Mapped { place: 0, ..hole });
        assert_eq!(code.code_of_file(0x4000), 0x4000..0x5000);
        assert_eq!(code.code_of_file(0x7000), 0x7000..0x9000);
    }
}
