//! Symbolic links that lead from one side to the other, where there is an overlay.
//!
//! An overlay has the names of the host, so programs expect links to lead into it and out of it: a
//! link of the host that led below an overlay would reach, and change, the host's directory itself.
//! A descriptor of a directory above an overlay is such a way too.
//!
//! So each path is looked at before its call. Most meet no link: one walk finds that out, by
//! `openat2(2)` with `RESOLVE_NO_SYMLINKS` on the host. Any other path is walked here, name by
//! name, and links are replaced by their targets. If it stays on the side where it begins, the call
//! gets it as it was, and that side walks it in its own way. If not, the call gets the path that
//! the walk has found.
//!
//! Another thread may rename a file, or put a link in its place, between this look at a path and
//! the call. So an open is made by the look itself, without following any link. For other calls
//! the file found on the host is *pinned*: a descriptor of it, or of its directory for a call that
//! takes the last name itself, is opened without following any link, and the call gets that, or a
//! path through `/proc/self/fd`. If the path has a link by then, the look is repeated. A relative
//! path begins in a descriptor that keeps the working directory open, so that a change of it does
//! not matter either.
//!
//! In `/proc` itself nothing can be renamed, and paths are not pinned; a call can still meet
//! another file there if another thread closes and opens the descriptor whose link it follows. An
//! `openat2` with restrictions of its own, such as `RESOLVE_BENEATH`, gets the path as it was
//! given, and so does the `bind` of a socket, whose path other processes see: a rename at the same
//! time can lead these two to the host's directory.
//!
//! The path of a directory is looked up once if its side cannot change (see
//! [`Routes::is_aside`](super::routing::Routes::is_aside)).
//!
//! Links of `/proc` to a file, such as `/proc/self/cwd`, are followed as the path that they show;
//! those to descriptors of ours are left to our side, which knows the file.

use std::ffi::{CString, c_int};
use std::os::fd::RawFd;

use fdtable_vfs::{AtFlags, Errno, Stat};

use crate::abi::path::{HostPath, Target};
use crate::abi::pin::{LastLink, OpenOnHost, Pin, above_and_end, open_without_links};
use crate::abi::routing::{Links, Routes, Side, goes_up, names};
use crate::abi::system::System;
use crate::host;
use crate::host::direct::{direct, words};
use crate::host::file::HostFile;

/// Most links that a walk follows.
const MAXSYMLINKS: usize = 40;

/// Most looks at a path that other threads change at the same time.
const MOST_LOOKS: usize = 100;

impl System {
    /// Finds out where the path leads that `routed` routes to the side where it begins. If the call
    /// opens what is there, `open` does so on the host.
    ///
    /// # Errors
    /// `ELOOP` if there are too many links, or other threads exchange them all the time; `ENOENT`
    /// for `..` in a removed directory; `ENAMETOOLONG` if the walk makes a path that is too long to
    /// be judged; those of the walk, of the pin, and of `open`.
    pub(crate) fn crossing(
        &self,
        routes: &Routes,
        routed: &Target<'_>,
        path: &[u8],
        last: LastLink,
        mut open: Option<&mut OpenOnHost<'_>>,
    ) -> Result<Crossing, Errno> {
        if path.is_empty() {
            return Ok(Crossing::Stays);
        }
        let used;
        let (side, directory) = match routed {
            Target::Ours(directory, _) => (Side::Ours, *directory),
            Target::Host(path) => {
                used = path.directory();
                (Side::Host, used.get())
            }
        };
        let last = last.at_end_of(path);
        let is_aside = match routed {
            _ if goes_up(path) => false,
            _ if path.starts_with(b"/") => side == Side::Host && !is_in_proc(path),
            Target::Host(path) => path.file().is_some_and(HostFile::is_aside),
            Target::Ours(..) => false,
        };
        if is_aside {
            match Pin::open((directory, path), last, open.as_deref_mut()) {
                Err(Errno::ELOOP) => {}
                pin => return Ok(crossing_of(pin?, None)),
            }
        }
        for _ in 0..MOST_LOOKS {
            let place = match path.starts_with(b"/") {
                true => Place::Known(Vec::new()),
                false => self.place(side, directory)?,
            };
            let start = match place {
                Place::Known(start) => {
                    if let Target::Host(path) = routed
                        && let Some(directory) = path.file()
                        && routes.is_aside(&start)
                    {
                        directory.set_aside();
                    }
                    start
                }
                Place::Removed if goes_up(path) => return Err(Errno::ENOENT),
                // It has no names, so no links; but another thread may change the working directory
                // meanwhile.
                Place::Removed if side == Side::Host => {
                    match Pin::open((directory, path), last, open.as_deref_mut()) {
                        Err(Errno::ELOOP) => continue,
                        pin => return Ok(crossing_of(pin?, None)),
                    }
                }
                Place::Removed | Place::None => return Ok(Crossing::Stays),
                Place::TooLong => return far_down(routes, directory, path, last, open),
            };
            let start = Start {
                path: start,
                side,
                directory,
            };
            match self.look(routes, &start, path, last, open.as_deref_mut())? {
                Some(crossing) => return Ok(crossing),
                None => continue,
            }
        }
        Err(Errno::ELOOP)
    }

