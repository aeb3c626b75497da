//! The compared operations, and their arguments.

use std::fmt;

use serde::Serialize;

named! {
    /// Operation of the matrix.
    #[derive(PartialOrd, Ord, Hash, Serialize)]
    pub(super) enum Operation {
        BorrowedGet = "borrowed get",
        OwnedGet = "owned get",
        Put = "put",
        Clone = "clone",
        Upgrade = "upgrade",
        OpenLowest = "open lowest",
        OpenAny = "open any",
        PrivateOpen = "private open",
        PrivateClose = "private close",
        Close = "close",
        Dup = "dup",
        DupTo = "dup_to",
        GetFlags = "get flags",
        SetFlags = "set flags",
        Add = "list add",
        Remove = "list remove",
        Count = "list count",
        Iterate = "list iterate",
        SlabAlloc = "slab alloc",
        SlabFree = "slab free",
        PipeWrite = "pipe write",
        PipeRead = "pipe read",
        Lseek = "lseek",
        Pread = "pread",
    }
}

named! {
    /// Argument of an operation: which descriptor, file or reference it uses.
    #[derive(PartialOrd, Ord, Hash, Serialize)]
    pub(super) enum Argument {
        /// Nothing in particular.
        Nothing = "-",
        /// A descriptor that the CPU opened itself, in a leaf of its own.
        Own = "own",
        /// A descriptor that the other CPU opened in the same way.
        Others = "other's",
        /// A descriptor in the leaf of one of the other CPU, on another line.
        SameLeaf = "same leaf",
        /// The descriptor next to one of the other CPU.
        Neighbour = "neighbour",
        /// A descriptor in another node of the radix tree.
        Far = "far",
        /// A private descriptor of a file that the other CPU has a descriptor for too.
        Duplicate = "duplicate",
        /// One descriptor for both CPUs.
        Common = "common",
        /// A private descriptor of a file that the other CPU created.
        Handed = "handed",
        /// A descriptor that a search for the lowest has passed over, in a leaf of its own.
        Passed = "passed",
        /// The only open descriptor of its leaf.
        Lone = "lone",
        /// A descriptor that is not open, in a leaf of its own.
        Closed = "closed",
        /// One descriptor for both CPUs, which is not open.
        CommonClosed = "common closed",
    }
}

/// Number of [`Argument`]s.
pub(super) const ARGUMENTS: usize = Argument::ALL.len();

/// Operation with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) argument: Argument,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.argument {
            Argument::Nothing => f.write_str(self.operation.name()),
            argument => write!(f, "{} ({})", self.operation.name(), argument.name()),
        }
    }
}
