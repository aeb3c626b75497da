//! What a file is ready for, with the values of Linux.

bitflags::bitflags! {
    /// Set of events of `poll` and `epoll` (`POLLIN`, `EPOLLOUT`, ...).
    ///
    /// [`ERR`](Self::ERR), [`HUP`](Self::HUP) and [`NVAL`](Self::NVAL) are told also to those who
    /// did not ask.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Events: u32 {
        /// A read would not wait: there are bytes, a connection to accept, or the end of file.
        const IN = 0x1;
        /// There is something urgent.
        const PRI = 0x2;
        /// A write would not wait.
        const OUT = 0x4;
        /// Something is wrong; of a pipe's writing end, nobody can read.
        const ERR = 0x8;
        /// The other side is gone.
        const HUP = 0x10;
        /// Not an open descriptor (`poll` only).
        const NVAL = 0x20;
        /// As [`IN`](Self::IN).
        const RDNORM = 0x40;
        /// Never true here.
        const RDBAND = 0x80;
        /// As [`OUT`](Self::OUT).
        const WRNORM = 0x100;
        /// As [`OUT`](Self::OUT) of a socket on Linux; never true here.
        const WRBAND = 0x200;
        /// Never true here.
        const MSG = 0x400;
        /// The other side of a stream socket will not write any more.
        const RDHUP = 0x2000;
    }
}

impl Events {
    /// Ready for reading, in both spellings.
    pub const READABLE: Self = Self::IN.union(Self::RDNORM);
    /// Ready for writing, in both spellings.
    pub const WRITABLE: Self = Self::OUT.union(Self::WRNORM);
    /// What is told to everybody.
    pub const ALWAYS: Self = Self::ERR.union(Self::HUP);
}
