//! Readiness events of a file, with the values of Linux.

bitflags::bitflags! {
    /// Events of `poll` and `epoll` (`POLLIN`, `EPOLLOUT`, ...).
    ///
    /// [`ERR`](Self::ERR), [`HUP`](Self::HUP) and [`NVAL`](Self::NVAL) are reported even if they
    /// were not requested.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Events: u32 {
        /// A read would not block: there are bytes, a connection to accept, or the end of file.
        const IN = 0x1;
        /// There is exceptional data.
        const PRI = 0x2;
        /// A write would not block.
        const OUT = 0x4;
        /// An error is pending; on the writing end of a pipe, there is no reader.
        const ERR = 0x8;
        /// The other side is closed.
        const HUP = 0x10;
        /// Not an open descriptor (`poll` only).
        const NVAL = 0x20;
        /// Same as [`IN`](Self::IN).
        const RDNORM = 0x40;
        /// Never reported here.
        const RDBAND = 0x80;
        /// Same as [`OUT`](Self::OUT).
        const WRNORM = 0x100;
        /// Same as [`OUT`](Self::OUT) on a socket; other files never report it.
        const WRBAND = 0x200;
        /// Never reported here.
        const MSG = 0x400;
        /// The peer of a stream socket has shut down writing.
        const RDHUP = 0x2000;
    }
}

impl Events {
    /// Readable, in both spellings.
    pub const READABLE: Self = Self::IN.union(Self::RDNORM);
    /// Writable, in both spellings.
    pub const WRITABLE: Self = Self::OUT.union(Self::WRNORM);
    /// Events that are reported without being requested.
    pub const ALWAYS: Self = Self::ERR.union(Self::HUP);

    // Events of the watchers that send signals. They are no flags of this type, so that no caller
    // can request them.

    /// There is something new to read.
    pub(crate) const SIGNAL_IN: Self = Self::from_bits_retain(1 << 16);
    /// Something was read.
    pub(crate) const SIGNAL_TAKEN: Self = Self::from_bits_retain(1 << 17);
    /// A file that was not writable is writable.
    pub(crate) const SIGNAL_ROOM: Self = Self::from_bits_retain(1 << 18);
    /// The other side has ended both directions.
    pub(crate) const SIGNAL_HUP: Self = Self::from_bits_retain(1 << 19);
}
