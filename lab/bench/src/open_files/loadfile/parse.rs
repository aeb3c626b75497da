//! Parser of load files.

use std::collections::HashMap;

use anyhow::{Context, anyhow, bail, ensure};
use wildmatch::WildMatch;

use super::{Disposition, Kind, Line, Loadfile, Operation, PathId, Slot, Status};

/// State from the previous lines.
#[derive(Default)]
struct Parser {
    paths: HashMap<String, PathId>,
    patterns: HashMap<String, u32>,
    /// Open handles with their slots.
    open: HashMap<u64, Slot>,
    /// Free slots that were used before.
    free: Vec<Slot>,
    slots: Slot,
    longest: u32,
}

/// Parses a whole file.
pub(super) fn parse(text: &str) -> anyhow::Result<Loadfile> {
    let mut parser = Parser::default();
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let line = parser.line(number, text);
        lines.extend(line.with_context(|| format!("line {number}"))?);
    }
    Ok(parser.finish(lines))
}

impl Parser {
    /// Parses a line, which may be empty.
    fn line(&mut self, number: u32, text: &str) -> anyhow::Result<Option<Line>> {
        let words = words(text)?;
        let words = match &words[..] {
            [time, rest @ ..] if time.starts_with(|c: char| c.is_ascii_digit()) => rest,
            all => all,
        };
        match words {
            [] => Ok(None),
            [first, ..] if first.starts_with('#') => Ok(None),
            [_] => bail!("{} stands alone", words[0]),
            [name, arguments @ .., status] => {
                let status = Status::parse(status)?;
                let (operation, count) = self.operation(name, arguments, status)?;
                Ok(Some(Line {
                    number,
                    operation,
                    status,
                    count,
                }))
            }
        }
    }

    /// Parses an operation, and the count of transferred bytes or found names.
    fn operation(
        &mut self,
        name: &str,
        arguments: &[&str],
        status: Status,
    ) -> anyhow::Result<(Operation, u32)> {
        let operation = match (name, arguments) {
            ("NTCreateX", [path, options, disposition, handle]) => Operation::Create {
                path: self.path(path)?,
                kind: kind(number(options)?),
                disposition: parse_disposition(number(disposition)?)?,
                slot: match status {
                    Status::Ok => Some(self.opened(number(handle)?)?),
                    _ => None,
                },
            },
            ("Close", [handle]) => Operation::Close(self.closed(number(handle)?)?),
            ("ReadX", [handle, offset, count, returned]) => {
                let (slot, offset, count) = self.transfer([handle, offset, count])?;
                let read = Operation::Read {
                    slot,
                    offset,
                    count,
                };
                return Ok((read, number(returned)?));
            }
            ("WriteX", [handle, offset, count, returned]) => {
                let (slot, offset, count) = self.transfer([handle, offset, count])?;
                let write = Operation::Write {
                    slot,
                    offset,
                    count,
                };
                return Ok((write, number(returned)?));
            }
            ("FIND_FIRST", [pattern, _level, _most, found]) => {
                return Ok((self.find(pattern)?, number(found)?));
            }
            ("Flush", [handle]) => Operation::Flush(self.slot(handle)?),
            ("LockX" | "UnlockX", [handle, _offset, _length]) => {
                Operation::Lock(self.slot(handle)?)
            }
            ("QUERY_FILE_INFORMATION", [handle, _level]) => {
                Operation::QueryFile(self.slot(handle)?)
            }
            ("SET_FILE_INFORMATION", [handle, _level]) => Operation::SetFile(self.slot(handle)?),
            ("QUERY_PATH_INFORMATION", [path, _level]) => Operation::QueryPath(self.path(path)?),
            ("QUERY_FS_INFORMATION", [_level]) => Operation::QueryFileSystem,
            ("Unlink", [path, _attributes]) => Operation::Unlink(self.path(path)?),
            ("Rename", [from, to]) => Operation::Rename {
                from: self.path(from)?,
                to: self.path(to)?,
            },
            ("Mkdir", [path]) => Operation::Mkdir(self.path(path)?),
            ("Rmdir", [path]) => Operation::Rmdir(self.path(path)?),
            ("Deltree", [path]) => Operation::Deltree(self.path(path)?),
            _ => bail!("{name} with {} arguments is not known", arguments.len()),
        };
        Ok((operation, 0))
    }

