//! The lanes of gathers and scatters: their indices and masks are in vector registers.
//!
//! The kernel saves those after the signal frame as `xsave` does, each component at the offset that
//! the CPU reports; a component that the header does not name is all zeroes.

use std::arch::x86_64::__cpuid_count;

use iced_x86::{Instruction, OpKind, Register, UsedMemory};
use libc::ucontext_t;

/// Offset of the low halves of the first 16 registers.
const XMM: usize = 160;
/// Offset of the header, which begins with a bit for each present component.
const HEADER: usize = 512;
/// Offset of the kernel's mark for a present header.
const MAGIC: usize = 464;
const MAGIC_VALUE: u32 = 0x4650_5853;

/// Components after the header, by their numbers.
const YMM_HIGH: u32 = 2;
const MASKS: u32 = 5;
const ZMM_HIGH: u32 = 6;
const ZMM_16_TO_31: u32 = 7;

/// Returns the number of elements that the instruction loads or stores.
pub(super) fn lanes(decoded: &Instruction, used: &UsedMemory) -> usize {
    let element = used.memory_size().size().max(1);
    let indices = used.index().size() / used.vsib_size().max(1) as usize;
    data(decoded).map_or(indices, |data| indices.min(data.size() / element))
}

/// Returns true if the mask excludes the element.
pub(super) fn is_masked_off(
    decoded: &Instruction,
    used: &UsedMemory,
    thread: &ucontext_t,
    number: usize,
) -> bool {
    if decoded.op_mask() != Register::None {
        let mask = part(thread, MASKS, decoded.op_mask().number() * 8);
        return mask.is_some_and(|bits| bits >> number & 1 == 0);
    }
    // The older form has a vector as mask, of which the highest bits count.
    let width = used.memory_size().size();
    let element = lane(thread, decoded.op2_register(), number, width);
    element.is_some_and(|element| element >> (width * 8 - 1) & 1 == 0)
}

/// Returns an element of `width` bytes (4 or 8) of a vector register. None if it is another
/// register, or not saved.
pub(super) fn lane(
    thread: &ucontext_t,
    register: Register,
    number: usize,
    width: usize,
) -> Option<u64> {
    if !register.is_vector_register() {
        return None;
    }
    let (vector, byte) = (register.number(), number * width);
    let word = match (vector, byte) {
        (16.., _) => part(thread, ZMM_16_TO_31, (vector - 16) * 64 + byte),
        (_, 0..16) => read(thread, XMM + vector * 16 + byte),
        (_, 16..32) => part(thread, YMM_HIGH, vector * 16 + byte - 16),
        _ => part(thread, ZMM_HIGH, vector * 32 + byte - 32),
    }?;
    Some(if width == 4 {
        word & u64::from(u32::MAX)
    } else {
        word
    })
}

/// Returns the register with the elements themselves.
fn data(decoded: &Instruction) -> Option<Register> {
    (0..decoded.op_count())
        .find(|operand| decoded.op_kind(*operand) == OpKind::Register)
        .map(|operand| decoded.op_register(operand))
}

/// Reads 8 bytes of a component. The last element of 4 bytes is read with the bytes that follow;
/// the areas have room for it, as the kernel ends them with a mark of its own.
fn part(thread: &ucontext_t, number: u32, offset: usize) -> Option<u64> {
    if read(thread, MAGIC)? as u32 != MAGIC_VALUE {
        return None;
    }
    if read(thread, HEADER)? >> number & 1 == 0 {
        return Some(0);
    }
    let base = __cpuid_count(0xD, number).ebx as usize;
    read(thread, base + offset)
}

/// Reads 8 bytes of the saved state.
fn read(thread: &ucontext_t, offset: usize) -> Option<u64> {
    let saved = thread.uc_mcontext.fpregs.cast::<u8>();
    if saved.is_null() {
        return None;
    }
    // SAFETY: the kernel has saved the registers here, until the handler returns. The first 512
    // bytes are always present; `part` reads more only where the header reports it.
    Some(unsafe { saved.wrapping_add(offset).cast::<u64>().read_unaligned() })
}
