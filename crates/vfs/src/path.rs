//! Paths: what a string means before anybody looks it up.
//!
//! All paths begin at the root, with a `/` or without: a process has no working directory. Names
//! are separated by one `/` or more; a `/` at the end asks for a directory. There are no links.

use crate::Errno;

/// Most bytes of a name: 255 (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Paths have fewer bytes than this: 4,096, as Linux counts the end of the string too (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;

/// A path, cut before its last component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path<'a> {
    /// The way to the directory that the last component is in.
    pub(crate) parent: &'a str,
    pub(crate) last: Last<'a>,
    /// There is a `/` at the end.
    pub(crate) asks_for_directory: bool,
}

/// Last component of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Last<'a> {
    /// There is none: the path is the root.
    Root,
    Dot,
    DotDot,
    Name(&'a str),
}

impl<'a> Path<'a> {
    /// Cuts a path.
    ///
    /// # Errors
    /// `ENOENT` if it is empty; `ENAMETOOLONG` if it or its last name is too long.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Errno> {
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let trimmed = text.trim_end_matches('/');
        let (parent, last) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        let last = match last {
            "" => Last::Root,
            "." => Last::Dot,
            ".." => Last::DotDot,
            name => Last::Name(checked(name)?),
        };
        Ok(Path {
            parent,
            last,
            asks_for_directory: trimmed.len() < text.len(),
        })
    }

    /// Returns the last component of a path that has to end in a name.
    ///
    /// # Errors
    /// `otherwise` if it does not.
    pub(crate) fn name(&self, otherwise: Errno) -> Result<&'a str, Errno> {
        match self.last {
            Last::Name(name) => Ok(name),
            _ => Err(otherwise),
        }
    }
}

/// Returns the components of the way to a directory: names and `..`.
pub(crate) fn components(parent: &str) -> impl Iterator<Item = &str> {
    parent
        .split('/')
        .filter(|component| !matches!(*component, "" | "."))
}

/// Checks the length of a name.
///
/// # Errors
/// `ENAMETOOLONG` if it is above [`NAME_MAX`].
pub(crate) fn checked(name: &str) -> Result<&str, Errno> {
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
        let cut = |text| {
            let path = Path::parse(text).unwrap();
            (path.parent, path.last, path.asks_for_directory)
        };
        assert_eq!(cut("a"), ("", Last::Name("a"), false));
        assert_eq!(cut("/a/b"), ("/a", Last::Name("b"), false));
        assert_eq!(cut("//a//b//"), ("//a/", Last::Name("b"), true));
        assert_eq!(cut("a/.."), ("a", Last::DotDot, false));
        assert_eq!(cut("a/./"), ("a", Last::Dot, true));
        assert_eq!(cut("///"), ("", Last::Root, true));
    }

    #[test]
    fn the_way_is_names_and_steps_up() {
        let way: Vec<_> = components("//a/./b/../c").collect();
        assert_eq!(way, ["a", "b", "..", "c"]);
        assert_eq!(components("").count(), 0);
    }

    #[test]
    fn lengths_have_limits() {
        assert_eq!(Path::parse(""), Err(Errno::ENOENT));
        assert!(Path::parse(&"x".repeat(255)).is_ok());
        assert_eq!(Path::parse(&"x".repeat(256)), Err(Errno::ENAMETOOLONG));
        assert!(Path::parse(&"/x".repeat(2047)).is_ok());
        assert_eq!(Path::parse(&"/x".repeat(2048)), Err(Errno::ENAMETOOLONG));
    }
}
