//! Changes of sites: the two forms, and the code of their stubs.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl};

use super::branches::has_branch_to;
use super::code::{CPUID, MOV, SYSCALL, byte_at, is_text, text};

/// The most instructions that are moved.
pub(super) const MOVED: usize = 4;

/// `jmp *disp32(%rip)`, and its size.
pub(super) const JUMP_BY: [u8; 2] = [0xFF, 0x25];
const JUMP_BY_SIZE: usize = 6;

/// A change of code: a jump at `begin` to a stub with `code`. All other addresses are relative to
/// `begin`, so that it is the same for all mappings of a file.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) begin: u64,
    pub(super) code: Vec<u8>,
    /// Index in the code of the entry's address, which is relative to its place.
    pub(super) entry_at: usize,
    /// The bytes from there on to where the thread continues.
    pub(super) original: Vec<u8>,
    /// Instructions behind the call: where they are now, and their indices in the code.
    pub(super) moved: Vec<(u64, usize)>,
    /// Index in the code of the distance of a conditional jump, and the target of the jump.
    pub(super) branch: Option<(usize, u64)>,
    /// The code in which no branch leads to the replaced bytes; `None` if a branch may.
    pub(super) searched: Option<Range<u64>>,
    pub(super) instruction: Instruction,
}

/// Instruction at a site.
#[derive(Clone, Copy)]
pub(super) enum Instruction {
    Syscall,
    /// See [`cpuid`](super::cpuid).
    Cpuid,
}

impl Instruction {
    pub(super) const fn bytes(self) -> [u8; 2] {
        match self {
            Self::Syscall => SYSCALL,
            Self::Cpuid => CPUID,
        }
    }

    /// Returns the code that loads the return address: `lea disp32(%rip)` to a register that the
    /// instruction sets.
    pub(super) const fn load(self) -> [u8; 3] {
        match self {
            // `rcx`, `rdx`.
            Self::Syscall => [0x48, 0x8D, 0x0D],
            Self::Cpuid => [0x48, 0x8D, 0x15],
        }
    }

    /// Returns the offset in a pool of the address that stubs jump to.
    pub(super) const fn word(self) -> u64 {
        match self {
            Self::Syscall => 0,
            Self::Cpuid => 8,
        }
    }
}

/// Plans the change of a site, in the first form that it has. `number` is in the instruction before
/// it in the form *in front*.
pub(super) fn plan(
    code: &Range<u64>,
    site: u64,
    number: i64,
    instruction: Instruction,
) -> Option<Change> {
    in_front(code, site, number, instruction).or_else(|| behind(code, site, instruction))
}

/// Plans the first form.
fn in_front(code: &Range<u64>, site: u64, number: i64, instruction: Instruction) -> Option<Change> {
    let begin = site.checked_sub(5).filter(|&begin| begin > code.start)?;
    let number = u32::try_from(number).ok()?;
    let [n0, n1, n2, n3] = number.to_le_bytes();
    let [i0, i1] = instruction.bytes();
    let original = text(begin..site + 2)?;
    // With such a prefix the instruction would set another register.
    if byte_at(begin - 1)? & 0xF0 == 0x40 || original != [MOV, n0, n1, n2, n3, i0, i1] {
        return None;
    }
    let mut change = Change::new(begin, instruction);
    change.code.extend([MOV, n0, n1, n2, n3]);
    change.original = original;
    change.enter();
    Some(change)
}

/// Plans the second form.
fn behind(code: &Range<u64>, site: u64, instruction: Instruction) -> Option<Change> {
    // Some instructions of up to 15 bytes.
    let all: Vec<u8> = (site..code.end.min(site + 64)).map_while(byte_at).collect();
    let rest = all.strip_prefix(&instruction.bytes())?;
    let mut decoder = Decoder::with_ip(64, rest, site + 2, DecoderOptions::NONE);
    let mut change = Change::new(site, instruction);
    change.searched = Some(code.start.wrapping_sub(site)..code.end.wrapping_sub(site));
    change.enter();
    let mut end = site + 2;
    while end < site + 5 {
        let next = decoder.decode();
        let is_movable = !next.is_invalid()
            && matches!(
                next.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            )
            && !next.is_ip_rel_memory_operand()
            && !matches!(next.code(), Code::Syscall | Code::Cpuid);
        if !is_movable || change.moved.len() == MOVED {
            return None;
        }
        change.moved.push((end - site, change.code.len()));
        let text = &all[(end - site) as usize..(next.next_ip() - site) as usize];
        match next.flow_control() {
            FlowControl::ConditionalBranch => {
                change.code.extend([0x0F, 0x80 | condition(text)?]);
                let target = next.near_branch_target().wrapping_sub(site);
                let place = (change.code.len(), target);
                if change.branch.replace(place).is_some() {
                    return None;
                }
                change.code.extend([0; 4]);
            }
            _ => change.code.extend(text),
        }
        end = next.next_ip();
    }
    if has_branch_to(code, site + 1..end.min(site + 5)) {
        return None;
    }
    change.original = all[..(end - site) as usize].to_vec();
    Some(change)
}