    /// Finds out where a path leads, or returns nothing if that has changed meanwhile.
    fn look(
        &self,
        routes: &Routes,
        start: &Start,
        path: &[u8],
        last: LastLink,
        mut open: Option<&mut OpenOnHost<'_>>,
    ) -> Result<Option<Crossing>, Errno> {
        let whole = [&start.path, &b"/"[..], path].concat();
        let side = routes.side_of(&whole);
        let stays = side == start.side;
        if !goes_up(path) && side == Side::Host && !is_in_proc(&whole) {
            let from = match stays {
                true => (start.directory, path),
                false => (libc::AT_FDCWD, &whole[..]),
            };
            match Pin::open(from, last, open.as_deref_mut()) {
                Err(Errno::ELOOP) => {}
                pin => return Ok(Some(crossing_of(pin?, (!stays).then_some(whole)))),
            }
        } else if !goes_up(path) && !self.has_links(routes, start, path, &whole, last) {
            return Ok(Some(match (stays, side) {
                (true, _) => Crossing::Stays,
                (false, Side::Ours) => Crossing::Ours(whole),
                (false, Side::Host) => Crossing::Host(whole),
            }));
        }
        let walk = self.walk(routes, start, path, last)?;
        Ok(match walk.side {
            Side::Host if !is_in_proc(&walk.reached) => {
                let from = start.lookup_reached(&walk);
                // The call itself has to find the link that it keeps.
                let open = open.filter(|_| last.is_followed());
                match Pin::open(from, last, open) {
                    Err(Errno::ELOOP) => None,
                    pin => Some(crossing_of(pin?, walk.has_crossed.then_some(walk.reached))),
                }
            }
            _ if !walk.has_crossed => Some(Crossing::Stays),
            Side::Ours => Some(Crossing::Ours(walk.reached)),
            Side::Host => Some(Crossing::Host(walk.reached)),
        })
    }

    /// Finds out the path of an open directory, or of the working directory of a side (`AT_FDCWD`),
    /// as it is now: a rename of a directory above changes it.
    fn place(&self, side: Side, directory: c_int) -> Result<Place, Errno> {
        match (side, directory) {
            (Side::Ours, libc::AT_FDCWD) => match self.process.getcwd() {
                Err(Errno::ENOENT) => Ok(Place::Removed),
                path => Ok(Place::known(path?)),
            },
            (Side::Ours, fd) => {
                // The call itself finds out that the descriptor is closed, or no directory.
                let Ok(file) = self.file(fd) else {
                    return Ok(Place::None);
                };
                let Some(path) = file.path().map(|path| path.full_path()) else {
                    return Ok(Place::None);
                };
                if path.ends_with(DELETED) {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let named = self.process.fstatat(libc::AT_FDCWD, &path, flags);
                    let open = file.stat()?;
                    let is_named =
                        |named: Stat| (named.device, named.inode) == (open.device, open.inode);
                    if !named.is_ok_and(is_named) {
                        return Ok(Place::Removed);
                    }
                }
                Ok(Place::known(path))
            }
            (Side::Host, libc::AT_FDCWD) => match current_directory_of_host() {
                Err(Errno::ENOENT) => Ok(Place::Removed),
                Err(Errno::ENAMETOOLONG) => Ok(Place::TooLong),
                path => Ok(Place::known(path?)),
            },
            (Side::Host, fd) => match path_of_host(fd) {
                Err(Errno::ENAMETOOLONG) => Ok(Place::TooLong),
                path => {
                    let path = path?;
                    if is_removed(&path, || host::fstat(fd))? {
                        return Ok(Place::Removed);
                    }
                    Ok(Place::known(path))
                }
            },
        }
    }

