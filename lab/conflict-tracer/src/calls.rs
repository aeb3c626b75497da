//! The calls and returns of an operation, in order.
//!
//! They determine which functions were active at any step, without frame pointers or tables for
//! unwinding; during the operation the handler only records an address. A tail call that is a jump
//! leaves no mark, and its return is that of its caller.

/// Calls and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls(Vec<Mark>);

/// A call or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Index of the instruction.
    pub(crate) step: u32,
    pub(crate) kind: MarkKind,
}

/// Kind of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// A call, at this address.
    Call(u64),
    /// A return.
    Return,
}

impl Calls {
    pub(crate) fn new(marks: Vec<Mark>) -> Self {
        Self(marks)
    }

    /// Returns the addresses of the calls that were active at a step, the innermost first.
    pub(crate) fn active_at(&self, step: u32) -> Vec<u64> {
        let mut active = Vec::new();
        for mark in self.0.iter().take_while(|mark| mark.step < step) {
            match mark.kind {
                MarkKind::Call(from) => active.push(from),
                MarkKind::Return => {
                    active.pop();
                }
            }
        }
        active.reverse();
        active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_active_from_the_next_instruction_to_its_return() {
        let mark = |step, kind| Mark { step, kind };
        let calls = Calls::new(vec![
            mark(2, MarkKind::Call(0x20)),
            mark(4, MarkKind::Call(0x40)),
            mark(6, MarkKind::Return),
            mark(8, MarkKind::Return),
            mark(9, MarkKind::Return),
        ]);
        assert_eq!(calls.active_at(2), []);
        assert_eq!(calls.active_at(4), [0x20]);
        assert_eq!(calls.active_at(6), [0x40, 0x20]);
        assert_eq!(calls.active_at(7), [0x20]);
        assert_eq!(calls.active_at(20), []);
    }
}
