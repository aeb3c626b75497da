//! System calls of `eventfd` and `epoll`.

use std::time::Duration;

use fdtable::{Fd, FdArg};

use super::Process;
use crate::Errno;
use crate::event::{
    Epoll, EpollCreateFlags, EpollCtl, EpollEvent, EventFd, EventFdFlags, as_epoll,
};
use crate::object::file;

impl Process {
    /// Makes an eventfd at the lowest free descriptor. Its count starts at `initial`, 0 to 2^64 -
    /// 2. Allocates. In Linux: `eventfd2`.
    ///
    /// # Errors
    /// `EINVAL` if `initial` is above that, or `flags` has unknown bits; `EMFILE`, `ENOMEM` from
    /// the table.
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
    pub fn eventfd(&self, initial: u64, flags: EventFdFlags) -> Result<Fd, Errno> {
        if EventFdFlags::from_bits(flags.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        let eventfd = EventFd::new(initial, flags)?;
        self.install(flags.open_flags(), || file(eventfd))
    }

    /// Makes an epoll without members, at the lowest free descriptor. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has unknown bits; `EMFILE`, `ENOMEM` from the table.
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

    /// Adds, modifies or removes the member of an epoll that `fd` refers to. If the member is
    /// ready, the next [`epoll_wait`](Self::epoll_wait) returns it, also in edge mode. `event` has
    /// the requested events; `Del` needs none. Allocates.
    ///
    /// # Errors
    /// - `EFAULT` if there is no event.
    /// - `EBADF` if `epfd` or `fd` is not an open descriptor; `EIO` if one is revoked.
    /// - `EPERM` if `fd` is always ready, as files and directories are.
    /// - `EINVAL` if `epfd` is not an epoll, or both are the same file; if `EXCLUSIVE` is requested
    ///   of an epoll, with events other than `IN`, `OUT`, `ERR` and `HUP`, or in a modification; or
    ///   if epolls would be watched along more than a thousand paths.
    /// - `EEXIST` if a file to add is a member; `ENOENT` if another one is not.
    /// - `ELOOP` if epolls would contain each other, or more than five would form a chain.
    pub fn epoll_ctl(
        &self,
        epfd: impl FdArg,
        operation: EpollCtl,
        fd: impl FdArg,
        event: Option<EpollEvent>,
    ) -> Result<(), Errno> {
        let (epfd, fd) = (epfd.to_raw(), fd.to_raw());
        let event = match operation {
            EpollCtl::Del => EpollEvent::default(),
            EpollCtl::Add | EpollCtl::Mod => event.ok_or(Errno::EFAULT)?,
        };
        let set = self.get_opened(epfd)?;
        let file = self.get_opened(fd)?;
        let Some(epoll) = as_epoll(&**set) else {
            // Linux checks the member before the epoll.
            let member = file.pollee().ok_or(Errno::EPERM);
            return member.and(Err(Errno::EINVAL));
        };
        match operation {
            EpollCtl::Add => epoll.add(fd, &file, event),
            EpollCtl::Del => epoll.delete(fd, &file),
            EpollCtl::Mod => epoll.modify(fd, &file, event),
        }
    }

    /// Waits until a member of an epoll is ready, or until `timeout` has passed (`None`: forever).
    /// Writes the events into `events`, and returns how many it wrote. Members that were returned
    /// and are still ready come last the next time. Blocks, and allocates if it does.
    /// In Linux: `epoll_pwait2`.
    ///
    /// # Errors
    /// `EINVAL` if `events` is empty, or `epfd` is not an epoll; `EBADF` if it is not an open
    /// descriptor; `EIO` if it is revoked.
    pub fn epoll_wait(
        &self,
        epfd: impl FdArg,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let set = self.files.get(epfd)?;
        as_epoll(&**set).ok_or(Errno::EINVAL)?.wait(events, timeout)
    }
}
