//! The sequence on x86-64, in assembly: see [`restartable!`] for its form.
//!
//! The loads are acquires, as all loads of this machine; they and the locked add keep their order.
//! A sequence that finds nothing leaves with a null block.

use core::mem::offset_of;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::refcount::spread::layout;
use fdtable_sync::sequence::Area;
use fdtable_sync::{restartable, segment};

use super::super::leaf::{Leaf, LeafState, Slot, Slots};
use super::super::node::{FANOUT_BITS, HEIGHT, Interior};
use super::super::{Shared, Tree};
use super::{Added, COLD, REVOCATIONS, RawObject};
use crate::object::IN_PART;
use crate::object::header::Header;

// The walk multiplies the height by 9, and takes 9 bits for each level.
const _: () = assert!(FANOUT_BITS == 9 && HEIGHT == 63);
const _: () = assert!(COLD == 1 << 63);
const _: () = assert!(size_of::<Slot<()>>() == 8 && offset_of!(Slots<()>, 0) == 0);

/// How far the word of a [spread](mod@fdtable_sync::refcount::spread) count, with its number, is in
/// front of the value of a block.
const HOME_DISTANCE: usize = size_of::<Header>() - offset_of!(Header, spread) - layout::HOME;

/// How far the count of a block is in front of its value.
const COUNT_DISTANCE: usize = size_of::<Header>() - offset_of!(Header, count);

/// In tests, the sequence lingers before the commit for so many pauses, so that it is interrupted
/// there.
const LINGER: usize = if cfg!(test) { 100 } else { 0 };

/// The sequence, with the steps that find the block in the slot at `{raw}`. The number of the
/// slot in its leaf is in `{bit}`.
macro_rules! add {
    (walk: [$($step:expr),*], tree: $tree:expr, area: $area:expr, $($operands:tt)*) => {{
        let raw: *mut RawObject;
        let (before, noted): (isize, usize);
        // SAFETY: the area is that of the thread, and grace periods restart its sequences: so what
        // is loaded from the root on stays until the commit, as the head of `owned` shows. The
        // commit is an atomic add to the count of the block, or to a part of it, and nothing else
        // is written.
        unsafe {
            restartable!(
                area: $area,
                steps: [
                    // (L)
                    $($step,)*
                    "test {raw}, {raw}",
                    "jz 5f",
                    // (V)
                    "mov {noted}, qword ptr [{revocations}]",
                    // (S) The word of the count; or the part of this CPU, if the slot is in the
                    // filter, and there is the mark.
                    "lea {place}, [{raw} - {count}]",
                    "mov {at}, qword ptr [{tree} + {hot}]",
                    "bt {at}, {bit}",
                    "jnc 9f",
                    "movsx {at:e}, word ptr [{raw} - {home}]",
                    "test {at:e}, {at:e}",
                    "js 8f",
                    "bts {noted}, 63",
                    "jmp 9f",
                    "8:",
                    "and {at:e}, 0x7fff",
                    concat!("mov {before:e}, dword ptr ", segment!(), ":[{area} + 4]"),
                    "mov {place}, qword ptr [rip + {parts}@GOTPCREL]",
                    "cmp {before}, qword ptr [{place} + {used}]",
                    "jae 21f",
                    "mov {place}, qword ptr [{place} + {first_row}]",
                    "shl {before}, {row_shift}",
                    "add {place}, {before}",
                    "shl {at}, {part_shift}",
                    "lea {place}, [{place} + {at} - (1 << {part_shift})]",
                    "or {raw}, {in_part}",
                    "jmp 9f",
                    "21:",
                    "lea {place}, [{raw} - {count}]",
                    "9:",
                    "mov {before:e}, 1",
                    ".rept {linger}\n pause\n .endr",
                    // (N)
                    "lock xadd qword ptr [{place}], {before}",
                ],
                otherwise: "xor {raw:e}, {raw:e}",
                tree = in(reg) core::ptr::from_ref($tree),
                raw = out(reg) raw,
                place = out(reg) _,
                before = out(reg) before,
                noted = out(reg) noted,
                revocations = in(reg) REVOCATIONS.0.as_ptr(),
                parts = sym layout::PARTS,
                in_part = const IN_PART,
                linger = const LINGER,
                count = const COUNT_DISTANCE,
                home = const HOME_DISTANCE,
                hot = const offset_of!(Tree<T, S, D>, shared) + offset_of!(Shared, hot),
                used = const layout::USED,
                first_row = const layout::FIRST_ROW,
                row_shift = const layout::ROW_SHIFT,
                part_shift = const layout::PART_SHIFT,
                $($operands)*
            );
        }
        Added { raw, before, noted }
    }};
}

pub(super) use fdtable_sync::percpu::current as cpu;
pub(super) use fdtable_sync::rcu::sequence_area as area;

/// (A) to (N), in the first leaf.
#[inline(always)]
pub(super) fn add_in_first<T: ?Sized, S: LeafState, D>(
    tree: &Tree<T, S, D>,
    slot: usize,
    area: Area,
) -> Added {
    add!(
        walk: ["mov {raw}, qword ptr [{tree} + {bit} * 8 + {slots}]"],
        tree: tree,
        area: area,
        bit = in(reg) slot,
        slots = const offset_of!(Tree<T, S, D>, first) + offset_of!(Leaf<T, S>, slots),
    )
}

/// (A) to (N), in a leaf that the root leads to.
#[inline(always)]
pub(super) fn add<T: ?Sized, S: LeafState, D>(
    tree: &Tree<T, S, D>,
    slot: usize,
    area: Area,
) -> Added {
    add!(
        walk: [
            // The root. `rcx` is how many bits of the index are below it: nine for each level.
            "mov {raw}, qword ptr [{tree} + {root}]",
            "mov ecx, {raw:e}",
            "and ecx, {height}",
            "lea ecx, [rcx + rcx * 8]",
            // It has no place for this index, or there is no node.
            "mov {before}, {index}",
            "shr {before}, cl",
            "jnz 6f",
            "and {raw}, ~{height}",
            "jz 5f",
            // The child of each level.
            "20:",
            "sub ecx, 9",
            "mov {before}, {index}",
            "shr {before}, cl",
            "and {before:e}, 511",
            "mov {raw}, qword ptr [{raw} + {before} * 8 + {children}]",
            "test {raw}, {raw}",
            "jz 5f",
            "test ecx, ecx",
            "jnz 20b",
            // The slot.
            "mov {raw}, qword ptr [{raw} + {bit} * 8 + {slots}]"
        ],
        tree: tree,
        area: area,
        root = const offset_of!(Tree<T, S, D>, shared) + offset_of!(Shared, root),
        index = in(reg) slot / BITS,
        bit = in(reg) slot % BITS,
        height = const HEIGHT,
        children = const offset_of!(Interior, children),
        slots = const offset_of!(Leaf<T, S>, slots),
        out("rcx") _,
    )
}
