//! Where to move the position of an open file.

use std::io::SeekFrom;

/// Where to move a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// To this many bytes from the start.
    #[doc(alias = "SEEK_SET")]
    Start(u64),
    /// By this many bytes.
    #[doc(alias = "SEEK_CUR")]
    Current(i64),
    /// To this many bytes from the end.
    #[doc(alias = "SEEK_END")]
    End(i64),
    /// To the first byte from there on that is no hole.
    #[doc(alias = "SEEK_DATA")]
    Data(u64),
    /// To the first hole from there on; at the end of every file there is one.
    #[doc(alias = "SEEK_HOLE")]
    Hole(u64),
}

impl From<SeekFrom> for SeekTo {
    fn from(from: SeekFrom) -> Self {
        match from {
            SeekFrom::Start(position) => SeekTo::Start(position),
            SeekFrom::Current(delta) => SeekTo::Current(delta),
            SeekFrom::End(delta) => SeekTo::End(delta),
        }
    }
}
