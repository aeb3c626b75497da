//! The measured cases: the calls of libMicro that concern descriptors, under its names.

use serde::Serialize;

/// Call with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// `close` of a descriptor that is not open.
    CloseBad,
    /// `close` of a file that was opened outside of the timing.
    Close(Named),
    /// `dup`; its result is closed outside of the timing.
    Dup,
    /// `open`; its result is closed outside of the timing.
    Open(Named),
    /// `fcntl` with `F_GETFL`.
    GetStatus,
    /// `fcntl` with `F_GETFD`.
    GetFlags,
    /// `lseek`, alternately to the start and to this offset.
    Seek(u64),
    /// `read` of this many bytes.
    Read(Named, usize),
    /// `write` of this many bytes.
    Write(Named, usize),
    /// `pread` of this many bytes.
    ReadAt(Named, usize),
    /// `pwrite` of this many bytes.
    WriteAt(Named, usize),
    /// `writev` of ten buffers with this many bytes each.
    Writev(Named, usize),
    /// A `write` of this many bytes into a pipe, and a `read` of them.
    Pipe(usize),
    /// The same with a pair of sockets.
    Sockets(usize),
    /// `socketpair`; its result is closed outside of the timing.
    SocketPair,
    /// `poll` of this many sockets without bytes, which does not block.
    Poll(usize),
    /// `select` of this many sockets without bytes, which does not block.
    Select(usize),
}

/// File with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A regular file.
    Tmp,
    /// `/dev/zero`.
    Zero,
    /// `/dev/null`.
    Null,
}

/// True if threads share the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sharing {
    /// All threads use the same descriptors.
    Shared,
    /// Each thread has descriptors and files of its own, in the one table.
    Private,
}

/// Row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    /// Name in libMicro.
    pub(super) name: &'static str,
    #[serde(skip)]
    pub(super) work: Work,
    /// Threads that make the call.
    pub(super) threads: usize,
    /// True if they share the files.
    pub(super) files: Sharing,
}

use Named::{Null, Tmp, Zero};

/// Every call. `fcntl_fd` is not in libMicro: it is the only one that uses just the table.
const WORKS: [(&str, Work); 30] = [
    ("close_bad", Work::CloseBad),
    ("close_tmp", Work::Close(Tmp)),
    ("close_zero", Work::Close(Zero)),
    ("dup", Work::Dup),
    ("fcntl_fd", Work::GetFlags),
    ("fcntl_tmp", Work::GetStatus),
    ("lseek_t8k", Work::Seek(8 << 10)),
    ("open_tmp", Work::Open(Tmp)),
    ("open_zero", Work::Open(Zero)),
    ("pipe_pst1", Work::Pipe(1)),
    ("pipe_pst4k", Work::Pipe(4 << 10)),
    ("pipe_sst1", Work::Sockets(1)),
    ("pipe_sst4k", Work::Sockets(4 << 10)),
    ("poll_10", Work::Poll(10)),
    ("poll_100", Work::Poll(100)),
    ("pread_t1k", Work::ReadAt(Tmp, 1 << 10)),
    ("pread_t10k", Work::ReadAt(Tmp, 10 << 10)),
    ("pread_z1k", Work::ReadAt(Zero, 1 << 10)),
    ("pwrite_t1k", Work::WriteAt(Tmp, 1 << 10)),
    ("pwrite_n1k", Work::WriteAt(Null, 1 << 10)),
    ("read_t1k", Work::Read(Tmp, 1 << 10)),
    ("read_t10k", Work::Read(Tmp, 10 << 10)),
    ("read_z1k", Work::Read(Zero, 1 << 10)),
    ("select_10", Work::Select(10)),
    ("select_100", Work::Select(100)),
    ("socketpair", Work::SocketPair),
    ("write_t1k", Work::Write(Tmp, 1 << 10)),
    ("write_n1k", Work::Write(Null, 1 << 10)),
    ("writev_t1k", Work::Writev(Tmp, 1 << 10)),
    ("writev_n1k", Work::Writev(Null, 1 << 10)),
];

/// Lists the cases: each call on one thread, and on `threads` threads with either kind of files.
pub(super) fn all(threads: usize) -> Vec<Case> {
    let lines = |(name, work): (&'static str, Work)| {
        let alone = std::iter::once((1, Sharing::Private));
        let many = work.sharings().iter().map(move |&files| (threads, files));
        alone.chain(many).map(move |(threads, files)| Case {
            name,
            work,
            threads,
            files,
        })
    };
    WORKS.into_iter().flat_map(lines).collect()
}

impl Work {
    /// Returns the kinds of files on which many threads can make the call.
    fn sharings(self) -> &'static [Sharing] {
        match self {
            // There is no file.
            Work::CloseBad | Work::SocketPair => &[Sharing::Shared],
            // As in libMicro: the writing thread must read its own bytes.
            Work::Pipe(_) | Work::Sockets(_) => &[Sharing::Private],
            _ => &[Sharing::Shared, Sharing::Private],
        }
    }

    /// Returns the number of calls in a batch. Calls that use up descriptors or the content of a
    /// file have as many as in libMicro; the others take some microseconds.
    pub(super) fn calls(self) -> usize {
        match self {
            Work::Close(_) | Work::Dup | Work::Open(_) => 256,
            Work::SocketPair => 128,
            Work::Poll(100..) | Work::Select(100..) => 16,
            _ if self.bytes() > 4 << 10 => 16,
            _ => 64,
        }
    }

    /// Returns by how many bytes a call moves the position of a file.
    pub(super) fn bytes(self) -> usize {
        match self {
            Work::Read(_, bytes) | Work::Write(_, bytes) => bytes,
            Work::ReadAt(_, bytes) | Work::WriteAt(_, bytes) => bytes,
            Work::Writev(_, bytes) => bytes * BUFFERS,
            _ => 0,
        }
    }
}

/// Buffers of a `writev`, as in libMicro.
pub(super) const BUFFERS: usize = 10;
