//! Resolves a path argument to its side and its directory.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::fd_paths::FdPath;
use crate::abi::links::Crossing;
use crate::abi::path::{HostPath, Target};
use crate::abi::pin::{LastLink, OpenOnHost};
use crate::abi::routing::{Links, Routes, Side};
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host::direct::Wait;
use crate::host::file::HostFile;
use crate::host::{self, OwnedHostFd};

impl System {
    /// Routes a path argument that is relative to `directory`. `last` is what the call does with a
    /// symbolic link at its end.
    ///
    /// # Errors
    /// `EFAULT`; `EBADF` if the path is relative and `directory` is not an open descriptor.
    ///
    /// # Safety
    /// If `path` can be an address, a C string is there for the whole call.
    pub(crate) unsafe fn target<'p>(
        &self,
        directory: c_int,
        path: *const c_char,
        last: LastLink,
    ) -> Result<Target<'p>, Errno> {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        self.target_of(directory, path, last)
    }

    /// Routes the path argument of an open with these flags. Where links cross, `open` may open the
    /// file on the host meanwhile, and the target [has](HostPath::into_result) the descriptor.
    ///
    /// # Errors
    /// Errors of [`target`](Self::target), and of `open`.
    ///
    /// # Safety
    /// If `path` can be an address, a C string is there for the whole call.
    pub(crate) unsafe fn target_to_open<'p>(
        &self,
        directory: c_int,
        path: *const c_char,
        flags: c_int,
        open: &mut OpenOnHost<'_>,
    ) -> Result<Target<'p>, Errno> {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        self.resolve_target(directory, path, LastLink::of_open(flags), Some(open))
    }

    /// Routes a path that was already read. See [`target`](Self::target).
    ///
    /// # Errors
    /// `EBADF` if the path is relative and `directory` is not an open descriptor; `ELOOP` if links
    /// lead in circles from one side to the other.
    pub(crate) fn target_of<'p>(
        &self,
        directory: c_int,
        path: &'p CStr,
        last: LastLink,
    ) -> Result<Target<'p>, Errno> {
        self.resolve_target(directory, path, last, None)
    }

    fn resolve_target<'p>(
        &self,
        directory: c_int,
        path: &'p CStr,
        last: LastLink,
        open: Option<&mut OpenOnHost<'_>>,
    ) -> Result<Target<'p>, Errno> {
        let (directory, path) = match self.below_own_directory(path, last) {
            Some(below) => (libc::AT_FDCWD, below),
            None => (directory, path),
        };
        let routes = self.routes.load();
        let (bytes, routed) = match self.fd_path(directory, path.to_bytes(), last)? {
            Some(FdPath::Whole(target)) => return Ok(target),
            Some(FdPath::Below(file, path)) => {
                let bytes = Cow::Owned(path.to_bytes().to_vec());
                (bytes, Target::Host(HostPath::new(Some(file), path.into())))
            }
            None => {
                let bytes = path.to_bytes();
                let is_below = directory != libc::AT_FDCWD && bytes.first() != Some(&b'/');
                if !is_below && let Some(target) = self.own_process(bytes, last)? {
                    return Ok(target);
                }
                let routed = match is_below {
                    true => self.below(directory, path),
                    false => self.routed(&routes, path)?,
                };
                (Cow::Borrowed(bytes), routed)
            }
        };
        if routes.links() == Links::Stay {
            return Ok(routed);
        }
        let opens = open.is_some();
        let crossing = match self.crossing(&routes, &routed, &bytes, last, open) {
            Err(errno @ (Errno::ENOENT | Errno::ENOTDIR)) if !opens => {
                return Ok(Target::Host(HostPath::nothing(errno, bytes.to_vec())?));
            }
            crossing => crossing?,
        };
        if let Crossing::Ours(path) | Crossing::Host(path) = &crossing
            && let Some(FdPath::Whole(target)) = self.fd_path(libc::AT_FDCWD, path, last)?
        {
            return Ok(target);
        }
        Ok(match (crossing, routed) {
            (Crossing::Stays, routed) => routed,
            (Crossing::Ours(path), _) => Target::Ours(libc::AT_FDCWD, path.into()),
            (Crossing::Host(path), _) => Target::Host(HostPath::absolute(path)?),
            (Crossing::Pinned(None, pin), Target::Host(path)) => Target::Host(path.pinned(pin)?),
            (Crossing::Pinned(other, pin), _) => {
                let path = other.unwrap_or_else(|| bytes.to_vec());
                Target::Host(HostPath::absolute(path)?.pinned(pin)?)
            }
        })
    }

    /// Routes an absolute path, or one that is relative to the working directory.
    fn routed<'p>(&self, routes: &Routes, path: &'p CStr) -> Result<Target<'p>, Errno> {
        let (side, routed) = match routes.links() {
            Links::Stay => routes.route(path.to_bytes()),
            // The walk finds out where it leads.
            Links::Cross => (routes.start_of(path.to_bytes()), path.to_bytes().into()),
        };
        Ok(match (side, routed) {
            (Side::Ours, bytes) => Target::Ours(libc::AT_FDCWD, bytes),
            (Side::Host, Cow::Borrowed(bytes)) => {
                let here = routes.here().filter(|_| !bytes.starts_with(b"/"));
                Target::Host(HostPath::new(here.cloned(), path.into()))
            }
            (Side::Host, Cow::Owned(bytes)) => Target::Host(HostPath::absolute(bytes)?),
        })
    }

    /// Returns where a path leads that is what the program sees as a file of its process, for the
    /// files that are the runner's on the host: `maps`, and `exe` if the file is known, which is a
    /// link to it. The link itself is the host's.
    ///
    /// # Errors
    /// Errors of `file_with`, which makes a file with the mappings.
    fn own_process(&self, path: &[u8], last: LastLink) -> Result<Option<Target<'static>>, Errno> {
        let file = match (name_in_process(path), self.mappings.get()) {
            (Some(b"exe"), _) => match &**self.executable.load() {
                Some(file) => FileRef::clone(file),
                None => return Ok(None),
            },
            (Some(b"maps"), Some(mappings)) => file_with(&mappings())?,
            _ => return Ok(None),
        };
        let Some(fd) = HostFile::below(&**file).map(HostFile::fd) else {
            let path = file.path().map(|path| path.full_path());
            let path = path.filter(|_| last.is_followed());
            return Ok(path.map(|path| Target::Ours(libc::AT_FDCWD, path.into())));
        };
        // The host's link: it has the name, and leads to the file even if the name is removed.
        let path =
            CString::new(format!("/proc/self/fd/{}", fd.get())).map_err(|_| Errno::EINVAL)?;
        Ok(Some(Target::Host(HostPath::new(Some(file), path.into()))))
    }

    /// Returns the path below the working directory, if that is ours and `path` leads through the
    /// link to it that `/proc` has of this process. On the host the link leads elsewhere.
    fn below_own_directory<'p>(&self, path: &'p CStr, last: LastLink) -> Option<&'p CStr> {
        let rest = name_in_process(path.to_bytes())?.strip_prefix(b"cwd")?;
        let is_link = rest.is_empty() && !last.is_followed();
        let is_other = rest.first().is_some_and(|&byte| byte != b'/');
        if is_link || is_other || self.routes.load().side() == Side::Host {
            return None;
        }
        let below = rest.iter().take_while(|&&byte| byte == b'/').count();
        match below == rest.len() {
            true => Some(c"."),
            false => {
                let start = path.to_bytes().len() - rest.len() + below;
                CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[start..]).ok()
            }
        }
    }

    /// Returns where a link leads that `/proc` has of this process, if that is ours: to the file of
    /// the program, or to the working directory.
    ///
    /// # Errors
    /// Errors of `getcwd`.
    pub(crate) fn own_link(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        match name_in_process(path) {
            Some(b"cwd") if self.routes.load().side() == Side::Ours => {
                self.process.getcwd().map(Some)
            }
            Some(b"exe") => Ok(self.executable_link()),
            _ => Ok(None),
        }
    }

    /// Returns the path of the program if its file is ours.
    fn executable_link(&self) -> Option<Vec<u8>> {
        let file = FileRef::clone(Option::as_ref(&self.executable.load())?);
        match HostFile::below(&**file) {
            Some(_) => None,
            None => Some(file.path()?.full_path()),
        }
    }

    /// Routes a path relative to an open directory: to the side of the directory.
    fn below<'p>(&self, directory: c_int, path: &'p CStr) -> Target<'p> {
        match self.file(directory) {
            Ok(file) if HostFile::with_inode_below(&**file).is_some() => {
                Target::Host(HostPath::new(Some(file), path.into()))
            }
            // A closed descriptor goes here too: the call of our side reports the first error.
            _ => Target::Ours(directory, Cow::Borrowed(path.to_bytes())),
        }
    }
}

/// Makes a file of the host with these bytes.
///
/// # Errors
/// Errors of `memfd_create` and `write`.
fn file_with(bytes: &[u8]) -> Result<FileRef<RcuObject>, Errno> {
    // SAFETY: the name is a C string.
    let fd = host::check(unsafe { libc::memfd_create(c"maps".as_ptr(), libc::MFD_CLOEXEC) })?;
    let fd = OwnedHostFd(fd);
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = host::write(fd.0, Wait::Never, rest)?;
        rest = &rest[count..];
    }
    HostFile::own(fd)
}

/// Returns the name of a file that `/proc` has of this process.
fn name_in_process(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_prefix(b"/proc/")?;
    let mut names = path.splitn(2, |&byte| byte == b'/');
    let (process, name) = (names.next()?, names.next()?);
    let is_self = matches!(process, b"self" | b"thread-self");
    (is_self || process == host::process_id().to_string().as_bytes()).then_some(name)
}
