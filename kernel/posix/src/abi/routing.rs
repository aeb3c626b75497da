//! Decides which paths are ours and which are the host's.
//!
//! A path below a mount is ours, under the same name: our root directory contains only the mount
//! points. If a directory of the host [is the root](Routes::rooted), all paths are ours except
//! those that stay the host's. The longest of the paths that a path begins with decides.
//!
//! Paths are routed lexically, before any lookup: a `..` removes the name before it. So a symbolic
//! link does not lead from one side to the other, unless there is an overlay (see
//! [`links`](super::links)).
//!
//! A relative path follows the working directory, which may be on either side.

use std::borrow::Cow;

use fdtable::FileRef;
use fdtable_vfs::RcuObject;

/// The mounts and the working directory, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Points where the side changes: absolute paths without `.`, `..` and repeated `/`; empty for
    /// the root.
    points: Vec<(Vec<u8>, Side)>,
    /// Working directory, in the same form.
    directory: Vec<u8>,
    side: Side,
    /// True if a relative path can lead to the other side without `..`.
    is_above_other: bool,
    links: Links,
    /// Keeps the working directory of the host open, where links cross: relative paths begin there.
    here: Option<FileRef<RcuObject>>,
}

/// Reach of symbolic links: their own side, or both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    Stay,
    Cross,
}

/// Paths that stay the host's if another directory is the root.
pub(crate) const OF_HOST: [&[u8]; 3] = [b"/proc", b"/dev", b"/sys"];

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
            points: Vec::new(),
            directory,
            side: Side::Host,
            is_above_other: false,
            links: Links::Stay,
            here: None,
        }
    }

    /// Creates routes on which all paths are ours, but for a few, with our root as the working
    /// directory.
    pub(crate) fn rooted() -> Self {
        let of_host = OF_HOST.map(|path| (path.to_vec(), Side::Host));
        let routes = Routes {
            points: [vec![(Vec::new(), Side::Ours)], of_host.to_vec()].concat(),
            directory: b"/".to_vec(),
            side: Side::Ours,
            is_above_other: false,
            links: Links::Cross,
            here: None,
        };
        routes.updated()
    }

    /// Returns the same routes with `path` as one more mount.
    pub(crate) fn with_mount(&self, path: Vec<u8>) -> Self {
        let mut changed = self.clone();
        changed.points.push((path, Side::Ours));
        changed.updated()
    }

    /// Returns the same routes, on which symbolic links lead from one side to the other.
    pub(crate) fn with_crossing_links(&self) -> Self {
        Routes {
            links: Links::Cross,
            ..self.clone()
        }
    }

    /// Returns the same routes without the mount `path`.
    pub(crate) fn without_mount(&self, path: &[u8]) -> Self {
        let mut changed = self.clone();
        changed.points.retain(|(point, _)| point != path);
        changed.updated()
    }

    /// Returns true if exactly this path is a mount.
    pub(crate) fn has_mount(&self, path: &[u8]) -> bool {
        let is_it = |(point, side): &(Vec<u8>, Side)| point == path && *side == Side::Ours;
        self.points.iter().any(is_it)
    }

    /// Returns the same routes with another working directory. `here` keeps it open.
    pub(crate) fn with_directory(
        &self,
        side: Side,
        directory: Vec<u8>,
        here: Option<FileRef<RcuObject>>,
    ) -> Self {
        let mut changed = self.clone();
        changed.directory = directory;
        changed.side = side;
        changed.here = here;
        changed.updated()
    }

    /// Returns what keeps the working directory open, if it is the host's and links cross.
    pub(crate) fn here(&self) -> Option<&FileRef<RcuObject>> {
        self.here.as_ref()
    }

    /// Returns the side of the working directory.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// Returns the working directory.
    pub(crate) fn directory(&self) -> &[u8] {
        &self.directory
    }

    /// Returns whether symbolic links lead from one side to the other.
    #[inline]
    pub(crate) fn links(&self) -> Links {
        self.links
    }

    /// Returns the side where the walk of a path begins.
    pub(crate) fn start_of(&self, path: &[u8]) -> Side {
        match path.first() {
            Some(b'/') => self.side_of(path),
            _ => self.side,
        }
    }

    /// Returns the side of a path, and the path to use on that side.
    pub(crate) fn route<'p>(&self, path: &'p [u8]) -> (Side, Cow<'p, [u8]>) {
        if path.is_empty() {
            // It names nothing, not the working directory.
            return (self.side, Cow::Borrowed(path));
        }
        let is_absolute = path.first() == Some(&b'/');
        let start = self.start_of(path);
        if !goes_up(path) && (is_absolute || !self.is_above_other) {
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

    /// Returns the side of an absolute path without `..`.
    pub(crate) fn side_of(&self, path: &[u8]) -> Side {
        let leads = |(point, _): &&(Vec<u8>, Side)| begins_with(path, point);
        let points = self.points.iter().filter(leads);
        let longest = points.max_by_key(|(point, _)| point.len());
        longest.map_or(Side::Host, |(_, side)| *side)
    }

    /// Returns true if paths below an absolute one are ours.
    pub(crate) fn is_above_ours(&self, path: &[u8]) -> bool {
        let is_below =
            |(point, side): &(Vec<u8>, Side)| *side == Side::Ours && begins_with(point, path);
        self.points.iter().any(is_below)
    }

    /// Returns true if paths below a directory of the host, without links and `..`, stay on the
    /// host and are not in `/proc`. No rename changes that: no call renames a directory above ours.
    pub(crate) fn is_aside(&self, directory: &[u8]) -> bool {
        self.side_of(directory) == Side::Host
            && !self.is_above_ours(directory)
            && names(directory).next() != Some(b"proc")
    }

    fn updated(mut self) -> Self {
        let other = |(point, side): &(Vec<u8>, Side)| {
            *side != self.side && begins_with(point, &self.directory)
        };
        self.is_above_other = self.points.iter().any(other);
        self
    }
}

/// Returns the names of a path.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
}

