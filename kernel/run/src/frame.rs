//! The registers of the guest at a call.

/// The registers of the guest at a call, as the entry saves them.
#[repr(C)]
#[derive(Clone, Default)]
pub(crate) struct Frame {
    pub(crate) xmm: [u128; 16],
    pub(crate) rax: u64,
    pub(crate) rdx: u64,
    pub(crate) rsi: u64,
    pub(crate) rdi: u64,
    pub(crate) r8: u64,
    pub(crate) r9: u64,
    pub(crate) r10: u64,
    pub(crate) rbx: u64,
    pub(crate) rbp: u64,
    pub(crate) r12: u64,
    pub(crate) r13: u64,
    pub(crate) r14: u64,
    pub(crate) r15: u64,
    pub(crate) flags: u64,
    pub(crate) rsp: u64,
    pub(crate) rip: u64,
}

impl Frame {
    /// Returns the registers of a program or a thread that begins.
    pub(crate) fn new(rip: u64, rsp: u64) -> Self {
        Self {
            flags: 0x202,
            rsp,
            rip,
            ..Self::default()
        }
    }

    /// Returns the arguments of the call.
    pub(crate) fn arguments(&self) -> [i64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9].map(u64::cast_signed)
    }
}