    /// Returns true if a path leads to a directory of the host below which there is an overlay.
    /// With another name, it would lead to the host's directory below the overlay.
    pub(crate) fn is_above_overlay(&self, path: &HostPath<'_>) -> Result<bool, Errno> {
        let routes = self.routes.load();
        if routes.links() == Links::Stay {
            return Ok(false);
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = match host::openat(path.directory().get(), path.path(), flags, 0) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(false),
            Err(errno) => return Err(errno),
            Ok(fd) => fd,
        };
        match path_of_host(fd.0) {
            Err(Errno::ENAMETOOLONG) => Ok(false),
            found => Ok(routes.is_above_ours(&found?)),
        }
    }

    /// Returns false if there is no symbolic link on a path, as far as it exists.
    fn has_links(
        &self,
        routes: &Routes,
        start: &Start,
        path: &[u8],
        whole: &[u8],
        last: LastLink,
    ) -> bool {
        let side = routes.side_of(whole);
        let (directory, path) = match side == start.side {
            true => (start.directory, path),
            false => (libc::AT_FDCWD, whole),
        };
        match side {
            Side::Ours => {
                let mut flags = AtFlags::empty();
                flags.set(AtFlags::SYMLINK_NOFOLLOW, !last.is_followed());
                !self.process.is_free_of_links(directory, path, flags)
            }
            Side::Host => has_links(directory, path, last),
        }
    }

    /// Walks a path name by name.
    fn walk(
        &self,
        routes: &Routes,
        start: &Start,
        path: &[u8],
        last: LastLink,
    ) -> Result<Walk, Errno> {
        let (above, end) = match last {
            LastLink::Parent => {
                let (above, end) = above_and_end(path);
                (above, Some(end))
            }
            _ => (path, kind_of_end(path)),
        };
        let mut left: Vec<Vec<u8>> = names_from_last(above);
        let mut reached = start.path.clone();
        // True while what is reached is below the start, and is looked up from there.
        let mut is_below = !path.starts_with(b"/");
        let mut has_crossed = false;
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == b".." {
                self.check_way_up(routes, start, is_below, &reached)?;
                has_crossed |= routes.side_of(&reached) != start.side;
                is_below &= reached.len() > start.path.len();
                let parent = reached.iter().rposition(|&byte| byte == b'/');
                reached.truncate(parent.unwrap_or(0));
                continue;
            }
            let next = [&reached[..], b"/", &name].concat();
            let side = routes.side_of(&next);
            let is_followed = !left.is_empty() || last != LastLink::Keep;
            let has_more = !left.is_empty() || last == LastLink::Parent;
            let lookup = start.lookup(is_below, side, &next);
            let target = match is_followed {
                true => self.link_target(side, &next, lookup, has_more)?,
                false => None,
            };
            let Some(target) = target else {
                reached = next;
                continue;
            };
            links += 1;
            if links > MAXSYMLINKS {
                return Err(Errno::ELOOP);
            }
            has_crossed |= side != start.side;
            if target.starts_with(b"/") {
                reached.clear();
                is_below = false;
            }
            left.extend(names_from_last(&target));
        }
        let mut side = routes.side_of(&reached);
        if reached.is_empty() || end.is_some() {
            reached.push(b'/');
        }
        if let Some(end) = end {
            reached.extend_from_slice(end);
            if !goes_up(end) {
                side = routes.side_of(&reached);
            }
        }
        Ok(Walk {
            side,
            has_crossed: has_crossed || side != start.side,
            is_below,
            reached,
        })
    }

    /// Checks that the directory that a walk has reached is there, and that its parent is the one
    /// that its path shows.
    ///
    /// # Errors
    /// Errors of a lookup in it: `ENOENT`, `ENOTDIR`, `EACCES`. `ENOENT` for a link of `/proc` to a
    /// directory that has no name.
    fn check_way_up(
        &self,
        routes: &Routes,
        start: &Start,
        is_below: bool,
        reached: &[u8],
    ) -> Result<(), Errno> {
        let is_open = is_below && reached.len() == start.path.len();
        if is_open || reached.is_empty() {
            return Ok(());
        }
        let side = routes.side_of(reached);
        let (directory, path) = start.lookup(is_below, side, reached);
        self.identify(side, directory, &[path, b"/."].concat())?;
        if is_in_proc(reached) {
            let above = [reached, b"/.."].concat();
            let above = self.identify(side, libc::AT_FDCWD, &above)?;
            let end = reached.iter().rposition(|&byte| byte == b'/');
            let shown = &reached[..end.unwrap_or(0)];
            if routes.side_of(shown) == side && self.identify(side, libc::AT_FDCWD, shown)? != above
            {
                return Err(Errno::ENOENT);
            }
        }
        Ok(())
    }

    /// Returns the device and the inode of a path.
    fn identify(&self, side: Side, directory: c_int, path: &[u8]) -> Result<(u64, u64), Errno> {
        match side {
            Side::Ours => {
                let stat = self.process.fstatat(directory, path, AtFlags::empty())?;
                Ok((stat.device, stat.inode))
            }
            Side::Host => {
                let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
                let stat = host::fstatat(directory, &path, 0)?;
                Ok((stat.st_dev, stat.st_ino))
            }
        }
    }

    /// Returns the target of a symbolic link, if it is one that this walk follows. `lookup` is a
    /// directory and the path from there. `has_more` is true if a name follows.
    ///
    /// # Errors
    /// Errors of `readlink`, except `EINVAL` (no link), `ENOENT` and `ENOTDIR` (no file); `ENOENT`
    /// for a name in a removed directory.
    fn link_target(
        &self,
        side: Side,
        path: &[u8],
        lookup: (c_int, &[u8]),
        has_more: bool,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let is_in_proc = is_in_proc(path);
        let (directory, name) = lookup;
        let target = match side {
            Side::Ours if is_in_proc => return Ok(None),
            Side::Ours => self.process.readlinkat(directory, name),
            Side::Host => {
                let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
                host::readlinkat(directory, &name)
            }
        };
        let target = match target {
            Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            target => target?,
        };
        if !is_in_proc {
            return Ok(Some(target));
        }
        // `/proc/self` itself has to stay: paths below it are ours.
        let link = CString::new(path).map_err(|_| Errno::EINVAL)?;
        let file = || host::fstatat(libc::AT_FDCWD, &link, 0);
        if !target.starts_with(b"/") {
            return Ok(None);
        }
        match is_removed(&target, file)? {
            false => Ok(Some(target)),
            // The call would look again, and the link may lead elsewhere then.
            true if has_more => Err(Errno::ENOENT),
            true => Ok(None),
        }
    }
}

