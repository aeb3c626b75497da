//! Sequences on x86-64.
//!
//! The kernel reads a descriptor of the sequence: where it starts, where it ends, and where to
//! continue if it was interrupted in between. The thread stores the address of the descriptor in
//! its rseq area, which begins the sequence. The kernel clears it when it finds the thread outside
//! the sequence. A signature stands before the place to continue at, so that an overwritten area
//! leads nowhere. A sequence continues at its beginning, with the registers as they were.
//!
//! Two caveats. An area keeps the address of the last descriptor until the kernel next reads it: a
//! library with such code in it must not be unloaded while threads live that ran it. And a debugger
//! that single-steps interrupts each step: it does not get through a sequence, but past it with a
//! breakpoint behind.

use crate::fence;
use crate::percpu::rseq;

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
        let offset = rseq::area_offset()?;
        fence::prepare_restart().then_some(Self(offset))
    }

    /// Returns the offset of the calling thread's area, for its record; 0 if the thread has none.
    pub(crate) fn offset_of_thread() -> isize {
        let area = Self::find().filter(|_| rseq::cpu_id().is_some());
        area.map_or(0, Self::offset)
    }

    /// Returns the area with the offset of [`offset_of_thread`](Self::offset_of_thread).
    #[inline(always)]
    pub(crate) fn with_offset(offset: isize) -> Option<Self> {
        (offset != 0).then_some(Self(offset))
    }

    /// Returns how far a thread's area is from its thread pointer.
    #[inline(always)]
    #[must_use]
    pub fn offset(self) -> isize {
        self.0
    }
}

/// Runs a restartable sequence, in an `asm!` block. The last of its `steps` is one instruction that
/// commits. To leave without it they jump to label 5, or to label 6 to run `otherwise` first. They
/// begin again with the input operands as they were, so they must not write these, nor anything
/// else that other threads or a second run could misread. `at` is a register for them to use; the
/// area of the thread is at `fs:[{area}]`, with the index of its CPU at 4.
///
/// # Safety
/// As for the steps. And the calling thread has a registered area there, or its steps leave where
/// the index of the CPU is negative.
#[doc(hidden)]
#[macro_export]
macro_rules! restartable {
    (
        area: $area:expr,
        steps: [$($step:expr),* $(,)?],
        otherwise: $otherwise:expr,
        $($operands:tt)*
    ) => {
        ::core::arch::asm!(
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
            "lea {at}, [rip + 3b]",
            "mov qword ptr fs:[{area} + 8], {at}",
            "4:",
            $($step,)*
            "5:",
            ".pushsection __rseq_failure, \"ax\"",
            "6:",
            $otherwise,
            "jmp 5b",
            ".popsection",
            at = out(reg) _,
            area = in(reg) $crate::sequence::Area::offset($area),
            $($operands)*
            options(nostack),
        )
    };
}
