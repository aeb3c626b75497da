//! Events and modes of the members of an epoll, with the values of Linux.

use fdtable_interests::Mode;

use crate::event::Events;
use crate::{Errno, OpenFlags};

bitflags::bitflags! {
    /// Events and modes of a member (`EPOLLIN`, `EPOLLET`, ...). Unknown bits are ignored.
    ///
    /// [`ERR`](Self::ERR) and [`HUP`](Self::HUP) are reported even if they were not requested.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct EpollFlags: u32 {
        /// Same as [`Events::IN`].
        const IN = Events::IN.bits();
        /// Same as [`Events::PRI`].
        const PRI = Events::PRI.bits();
        /// Same as [`Events::OUT`].
        const OUT = Events::OUT.bits();
        /// Same as [`Events::ERR`].
        const ERR = Events::ERR.bits();
        /// Same as [`Events::HUP`].
        const HUP = Events::HUP.bits();
        /// Same as [`Events::RDNORM`].
        const RDNORM = Events::RDNORM.bits();
        /// Same as [`Events::RDBAND`].
        const RDBAND = Events::RDBAND.bits();
        /// Same as [`Events::WRNORM`].
        const WRNORM = Events::WRNORM.bits();
        /// Same as [`Events::WRBAND`].
        const WRBAND = Events::WRBAND.bits();
        /// Same as [`Events::MSG`].
        const MSG = Events::MSG.bits();
        /// Same as [`Events::RDHUP`].
        const RDHUP = Events::RDHUP.bits();
        /// Shares changes with other epolls that have this flag: a change wakes a thread in one of
        /// them.
        const EXCLUSIVE = 1 << 28;
        /// Keeps the machine awake; ignored here.
        const WAKEUP = 1 << 29;
        /// Reports one event, and no more until the member is modified.
        const ONESHOT = 1 << 30;
        /// Edge-triggered: reports changes, not states.
        const ET = 1 << 31;
    }

    /// Flags of `epoll_create1`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EpollCreateFlags: u32 {
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

/// Operation of `epoll_ctl`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollCtl {
    /// Adds a member.
    Add,
    /// Removes a member.
    Del,
    /// Changes the events requested of a member.
    Mod,
}

/// Events requested of a member, or found, and the user data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EpollEvent {
    /// The events; in a request, also the modes.
    pub events: EpollFlags,
    /// User data, returned with the events.
    pub data: u64,
}

impl EpollEvent {
    /// Requests `events`.
    pub fn new(events: EpollFlags, data: u64) -> Self {
        EpollEvent { events, data }
    }

    /// Adds the events that are always reported.
    pub(super) fn with_always(self) -> Self {
        Self::new(self.events | EpollFlags::ALWAYS, self.data)
    }
}

impl EpollFlags {
    /// Events that are reported without being requested.
    pub(super) const ALWAYS: Self = Self::ERR.union(Self::HUP);

    /// Bits that are not events. They stay after a `ONESHOT` has fired.
    pub(super) const MODES: Self = Self::EXCLUSIVE
        .union(Self::WAKEUP)
        .union(Self::ONESHOT)
        .union(Self::ET);

    /// All flags that are allowed together with `EXCLUSIVE`.
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

    /// Returns what happens after a report.
    pub(super) fn mode(self) -> Mode {
        match self {
            _ if self.contains(Self::ONESHOT) => Mode::OneShot,
            _ if self.contains(Self::ET) => Mode::Edge,
            _ => Mode::Level,
        }
    }

    /// Checks the flags that come with `EXCLUSIVE`.
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
    /// Returns the flags that every open file has.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate(self.bits()) | OpenFlags::RDWR
    }
}
