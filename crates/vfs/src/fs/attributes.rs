//! Attributes of an inode that can be set.

use super::clock::Timestamp;
use super::mode::Mode;

/// What to set of an inode; the rest stays.
#[doc(alias = "struct iattr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<Mode>,
    /// User that owns it.
    pub uid: Option<u32>,
    /// Group that owns it.
    pub gid: Option<u32>,
    /// When it was last read.
    pub atime: Option<Timestamp>,
    /// When its bytes or names last changed.
    pub mtime: Option<Timestamp>,
}

/// Time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The present one.
    #[doc(alias = "UTIME_NOW")]
    Now,
    /// None: it stays as it is.
    #[doc(alias = "UTIME_OMIT")]
    Omit,
    /// This many seconds after the beginning of 1970, and nanoseconds: 0 to 999,999,999.
    At(i64, u32),
}
