//! What is asked of a member, and how it is returned, with the values of Linux.

use crate::event::Events;
use crate::{Errno, OpenFlags};

bitflags::bitflags! {
    /// Set of events and modes of a member (`EPOLLIN`, `EPOLLET`, ...). Unknown bits mean nothing.
    ///
    /// [`ERR`](Self::ERR) and [`HUP`](Self::HUP) are found also if they are not asked for.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct EpollFlags: u32 {
        /// As [`Events::IN`].
        const IN = Events::IN.bits();
        /// As [`Events::PRI`].
        const PRI = Events::PRI.bits();
        /// As [`Events::OUT`].
        const OUT = Events::OUT.bits();
        /// As [`Events::ERR`].
        const ERR = Events::ERR.bits();
        /// As [`Events::HUP`].
        const HUP = Events::HUP.bits();
        /// As [`Events::RDNORM`].
        const RDNORM = Events::RDNORM.bits();
        /// As [`Events::RDBAND`].
        const RDBAND = Events::RDBAND.bits();
        /// As [`Events::WRNORM`].
        const WRNORM = Events::WRNORM.bits();
        /// As [`Events::WRBAND`].
        const WRBAND = Events::WRBAND.bits();
        /// As [`Events::MSG`].
        const MSG = Events::MSG.bits();
        /// As [`Events::RDHUP`].
        const RDHUP = Events::RDHUP.bits();
        /// Shares changes with other epolls that ask so: a change is told to one who waits.
        const EXCLUSIVE = 1 << 28;
        /// Keeps the machine awake; means nothing here.
        const WAKEUP = 1 << 29;
        /// Asks for one event, and for no more until it is modified.
        const ONESHOT = 1 << 30;
        /// Asks for changes, and not for what is.
        const ET = 1 << 31;
    }

    /// Set of flags of `epoll_create1`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EpollCreateFlags: u32 {
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

/// What is to be done with a member of an epoll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollCtl {
    /// Adds it.
    Add,
    /// Takes it out.
    Del,
    /// Changes what is asked of it.
    Mod,
}

/// What is asked of a member, or what it was found ready for, and a word of the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EpollEvent {
    /// The events, and when asking, the modes.
    pub events: EpollFlags,
    /// Given back as it was given.
    pub data: u64,
}

impl EpollEvent {
    /// Asks for `events`.
    pub fn new(events: EpollFlags, data: u64) -> Self {
        EpollEvent { events, data }
    }
}

impl EpollFlags {
    /// What is told to everybody.
    pub(super) const ALWAYS: Self = Self::ERR.union(Self::HUP);

    /// Bits that are no events. They stay when a `ONESHOT` has fired.
    pub(super) const MODES: Self = Self::EXCLUSIVE
        .union(Self::WAKEUP)
        .union(Self::ONESHOT)
        .union(Self::ET);

    /// All that may stand beside `EXCLUSIVE`.
    const BESIDE_EXCLUSIVE: Self = Self::IN
        .union(Self::OUT)
        .union(Self::ERR)
        .union(Self::HUP)
        .union(Self::WAKEUP)
        .union(Self::ET)
        .union(Self::EXCLUSIVE);

    /// Returns the events without the modes.
    pub fn events(self) -> Events {
        Events::from_bits_truncate(self.bits())
    }

    /// Checks what `EXCLUSIVE` may be asked with.
    pub(super) fn check_exclusive(self, of_an_epoll: bool) -> Result<(), Errno> {
        let exclusive = self.contains(Self::EXCLUSIVE);
        if exclusive && (of_an_epoll || !Self::BESIDE_EXCLUSIVE.contains(self)) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

impl From<Events> for EpollFlags {
    fn from(events: Events) -> Self {
        EpollFlags::from_bits_truncate(events.bits())
    }
}

impl EpollCreateFlags {
    /// Returns the flags that every open file knows.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate(self.bits()) | OpenFlags::RDWR
    }
}
