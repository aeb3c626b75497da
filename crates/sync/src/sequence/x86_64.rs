//! Sequences on x86-64.
//!
//! The kernel reads a descriptor of the sequence: where it starts, where it ends, and where to
//! continue if it was interrupted in between. The thread stores the address of the descriptor in
//! its rseq area, which begins the sequence. The kernel clears it when it finds the thread outside
//! the sequence. A signature stands before the place to continue at, so that an overwritten area
//! leads nowhere. A sequence continues at its beginning, with the registers as they were.
//!
//! A kernel that registers a [`Platform`](crate::platform::kernel::Platform) has an area for each
//! CPU instead, and asks [`resume_address`](super::resume_address), which knows all descriptors. So
//! does a process that continues a killed thread of another one.
//!
//! Two caveats. An area keeps the address of the last descriptor until the kernel next reads it: a
//! library with such code in it must not be unloaded while threads live that ran it. And a debugger
//! that single-steps interrupts each step: it does not get through a sequence, but past it with a
//! breakpoint behind.

use crate::fence;
use crate::platform::system;

/// Where each thread has its rseq area, in a process whose sequences can be restarted from other
/// CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Area(isize);

impl Area {
    /// Finds the areas of this process. A thread may still have none: then the index of its CPU in
    /// the area is negative. Enters the operating system at the first call; neither blocks nor
    /// allocates.
    #[must_use]
    pub fn find() -> Option<Self> {
        let offset = system::sequence_area()?;
        // A kernel may have left the descriptors out, by which sequences begin anew.
        let can_restart = || !descriptors().is_empty() && fence::prepare_restart();
        (offset != 0 && can_restart()).then_some(Self(offset))
    }

    /// Returns how far a thread's area is from its thread pointer, or that of a CPU from the base
    /// of its segment.
    #[inline(always)]
    #[must_use]
    pub fn offset(self) -> isize {
        self.0
    }
}

/// A descriptor, as the kernel reads it.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: usize,
    length: usize,
    resume: usize,
}

/// Returns where the section of descriptors begins and ends, or twice the same if there is none.
/// The linker defines both for a section whose name is an identifier.
fn section() -> (*const Descriptor, *const Descriptor) {
    let (first, end);
    // SAFETY: it loads two words of the linker's table.
    unsafe {
        core::arch::asm!(
            ".weak __start___rseq_cs",
            ".hidden __start___rseq_cs",
            ".weak __stop___rseq_cs",
            ".hidden __stop___rseq_cs",
            "mov {first}, qword ptr [rip + __start___rseq_cs@GOTPCREL]",
            "mov {end}, qword ptr [rip + __stop___rseq_cs@GOTPCREL]",
            first = out(reg) first,
            end = out(reg) end,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    (first, end)
}

/// Returns where a thread continues that was interrupted at the given address: at the beginning of
/// the restartable sequence around it, or there. For the interrupt handlers of a kernel that has
/// [areas](crate::platform::kernel::Platform::sequence_area), before they use the library or switch
/// threads; and for a process that continues a killed thread of another one with which it shares
/// memory. Some tens of comparisons; neither blocks nor allocates. Else the operating system does
/// it.
#[must_use]
pub fn resume_address(interrupted: usize) -> usize {
    let is_inside =
        |sequence: &&Descriptor| interrupted.wrapping_sub(sequence.start) < sequence.length;
    let found = descriptors().iter().find(is_inside);
    found.map_or(interrupted, |sequence| sequence.resume)
}

/// Returns the descriptors of all sequences of the program.
fn descriptors() -> &'static [Descriptor] {
    let (first, end) = section();
    let count = (end.addr() - first.addr()) / size_of::<Descriptor>();
    if count == 0 {
        return &[];
    }
    // SAFETY: the linker puts the descriptors of all sequences there, one after the other, and
    // nothing else.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// The segment from whose base the area is found: the thread's own, or that of the CPU in a kernel.
#[cfg(feature = "std")]
#[doc(hidden)]
#[macro_export]
macro_rules! segment {
    () => {
        "fs"
    };
}
/// The segment from whose base the area is found: the thread's own, or that of the CPU in a kernel.
#[cfg(not(feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! segment {
    () => {
        "gs"
    };
}

/// Runs a restartable sequence, in an `asm!` block. The last of its `steps` is one instruction
/// that commits. To leave without it they jump to label 5, or to label 6 to run `otherwise`
/// first. They begin again with the input operands as they were, so they must not write these,
/// nor anything else that other threads or a second run could misread.
///
/// The first of the `registers` is for the steps to use. The second one has the
/// [offset](crate::sequence::Area::offset) of the area of the thread, in the segment of
/// [`segment!`](crate::segment), with the index of its CPU at 4. The instructions `around` the
/// sequence run once, before it begins and after it is over.
///
/// # Safety
/// As for the steps. And the calling thread has a registered area there, or its steps leave where
/// the index of the CPU is negative.
#[doc(hidden)]
#[macro_export]
macro_rules! restartable {
    (
        registers: ($at:literal, $area:literal),
        around: [$before:literal, $after:literal],
        steps: [$($step:expr),* $(,)?],
        otherwise: $otherwise:expr,
        $($operands:tt)*
    ) => {
        ::core::arch::asm!(
            $before,
            // The descriptor: version, flags, start, length, where to continue.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 7f",
            ".popsection",
            // Interrupted. The signature is the end of an undefined instruction.
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "7:",
            "jmp 2f",
            ".popsection",
            // The area holds `cpu_id` at 4 and `rseq_cs` at 8.
            "2:",
            concat!("lea ", $at, ", [rip + 3b]"),
            concat!("mov qword ptr ", $crate::segment!(), ":[", $area, " + 8], ", $at),
            "4:",
            $($step,)*
            "5:",
            ".pushsection __rseq_failure, \"ax\"",
            "6:",
            $otherwise,
            "jmp 5b",
            ".popsection",
            $after,
            $($operands)*
            options(nostack),
        )
    };
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::sequence::resume_address;

    #[test]
    fn a_thread_resumes_at_the_beginning_of_a_sequence() {
        let Some(area) = Area::find() else { return };
        let mut answer = 0_u64;
        // SAFETY: the thread has its area there. The step writes this frame.
        unsafe {
            restartable!(
                registers: ("{at}", "{area}"),
                around: ["", ""],
                steps: ["mov qword ptr [{to}], 7"],
                otherwise: "",
                at = out(reg) _,
                area = in(reg) area.offset(),
                to = in(reg) &raw mut answer,
            );
        }
        assert_eq!(answer, 7);
        assert!(!descriptors().is_empty());
        for Descriptor {
            start,
            length,
            resume,
            ..
        } in descriptors()
        {
            let (start, end) = (*start, start + length);
            for inside in start..end {
                assert_eq!(resume_address(inside), *resume);
            }
            assert_eq!(resume_address(start - 1), start - 1);
            assert_eq!(resume_address(end), end);
            let place = core::ptr::with_exposed_provenance::<u32>(resume - 4);
            // SAFETY: the signature stands in the code before each place to continue at.
            let signature = unsafe { place.read_unaligned() };
            assert_eq!(signature, 0x5305_3053);
        }
    }
}
