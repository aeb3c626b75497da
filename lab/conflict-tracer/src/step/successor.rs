//! The possible successors of an instruction.
//!
//! A step may get lost: a handler of another signal may continue elsewhere than where it
//! interrupted, and the instruction there runs before the next trap. The next trap detects this,
//! because the instruction about to run is no successor of the last one.

use iced_x86::{Code, FlowControl, Instruction};

/// Returns true if the thread may be at `rip` after the instruction. Where that depends on data,
/// any address is possible.
pub(super) fn may_be(last: &Instruction, rip: u64) -> bool {
    let target = last.near_branch_target();
    match last.flow_control() {
        _ if last.code() == Code::INVALID => true,
        // A string instruction has iterations.
        FlowControl::Next => {
            rip == last.next_ip() || rip == last.ip() && last.is_string_instruction()
        }
        FlowControl::ConditionalBranch => rip == last.next_ip() || rip == target,
        FlowControl::UnconditionalBranch | FlowControl::Call if target != 0 => rip == target,
        // It always faults.
        FlowControl::Exception => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decode(code: &[u8]) -> Instruction {
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn an_instruction_without_a_branch_is_followed_by_the_next() {
        let nop = decode(&[0x90]);
        let followers: Vec<_> = (0xfff..0x1003).filter(|rip| may_be(&nop, *rip)).collect();
        assert_eq!(followers, [0x1001]);
    }

    #[test]
    fn a_string_instruction_is_followed_by_itself_too() {
        let copy = decode(&[0xf3, 0xa4]);
        let followers: Vec<_> = (0xfff..0x1004).filter(|rip| may_be(&copy, *rip)).collect();
        assert_eq!(followers, [0x1000, 0x1002]);
    }

    #[test]
    fn branches_lead_where_they_say() {
        let (jump, condition, call) = ([0xeb, 2], [0x75, 2], [0xe8, 2, 0, 0, 0]);
        let followers = |code: &[u8]| {
            let decoded = decode(code);
            (0x1000..0x1010)
                .filter(|rip| may_be(&decoded, *rip))
                .collect::<Vec<_>>()
        };
        assert_eq!(followers(&jump), [0x1004]);
        assert_eq!(followers(&condition), [0x1002, 0x1004]);
        assert_eq!(followers(&call), [0x1007]);
        assert_eq!(followers(&[0xc3]).len(), 16, "a return leads anywhere");
        assert!(followers(&[0x0f, 0x0b]).is_empty(), "`ud2` leads nowhere");
    }
}
