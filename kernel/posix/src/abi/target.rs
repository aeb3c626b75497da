//! Resolves a path argument to its side and its directory.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::links::LastLink;
use crate::abi::routing::{Links, Routes, Side};
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;

/// A path and the directory where its lookup begins.
pub(crate) enum Target<'p> {
    /// Ours: relative to a directory of ours, or to our working directory (`AT_FDCWD`).
    Ours(c_int, Cow<'p, [u8]>),
    /// The host's.
    Host(HostPath<'p>),
}

/// A host path, relative to a directory that stays open during the call.
pub(crate) struct HostPath<'p> {
    directory: Option<FileRef<RcuObject>>,
    path: Cow<'p, CStr>,
}

impl HostPath<'_> {
    /// Makes a path of its own text, which is absolute.
    fn absolute(path: Vec<u8>) -> Result<Self, Errno> {
        Ok(HostPath {
            directory: None,
            path: Cow::Owned(CString::new(path).map_err(|_| Errno::EINVAL)?),
        })
    }

    /// Returns the host descriptor of the directory, or `AT_FDCWD`.
    pub(crate) fn directory(&self) -> RawFd {
        let below = self
            .directory
            .as_ref()
            .and_then(|file| HostFile::below(&***file));
        below.map_or(libc::AT_FDCWD, HostFile::fd)
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// Returns the path as a C string pointer.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.path.as_ptr()
    }
}

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

    /// Routes a path that was already read. See [`target`](Self::target).
    ///
    /// # Errors
    /// `EBADF` if the path is relative and `directory` is not an open descriptor; `ELOOP` if links
    /// lead in circles from one side to the other.
    fn target_of<'p>(
        &self,
        directory: c_int,
        path: &'p CStr,
        last: LastLink,
    ) -> Result<Target<'p>, Errno> {
        let bytes = path.to_bytes();
        let is_below = directory != libc::AT_FDCWD && bytes.first() != Some(&b'/');
        if !is_below && let Some(target) = self.executable_target(bytes, last) {
            return Ok(target);
        }
        let routes = self.routes.load();
        let routed = match is_below {
            true => self.below(directory, path),
            false => self.routed(&routes, path)?,
        };
        if routes.links() == Links::Stay {
            return Ok(routed);
        }
        let side = match routed {
            Target::Ours(..) => Side::Ours,
            Target::Host(_) => Side::Host,
        };
        match self.crossing(&routes, side, directory, bytes, last)? {
            None => Ok(routed),
            Some((Side::Ours, path)) => Ok(Target::Ours(libc::AT_FDCWD, path.into())),
            Some((Side::Host, path)) => Ok(Target::Host(HostPath::absolute(path)?)),
        }
    }

    /// Routes an absolute path, or one that is relative to the working directory.
    fn routed<'p>(&self, routes: &Routes, path: &'p CStr) -> Result<Target<'p>, Errno> {
        let (side, routed) = routes.route(path.to_bytes());
        if side == Side::Host
            && let Some(trace) = &self.trace
        {
            trace.host_path(&routes.absolute(&routed));
        }
        Ok(match (side, routed) {
            (Side::Ours, bytes) => Target::Ours(libc::AT_FDCWD, bytes),
            (Side::Host, Cow::Borrowed(_)) => Target::Host(HostPath {
                directory: None,
                path: Cow::Borrowed(path),
            }),
            (Side::Host, Cow::Owned(bytes)) => Target::Host(HostPath::absolute(bytes)?),
        })
    }

    /// Returns where a path leads that is a link to the file of the program, as `/proc/self/exe`
    /// is, if the file is known. The link itself is the host's.
    fn executable_target(&self, path: &[u8], last: LastLink) -> Option<Target<'static>> {
        let file = self.executable_of(path)?;
        let Some(host_file) = HostFile::below(&**file) else {
            let path = file.path()?.full_path();
            return (last == LastLink::Follow).then_some(Target::Ours(libc::AT_FDCWD, path.into()));
        };
        // The host's link: it has the name, and leads to the file even if the name is removed.
        let path = CString::new(format!("/proc/self/fd/{}", host_file.fd())).ok()?;
        Some(Target::Host(HostPath {
            directory: Some(file),
            path: Cow::Owned(path),
        }))
    }

    /// Returns the path of the program if `path` is a link to its file, and the file is ours.
    pub(crate) fn executable_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        let file = self.executable_of(path)?;
        match HostFile::below(&**file) {
            Some(_) => None,
            None => Some(file.path()?.full_path()),
        }
    }

    /// Returns the file of the program if `path` is a link to it.
    fn executable_of(&self, path: &[u8]) -> Option<FileRef<RcuObject>> {
        let process = path.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
        let is_self = matches!(process, b"self" | b"thread-self");
        if !is_self && process != host::process_id().to_string().as_bytes() {
            return None;
        }
        Some(FileRef::clone(&**self.executable.load().as_ref()?))
    }

    /// Routes a path relative to an open directory: to the side of the directory.
    fn below<'p>(&self, directory: c_int, path: &'p CStr) -> Target<'p> {
        match self.file(directory) {
            Ok(file) if HostFile::below(&**file).is_some() => Target::Host(HostPath {
                directory: Some(file),
                path: Cow::Borrowed(path),
            }),
            // A closed descriptor goes here too: the call of our side reports the first error.
            _ => Target::Ours(directory, Cow::Borrowed(path.to_bytes())),
        }
    }
}
