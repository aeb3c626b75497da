//! The place in the source of an instruction.
//!
//! An inlined instruction is in several functions: the innermost one, the one into which that was
//! inlined, and so on to one that was really called. Line tables are required (`debug =
//! "line-tables-only"` in the profile); without them at best the name of the function is known.
//!
//! The functions that had called it follow, up to the operation.

use std::fmt;
use std::path::PathBuf;

/// The sources of this crate.
const OWN_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Place of an instruction in the source: the functions from the innermost inlined one to the one
/// that was called. Its callers follow where they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    frames: Vec<Frame>,
}

/// A function, and the line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The demangled name, without its generic arguments and the hash.
    pub function: String,
    /// The file, if it is known.
    pub file: Option<PathBuf>,
    /// The line, from 1, if it is known.
    pub line: Option<u32>,
}

impl Location {
    /// Looks up the instruction at an address in this process. Reads debug information, which is
    /// slow at the first call; allocates.
    ///
    /// ```
    /// #[inline(never)]
    /// fn here() {}
    ///
    /// let location = conflict_tracer::Location::of(here as *const () as u64);
    /// assert!(location.frames().iter().any(|frame| frame.function.ends_with("here")));
    /// ```
    pub fn of(instruction: u64) -> Self {
        let mut location = Self::default();
        location.look_up(instruction);
        location
    }

    /// As [`of`](Self::of), followed by the calls that led there, the innermost first, up to the
    /// operation itself.
    pub(crate) fn with_callers(instruction: u64, callers: &[u64]) -> Self {
        let mut location = Self::of(instruction);
        for caller in callers {
            location.look_up(*caller);
            if let Some(end) = location.frames.iter().position(Frame::calls_the_operation) {
                location.frames.truncate(end);
                break;
            }
        }
        location
    }

    fn look_up(&mut self, instruction: u64) {
        // One byte further, because the function looks up the byte before: it expects return
        // addresses.
        let address = instruction.wrapping_add(1) as *mut _;
        backtrace::resolve(address, |symbol| {
            let function = symbol
                .name()
                .map(|name| without_arguments(&format!("{name:#}")));
            self.frames.push(Frame {
                function: function.unwrap_or_else(|| String::from("?")),
                file: symbol.filename().map(PathBuf::from),
                line: symbol.lineno(),
            });
        });
    }

    /// Returns the functions, the innermost first; none if the place is unknown.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }
}

impl Frame {
    /// Returns true if the function calls the operation: in the recorder, or in the code that
    /// catches its panic.
    fn calls_the_operation(&self) -> bool {
        let last = self.function.rsplit("::").next();
        matches!(last, Some("do_call" | "catch_unwind" | "__rust_try"))
            || self
                .file
                .as_ref()
                .is_some_and(|file| file.starts_with(OWN_SOURCES))
    }
}

/// Removes the text between angle brackets. Keeps it where a name begins with them, as in `<T as
/// Trait>::function`.
fn without_arguments(name: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    let mut former = ' ';
    for character in name.chars() {
        let begins = kept.is_empty() || kept.starts_with('<') && !kept.ends_with(is_of_a_name);
        match character {
            '<' if depth > 0 || !begins => depth += 1,
            '>' if depth > 0 && former != '-' => depth -= 1,
            _ if depth == 0 => kept.push(character),
            _ => {}
        }
        former = character;
    }
    // `name::<T>` leaves its colons behind.
    kept.trim_end_matches("::").replace("::::", "::")
}

fn is_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '}' | ':')
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frames.is_empty() {
            return f.write_str("unknown code");
        }
        for (depth, frame) in self.frames.iter().enumerate() {
            if depth > 0 {
                f.write_str(" < ")?;
            }
            frame.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        let name = self.file.as_ref().and_then(|file| file.file_name());
        match (name, self.line) {
            (Some(name), Some(line)) => write!(f, " {}:{line}", name.display()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_their_arguments() {
        let shown = [
            ("close<u64, i32>", "close"),
            ("a::b::<T, core::option::Option<u8>>::c::<S>", "a::b::c"),
            ("call_once<{closure_env#0}, (&S, usize)>", "call_once"),
            ("<T as Trait>::f", "<T as Trait>::f"),
            (
                "<a::B<u8> as core::ops::Deref>::deref",
                "<a::B as core::ops::Deref>::deref",
            ),
            ("map<u8, fn() -> u8, {closure#0}>", "map"),
            ("main", "main"),
        ];
        for (name, expected) in shown {
            assert_eq!(without_arguments(name), expected);
        }
    }
}
