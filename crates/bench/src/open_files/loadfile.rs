//! Load files of dbench: what one client of a file server did, a line for each operation.
//!
//! ```text
//! NTCreateX "\clients\client1\a.doc" 0x40 0x1 9938 NT_STATUS_OK
//! ReadX 9938 0 4096 4096 NT_STATUS_OK
//! Close 9938 NT_STATUS_OK
//! ```
//!
//! A line is an operation, its arguments, and the status that the server answered. A number in
//! front is the time at which it happened, in seconds: nobody waits for it here. A `#` begins a
//! comment. Files are named by a path, or by the handle that the line gave which opened them.
//!
//! The file is parsed once for all clients. A path is stored once and named by its place, and a
//! handle becomes one of a few slots, which are used again after a close, so a client finds both
//! without a search.

use std::fs;
use std::path::Path;

use anyhow::Context;
use wildmatch::WildMatch;

mod parse;
mod status;

pub(super) use status::Status;

/// Where the package `dbench` of Debian puts its load file.
pub const USUAL_PLACE: &str = "/usr/share/dbench/client.txt";

/// What to do where there is no load file.
pub const HOW_TO_GET: &str = "there is no load file of dbench at /usr/share/dbench/client.txt: \
     install it with `apt-get install dbench`, or name one with `--loadfile PATH`";

/// Component of a path that stands for the client itself.
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

/// Operation, and what the server answered.
#[derive(Debug)]
pub(super) struct Line {
    /// Its place in the file, counted from 1.
    pub(super) number: u32,
    pub(super) operation: Operation,
    pub(super) status: Status,
    /// Bytes that were transferred, or names that were found.
    pub(super) count: u32,
}

/// Place of a path among all.
pub(super) type PathId = u32;

/// Place of an open file among those of a client.
pub(super) type Slot = u16;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Create {
        path: PathId,
        kind: Kind,
        disposition: Disposition,
        /// None if the server refused.
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
        /// Place of the pattern among all.
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

/// What may be opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Any,
    File,
    Directory,
}

/// What happens to what is there, and to what is not.
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
    /// If it cannot be read, or a line is not understood: which one is told.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        text.map_err(Into::into)
            .and_then(|text| Self::parse(&text))
            .with_context(|| format!("load file {}", path.display()))
    }

    /// Reads the load file at `given`, or at the [usual place](USUAL_PLACE). Returns none if there
    /// is nothing at the usual place: [`HOW_TO_GET`] then says what to do.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
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
    /// If a line is not understood, or uses a handle that is not open: which one is told.
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

    /// Returns all paths as the client of this name has them.
    pub(super) fn paths_of(&self, client: &str) -> Vec<String> {
        let path = |path: &String| {
            let components = path.split('/');
            let own = components.map(|name| if name == SELF { client } else { name });
            own.collect::<Vec<_>>().join("/")
        };
        self.paths.iter().map(path).collect()
    }
}
