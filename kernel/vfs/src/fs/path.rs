//! Paths as byte strings, before any lookup.
//!
//! A path that begins with a `/` starts at the root, any other at a directory of the caller. One or
//! more `/` separate the components; a trailing `/` requires a directory.

use crate::Errno;

/// Most bytes of a name: 255 (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Paths are shorter than this: 4,096 bytes, in which Linux includes the terminating NUL
/// (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;

/// Path, split before its last component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path<'a> {
    /// The path begins with a `/`.
    pub(crate) from_root: bool,
    /// Path of the parent directory.
    pub(crate) parent: &'a [u8],
    pub(crate) last: Last<'a>,
    /// There is a trailing `/`.
    pub(crate) asks_for_directory: bool,
}

/// Last component of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Last<'a> {
    /// There is none: the path is the root.
    Root,
    Dot,
    DotDot,
    Name(&'a [u8]),
}

impl<'a> Path<'a> {
    /// Splits a path.
    ///
    /// # Errors
    /// `ENOENT` if it is empty; `ENAMETOOLONG` if it is too long. The lengths of its components are
    /// not checked.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, Errno> {
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let trimmed = &text[..text
            .iter()
            .rposition(|&byte| byte != b'/')
            .map_or(0, |at| at + 1)];
        let (parent, last) = match trimmed.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
            None => (&trimmed[..0], trimmed),
        };
        let last = match last {
            b"" => Last::Root,
            b"." => Last::Dot,
            b".." => Last::DotDot,
            name => Last::Name(name),
        };
        Ok(Path {
            from_root: text.starts_with(b"/"),
            parent,
            last,
            asks_for_directory: trimmed.len() < text.len(),
        })
    }

    /// Returns the last component of a path that has to end in a name.
    ///
    /// # Errors
    /// `otherwise` if it does not.
    pub(crate) fn name(&self, otherwise: Errno) -> Result<&'a [u8], Errno> {
        match self.last {
            Last::Name(name) => Ok(name),
            _ => Err(otherwise),
        }
    }
}

/// Returns the components of the path of a directory: names and `..`.
pub(crate) fn components(parent: &[u8]) -> impl Iterator<Item = &[u8]> {
    parent
        .split(|&byte| byte == b'/')
        .filter(|component| !matches!(*component, b"" | b"."))
}

/// Checks the length of a name.
///
/// # Errors
/// `ENAMETOOLONG` if it is above [`NAME_MAX`].
pub(crate) fn checked(name: &[u8]) -> Result<&[u8], Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_before_its_last_component() {
        let cut = |text: &'static str| {
            let path = Path::parse(text.as_bytes()).unwrap();
            let parent = std::str::from_utf8(path.parent).unwrap();
            (path.from_root, parent, path.last, path.asks_for_directory)
        };
        assert_eq!(cut("a"), (false, "", Last::Name(b"a"), false));
        assert_eq!(cut("/a/b"), (true, "/a", Last::Name(b"b"), false));
        assert_eq!(cut("//a//b//"), (true, "//a/", Last::Name(b"b"), true));
        assert_eq!(cut("a/.."), (false, "a", Last::DotDot, false));
        assert_eq!(cut("a/./"), (false, "a", Last::Dot, true));
        assert_eq!(cut("///"), (true, "", Last::Root, true));
    }

    #[test]
    fn the_components_are_names_and_dot_dots() {
        let way: Vec<_> = components(b"//a/./b/../c").collect();
        assert_eq!(way, [&b"a"[..], b"b", b"..", b"c"]);
        assert_eq!(components(b"").count(), 0);
    }

    #[test]
    fn lengths_have_limits() {
        let parse = |text: String| Path::parse(text.as_bytes()).map(|_| ()).err();
        assert_eq!(parse(String::new()), Some(Errno::ENOENT));
        assert_eq!(checked(&[b'x'; 255]), Ok(&[b'x'; 255][..]));
        assert_eq!(checked(&[b'x'; 256]), Err(Errno::ENAMETOOLONG));
        assert_eq!(parse("/x".repeat(2047)), None);
        assert_eq!(parse("/x".repeat(2048)), Some(Errno::ENAMETOOLONG));
    }
}
