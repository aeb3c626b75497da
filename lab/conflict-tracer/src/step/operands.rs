//! From an instruction and the registers to its memory accesses.
//!
//! The decoder lists the accesses of an instruction, including implicit ones: the stack of a
//! `call`, both sides of a `movs`. If they depend on data, the whole range is recorded: a store
//! under a mask counts with all of its bytes. The exceptions are gathers and scatters, whose
//! [lanes](super::vector) are far apart, and string instructions without an iteration left.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use iced_x86::{Instruction, MemorySize, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use libc::{
    REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP,
    REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP, ucontext_t,
};

use super::log::Log;
use super::vector;
use super::window::Window;
use crate::access::Kind;
use crate::trace::Remark;

/// Records the accesses of the decoded instruction.
pub(super) fn note(window: &mut Window, thread: &ucontext_t) {
    let decoded = &window.decoded;
    if has_no_turn(decoded, thread) {
        return;
    }
    if let Some(kind) = prefetch(decoded.mnemonic()) {
        let address = decoded.virtual_address(0, 0, |register, _, _| value(thread, register));
        return note_at(&mut window.log, address, 1, kind);
    }
    let info = window.operands.info(decoded);
    let mut values = window.chain.begin(decoded, info);
    for used in info.used_memory() {
        let Some(kind) = kind(decoded, used.access()) else {
            continue;
        };
        let size = size(match used.memory_size() {
            // For a repeated string instruction, the size of all iterations; this is about one.
            MemorySize::Unknown if decoded.is_string_instruction() => decoded.memory_size(),
            known => known,
        });
        if used.vsib_size() == 0 {
            let address = used.virtual_address(0, |register, _, _| value(thread, register));
            let address = address.map(|base| base.wrapping_add(bit_string(decoded, thread, size)));
            note_at(&mut window.log, address, size, kind);
            if kind.reads() {
                window.chain.load(&mut values, used, address.unwrap_or(0));
            }
            if kind.writes() {
                values.store(address.unwrap_or(0));
            }
        } else {
            note_lanes(&mut window.log, decoded, used, thread, kind);
        }
    }
    window.chain.end(decoded, info, &values);
}

fn note_at(log: &mut Log, address: Option<u64>, size: u16, kind: Kind) {
    match address {
        Some(address) if size != 0 => log.access(address, size, kind),
        _ => log.remark(Remark::UnknownOperand),
    }
}

/// Records a gather or scatter, lane by lane.
fn note_lanes(
    log: &mut Log,
    decoded: &Instruction,
    used: &UsedMemory,
    thread: &ucontext_t,
    kind: Kind,
) {
    let size = size(used.memory_size());
    for lane in 0..vector::lanes(decoded, used) {
        if vector::is_masked_off(decoded, used, thread, lane) {
            continue;
        }
        let address = used.virtual_address(lane, |register, lane, width| {
            vector::lane(thread, register, lane, width).or_else(|| value(thread, register))
        });
        note_at(log, address, size, kind);
    }
}

/// Returns true if it is a repeated string instruction without an iteration left.
fn has_no_turn(decoded: &Instruction, thread: &ucontext_t) -> bool {
    let repeated = decoded.has_rep_prefix() || decoded.has_repne_prefix();
    repeated && decoded.is_string_instruction() && value(thread, Register::RCX) == Some(0)
}

/// Returns the distance from the operand of a bit instruction to the accessed memory. `bts [m],
/// rax` moves by as many words, up or down, as the index requires. The decoder only reports the
/// operand.
fn bit_string(decoded: &Instruction, thread: &ucontext_t, size: u16) -> u64 {
    let of_bits = [Mnemonic::Bt, Mnemonic::Bts, Mnemonic::Btr, Mnemonic::Btc];
    if !of_bits.contains(&decoded.mnemonic()) || decoded.op1_kind() != OpKind::Register {
        return 0;
    }
    let number = value(thread, decoded.op1_register())
        .unwrap_or(0)
        .cast_signed();
    let number = match size {
        2 => i64::from(number as i16),
        4 => i64::from(number as i32),
        _ => number,
    };
    let words = number.div_euclid(i64::from(size) * 8);
    (words * i64::from(size)).cast_unsigned()
}

/// Returns the effect of a prefetch on the line. The decoder does not count it as an access.
fn prefetch(mnemonic: Mnemonic) -> Option<Kind> {
    match mnemonic {
        Mnemonic::Prefetch
        | Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2 => Some(Kind::Load),
        Mnemonic::Prefetchw | Mnemonic::Prefetchwt1 => Some(Kind::Store),
        _ => None,
    }
}

fn kind(decoded: &Instruction, access: OpAccess) -> Option<Kind> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(Kind::Load),
        OpAccess::Write | OpAccess::CondWrite => Some(Kind::Store),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite if is_locked(decoded) => Some(Kind::Locked),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(Kind::LoadStore),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

/// `xchg` with memory is locked without a prefix.
fn is_locked(decoded: &Instruction) -> bool {
    let exchanges = decoded.mnemonic() == Mnemonic::Xchg && decoded.op0_kind() == OpKind::Memory;
    decoded.has_lock_prefix() || exchanges
}

/// Returns the size in bytes, or 0 if it is unknown.
fn size(memory: MemorySize) -> u16 {
    match memory {
        // As large as the state that this CPU saves, with the features that the system has enabled.
        MemorySize::Xsave | MemorySize::Xsave64 => {
            u16::try_from(__cpuid_count(0xD, 0).ebx).unwrap_or(u16::MAX)
        }
        other => u16::try_from(other.size()).unwrap_or(0),
    }
}

/// Returns the contribution of a register to an address. For a segment, that is its base.
fn value(thread: &ucontext_t, register: Register) -> Option<u64> {
    let saved = |index: i32| Some(thread.uc_mcontext.gregs[index as usize] as u64);
    match register.full_register() {
        // The index of an `xlatb`.
        Register::RAX if register == Register::AL => saved(REG_RAX).map(|whole| whole & 0xff),
        Register::RAX => saved(REG_RAX),
        Register::RBX => saved(REG_RBX),
        Register::RCX => saved(REG_RCX),
        Register::RDX => saved(REG_RDX),
        Register::RSI => saved(REG_RSI),
        Register::RDI => saved(REG_RDI),
        Register::RBP => saved(REG_RBP),
        Register::RSP => saved(REG_RSP),
        Register::R8 => saved(REG_R8),
        Register::R9 => saved(REG_R9),
        Register::R10 => saved(REG_R10),
        Register::R11 => saved(REG_R11),
        Register::R12 => saved(REG_R12),
        Register::R13 => saved(REG_R13),
        Register::R14 => saved(REG_R14),
        Register::R15 => saved(REG_R15),
        // The decoder has already added it.
        Register::RIP => Some(0),
        // These have no base in 64-bit mode.
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        Register::FS => Some(thread_pointer()),
        _ => None,
    }
}

/// Returns the base of `fs`, which the handler shares with the interrupted code.
fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the ABI keeps the thread pointer itself at `fs:0`; the load has no side effect.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
    }
    pointer
}
