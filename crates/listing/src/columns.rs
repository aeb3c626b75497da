//! A listing as a table for people: columns as wide as their widest cell, two spaces apart.
//!
//! Printing does not allocate: a cell is measured by writing it to a counter of characters. Missing
//! values are a `-`, so each line has every column.

use core::fmt::{self, Write};

use super::{Descriptor, Listing, Row};
use fdtable::{Access, FdFlags};

const GAP: usize = 2;

/// A column, and how a row's cell of it is written: nothing if the row has no value.
struct Column {
    heading: &'static str,
    align: Align,
    shown: Shown,
    write: fn(&Row, &mut dyn Write) -> fmt::Result,
}

enum Align {
    Left,
    Right,
    /// The last column: no spaces follow.
    Last,
}

#[derive(PartialEq)]
enum Shown {
    Always,
    /// Printed only if a row has a value.
    IfAny,
}

#[rustfmt::skip]
const COLUMNS: [Column; 10] = [
    Column { heading: "OWNER", align: Align::Left, shown: Shown::Always, write: owner },
    Column { heading: "FD", align: Align::Right, shown: Shown::Always, write: descriptor },
    Column { heading: "TYPE", align: Align::Left, shown: Shown::Always, write: |row, to| printable(&row.description.kind, to) },
    Column { heading: "MODE", align: Align::Left, shown: Shown::Always, write: mode },
    Column { heading: "REFS", align: Align::Right, shown: Shown::Always, write: |row, to| write!(to, "{}", row.references) },
    Column { heading: "SINCE", align: Align::Left, shown: Shown::Always, write: since },
    Column { heading: "SIZE", align: Align::Right, shown: Shown::IfAny, write: |row, to| number(row.description.size, to) },
    Column { heading: "OFFSET", align: Align::Right, shown: Shown::IfAny, write: |row, to| number(row.description.position, to) },
    Column { heading: "NODE", align: Align::Right, shown: Shown::IfAny, write: |row, to| number(row.description.inode, to) },
    Column { heading: "NAME", align: Align::Last, shown: Shown::Always, write: name },
];

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = COLUMNS.map(|column| column.width(self.rows()));
        let columns = || COLUMNS.iter().zip(widths).filter(|(_, width)| *width > 0);
        for (column, width) in columns() {
            pad(f, &column.align, width, |to| to.write_str(column.heading))?;
        }
        for row in self {
            f.write_char('\n')?;
            for (column, width) in columns() {
                pad(f, &column.align, width, |to| column.cell(row, to))?;
            }
        }
        Ok(())
    }
}

impl Column {
    /// Returns the width in characters; 0 if the column is left out.
    fn width(&self, rows: &[Row]) -> usize {
        let widest = rows.iter().map(|row| length(|to| (self.write)(row, to)));
        match widest.max().unwrap_or(0) {
            0 if self.shown == Shown::IfAny => 0,
            widest => widest.max(self.heading.len()),
        }
    }

    fn cell(&self, row: &Row, to: &mut dyn Write) -> fmt::Result {
        match length(|to| (self.write)(row, to)) {
            0 => to.write_char('-'),
            _ => (self.write)(row, to),
        }
    }
}

fn owner(row: &Row, to: &mut dyn Write) -> fmt::Result {
    printable(row.owner().unwrap_or_default(), to)
}

fn descriptor(row: &Row, to: &mut dyn Write) -> fmt::Result {
    match row.descriptor {
        Some(Descriptor::Fd { fd, .. }) => write!(to, "{fd}"),
        Some(Descriptor::Private(fd)) => write!(to, "{fd}"),
        None => Ok(()),
    }
}

fn mode(row: &Row, to: &mut dyn Write) -> fmt::Result {
    match row.description.access {
        Some(Access::Read) => to.write_char('r')?,
        Some(Access::Write) => to.write_char('w')?,
        None => {}
    }
    match row.descriptor {
        Some(Descriptor::Fd { flags, .. }) if flags.contains(FdFlags::CLOEXEC) => {
            to.write_char('e')
        }
        _ => Ok(()),
    }
}

fn since(row: &Row, to: &mut dyn Write) -> fmt::Result {
    match row.description.since {
        Some(since) => write!(to, "{since:.0}"),
        None => Ok(()),
    }
}

fn number(number: Option<u64>, to: &mut dyn Write) -> fmt::Result {
    match number {
        Some(number) => write!(to, "{number}"),
        None => Ok(()),
    }
}

fn name(row: &Row, to: &mut dyn Write) -> fmt::Result {
    let name = &row.description.name;
    printable(name, to)?;
    match (row.revoked, name.is_empty()) {
        (true, true) => to.write_str("(revoked)"),
        (true, false) => to.write_str(" (revoked)"),
        (false, _) => Ok(()),
    }
}

/// Writes a caller's text on one line, without characters that control a terminal.
fn printable(text: &str, to: &mut dyn Write) -> fmt::Result {
    text.chars().try_for_each(|c| match c {
        '\'' | '"' => to.write_char(c),
        _ => write!(to, "{}", c.escape_debug()),
    })
}

/// Writes a cell with the spaces around it.
fn pad(
    f: &mut fmt::Formatter<'_>,
    align: &Align,
    width: usize,
    write: impl Fn(&mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    let missing = width - length(&write);
    let (before, after) = match align {
        Align::Left => (0, missing + GAP),
        Align::Right => (missing, GAP),
        Align::Last => (0, 0),
    };
    write!(f, "{:before$}", "")?;
    write(f)?;
    write!(f, "{:after$}", "")
}

/// Counts the written characters.
fn length(write: impl Fn(&mut dyn Write) -> fmt::Result) -> usize {
    struct Length(usize);

    impl Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.chars().count();
            Ok(())
        }
    }

    let mut length = Length(0);
    // Counting cannot fail.
    let _ = write(&mut length);
    length.0
}
