//! The sequence on x86-64, in assembly: see [`restartable!`] for its form.
//!
//! The loads are acquires, as all loads of this machine; they and the locked add keep their order.
//! A sequence that finds nothing leaves with a null block.

use core::mem::offset_of;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::hint::cold_path;
use fdtable_sync::restartable;
use fdtable_sync::sequence::Area;

use super::super::Tree;
use super::super::leaf::{Leaf, LeafState, Slot, Slots};
use super::super::node::{FANOUT_BITS, HEIGHT, Interior};
use super::{Added, REVOCATIONS, RawObject};
use crate::object::COUNT_DISTANCE;

// The walk multiplies the height by 9, and takes 9 bits for each level.
const _: () = assert!(FANOUT_BITS == 9 && HEIGHT == 63);
const _: () = assert!(size_of::<Slot<()>>() == 8 && offset_of!(Slots<()>, 0) == 0);

/// In tests, the sequence lingers before the commit, so that it is interrupted there.
#[cfg(test)]
macro_rules! linger {
    () => {
        ".rept 100\n pause\n .endr"
    };
}
#[cfg(not(test))]
macro_rules! linger {
    () => {
        ""
    };
}

/// The sequence, with the steps that find the slot at `{raw}`.
macro_rules! add {
    (walk: [$($step:expr),*], area: $area:expr, $($operands:tt)*) => {{
        let (raw, before, revocations): (*mut RawObject, isize, usize);
        // SAFETY: the area is that of the thread, and grace periods restart its sequences: so what
        // is loaded from the root on stays until the commit, as the head of `owned` shows. The
        // commit is an atomic add to the count of the block, and nothing else is written.
        unsafe {
            restartable!(
                area: $area,
                steps: [
                    // (L)
                    $($step,)*
                    "test {raw}, {raw}",
                    "jz 5f",
                    // (V)
                    "mov {revocations}, qword ptr [{revocations_at}]",
                    "mov {before:e}, 1",
                    linger!(),
                    // (N)
                    "lock xadd qword ptr [{raw} - {count}], {before}",
                ],
                otherwise: "xor {raw:e}, {raw:e}",
                raw = out(reg) raw,
                before = out(reg) before,
                revocations = out(reg) revocations,
                revocations_at = in(reg) REVOCATIONS.as_ptr(),
                count = const COUNT_DISTANCE,
                $($operands)*
            );
        }
        Added {
            raw,
            before,
            any_revoked: revocations != 0,
        }
    }};
}

pub(super) use fdtable_sync::rcu::sequence_area as area;

/// (A) to (N)
#[inline(always)]
pub(super) fn add<T: ?Sized, S: LeafState, D>(
    tree: &Tree<T, S, D>,
    slot: usize,
    area: Area,
) -> Added {
    // A separate sequence for the first leaf, as for lookups in a section.
    if slot < BITS {
        return add!(
            walk: ["mov {raw}, qword ptr [{slots} + {slot} * 8]"],
            area: area,
            slots = in(reg) &raw const tree.first.slots,
            slot = in(reg) slot,
        );
    }
    cold_path();
    add_below(tree, slot, area)
}

/// Like [`add`], in a leaf that the root leads to.
#[inline(never)]
fn add_below<T: ?Sized, S: LeafState, D>(tree: &Tree<T, S, D>, slot: usize, area: Area) -> Added {
    add!(
        walk: [
            // The root. `rcx` is how many bits of the index are below it: nine for each level.
            "mov {raw}, qword ptr [{root}]",
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
            "8:",
            "sub ecx, 9",
            "mov {before}, {index}",
            "shr {before}, cl",
            "and {before:e}, 511",
            "mov {raw}, qword ptr [{raw} + {before} * 8 + {children}]",
            "test {raw}, {raw}",
            "jz 5f",
            "test ecx, ecx",
            "jnz 8b",
            // The slot.
            "mov {raw}, qword ptr [{raw} + {bit} * 8 + {slots}]"
        ],
        area: area,
        root = in(reg) tree.shared.root.as_ptr(),
        index = in(reg) slot / BITS,
        bit = in(reg) slot % BITS,
        height = const HEIGHT,
        children = const offset_of!(Interior, children),
        slots = const offset_of!(Leaf<T, S>, slots),
        out("rcx") _,
    )
}
