//! What is known of a file without opening it.

use std::sync::Arc;

use super::clock::Timestamp;
use super::mode::Mode;

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Bytes with a length.
    Regular,
    /// Names of other inodes.
    Directory,
    /// Path that a walk goes on with.
    Symlink,
    /// Pipe that has a name.
    Fifo,
    /// Socket, or the address of one.
    Socket,
    /// Device of bytes.
    CharDevice,
    /// Device of blocks.
    BlockDevice,
}

impl FileKind {
    /// Returns the bits that stand for it in `st_mode`: those of `S_IFMT`.
    #[doc(alias = "S_IFMT")]
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

    /// Returns the number that stands for it in an entry of a directory (`DT_REG`, ...).
    #[doc(alias = "d_type")]
    pub const fn dirent_type(self) -> u8 {
        (self.bits() >> 12) as u8
    }
}

/// Description of an inode at one moment.
#[doc(alias = "struct stat")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Number of the file system, which no other of this process has or had.
    #[doc(alias = "st_dev")]
    pub device: u64,
    /// Number of the inode, at least 1. No other inode of the process has or had it.
    #[doc(alias = "st_ino")]
    pub inode: u64,
    /// What it is.
    #[doc(alias = "st_mode")]
    pub kind: FileKind,
    /// Who may do what.
    pub mode: Mode,
    /// How many names it has; of a directory, two and the number of directories in it.
    #[doc(alias = "st_nlink")]
    pub links: u32,
    /// User that owns it.
    #[doc(alias = "st_uid")]
    pub uid: u32,
    /// Group that owns it.
    #[doc(alias = "st_gid")]
    pub gid: u32,
    /// Number of the device that it stands for; 0 if it is none.
    #[doc(alias = "st_rdev")]
    pub rdev: u64,
    /// Length of a regular file or of a symbolic link's target in bytes, or the number of names in
    /// a directory.
    #[doc(alias = "st_size")]
    pub size: u64,
    /// Bytes that one transfer best moves.
    #[doc(alias = "st_blksize")]
    pub block_size: u32,
    /// Memory that the bytes take, in units of 512 bytes.
    #[doc(alias = "st_blocks")]
    pub blocks: u64,
    /// When it was last read, or before: a read counts only if it is the first after a change.
    #[doc(alias = "st_atim")]
    pub atime: Timestamp,
    /// When its bytes or names last changed.
    #[doc(alias = "st_mtim")]
    pub mtime: Timestamp,
    /// When anything of it last changed.
    #[doc(alias = "st_ctim")]
    pub ctime: Timestamp,
    /// When it was made.
    #[doc(alias = "stx_btime")]
    pub btime: Timestamp,
}

/// Bytes that one transfer best moves, of all file systems here: 4,096.
pub(super) const BLOCK_SIZE: u32 = 4096;

impl Stat {
    /// Makes the description of an inode with one name, of user and group 0, without bytes and of
    /// the beginning of 1970. Who knows better sets the fields.
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

    /// Returns kind and permissions in one number.
    #[doc(alias = "st_mode")]
    pub const fn mode_bits(&self) -> u32 {
        self.kind.bits() | self.mode.bits()
    }
}

/// Name in a directory, and what it names.
#[doc(alias = "struct dirent")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the path before it: 1 to 255 bytes.
    pub name: Arc<[u8]>,
    /// Number of the inode, as in [`Stat::inode`].
    pub inode: u64,
    /// What it is.
    pub kind: FileKind,
    /// Position of the name in its directory, which no other name has or had. A reader that goes
    /// on from [`next`](Self::next) sees what comes after it.
    pub cookie: u64,
}

impl DirEntry {
    /// Position of the first name in a directory after `.` and `..`.
    pub const FIRST_COOKIE: u64 = 2;

    /// Returns the position after the name.
    #[doc(alias = "d_off")]
    pub const fn next(&self) -> u64 {
        self.cookie + 1
    }
}