/// Returns the condition of a conditional jump; `None` for a jump by `rcx`.
fn condition(text: &[u8]) -> Option<u8> {
    match *text {
        [short @ 0x70..=0x7F, _] => Some(short & 0xF),
        [0x0F, near @ 0x80..=0x8F, ..] => Some(near & 0xF),
        _ => None,
    }
}

impl Change {
    pub(super) const fn new(begin: u64, instruction: Instruction) -> Self {
        Self {
            begin,
            code: Vec::new(),
            entry_at: 0,
            original: Vec::new(),
            moved: Vec::new(),
            branch: None,
            searched: None,
            instruction,
        }
    }

    /// Returns the same change for code at a distance.
    pub(super) fn moved_by(&self, distance: u64) -> Self {
        Self {
            begin: self.begin.wrapping_add(distance),
            ..self.clone()
        }
    }

    /// Returns the address behind the instructions that were replaced or moved.
    pub(super) fn end(&self) -> u64 {
        self.begin.wrapping_add(self.original.len() as u64)
    }

    /// Returns the address of the `syscall`.
    pub(super) fn site(&self) -> u64 {
        match self.moved.is_empty() {
            true => self.begin + 5,
            false => self.begin,
        }
    }

    /// Returns true if this code has the bytes that the change replaces, and the search for
    /// branches has covered it.
    pub(super) fn fits(&self, code: &Range<u64>) -> bool {
        let end = self.end();
        let is_searched = |searched: &Range<u64>| {
            // The addresses may have wrapped.
            let start = self.begin.wrapping_add(searched.start);
            let length = searched.end.wrapping_sub(searched.start);
            code.start.wrapping_sub(start) <= length && code.end.wrapping_sub(start) <= length
        };
        if self.begin <= code.start || end > code.end {
            return false;
        }
        if !self.searched.as_ref().is_none_or(is_searched) {
            return false;
        }
        // With such a prefix the instruction would set another register.
        let is_alone = || byte_at(self.begin - 1).is_some_and(|prefix| prefix & 0xF0 != 0x40);
        is_text(self.begin, &self.original) && (!self.moved.is_empty() || is_alone())
    }

    /// Returns the instructions that move, each with its place in a stub.
    pub(super) fn moved_to(&self, stub: u64) -> Vec<(u64, u64)> {
        let in_stub = |&(from, at): &(u64, usize)| (self.begin + from, stub + at as u64);
        self.moved.iter().map(in_stub).collect()
    }

    /// Appends the jump to the entry, with what follows it as the place to return to.
    fn enter(&mut self) {
        self.code.extend(self.instruction.load());
        self.code.extend((JUMP_BY_SIZE as i32).to_le_bytes());
        self.code.extend(JUMP_BY);
        self.entry_at = self.code.len();
        self.code.extend([0; 4]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code with a site of each form, at 16 and at 40, in front of which there is other code.
    fn code() -> Vec<u8> {
        let mut code = vec![0x90; 64];
        code[11..18].copy_from_slice(&[MOV, 39, 0, 0, 0, 0x0F, 0x05]);
        // syscall; cmp $-4096, %rax
        code[40..48].copy_from_slice(&[0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF]);
        code
    }

    fn range_of(code: &[u8]) -> Range<u64> {
        let start = code.as_ptr().expose_provenance() as u64;
        start..start + code.len() as u64
    }

    #[test]
    fn a_change_fits_equal_code_elsewhere_and_no_other() {
        let (here, there) = (code(), code());
        let (from, to) = (range_of(&here), range_of(&there));
        let by = to.start.wrapping_sub(from.start);
        let call = Instruction::Syscall;
        let forms = [
            (in_front(&from, from.start + 16, 39, call), 16, 11..18),
            (behind(&from, from.start + 40, call), 40, 40..48),
        ];
        for (change, site, replaced) in forms {
            let change = change.expect("it is of this form");
            assert_eq!(change.site(), from.start + site);
            let change = change.moved_by(by);
            assert_eq!(change.site(), to.start + site);
            assert!(change.fits(&to));
            if change.searched.is_some() {
                // A branch may be in what was not searched.
                assert!(!change.fits(&(to.start..to.end + 1)));
                assert!(!change.fits(&(to.start - 1..to.end)));
            }
            for at in replaced.clone() {
                let mut other = there.clone();
                other[at] ^= 1;
                let range = range_of(&other);
                let moved = change.moved_by(range.start.wrapping_sub(to.start));
                assert!(!moved.fits(&range), "{site} {at}");
                let end = range.start + replaced.end as u64;
                assert!(!moved.fits(&(range.start..end - 1)));
            }
        }
    }
}
