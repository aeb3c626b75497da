//! Jumps from sites to stubs: how they are written beside threads that run the code.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};

use super::change::{Change, MOVED};
use super::code::{JUMP, TRAP, is_text, serialize, text};
use super::stubs::STUB;
use crate::memory::pointer;
use crate::thread;

/// The jump of a site that was rewritten.
#[derive(Clone, Copy)]
pub(super) struct Jump {
    pub(super) begin: u64,
    pub(super) stub: u64,
    /// The bytes that it has replaced.
    before: [u8; 5],
}

/// A change of a site beside other threads. It is never freed, because handlers read it.
struct LiveChange {
    /// The place whose first byte is a trap until the change is over, and its stub.
    begin: u64,
    stub: u64,
    is_over: AtomicBool,
}

/// The last change. Written by the holder of the lock, read by handlers without it.
static LAST_CHANGE: AtomicPtr<LiveChange> = AtomicPtr::new(ptr::null_mut());

/// Instructions that a handler moves a thread from, while they change: where they were, and where
/// they are. 0 for none.
static MOVING: [[AtomicU64; 2]; MOVED] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOVED];

impl LiveChange {
    fn begin(begin: u64, stub: u64) -> &'static Self {
        let change: &'static Self = Box::leak(Box::new(Self {
            begin,
            stub,
            is_over: AtomicBool::new(false),
        }));
        LAST_CHANGE.store(ptr::from_ref(change).cast_mut(), SeqCst);
        change
    }

    fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Returns the last change, and whether it is over.
    fn last() -> Option<(&'static Self, bool)> {
        // SAFETY: a change is never freed.
        let last = unsafe { LAST_CHANGE.load(SeqCst).as_ref() }?;
        Some((last, last.is_over.load(SeqCst)))
    }
}

/// Returns the address at which a thread continues after the trap at `at`: the stub of a site that
/// changes, or `at` if it has changed. Returns `None` for a trap of the program. For handlers:
/// takes no lock.
pub(crate) fn stub_of(at: u64) -> Option<u64> {
    // SAFETY: the thread has just run this byte.
    stub_by(at, || unsafe { pointer::<u8>(at).read_volatile() })
}

/// As [`stub_of`], with the means to read the byte.
fn stub_by(at: u64, read: impl Fn() -> u8) -> Option<u64> {
    let identity = |(change, is_over): (&LiveChange, bool)| (ptr::from_ref(change), is_over);
    loop {
        let last = LiveChange::last();
        let byte = read();
        // Each change has an address of its own. If this one is the same, no change has begun or
        // ended meanwhile, and the byte is of that time.
        if LiveChange::last().map(identity) == last.map(identity) {
            return match last {
                Some((change, false)) if change.begin == at => Some(change.stub),
                _ => (byte != TRAP).then_some(at),
            };
        }
    }
}

/// Returns the copy of an instruction that is about to change; otherwise the same address. For
/// handlers.
pub(crate) fn moving(at: u64) -> u64 {
    let found = MOVING
        .iter()
        .find(|[from, _]| at != 0 && from.load(SeqCst) == at);
    found.map_or(at, |[_, to]| to.load(SeqCst))
}

impl Jump {
    /// Returns the jump of a change, if the stub is in reach.
    pub(super) fn of(change: &Change, stub: u64) -> Option<Self> {
        let begin = change.begin;
        let distance = stub.cast_signed() - (begin + 5).cast_signed();
        i32::try_from(distance).ok()?;
        let before = *text(begin..begin + 5)?.first_chunk()?;
        Some(Self {
            begin,
            stub,
            before,
        })
    }

    /// Returns the bytes of the jump.
    pub(super) fn code(&self) -> [u8; 5] {
        let distance = self.stub.wrapping_sub(self.begin + 5) as u32;
        let [d0, d1, d2, d3] = distance.to_le_bytes();
        [JUMP, d0, d1, d2, d3]
    }

    /// Returns true if the site still has the bytes of the jump.
    pub(super) fn is_there(&self) -> bool {
        is_text(self.begin, &self.code())
    }

    /// Returns true if an address is in the stub.
    pub(super) fn has_in_stub(&self, at: u64) -> bool {
        (self.stub..self.stub + STUB).contains(&at)
    }

    /// Has the site jump to its stub. `moved` are the instructions behind the jump, and their
    /// copies.
    pub(super) fn make(&self, moved: &[(u64, u64)], memory: &File) -> Option<()> {
        self.replace(&self.code(), moved, memory)
    }

    /// Gives the site its bytes back. A thread that is in the stub stays there.
    pub(super) fn undo(&self, memory: &File) -> Option<()> {
        self.replace(&self.before, &[], memory)
    }

    /// Writes the bytes of the site, beside other threads if there are some.
    fn replace(&self, bytes: &[u8; 5], moved: &[(u64, u64)], memory: &File) -> Option<()> {
        let begin = self.begin;
        if thread::is_alone() {
            return memory.write_all_at(bytes, begin).ok();
        }
        let change = LiveChange::begin(begin, self.stub);
        memory.write_all_at(&[TRAP], begin).ok()?;
        serialize();
        if !moved.is_empty() {
            for (place, &(from, to)) in MOVING.iter().zip(moved) {
                place[1].store(to, SeqCst);
                place[0].store(from, SeqCst);
            }
            thread::interrupt_guests();
            MOVING.iter().for_each(|place| place[0].store(0, SeqCst));
        }
        memory.write_all_at(&bytes[1..], begin + 1).ok()?;
        serialize();
        memory.write_all_at(&bytes[..1], begin).ok()?;
        serialize();
        change.end();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_trap_leads_to_its_own_stub_or_back_if_changes_begin_or_end_meanwhile() {
        const AT: u64 = 0x1000;
        const STUB_AT: u64 = 0x2000;
        // Runs steps of the thread that changes code just before the byte is read, the first time.
        let answer = |steps: &dyn Fn(&Cell<u8>), byte: u8| {
            let (byte, is_first) = (Cell::new(byte), Cell::new(true));
            let answer = stub_by(AT, || {
                if is_first.replace(false) {
                    steps(&byte);
                }
                byte.get()
            });
            if let Some((change, false)) = LiveChange::last() {
                change.end();
            }
            answer
        };
        let begins = |byte: &Cell<u8>| {
            LiveChange::begin(AT, STUB_AT);
            byte.set(TRAP);
        };
        assert_eq!(answer(&begins, JUMP), Some(STUB_AT));

        let change = LiveChange::begin(AT, STUB_AT);
        let ends = |byte: &Cell<u8>| {
            byte.set(JUMP);
            change.end();
        };
        assert_eq!(answer(&ends, TRAP), Some(AT));

        let change = LiveChange::begin(AT, STUB_AT);
        let ends_before_another = |byte: &Cell<u8>| {
            byte.set(JUMP);
            change.end();
            LiveChange::begin(0x3000, 0x4000);
        };
        assert_eq!(answer(&ends_before_another, TRAP), Some(AT));

        // A trap of the program.
        assert_eq!(answer(&|_| (), TRAP), None);
        LiveChange::begin(0x3000, 0x4000);
        assert_eq!(answer(&|_| (), TRAP), None);
    }
}
