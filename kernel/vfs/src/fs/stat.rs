//! Attributes of an inode: `struct stat`, and directory entries.

use std::sync::Arc;

use super::{Attributes, Mode, Permissions, Timestamp};

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// FIFO: a pipe with a name.
    Fifo,
    /// Socket, or the name of one.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
}

impl FileKind {
    /// Returns the type bits of `st_mode`: those of `S_IFMT`.
    pub const fn bits(self) -> u32 {
        match self {
            FileKind::Fifo => 0o010000,
            FileKind::CharDevice => 0o020000,
            FileKind::Directory => 0o040000,
            FileKind::BlockDevice => 0o060000,
            FileKind::Regular => 0o100000,
            FileKind::Symlink => 0o120000,
            FileKind::Socket => 0o140000,
        }
    }

    /// Returns the type of a directory entry (`DT_REG`, ...). In Linux: `d_type`.
    pub const fn dirent_type(self) -> u8 {
        (self.bits() >> 12) as u8
    }
}

/// Snapshot of the attributes of an inode. In Linux: `struct stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Device number of the file system, unique in the host process. In Linux: `st_dev`.
    pub device: u64,
    /// Inode number, at least 1, unique in the host process; that of a [lower file] is unique on
    /// its device. In Linux: `st_ino`.
    ///
    /// [lower file]: crate::fs::LowerDirectory
    pub inode: u64,
    /// Kind of the inode. In Linux: `st_mode`.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: Mode,
    /// Number of names; for a directory, two plus its subdirectories. In Linux: `st_nlink`.
    pub links: u32,
    /// User that owns it. In Linux: `st_uid`.
    pub uid: u32,
    /// Group that owns it. In Linux: `st_gid`.
    pub gid: u32,
    /// Number of the device that the inode stands for; 0 if it is not a device.
    /// In Linux: `st_rdev`.
    pub rdev: u64,
    /// Length in bytes of a regular file or of a link target; the number of names in a directory.
    /// In Linux: `st_size`.
    pub size: u64,
    /// Best transfer size in bytes. In Linux: `st_blksize`.
    pub block_size: u32,
    /// Allocated memory, in units of 512 bytes. In Linux: `st_blocks`.
    pub blocks: u64,
    /// Access time. Only the first read after a change updates it. In Linux: `st_atim`.
    pub atime: Timestamp,
    /// Modification time. In Linux: `st_mtim`.
    pub mtime: Timestamp,
    /// Change time: of any attribute or of the contents. In Linux: `st_ctim`.
    pub ctime: Timestamp,
    /// Creation time. In Linux: `stx_btime`.
    pub btime: Timestamp,
}

/// Best transfer size of all file systems here: 4,096 bytes.
pub(crate) const BLOCK_SIZE: u32 = 4096;

impl Stat {
    /// Makes the attributes of an inode with one name and otherwise zeros. The timestamps are at
    /// the beginning of 1970. The caller sets the fields that differ.
    pub const fn new(kind: FileKind, mode: Mode, inode: u64) -> Self {
        Stat {
            device: 0,
            inode,
            kind,
            mode,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            block_size: BLOCK_SIZE,
            blocks: 0,
            atime: Timestamp::EPOCH,
            mtime: Timestamp::EPOCH,
            ctime: Timestamp::EPOCH,
            btime: Timestamp::EPOCH,
        }
    }

    /// Returns owner, group and permissions.
    pub const fn permissions(&self) -> Permissions {
        let Stat { mode, uid, gid, .. } = *self;
        Permissions { mode, uid, gid }
    }

    /// Sets attributes, and the change time.
    pub(crate) fn change(&mut self, changes: &Attributes) {
        self.mode = changes.mode.unwrap_or(self.mode);
        self.uid = changes.uid.unwrap_or(self.uid);
        self.gid = changes.gid.unwrap_or(self.gid);
        self.atime = changes.atime.unwrap_or(self.atime);
        self.mtime = changes.mtime.unwrap_or(self.mtime);
        self.ctime = Timestamp::now();
    }

    /// Sets owner, group and permissions, and all timestamps to now.
    pub(crate) fn made_now(self, permissions: Permissions) -> Self {
        let Permissions { mode, uid, gid } = permissions;
        let now = Timestamp::now();
        Stat {
            mode,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..self
        }
    }

    /// Returns kind and permissions as one number. In Linux: `st_mode`.
    pub const fn mode_bits(&self) -> u32 {
        self.kind.bits() | self.mode.bits()
    }
}

/// Directory entry: a name, and its inode. In Linux: `struct dirent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without any path: 1 to 255 bytes.
    pub name: Arc<[u8]>,
    /// Number of the inode, as in [`Stat::inode`].
    pub inode: u64,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Position of the entry in its directory, never used again. A reader that continues at
    /// [`next`](Self::next) sees the entries after it.
    pub cookie: u64,
}

impl DirEntry {
    /// Position of the first entry after `.` and `..`.
    pub const FIRST_COOKIE: u64 = 2;

    /// Returns the position after this entry. In Linux: `d_off`.
    pub const fn next(&self) -> u64 {
        self.cookie + 1
    }
}
