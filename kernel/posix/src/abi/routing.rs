//! Decides which paths are ours and which are the host's.
//!
//! A path below a mount is ours, under the same name: our root directory contains only the mount
//! points. Paths are routed lexically, before any lookup: a `..` removes the name before it. So a
//! symbolic link does not lead from one side to the other.
//!
//! A relative path follows the working directory, which may be on either side.

use std::borrow::Cow;

/// The mounts and the working directory, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Mount points: absolute paths without `.`, `..` and repeated `/`.
    ours: Vec<Vec<u8>>,
    /// Working directory, in the same form.
    directory: Vec<u8>,
    side: Side,
    /// True if the working directory is the host's and a relative path can lead below a mount.
    is_above_ours: bool,
}

/// Ours or the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Host,
}

impl Routes {
    /// Creates routes without mounts, with the host's working directory.
    pub(crate) fn new(directory: Vec<u8>) -> Self {
        Routes {
            ours: Vec::new(),
            directory,
            side: Side::Host,
            is_above_ours: false,
        }
    }

    /// Returns the same routes with `path` as one more mount.
    pub(crate) fn with_mount(&self, path: Vec<u8>) -> Self {
        let mut changed = self.clone();
        changed.ours.push(path);
        changed.updated()
    }

    /// Returns the same routes without the mount `path`.
    pub(crate) fn without_mount(&self, path: &[u8]) -> Self {
        let mut changed = self.clone();
        changed.ours.retain(|mount| mount != path);
        changed.updated()
    }

    /// Returns true if exactly this path is a mount.
    pub(crate) fn has_mount(&self, path: &[u8]) -> bool {
        self.ours.iter().any(|mount| mount == path)
    }

    /// Returns the same routes with another working directory.
    pub(crate) fn with_directory(&self, side: Side, directory: Vec<u8>) -> Self {
        let mut changed = self.clone();
        changed.directory = directory;
        changed.side = side;
        changed.updated()
    }

    /// Returns the side of the working directory.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// Returns the side of a path, and the path to use on that side.
    pub(crate) fn route<'p>(&self, path: &'p [u8]) -> (Side, Cow<'p, [u8]>) {
        if path.is_empty() {
            // It names nothing, not the working directory.
            return (self.side, Cow::Borrowed(path));
        }
        let is_absolute = path.first() == Some(&b'/');
        let start = if is_absolute {
            self.side_of(path)
        } else {
            self.side
        };
        if !goes_up(path) && (is_absolute || !self.is_above_ours) {
            return (start, Cow::Borrowed(path));
        }
        let whole = self.absolute(path);
        let side = self.side_of(&whole);
        if side == start {
            return (side, Cow::Borrowed(path));
        }
        (side, Cow::Owned(whole))
    }

    /// Returns the absolute path, without `.`, `..` and repeated `/`. A trailing `/` stays.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        if path.first() != Some(&b'/') {
            whole.extend_from_slice(&self.directory);
            whole.push(b'/');
        }
        whole.extend_from_slice(path);
        normalize(&whole)
    }

    fn side_of(&self, path: &[u8]) -> Side {
        let is_ours = self.ours.iter().any(|mount| begins_with(path, mount));
        if is_ours { Side::Ours } else { Side::Host }
    }

    fn updated(mut self) -> Self {
        let mut above = |mount: &Vec<u8>| begins_with(mount, &self.directory);
        self.is_above_ours = self.side == Side::Host && self.ours.iter().any(&mut above);
        self
    }
}

/// Returns the names of a path.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
}

fn goes_up(path: &[u8]) -> bool {
    // Most paths do not contain two adjacent dots.
    path.windows(2).any(|pair| pair == b"..") && names(path).any(|name| name == b"..")
}

/// Returns true if the first names of `path` are those of `start`.
#[inline]
fn begins_with(path: &[u8], start: &[u8]) -> bool {
    // Most paths are written as the mount is.
    match path.strip_prefix(start) {
        Some(rest) if rest.first().is_none_or(|&next| next == b'/') => true,
        _ => begins_with_names(path, start),
    }
}

fn begins_with_names(path: &[u8], start: &[u8]) -> bool {
    let mut path = names(path);
    names(start).all(|name| path.next() == Some(name))
}

fn normalize(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for name in names(path) {
        if name == b".." {
            kept.pop();
        } else {
            kept.push(name);
        }
    }
    let mut whole = Vec::with_capacity(path.len());
    for name in &kept {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    let asks_for_directory = path.ends_with(b"/") || path.ends_with(b"/.");
    if kept.is_empty() || asks_for_directory {
        whole.push(b'/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(directory: &str) -> Routes {
        Routes::new(directory.into()).with_mount(b"/mnt/fdt".to_vec())
    }

    fn routed(routes: &Routes, path: &str) -> (Side, String) {
        let (side, path) = routes.route(path.as_bytes());
        (side, String::from_utf8(path.into_owned()).unwrap())
    }

    #[test]
    fn a_path_below_a_mount_is_ours() {
        let routes = routes("/home");
        for path in [
            "/mnt/fdt",
            "//mnt/./fdt///a",
            "/mnt/fdt/",
            "/mnt/fdt/a/../b",
        ] {
            assert_eq!(routed(&routes, path), (Side::Ours, path.into()));
        }
        for path in ["/mnt", "/mnt/fdtx", "/mnt/fd", "/", "a", "", "/a/mnt/fdt"] {
            assert_eq!(routed(&routes, path), (Side::Host, path.into()));
        }
    }

    #[test]
    fn dot_dot_leads_from_one_side_to_the_other() {
        let routes = routes("/home");
        let host = |path: &str| (Side::Host, path.to_string());
        assert_eq!(routed(&routes, "/mnt/fdt/../a"), host("/mnt/a"));
        assert_eq!(routed(&routes, "/mnt/fdt/a/../../.."), host("/"));
        let ours = |path: &str| (Side::Ours, path.to_string());
        assert_eq!(routed(&routes, "../mnt/fdt/a/"), ours("/mnt/fdt/a/"));
        assert_eq!(routed(&routes, "/mnt/x/../fdt"), ours("/mnt/fdt"));
    }

    #[test]
    fn a_relative_path_follows_the_working_directory() {
        let above = routes("/mnt");
        assert_eq!(routed(&above, "fdt/a").0, Side::Ours);
        assert_eq!(routed(&above, "fdt/a").1, "/mnt/fdt/a");
        assert_eq!(routed(&above, "other").0, Side::Host);
        let inside = above.with_directory(Side::Ours, b"/mnt/fdt/d".to_vec());
        assert_eq!(routed(&inside, "a"), (Side::Ours, "a".into()));
        assert_eq!(routed(&inside, "../a"), (Side::Ours, "../a".into()));
        assert_eq!(routed(&inside, "../../a"), (Side::Host, "/mnt/a".into()));
    }

    #[test]
    fn an_empty_path_names_nothing_even_where_the_working_directory_is_a_mount() {
        let routes = routes("/mnt/fdt");
        assert_eq!(routed(&routes, ""), (Side::Host, String::new()));
        assert_eq!(routed(&routes, "."), (Side::Ours, "/mnt/fdt/".into()));
    }

    #[test]
    fn paths_of_a_removed_mount_are_the_hosts() {
        let routes = routes("/");
        assert!(routes.has_mount(b"/mnt/fdt") && !routes.has_mount(b"/mnt"));
        let routes = routes.without_mount(b"/mnt/fdt");
        assert_eq!(routed(&routes, "/mnt/fdt/a").0, Side::Host);
    }
}
