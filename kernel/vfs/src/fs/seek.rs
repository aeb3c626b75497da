//! Targets of `lseek`.

use std::io::SeekFrom;

/// New position of an open file.
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
    /// To the first byte of data at or after this position.
    #[doc(alias = "SEEK_DATA")]
    Data(u64),
    /// To the first hole at or after this position; every file has one at its end.
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
