//! Load files of dbench: the operations of one client of a file server, one a line.
//!
//! ```text
//! NTCreateX "\clients\client1\a.doc" 0x40 0x1 9938 NT_STATUS_OK
//! ReadX 9938 0 4096 4096 NT_STATUS_OK
//! Close 9938 NT_STATUS_OK
//! ```
//!
//! A line is an operation, its arguments, and the status that the server returned. A leading number
//! is the time of the operation in seconds, which is ignored here. A `#` begins a comment. Files
//! are named by a path, or by the handle of the line that opened them.
//!
//! The file is parsed once for all clients. A path is stored once and named by its index, and a
//! handle becomes one of a few slots, which are reused after a close, so a client finds both
//! without a search.

use std::fs;
use std::path::Path;

use anyhow::Context;
use wildmatch::WildMatch;

mod parse;
mod status;

pub(super) use status::Status;

/// Path of the load file in Debian's package `dbench`.
pub const USUAL_PLACE: &str = "/usr/share/dbench/client.txt";

/// Hint for users without a load file.
pub const HOW_TO_GET: &str = "there is no load file of dbench at /usr/share/dbench/client.txt: \
     install it with `apt-get install dbench`, or name one with `--loadfile PATH`";

/// Component of a path that represents the client itself.
const SELF: &str = "client1";

/// Operations of one client, in their order.
#[derive(Debug)]
pub struct Loadfile {
    lines: Vec<Line>,
    paths: Vec<String>,
    patterns: Vec<WildMatch>,
    /// Most handles that are open at a time.
    slots: usize,
    /// Bytes of the longest transfer.
    longest: usize,
}

/// Operation with the server's response.
#[derive(Debug)]
pub(super) struct Line {
    /// Its line in the file, counted from 1.
    pub(super) number: u32,
    pub(super) operation: Operation,
    pub(super) status: Status,
    /// Bytes that were transferred, or names that were found.
    pub(super) count: u32,
}

/// Index of a path.
pub(super) type PathId = u32;

/// Index of an open file of a client.
pub(super) type Slot = u16;

/// Operation of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Create {
        path: PathId,
        kind: Kind,
        disposition: Disposition,
        /// None if the server returned an error.
        slot: Option<Slot>,
    },
    Close(Slot),
    Read {
        slot: Slot,
        offset: u64,
        count: u32,
    },
    Write {
        slot: Slot,
        offset: u64,
        count: u32,
    },
    Flush(Slot),
    /// Locks or unlocks a range.
    Lock(Slot),
    QueryFile(Slot),
    SetFile(Slot),
    QueryPath(PathId),
    QueryFileSystem,
    Find {
        directory: PathId,
        /// Index of the pattern.
        pattern: u32,
    },
    Unlink(PathId),
    Rename {
        from: PathId,
        to: PathId,
    },
    Mkdir(PathId),
    Rmdir(PathId),
    Deltree(PathId),
}

/// Kind of file to be opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Any,
    File,
    Directory,
}

/// Treatment of an existing file, and of a missing one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Disposition {
    Open,
    Create,
    OpenIf,
    Overwrite,
    OverwriteIf,
}

impl Loadfile {
    /// Reads and parses the load file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or a line is invalid; the error names the line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        text.map_err(Into::into)
            .and_then(|text| Self::parse(&text))
            .with_context(|| format!("load file {}", path.display()))
    }

    /// Reads the load file at `given`, or at the [usual place](USUAL_PLACE). Returns none if there
    /// is no file at the usual place; [`HOW_TO_GET`] has a hint for users.
    ///
    /// # Errors
    /// Errors of [`read`](Self::read).
    pub fn find(given: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let usual = Path::new(USUAL_PLACE);
        match given {
            Some(path) => Self::read(path).map(Some),
            None if usual.exists() => Self::read(usual).map(Some),
            None => Ok(None),
        }
    }

    /// Parses the text of a load file.
    ///
    /// # Errors
    /// If a line is invalid, or uses a handle that is not open; the error names the line.
    ///
    /// ```
    /// use fdtable_bench::open_files::Loadfile;
    ///
    /// let text = "Mkdir \"\\clients\" NT_STATUS_OK\nClose 7 NT_STATUS_OK\n";
    /// let error = Loadfile::parse(text).unwrap_err();
    /// assert_eq!(format!("{error:#}"), "line 2: handle 7 is not open");
    /// ```
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        parse::parse(text)
    }

    /// Counts the operations of one pass.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn pattern(&self, place: u32) -> &WildMatch {
        &self.patterns[place as usize]
    }

    /// Returns all paths for the client with this name.
    pub(super) fn paths_of(&self, client: &str) -> Vec<String> {
        let path = |path: &String| {
            let components = path.split('/');
            let own = components.map(|name| if name == SELF { client } else { name });
            own.collect::<Vec<_>>().join("/")
        };
        self.paths.iter().map(path).collect()
    }
}
