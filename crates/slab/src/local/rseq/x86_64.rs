//! The sequences on x86-64, in assembly: see [`restartable!`] for their form.
//!
//! A sequence leaves without a commit by a jump out of it, and reports so in its result. Only the
//! assembly of pop and push, and a call for the rare cases, is inlined into their callers. No
//! operation waits for the previous one, except for the count.

use core::mem::offset_of;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::local::Local;
use crate::local::pair::Pair;
use crate::magazine::{Lack, Rounds};
use fdtable_sync::{restartable, segment};

/// The number of copies is the total number of CPUs.
pub(in crate::local) use fdtable_sync::percpu::copies;
use fdtable_sync::sequence::Area;

pub(in crate::local) fn find() -> Option<Area> {
    Area::find()
}

/// From the index of a CPU to the offset of its copy.
const SHIFT: u32 = size_of::<CachePadded<Pair>>().trailing_zeros();

const _: () = assert!(size_of::<CachePadded<Pair>>().is_power_of_two());
// They are exchanged with one store of sixteen bytes.
const _: () = assert!(offset_of!(Pair, loaded) == 0 && offset_of!(Pair, previous) == 8);
const _: () = assert!(align_of::<CachePadded<Pair>>().is_multiple_of(16));

/// In tests, sequences linger before the commit for so many pauses, so that they are interrupted
/// there.
const LINGER: usize = if cfg!(test) { 40 } else { 0 };

/// A sequence. Its `steps` find in `at` the offset of this CPU's copy; the last of them is the
/// commit. To leave without one they jump to label 5, or to label 6 to run `otherwise` first.
macro_rules! sequence {
    (steps: [$($step:expr),* $(,)?], otherwise: $otherwise:expr, $local:expr, $area:expr, $($operands:tt)*) => {
        restartable!(
            registers: ("{at}", "{area}"),
            around: ["", ""],
            steps: [
                // (B) A thread without an area has a negative index.
                concat!("mov {at:e}, dword ptr ", segment!(), ":[{area} + 4]"),
                "cmp {at:e}, {limit:e}",
                "jae 6f",
                "shl {at}, {shift}",
                $($step,)*
            ],
            otherwise: $otherwise,
            at = out(reg) _,
            area = in(reg) Area::offset($area),
            base = in(reg) $local.pairs.as_slice().as_ptr(),
            limit = in(reg) $local.pairs.as_slice().len(),
            shift = const SHIFT,
            count = const offset_of!(Rounds, count),
            linger = const LINGER,
            $($operands)*
        )
    };
}

/// A sequence that commits both places of this CPU's copy, with `cmpxchg16b`: that needs no
/// vector register, which a kernel has not. It leaves if the loaded magazine does not lack that,
/// and by the jump `leave` after the comparison of the previous one. The `steps` find the old
/// places in `rax` and `rdx`, and the new second one in `rcx`; they leave the new first one in
/// `rbx`.
///
/// The compiler does not let `rbx` be named as an operand, but may choose it for one. So all
/// operands have registers of their own, except for the one that keeps `rbx`.
macro_rules! sequence_of_both {
    (
        leave: $leave:literal,
        steps: [$($step:expr),* $(,)?],
        otherwise: $otherwise:expr,
        $local:expr,
        $area:expr,
        $lack:expr,
        $($operands:tt)*
    ) => {
        restartable!(
            registers: ("r8", "r9"),
            around: ["mov {saved}, rbx", "mov rbx, {saved}"],
            steps: [
                // (B), as above.
                concat!("mov r8d, dword ptr ", segment!(), ":[r9 + 4]"),
                "cmp r8d, r11d",
                "jae 6f",
                "shl r8, {shift}",
                "add r8, r10",
                // (C), (D) The count of each, and the count at which it lacks that.
                "mov rax, qword ptr [r8]",
                "mov rcx, qword ptr [rax + {count}]",
                "cmp rcx, qword ptr [rax + rdi]",
                "jne 6f",
                "mov rdx, qword ptr [r8 + 8]",
                "mov rcx, qword ptr [rdx + {count}]",
                "cmp rcx, qword ptr [rdx + rdi]",
                $leave,
                // (X)
                "cmp byte ptr [rsi], 0",
                "jne 6f",
                "mov rcx, rax",
                $($step,)*
                ".rept {linger}\n pause\n .endr",
                // (E) Stores both, as the old ones are those that were loaded.
                "cmpxchg16b xmmword ptr [r8]",
            ],
            otherwise: $otherwise,
            saved = out(reg) _,
            shift = const SHIFT,
            count = const offset_of!(Rounds, count),
            linger = const LINGER,
            out("r8") _,
            in("r9") Area::offset($area),
            in("r10") $local.pairs.as_slice().as_ptr(),
            in("r11") $local.pairs.as_slice().len(),
            in("rdi") limit_offset($lack),
            in("rsi") &raw const $local.stopped,
            out("rax") _,
            out("rcx") _,
            $($operands)*
        )
    };
}

