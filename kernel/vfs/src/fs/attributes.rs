//! Attributes of an inode that can be set.

use super::{Mode, Timestamp};

/// Attributes to set; `None` leaves an attribute as it is. In Linux: `struct iattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<Mode>,
    /// User that owns it.
    pub uid: Option<u32>,
    /// Group that owns it.
    pub gid: Option<u32>,
    /// Access time.
    pub atime: Option<Timestamp>,
    /// Modification time.
    pub mtime: Option<Timestamp>,
}

/// Timestamp to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The current time. In Linux: `UTIME_NOW`.
    Now,
    /// Leaves the timestamp as it is. In Linux: `UTIME_OMIT`.
    Omit,
    /// This many seconds after the beginning of 1970, and nanoseconds: 0 to 999,999,999.
    At(i64, u32),
}