/// Returns true if a path has a `..`.
pub(crate) fn goes_up(path: &[u8]) -> bool {
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
        let inside = above.with_directory(Side::Ours, b"/mnt/fdt/d".to_vec(), None);
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
    fn the_root_is_ours_but_for_paths_of_the_host() {
        let routes = Routes::rooted().with_mount(b"/dev/null".to_vec());
        for path in [
            "/",
            "/a",
            "/procx",
            "/dev/null",
            "a",
            ".",
            "..",
            "proc/../a",
        ] {
            assert_eq!(routed(&routes, path).0, Side::Ours, "{path}");
        }
        for path in [
            "/proc/1",
            "/dev",
            "/dev/tty",
            "/a/../sys",
            "proc/1",
            "../sys",
        ] {
            assert_eq!(routed(&routes, path).0, Side::Host, "{path}");
        }
        assert_eq!(routed(&routes, "proc/1").1, "/proc/1");
        let below = routes.with_directory(Side::Ours, b"/a".to_vec(), None);
        assert_eq!(routed(&below, "proc/1").0, Side::Ours);
        assert_eq!(routed(&below, "../proc/1").1, "/proc/1");
        let host = routes.with_directory(Side::Host, b"/dev".to_vec(), None);
        assert_eq!(routed(&host, "null"), (Side::Ours, "/dev/null".into()));
        assert_eq!(routed(&host, "tty"), (Side::Host, "tty".into()));
    }

    #[test]
    fn paths_of_a_removed_mount_are_the_hosts() {
        let routes = routes("/");
        assert!(routes.has_mount(b"/mnt/fdt") && !routes.has_mount(b"/mnt"));
        let routes = routes.without_mount(b"/mnt/fdt");
        assert_eq!(routed(&routes, "/mnt/fdt/a").0, Side::Host);
    }
}
