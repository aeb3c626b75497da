//! Inodes of pipes and sockets, which are in no directory.

use std::sync::LazyLock;

use crate::fs::{FileKind, Mode, Stat, Timestamp, fresh_device, fresh_inode};

/// Inode of a pipe or socket: its number and creation time.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnonInode {
    number: u64,
    made: Timestamp,
}

impl AnonInode {
    pub(super) fn new() -> Self {
        AnonInode {
            number: fresh_inode(),
            made: Timestamp::now(),
        }
    }

    /// Returns the attributes of a pipe: mode 0600.
    pub(super) fn stat_pipe(self) -> Stat {
        static PIPES: LazyLock<u64> = LazyLock::new(fresh_device);
        self.stat(FileKind::Fifo, Mode::new(0o600), *PIPES)
    }

    /// Returns the attributes of a socket: mode 0777.
    pub(super) fn stat_socket(self) -> Stat {
        static SOCKETS: LazyLock<u64> = LazyLock::new(fresh_device);
        self.stat(FileKind::Socket, Mode::ALL, *SOCKETS)
    }

    fn stat(self, kind: FileKind, mode: Mode, device: u64) -> Stat {
        Stat {
            device,
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            btime: self.made,
            ..Stat::new(kind, mode, self.number)
        }
    }
}
