//! Status codes of a file server.

use std::fmt;

use anyhow::{anyhow, bail};
use fdtable_vfs::Errno;

/// Status of the recorded server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::open_files) enum Status {
    Ok,
    /// The last name of a path does not exist.
    NameNotFound,
    /// A directory of the path does not exist.
    PathNotFound,
    /// No name matches a pattern.
    NoSuchFile,
    /// The name exists.
    NameCollision,
}

/// The statuses with their names in a load file.
const NAMES: [(&str, Status); 5] = [
    ("NT_STATUS_OK", Status::Ok),
    ("NT_STATUS_OBJECT_NAME_NOT_FOUND", Status::NameNotFound),
    ("NT_STATUS_OBJECT_PATH_NOT_FOUND", Status::PathNotFound),
    ("NT_STATUS_NO_SUCH_FILE", Status::NoSuchFile),
    ("NT_STATUS_OBJECT_NAME_COLLISION", Status::NameCollision),
];

impl Status {
    pub(super) fn parse(word: &str) -> anyhow::Result<Self> {
        if !word.starts_with("NT_STATUS_") {
            bail!("{word} at the end is no status");
        }
        let found = NAMES.iter().find(|(name, _)| *name == word);
        let (_, status) = found.ok_or_else(|| anyhow!("status {word} is not known"))?;
        Ok(*status)
    }

    /// Returns true if `errno` has the same meaning.
    pub(in crate::open_files) fn stands_for(self, errno: Errno) -> bool {
        match self {
            Status::Ok => false,
            Status::NameNotFound | Status::NoSuchFile => errno == Errno::ENOENT,
            Status::PathNotFound => matches!(errno, Errno::ENOENT | Errno::ENOTDIR),
            Status::NameCollision => errno == Errno::EEXIST,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, status)| status == self);
        f.write_str(found.map_or("a status", |(name, _)| name))
    }
}
