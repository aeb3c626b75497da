//! System calls of files to wait for: `eventfd`, `timerfd`, and of sets of files: `epoll`.

use std::time::Duration;

use fdtable::{Fd, FileRef, RawFd};

use super::Process;
use crate::event::{
    Clock, Epoll, EpollCreateFlags, EpollCtl, EpollEvent, EventFd, EventFdFlags, ITimerSpec,
    TimerFd, TimerFdFlags, TimerFlags, as_epoll, as_timerfd,
};
use crate::object::file;
use crate::{Errno, Object, OpenFlags};

impl Process {
    /// Makes a counter that can be waited for, at the lowest free descriptor. It starts at `initial`, 0
    /// to 2^64 - 2. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `initial` is above that, or `flags` has unknown ones; `EMFILE`, `ENOMEM` from the
    /// table.
    ///
    /// ```
    /// use fdtable_vfs::event::EventFdFlags;
    /// use fdtable_vfs::{Errno, Process};
    ///
    /// # fn main() -> Result<(), Errno> {
    /// let process = Process::new();
    /// let fd = process.eventfd(0, EventFdFlags::NONBLOCK)?;
    /// process.write(fd, &3u64.to_ne_bytes())?;
    /// process.write(fd, &4u64.to_ne_bytes())?;
    /// let mut count = [0; 8];
    /// process.read(fd, &mut count)?;
    /// assert_eq!(u64::from_ne_bytes(count), 7);
    /// assert_eq!(process.read(fd, &mut count), Err(Errno::EAGAIN));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "eventfd2")]
    pub fn eventfd(&self, initial: u64, flags: EventFdFlags) -> Result<Fd, Errno> {
        if EventFdFlags::from_bits(flags.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        let eventfd = EventFd::new(initial, flags)?;
        self.install(flags.open_flags(), || file(eventfd))
    }

    /// Makes an empty set of files to wait for together, at the lowest free descriptor. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has unknown ones; `EMFILE`, `ENOMEM` from the table.
    ///
    /// ```
    /// use fdtable_vfs::event::{EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags};
    /// use fdtable_vfs::{Errno, Process};
    ///
    /// # fn main() -> Result<(), Errno> {
    /// let process = Process::new();
    /// let set = process.epoll_create1(EpollCreateFlags::CLOEXEC)?;
    /// let fd = process.eventfd(0, EventFdFlags::empty())?;
    /// process.epoll_ctl(set, EpollCtl::Add, fd, Some(EpollEvent::new(EpollFlags::IN, 7)))?;
    ///
    /// process.write(fd, &1u64.to_ne_bytes())?;
    /// let mut events = [EpollEvent::default(); 8];
    /// assert_eq!(process.epoll_wait(set, &mut events, None)?, 1);
    /// assert_eq!(events[0], EpollEvent::new(EpollFlags::IN, 7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoll_create1(&self, flags: EpollCreateFlags) -> Result<Fd, Errno> {
        if EpollCreateFlags::from_bits(flags.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        self.install(flags.open_flags(), || file(Epoll::new(flags)))
    }

    /// Adds, changes or takes out the member of a set that `fd` names. A member that is ready is
    /// returned by the next [`epoll_wait`](Self::epoll_wait), also in edge mode. `event` says what
    /// is asked; `Del` needs none. Allocates.
    ///
    /// # Errors
    /// `EFAULT` if there is no event; `EBADF` if `epfd` or `fd` is not an open descriptor; `EIO` if
    /// one is revoked; `EPERM` if `fd` is always ready, as files and directories; `EINVAL` if `epfd`
    /// is not a set or both are the same file, or `EXCLUSIVE` is asked of a set, with other events
    /// than `IN`, `OUT`, `ERR` and `HUP`, or in a change, or sets
    /// would be watched on more than a thousand ways; `EEXIST` if what is added is a member, and
    /// `ENOENT` if what is not added is none; `ELOOP` if sets would contain each other, or more than
    /// five stand in a row.
    pub fn epoll_ctl(
        &self,
        epfd: impl Into<RawFd>,
        operation: EpollCtl,
        fd: impl Into<RawFd>,
        event: Option<EpollEvent>,
    ) -> Result<(), Errno> {
        let (epfd, fd) = (epfd.into(), fd.into());
        let event = match operation {
            EpollCtl::Del => EpollEvent::default(),
            EpollCtl::Add | EpollCtl::Mod => event.ok_or(Errno::EFAULT)?,
        };
        let set = self.files.get(epfd)?;
        let file = self.files.get(fd)?;
        let Some(epoll) = as_epoll(&*set) else {
            // Linux looks at the member before it looks at the set.
            let member = file.pollee().ok_or(Errno::EPERM);
            return member.and(Err(Errno::EINVAL));
        };
        match operation {
            EpollCtl::Add => epoll.add(fd, &file, event),
            EpollCtl::Del => epoll.delete(fd, &file),
            EpollCtl::Mod => epoll.modify(fd, &file, event),
        }
    }

    /// Waits until a member of a set is ready, or until `timeout` has passed (`None`: forever),
    /// writes what is ready into `events`, and returns how many it wrote. Those that were returned
    /// come last the next time, if they are ready still. Blocks, and allocates if it does.
    ///
    /// # Errors
    /// `EINVAL` if there is no room for an event, or `epfd` is not a set; `EBADF` if it is not an
    /// open descriptor; `EIO` if it is revoked.
    #[doc(alias = "epoll_pwait2")]
    pub fn epoll_wait(
        &self,
        epfd: impl Into<RawFd>,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let set = self.files.get(epfd)?;
        as_epoll(&*set).ok_or(Errno::EINVAL)?.wait(events, timeout)
    }

    /// Makes a timer that can be waited for, at the lowest free descriptor. It is off. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has unknown ones; `EMFILE`, `ENOMEM` from the table.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fdtable_vfs::event::{Clock, ITimerSpec, TimerFdFlags, TimerFlags};
    /// use fdtable_vfs::{Errno, Process};
    ///
    /// # fn main() -> Result<(), Errno> {
    /// let process = Process::new();
    /// let fd = process.timerfd_create(Clock::Monotonic, TimerFdFlags::CLOEXEC)?;
    /// let millisecond = Duration::from_millis(1);
    /// let spec = ITimerSpec { interval: Duration::ZERO, value: millisecond };
    /// process.timerfd_settime(fd, TimerFlags::empty(), spec)?;
    ///
    /// let mut expired = [0; 8];
    /// process.read(fd, &mut expired)?; // waits for it
    /// assert_eq!(u64::from_ne_bytes(expired), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn timerfd_create(&self, clock: Clock, flags: TimerFdFlags) -> Result<Fd, Errno> {
        if TimerFdFlags::from_bits(flags.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        self.install(flags.open_flags(), || file(TimerFd::new(clock, flags)))
    }

    /// Sets or ends a timer, and returns how it was set: what
    /// [`timerfd_gettime`](Self::timerfd_gettime) would have returned. What has expired and was not
    /// read is forgotten.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not an open descriptor; `EINVAL` if it is not a timer, or `flags` has
    /// unknown ones; `EIO` if it is revoked.
    pub fn timerfd_settime(
        &self,
        fd: impl Into<RawFd>,
        flags: TimerFlags,
        spec: ITimerSpec,
    ) -> Result<ITimerSpec, Errno> {
        let file = self.files.get(fd)?;
        as_timerfd(&*file).ok_or(Errno::EINVAL)?.set(flags, spec)
    }

    /// Returns the interval of a timer, and the time to its next expiration: zero if it is off, or
    /// has expired for good.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not an open descriptor; `EINVAL` if it is not a timer; `EIO` if it is
    /// revoked.
    pub fn timerfd_gettime(&self, fd: impl Into<RawFd>) -> Result<ITimerSpec, Errno> {
        let file = self.files.get(fd)?;
        as_timerfd(&*file).ok_or(Errno::EINVAL)?.get()
    }

    /// Gives what `make` makes the lowest free number; if there is none, it makes nothing.
    fn install(
        &self,
        flags: OpenFlags,
        make: impl FnOnce() -> Result<FileRef<dyn Object>, Errno>,
    ) -> Result<Fd, Errno> {
        let reservation = self.files.reserve(flags.descriptor())?;
        Ok(reservation.install(make()?))
    }
}
