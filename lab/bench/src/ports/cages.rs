//! The table of a sandbox that runs several processes, called cages: what every subject offers.

/// Target of a cage's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The kind of the thing below: of a file, a socket, and so on.
    pub(super) kind: u32,
    /// The descriptor below.
    pub(super) under: u64,
    pub(super) cloexec: bool,
    /// A word of the sandbox's.
    pub(super) word: u64,
}

/// Descriptors of all cages. Each counts how many descriptors stand for one thing below, so that it
/// is closed with the last of them.
pub(super) trait Cages: Sync {
    /// Makes an empty cage 0.
    fn new() -> Self;

    /// Opens an entry at the lowest free descriptor.
    fn open(&self, cage: u32, entry: Entry) -> Option<i32>;

    /// Puts an entry at a descriptor, and closes what was there.
    fn open_at(&self, cage: u32, fd: i32, entry: Entry) -> Option<()>;

    /// Returns the entry of a descriptor.
    fn find(&self, cage: u32, fd: i32) -> Option<Entry>;

    /// Sets the word of a descriptor.
    fn set_word(&self, cage: u32, fd: i32, word: u64) -> Option<()>;

    /// Closes a descriptor.
    fn close(&self, cage: u32, fd: i32) -> Option<()>;

    /// Makes a cage with the descriptors of another one.
    fn fork(&self, from: u32, to: u32) -> Option<()>;

    /// Closes all descriptors of a cage, and removes it.
    fn remove(&self, cage: u32) -> Option<()>;
}