    fn transfer(&mut self, words: [&str; 3]) -> anyhow::Result<(Slot, u64, u32)> {
        let [handle, offset, count] = words;
        let count = number(count)?;
        self.longest = self.longest.max(count);
        Ok((self.slot(handle)?, number(offset)?, count))
    }

    /// Parses a directory with a pattern for the names in it.
    fn find(&mut self, word: &str) -> anyhow::Result<Operation> {
        let path = word.replace('\\', "/");
        let (directory, pattern) = path
            .rsplit_once('/')
            .ok_or_else(|| anyhow!("{word} names no directory"))?;
        // `<` and `>` are the wildcards of a DOS that treats the last point separately.
        let pattern = pattern.replace('<', "*").replace('>', "?");
        let next = self.patterns.len() as u32;
        Ok(Operation::Find {
            directory: self.path(directory)?,
            pattern: *self.patterns.entry(pattern).or_insert(next),
        })
    }

    fn path(&mut self, word: &str) -> anyhow::Result<PathId> {
        let path = word.replace('\\', "/");
        ensure!(path.starts_with('/'), "{word} is no path from the root");
        let next = PathId::try_from(self.paths.len())?;
        Ok(*self.paths.entry(path).or_insert(next))
    }

    fn slot(&self, handle: &str) -> anyhow::Result<Slot> {
        let found = self.open.get(&number(handle)?);
        found
            .copied()
            .ok_or_else(|| anyhow!("handle {handle} is not open"))
    }

    fn opened(&mut self, handle: u64) -> anyhow::Result<Slot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let next = self.slots;
                self.slots = next.checked_add(1).context("too many open handles")?;
                next
            }
        };
        let before = self.open.insert(handle, slot);
        ensure!(before.is_none(), "handle {handle} is open already");
        Ok(slot)
    }

    fn closed(&mut self, handle: u64) -> anyhow::Result<Slot> {
        let slot = self
            .open
            .remove(&handle)
            .ok_or_else(|| anyhow!("handle {handle} is not open"))?;
        self.free.push(slot);
        Ok(slot)
    }

    fn finish(self, lines: Vec<Line>) -> Loadfile {
        let patterns = in_order(self.patterns);
        Loadfile {
            lines,
            paths: in_order(self.paths),
            patterns: patterns
                .iter()
                .map(|pattern| WildMatch::new_case_insensitive(pattern))
                .collect(),
            slots: self.slots.into(),
            longest: self.longest as usize,
        }
    }
}

/// Lists the names in the order of their indices.
fn in_order(numbered: HashMap<String, u32>) -> Vec<String> {
    let mut all: Vec<_> = numbered.into_iter().collect();
    all.sort_unstable_by_key(|(_, place)| *place);
    all.into_iter().map(|(text, _)| text).collect()
}

/// Splits a line at its blanks, but not within quotes, which it removes.
fn words(line: &str) -> anyhow::Result<Vec<&str>> {
    let mut words = Vec::with_capacity(8);
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or_else(|| anyhow!("a quote is open"))?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Parses a number, decimal or hexadecimal.
fn number<N: TryFrom<u64>>(word: &str) -> anyhow::Result<N> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let fitting = parsed.ok().and_then(|number| N::try_from(number).ok());
    fitting.ok_or_else(|| anyhow!("{word} is no number, or too large"))
}

/// Extracts the kind of file from the create options.
fn kind(options: u32) -> Kind {
    const DIRECTORY_FILE: u32 = 0x1;
    const NON_DIRECTORY_FILE: u32 = 0x40;
    if options & DIRECTORY_FILE != 0 {
        Kind::Directory
    } else if options & NON_DIRECTORY_FILE != 0 {
        Kind::File
    } else {
        Kind::Any
    }
}

fn parse_disposition(number: u32) -> anyhow::Result<Disposition> {
    Ok(match number {
        1 => Disposition::Open,
        2 => Disposition::Create,
        3 => Disposition::OpenIf,
        4 => Disposition::Overwrite,
        // Zero replaces the inode too, which a client cannot observe.
        0 | 5 => Disposition::OverwriteIf,
        _ => bail!("create disposition {number} is not known"),
    })
}

#[cfg(test)]
mod tests;
