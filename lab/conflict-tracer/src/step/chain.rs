//! The longest chain of dependent loads.
//!
//! Each register has a *depth*: the number of loads, one after the other, that its value needed. A
//! load is one deeper than the registers of its address, and a result as deep as the deepest of its
//! operands. The words that the operation has stored have depths too, so that a spilled register is
//! as deep when it comes back. The flags count as a register: a conditional move depends on them. A
//! branch does not, since CPUs predict it.

use iced_x86::{Instruction, InstructionInfo, OpAccess, Register, UsedMemory};

/// An exclusive upper bound of the registers' numbers.
const REGISTERS: usize = 256;
/// How many stored words are remembered: a later one replaces one of the same remainder.
const WORDS: usize = 1024;

/// Depths after the instructions so far.
pub(super) struct Chain {
    registers: [u32; REGISTERS],
    flags: u32,
    /// Addresses of words, and the depths of the values stored there.
    stored: [(u64, u32); WORDS],
    longest: u32,
}

/// The values of one instruction.
pub(super) struct Values {
    /// The depth of the deepest operand.
    depth: u32,
    /// The last word that it stores.
    store: Option<u64>,
}

impl Values {
    /// Adds a word that the instruction stores.
    pub(super) fn store(&mut self, address: u64) {
        self.store = Some(address);
    }
}

impl Chain {
    /// Starts an instruction with the registers that it reads.
    pub(super) fn begin(&self, decoded: &Instruction, info: &InstructionInfo) -> Values {
        let read = info
            .used_registers()
            .iter()
            .filter(|used| reads(used.access()))
            .map(|used| self.depth(used.register()));
        let flags = (decoded.rflags_read() != 0).then_some(self.flags);
        Values {
            depth: read.chain(flags).max().unwrap_or(0),
            store: None,
        }
    }

    /// Adds a load to the instruction.
    pub(super) fn load(&mut self, values: &mut Values, used: &UsedMemory, address: u64) {
        let of_address = self.depth(used.base()).max(self.depth(used.index()));
        let loaded = match self.stored[place(address)] {
            (stored, depth) if stored == address => depth.max(of_address),
            _ => of_address + 1,
        };
        self.longest = self.longest.max(loaded);
        values.depth = values.depth.max(loaded);
    }

    /// Ends the instruction: its results are as deep as its values.
    pub(super) fn end(&mut self, decoded: &Instruction, info: &InstructionInfo, values: &Values) {
        if let Some(address) = values.store {
            self.stored[place(address)] = (address, values.depth);
        }
        for used in info.used_registers() {
            // The stack pointer does not depend on what is pushed and popped.
            let is_stack = used.register() == Register::RSP && decoded.is_stack_instruction();
            if writes(used.access()) && !is_stack {
                self.registers[used.register().full_register() as usize] = values.depth;
            }
        }
        if decoded.rflags_modified() != 0 {
            self.flags = values.depth;
        }
    }

    pub(super) fn longest(&self) -> u32 {
        self.longest
    }

    fn depth(&self, register: Register) -> u32 {
        self.registers[register.full_register() as usize]
    }
}

impl Default for Chain {
    fn default() -> Self {
        Chain {
            registers: [0; REGISTERS],
            flags: 0,
            stored: [(0, 0); WORDS],
            longest: 0,
        }
    }
}

fn place(address: u64) -> usize {
    (address / 8) as usize % WORDS
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}