/// Text that `/proc` shows at the end of the path of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// Place of a directory: its path, or the reason that none is known.
enum Place {
    /// Its path, without links; empty for the root.
    Known(Vec<u8>),
    /// It has no name any more.
    Removed,
    /// It is on the host, and its path is longer than the host shows, so it is not above an
    /// overlay.
    TooLong,
    /// It is no directory.
    None,
}

impl Place {
    fn known(path: Vec<u8>) -> Self {
        match path.as_slice() {
            b"/" => Place::Known(Vec::new()),
            _ if path.starts_with(b"/") => Place::Known(path),
            // A pipe, for example, or a directory that is not below the root.
            _ => Place::TooLong,
        }
    }
}

/// The directory where a path begins.
struct Start {
    /// Its path without links; empty for the root.
    path: Vec<u8>,
    side: Side,
    /// Its descriptor on its side, or `AT_FDCWD`.
    directory: c_int,
}

impl Start {
    /// Returns from which directory a path is looked up, and the path from there: from the start if
    /// it is below. So renames of the start do not matter, and its own path is not too long.
    fn lookup<'p>(&self, is_below: bool, side: Side, path: &'p [u8]) -> (c_int, &'p [u8]) {
        match is_below && side == self.side {
            true => (self.directory, &path[self.path.len() + 1..]),
            false => (libc::AT_FDCWD, path),
        }
    }

    /// Returns from which directory of the host the end of a walk is looked up, and the path from
    /// there.
    fn lookup_reached<'w>(&self, walk: &'w Walk) -> (c_int, &'w [u8]) {
        let is_below = walk.is_below && self.side == Side::Host;
        match walk.reached.get(self.path.len() + 1..) {
            Some(rest) if is_below && !rest.is_empty() => (self.directory, rest),
            _ if is_below => (self.directory, b"."),
            _ => (libc::AT_FDCWD, &walk.reached),
        }
    }
}

/// Destination of a path: its side, and the path or pin that leads there.
pub(crate) enum Crossing {
    /// To the side where it begins, by its own text.
    Stays,
    /// To our side.
    Ours(Vec<u8>),
    /// To the host.
    Host(Vec<u8>),
    /// To a pin on the host: with another path than that of the call, or with the call's path.
    Pinned(Option<Vec<u8>>, Pin),
}

