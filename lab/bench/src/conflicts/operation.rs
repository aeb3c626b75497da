//! The compared operations, and their arguments.

use std::fmt;

use serde::Serialize;

/// Operation of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(super) enum Operation {
    BorrowedGet,
    OwnedGet,
    Put,
    Clone,
    Upgrade,
    OpenLowest,
    OpenAny,
    PrivateOpen,
    PrivateClose,
    Close,
    Dup,
    DupTo,
    GetFlags,
    SetFlags,
    Add,
    Remove,
    Count,
    Iterate,
    SlabAlloc,
    SlabFree,
    PipeWrite,
    PipeRead,
    Lseek,
    Pread,
}

impl Operation {
    /// Every operation, in the order of the matrix.
    pub(super) const ALL: [Operation; 24] = [
        Operation::BorrowedGet,
        Operation::OwnedGet,
        Operation::Put,
        Operation::Clone,
        Operation::Upgrade,
        Operation::OpenLowest,
        Operation::OpenAny,
        Operation::PrivateOpen,
        Operation::PrivateClose,
        Operation::Close,
        Operation::Dup,
        Operation::DupTo,
        Operation::GetFlags,
        Operation::SetFlags,
        Operation::Add,
        Operation::Remove,
        Operation::Count,
        Operation::Iterate,
        Operation::SlabAlloc,
        Operation::SlabFree,
        Operation::PipeWrite,
        Operation::PipeRead,
        Operation::Lseek,
        Operation::Pread,
    ];

    /// Returns the name in reports and in the list of allowed conflicts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::BorrowedGet => "borrowed get",
            Operation::OwnedGet => "owned get",
            Operation::Put => "put",
            Operation::Clone => "clone",
            Operation::Upgrade => "upgrade",
            Operation::OpenLowest => "open lowest",
            Operation::OpenAny => "open any",
            Operation::PrivateOpen => "private open",
            Operation::PrivateClose => "private close",
            Operation::Close => "close",
            Operation::Dup => "dup",
            Operation::DupTo => "dup_to",
            Operation::GetFlags => "get flags",
            Operation::SetFlags => "set flags",
            Operation::Add => "list add",
            Operation::Remove => "list remove",
            Operation::Count => "list count",
            Operation::Iterate => "list iterate",
            Operation::SlabAlloc => "slab alloc",
            Operation::SlabFree => "slab free",
            Operation::PipeWrite => "pipe write",
            Operation::PipeRead => "pipe read",
            Operation::Lseek => "lseek",
            Operation::Pread => "pread",
        }
    }
}

/// Argument of an operation: which descriptor, file or reference it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(super) enum Argument {
    /// Nothing in particular.
    Nothing,
    /// A descriptor that the CPU opened itself, in a leaf of its own.
    Own,
    /// A descriptor that the other CPU opened in the same way.
    Others,
    /// A descriptor in the leaf of one of the other CPU, on another line.
    SameLeaf,
    /// The descriptor next to one of the other CPU.
    Neighbour,
    /// A descriptor in another node of the radix tree.
    Far,
    /// A private descriptor of a file that the other CPU has a descriptor for too.
    Duplicate,
    /// One descriptor for both CPUs.
    Common,
    /// A private descriptor of a file that the other CPU created.
    Handed,
    /// A descriptor that a search for the lowest has passed over, in a leaf of its own.
    Passed,
    /// The only open descriptor of its leaf.
    Lone,
    /// A descriptor that is not open, in a leaf of its own.
    Closed,
    /// One descriptor for both CPUs, which is not open.
    CommonClosed,
}

/// Number of [`Argument`]s.
pub(super) const ARGUMENTS: usize = 13;

impl Argument {
    /// Every argument, in the order of its discriminant.
    pub(super) const ALL: [Argument; ARGUMENTS] = [
        Argument::Nothing,
        Argument::Own,
        Argument::Others,
        Argument::SameLeaf,
        Argument::Neighbour,
        Argument::Far,
        Argument::Duplicate,
        Argument::Common,
        Argument::Handed,
        Argument::Passed,
        Argument::Lone,
        Argument::Closed,
        Argument::CommonClosed,
    ];

    /// Returns the name in reports and in the list of allowed conflicts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Argument::Nothing => "-",
            Argument::Own => "own",
            Argument::Others => "other's",
            Argument::SameLeaf => "same leaf",
            Argument::Neighbour => "neighbour",
            Argument::Far => "far",
            Argument::Duplicate => "duplicate",
            Argument::Common => "common",
            Argument::Handed => "handed",
            Argument::Passed => "passed",
            Argument::Lone => "lone",
            Argument::Closed => "closed",
            Argument::CommonClosed => "common closed",
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_its_index() {
        let places = Argument::ALL.map(|argument| argument as usize);
        assert!(places.into_iter().eq(0..ARGUMENTS));
    }
}
