//! Readiness: wait queues, `poll`, `epoll` and `eventfd`, and signals about it.

pub(crate) mod async_io;
mod epoll;
mod eventfd;
mod events;
mod poll;
mod pollee;
mod sleeper;
mod wait_queue;

pub use async_io::{IoSignal, Owner, OwnerKind, SignalReason, SignalSender};
pub(crate) use epoll::as_epoll;
pub use epoll::{Epoll, EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, HostSet, HostWait};
pub use eventfd::{EventFd, EventFdFlags};
pub use events::Events;
pub use fdtable_parker::{Restart, Wake, interrupt};
pub(crate) use poll::Poll;
pub use pollee::{FileId, Pollee, Watcher};
pub use sleeper::{Limit, Sleeper, run_before_sleeps, wait};
pub use wait_queue::{Ticket, WaitQueue, Wakeups};
