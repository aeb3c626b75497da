//! A call of the guest, for reports.

/// A call of the guest, before it is served.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) arguments: [i64; 6],
    /// True if the call came by a signal, and not from a rewritten site.
    pub(super) has_trapped: bool,
    /// Address at which the guest continues, its stack pointer, and what it has in `rbp`.
    pub(super) rip: u64,
    pub(super) rsp: u64,
    pub(super) rbp: u64,
}
