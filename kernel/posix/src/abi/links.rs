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
//! Links of `/proc` to a file, such as `/proc/self/cwd`, are followed as the path that they show;
//! those to descriptors of ours are left to our side, which knows the file.

use std::ffi::{CStr, CString, c_int, c_long};
use std::os::fd::RawFd;

use fdtable_vfs::{AtFlags, Errno};

use crate::abi::routing::{Links, Routes, Side, goes_up, names};
use crate::abi::system::System;
use crate::abi::target::HostPath;
use crate::host;
use crate::host::direct::{Wait, direct};
use crate::host::file::HostFile;

/// Most links that a walk follows.
const MAXSYMLINKS: usize = 40;

/// What a call does with a symbolic link at the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    Keep,
}

impl LastLink {
    /// Returns what the flags of a call say, which follows links unless they have
    /// `AT_SYMLINK_NOFOLLOW`.
    pub(crate) fn of(flags: c_int) -> Self {
        match flags & libc::AT_SYMLINK_NOFOLLOW {
            0 => Self::Follow,
            _ => Self::Keep,
        }
    }

    /// Returns what the flags of an open say.
    pub(crate) fn of_open(flags: c_int) -> Self {
        const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
        match flags & libc::O_NOFOLLOW != 0 || flags & NEW == NEW {
            true => Self::Keep,
            false => Self::Follow,
        }
    }

    /// Returns what a call does with this path: it follows a link before a trailing `/` or `.`.
    fn at_end_of(self, path: &[u8]) -> Self {
        match path.ends_with(b"/") || path.ends_with(b"/.") {
            true => Self::Follow,
            false => self,
        }
    }
}

impl System {
    /// Returns the absolute path to which a path leads if that is on the other side than `side`,
    /// where it begins, or if links lead there and back.
    ///
    /// # Errors
    /// `ELOOP` if there are too many links.
    pub(crate) fn crossing(
        &self,
        routes: &Routes,
        side: Side,
        directory: c_int,
        path: &[u8],
        last: LastLink,
    ) -> Result<Option<(Side, Vec<u8>)>, Errno> {
        let Some(whole) = self.whole(routes, directory, path) else {
            return Ok(None);
        };
        let last = last.at_end_of(path);
        if !goes_up(&whole) && !self.has_links(routes, &whole, last) {
            let leads_to = routes.side_of(&whole);
            return Ok((leads_to != side).then_some((leads_to, whole)));
        }
        let walk = self.walk(routes, side, &whole, last)?;
        Ok(walk.has_crossed.then_some((walk.side, walk.reached)))
    }

    /// Returns the path with that of its directory before it, if it is known.
    fn whole(&self, routes: &Routes, directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
        if path.is_empty() {
            return None;
        }
        if path.starts_with(b"/") {
            return Some(path.to_vec());
        }
        let start = match directory {
            libc::AT_FDCWD => routes.directory().to_vec(),
            directory => self.path_of(directory)?,
        };
        Some([&start, &b"/"[..], path].concat())
    }

    /// Returns the path of an open directory.
    fn path_of(&self, directory: c_int) -> Option<Vec<u8>> {
        let file = self.file(directory).ok()?;
        match HostFile::below(&**file) {
            None => file.path().map(|path| path.full_path()),
            Some(host_file) => path_of_host(host_file.fd()),
        }
    }

    /// Returns true if a path leads to a directory of the host below which there is an overlay.
    /// With another name, it would lead to the host's directory below the overlay.
    pub(crate) fn is_above_overlay(&self, path: &HostPath<'_>) -> bool {
        let routes = self.routes.load();
        if routes.links() == Links::Stay {
            return false;
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let Ok(fd) = host::openat(path.directory(), path.path(), flags, 0) else {
            return false;
        };
        let found = path_of_host(fd);
        host::close(fd);
        found.is_some_and(|found| routes.is_above_ours(&found))
    }

    /// Returns false if there is no symbolic link on a path, as far as it exists.
    fn has_links(&self, routes: &Routes, path: &[u8], last: LastLink) -> bool {
        match routes.side_of(path) {
            Side::Ours => {
                let mut flags = AtFlags::empty();
                flags.set(AtFlags::SYMLINK_NOFOLLOW, last == LastLink::Keep);
                !self.process.is_free_of_links(path, flags)
            }
            Side::Host => CString::new(path).is_ok_and(|path| has_links(&path, last)),
        }
    }

    /// Walks a path, which begins on a side, name by name.
    fn walk(
        &self,
        routes: &Routes,
        start: Side,
        path: &[u8],
        last: LastLink,
    ) -> Result<Walk, Errno> {
        let mut left: Vec<Vec<u8>> = names_from_last(path);
        let mut reached = Vec::new();
        let mut has_crossed = false;
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == b".." {
                has_crossed |= routes.side_of(&reached) != start;
                let parent = reached.iter().rposition(|&byte| byte == b'/');
                reached.truncate(parent.unwrap_or(0));
                continue;
            }
            let next = [&reached[..], b"/", &name].concat();
            let side = routes.side_of(&next);
            let is_followed = !left.is_empty() || last == LastLink::Follow;
            let target = match is_followed {
                true => self.link_target(side, &next),
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
            has_crossed |= side != start;
            if target.starts_with(b"/") {
                reached.clear();
            }
            left.extend(names_from_last(&target));
        }
        let side = routes.side_of(&reached);
        if reached.is_empty() || path.ends_with(b"/") {
            reached.push(b'/');
        }
        Ok(Walk {
            reached,
            side,
            has_crossed: has_crossed || side != start,
        })
    }

    /// Returns the target of a symbolic link, if it is one that this walk follows.
    fn link_target(&self, side: Side, path: &[u8]) -> Option<Vec<u8>> {
        let is_in_proc = path.starts_with(b"/proc/");
        match side {
            Side::Ours if is_in_proc => None,
            Side::Ours => self.process.readlinkat(libc::AT_FDCWD, path).ok(),
            Side::Host => {
                let target = host::readlink(&CString::new(path).ok()?).ok()?;
                // `/proc/self` itself has to stay: paths below it are ours.
                let is_path = target.starts_with(b"/") && !target.ends_with(b" (deleted)");
                (is_path || !is_in_proc).then_some(target)
            }
        }
    }
}

/// What a walk has found.
struct Walk {
    /// The path without links.
    reached: Vec<u8>,
    /// Its side.
    side: Side,
    /// A link was followed, or a directory left by `..`, on another side than that of the start; or
    /// the walk ends there. A walk of the one side alone would find something else.
    has_crossed: bool,
}

/// Returns the path of a host descriptor.
fn path_of_host(fd: RawFd) -> Option<Vec<u8>> {
    let link = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    host::readlink(&link).ok()
}

fn names_from_last(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = names(path).map(<[u8]>::to_vec).collect();
    all.reverse();
    all
}

/// Argument of `openat2(2)`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Returns false if there is no symbolic link on a path of the host, as far as it exists.
fn has_links(path: &CStr, last: LastLink) -> bool {
    let no_follow = match last {
        LastLink::Follow => 0,
        LastLink::Keep => libc::O_NOFOLLOW,
    };
    let how = OpenHow {
        flags: (libc::O_PATH | libc::O_CLOEXEC | no_follow) as u64,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    // SAFETY: the path is a C string, and the struct has the layout of the call.
    let opened: Result<c_long, Errno> = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>()
        )
    };
    match opened {
        Ok(fd) => {
            host::close(fd as RawFd);
            false
        }
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG) => false,
        Err(_) => true,
    }
}