/// Returns where a path leads, from its pin. The root itself needs none, because no thread can
/// rename it. `other` is the path if it is not that of the call.
fn crossing_of(pin: Option<Pin>, other: Option<Vec<u8>>) -> Crossing {
    match (pin, other) {
        (Some(pin), other) => Crossing::Pinned(other, pin),
        (None, None) => Crossing::Stays,
        (None, Some(path)) => Crossing::Host(path),
    }
}

/// Result of a walk.
struct Walk {
    /// The path without links.
    reached: Vec<u8>,
    /// Its side.
    side: Side,
    /// A link was followed, or a directory left by `..`, on another side than that of the start; or
    /// the walk ends there. A walk of the one side alone would find something else.
    has_crossed: bool,
    /// True if `reached` is the start or below it, and is looked up from there.
    is_below: bool,
}

/// Judges a path that begins in a directory of the host whose own path is too long.
///
/// # Errors
/// `ENAMETOOLONG` if it has links or names behind `..`; those of opening a directory above.
fn far_down(
    routes: &Routes,
    directory: RawFd,
    path: &[u8],
    last: LastLink,
    open: Option<&mut OpenOnHost<'_>>,
) -> Result<Crossing, Errno> {
    if !goes_up(path) {
        return match Pin::open((directory, path), last, open) {
            Err(Errno::ELOOP) => Err(Errno::ENAMETOOLONG),
            pin => Ok(crossing_of(pin?, None)),
        };
    }
    let text = CString::new(path).map_err(|_| Errno::EINVAL)?;
    if names(path).any(|name| name != b"..") {
        return Err(Errno::ENAMETOOLONG);
    }
    let fd = host::open_directory(directory, &text)?;
    match path_of_host(fd.0) {
        Err(Errno::ENAMETOOLONG) => Ok(Crossing::Stays),
        found => {
            let found = found?;
            Ok(match routes.side_of(&found) {
                Side::Ours => Crossing::Ours(found),
                Side::Host => Crossing::Stays,
            })
        }
    }
}

/// Returns the path of a host descriptor.
pub(super) fn path_of_host(fd: RawFd) -> Result<Vec<u8>, Errno> {
    let link = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| Errno::EINVAL)?;
    host::readlinkat(libc::AT_FDCWD, &link)
}

/// Returns the path of the host's working directory.
fn current_directory_of_host() -> Result<Vec<u8>, Errno> {
    let mut path = vec![0; libc::PATH_MAX as usize];
    let a = words!(path.as_mut_ptr(), path.len());
    // SAFETY: the buffer has this length.
    let length = unsafe { direct(libc::SYS_getcwd, a) }? as usize;
    // With the null.
    path.truncate(length.saturating_sub(1));
    Ok(path)
}

/// Returns true if a path that `/proc` shows of a file of the host is the one that it had before it
/// was removed. A file may have a name that ends as this text does.
///
/// # Errors
/// Errors of `file`, which asks for the attributes of the file.
fn is_removed(
    shown: &[u8],
    file: impl FnOnce() -> Result<libc::stat, Errno>,
) -> Result<bool, Errno> {
    if !shown.ends_with(DELETED) {
        return Ok(false);
    }
    let file = file()?;
    let path = CString::new(shown).map_err(|_| Errno::EINVAL)?;
    let named = host::fstatat(libc::AT_FDCWD, &path, libc::AT_SYMLINK_NOFOLLOW);
    let is_it = |named: libc::stat| (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino);
    Ok(!named.is_ok_and(is_it))
}

/// Returns what is behind the last `/` of a path that leads only to a directory.
fn kind_of_end(path: &[u8]) -> Option<&[u8]> {
    match path {
        b"." => Some(b"."),
        _ if path.ends_with(b"/.") => Some(b"."),
        _ => path.ends_with(b"/").then_some(b""),
    }
}

fn names_from_last(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = names(path).map(<[u8]>::to_vec).collect();
    all.reverse();
    all
}

/// Returns false if there is no symbolic link on a path of the host, as far as it exists. The path
/// is the one of the call, or one that is not too long.
fn has_links(directory: RawFd, path: &[u8], last: LastLink) -> bool {
    let flags = match last.is_followed() {
        true => 0,
        false => libc::O_NOFOLLOW,
    };
    match open_without_links(directory, path, flags) {
        Ok(_) => false,
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG) => false,
        Err(_) => true,
    }
}

/// Returns true if an absolute path is below `/proc`.
fn is_in_proc(path: &[u8]) -> bool {
    let mut names = names(path);
    names.next() == Some(b"proc") && names.next().is_some()
}
