//! Resolves a path argument to its side and its directory.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::routing::Side;
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
    /// Routes a path argument that is relative to `directory`.
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
    ) -> Result<Target<'p>, Errno> {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        self.target_of(directory, path)
    }

    /// Routes a path that was already read. See [`target`](Self::target).
    ///
    /// # Errors
    /// `EBADF` if the path is relative and `directory` is not an open descriptor.
    pub(crate) fn target_of<'p>(
        &self,
        directory: c_int,
        path: &'p CStr,
    ) -> Result<Target<'p>, Errno> {
        let bytes = path.to_bytes();
        if directory != libc::AT_FDCWD && bytes.first() != Some(&b'/') {
            return self.below(directory, path);
        }
        if let Some(path) = self.executable_path(bytes) {
            return Ok(Target::Host(path));
        }
        let routes = self.routes.load();
        let (side, routed) = routes.route(bytes);
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
            (Side::Host, Cow::Owned(bytes)) => Target::Host(HostPath {
                directory: None,
                path: Cow::Owned(CString::new(bytes).map_err(|_| Errno::EINVAL)?),
            }),
        })
    }

    /// Returns a host path that leads to the file of the program as `/proc/self/exe` does, if this
    /// path is such a link, and the file is the host's.
    fn executable_path(&self, path: &[u8]) -> Option<HostPath<'static>> {
        let process = path.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
        let is_self = matches!(process, b"self" | b"thread-self");
        if !is_self && process != host::process_id().to_string().as_bytes() {
            return None;
        }
        let file = FileRef::clone(&**self.executable.load().as_ref()?);
        let fd = HostFile::below(&**file)?.fd();
        // The host's link: it has the name, and leads to the file even if the name is removed.
        let path = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
        Some(HostPath {
            directory: Some(file),
            path: Cow::Owned(path),
        })
    }

    /// Routes a path relative to an open directory: it stays on the side of the directory.
    fn below<'p>(&self, directory: c_int, path: &'p CStr) -> Result<Target<'p>, Errno> {
        match self.file(directory) {
            Ok(file) if HostFile::below(&**file).is_some() => Ok(Target::Host(HostPath {
                directory: Some(file),
                path: Cow::Borrowed(path),
            })),
            // A closed descriptor goes here too: the call of our side reports the first error.
            _ => Ok(Target::Ours(directory, Cow::Borrowed(path.to_bytes()))),
        }
    }
}