/// Takes an object from the loaded magazine. Null if there is none.
#[inline(always)]
pub(super) fn pop(local: &Local, area: Area) -> *mut u8 {
    let object: *mut u8;
    // SAFETY: the thread has its area there, since it was found, and its place in `pairs`,
    // since (B) compares. A loaded magazine belongs to the CPU, and the sequence is restarted if
    // the thread does not have the CPU to itself from (A) to (E).
    unsafe {
        sequence!(
            steps: [
                // (C), (D) One object less, unless there is none; and that object.
                "mov {at}, qword ptr [{base} + {at}]",
                "mov {now}, qword ptr [{at} + {count}]",
                "sub {now}, 1",
                "jb 6f",
                "mov {object}, qword ptr [{at} + {now} * 8 + {objects}]",
                ".rept {linger}\n pause\n .endr",
                // (E)
                "mov qword ptr [{at} + {count}], {now}",
            ],
            otherwise: "xor {object:e}, {object:e}",
            local,
            area,
            object = out(reg) object,
            now = out(reg) _,
            objects = const offset_of!(Rounds, objects),
        );
    }
    object
}

/// Puts an object into the loaded magazine. Returns true if there was room.
#[inline(always)]
pub(super) fn push(local: &Local, area: Area, object: NonNull<u8>) -> bool {
    let count: usize;
    // SAFETY: as in `pop`. The place of the object is above the count: no thread reads it before
    // the commit.
    unsafe {
        sequence!(
            steps: [
                // (C), (D)
                "mov {at}, qword ptr [{base} + {at}]",
                "mov {now}, qword ptr [{at} + {count}]",
                "cmp {now}, qword ptr [{at} + {ceiling}]",
                "jae 6f",
                "mov qword ptr [{at} + {now} * 8 + {objects}], {object}",
                "add {now}, 1",
                ".rept {linger}\n pause\n .endr",
                // (E)
                "mov qword ptr [{at} + {count}], {now}",
            ],
            otherwise: "xor {now:e}, {now:e}",
            local,
            area,
            object = in(reg) object.as_ptr(),
            now = out(reg) count,
            ceiling = const offset_of!(Rounds, ceiling),
            objects = const offset_of!(Rounds, objects),
        );
    }
    count != 0
}

/// Exchanges the two magazines if the loaded one lacks that and the previous one does not. Returns
/// true if it did.
pub(super) fn exchange(local: &Local, area: Area, lack: Lack) -> bool {
    let done: usize;
    // SAFETY: as in `pop`, for both magazines. The one store of both is at a multiple of its size.
    // `rbx` is restored.
    unsafe {
        sequence_of_both!(
            leave: "je 6f",
            steps: ["mov r12d, 1", "mov rbx, rdx"],
            otherwise: "xor r12d, r12d",
            local,
            area,
            lack,
            out("rdx") _,
            out("r12") done,
        );
    }
    done != 0
}

/// Loads a magazine if both lack that; the loaded one becomes the previous one, and the previous
/// one is returned. Otherwise returns the given one.
pub(super) fn load(local: &Local, area: Area, magazine: *mut Rounds, lack: Lack) -> *mut Rounds {
    let displaced: *mut Rounds;
    // SAFETY: as in `exchange`.
    unsafe {
        sequence_of_both!(
            leave: "jne 6f",
            steps: ["mov rbx, r12"],
            otherwise: "mov rdx, r12",
            local,
            area,
            lack,
            out("rdx") displaced,
            in("r12") magazine,
        );
    }
    displaced
}

/// Returns the offset in a magazine of the count at which it lacks that.
fn limit_offset(lack: Lack) -> usize {
    match lack {
        Lack::Objects => offset_of!(Rounds, floor),
        Lack::Room => offset_of!(Rounds, ceiling),
    }
}
