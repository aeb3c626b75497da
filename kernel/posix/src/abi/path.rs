//! Path arguments after their routing: ours, or the host's.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::pin::Pin;
use crate::host::OwnedHostFd;
use crate::host::file::HostFile;
use crate::host::in_use::InUse;

/// A path and the directory where its lookup begins.
pub(crate) enum Target<'p> {
    /// Ours: relative to a directory of ours, or to our working directory (`AT_FDCWD`).
    Ours(c_int, Cow<'p, [u8]>),
    /// The host's.
    Host(HostPath<'p>),
}

/// A host path, relative to a directory that stays open during the call.
pub(crate) struct HostPath<'p> {
    pub(super) directory: Option<FileRef<RcuObject>>,
    pub(super) path: Cow<'p, CStr>,
    pub(super) resolved: Option<Resolved<'p>>,
}

/// Result of the [lookup](super::links) before a call.
pub(super) struct Resolved<'p> {
    found: Found,
    /// The path before.
    given: Cow<'p, CStr>,
}

enum Found {
    /// It keeps open what the path leads to during the call.
    Pin(Pin),
    /// There is nothing. The call finds that out too, so it checks its arguments in its own order.
    Nothing(Errno),
}

impl<'p> HostPath<'p> {
    pub(super) fn new(directory: Option<FileRef<RcuObject>>, path: Cow<'p, CStr>) -> Self {
        HostPath {
            directory,
            path,
            resolved: None,
        }
    }

    /// Makes a path of its own text, which is absolute.
    pub(super) fn absolute(path: Vec<u8>) -> Result<Self, Errno> {
        let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
        Ok(HostPath::new(None, path.into()))
    }

    /// Has the path lead to what is pinned.
    pub(super) fn pinned(self, pin: Pin) -> Result<Self, Errno> {
        Ok(HostPath {
            path: Cow::Owned(pin.path()?),
            resolved: Some(Resolved {
                found: Found::Pin(pin),
                given: self.path,
            }),
            ..self
        })
    }

    /// Makes a path that every call fails to find, with `ENOENT` or `ENOTDIR`.
    pub(super) fn nothing(errno: Errno, given: Vec<u8>) -> Result<Self, Errno> {
        let given = CString::new(given).map_err(|_| Errno::EINVAL)?;
        Ok(HostPath {
            directory: None,
            path: Cow::Borrowed(match errno {
                Errno::ENOTDIR => c"/proc/self/comm/nothing",
                _ => c"/proc/self/nothing/nothing",
            }),
            resolved: Some(Resolved {
                found: Found::Nothing(errno),
                given: Cow::Owned(given),
            }),
        })
    }

    /// Returns the path as it was before it was pinned, for a call that restricts how it may lead
    /// to a file.
    pub(crate) fn as_given(&self) -> &CStr {
        self.resolved
            .as_ref()
            .map_or(&self.path, |resolved| &resolved.given)
    }

    /// Returns the directory, the path and the flags for a call that knows `AT_EMPTY_PATH`: a file
    /// that is pinned is not looked up again.
    pub(crate) fn at(&self, flags: c_int) -> (InUse, &CStr, c_int) {
        let pin = self.resolved.as_ref().and_then(|it| match &it.found {
            Found::Pin(pin) => pin.whole(),
            Found::Nothing(_) => None,
        });
        match pin {
            Some(fd) => {
                let flags = flags | libc::AT_EMPTY_PATH;
                (InUse::uncounted(fd), c"", flags)
            }
            None => (self.directory(), &self.path, flags),
        }
    }

    /// Returns the descriptor that the lookup has opened for the call, or the path if it has none.
    pub(crate) fn into_result(self) -> Result<OwnedHostFd, Self> {
        match self.resolved {
            Some(Resolved {
                found: Found::Pin(pin),
                ..
            }) if pin.is_result() => Ok(pin.into_fd()),
            _ => Err(self),
        }
    }

    /// Returns the host descriptor of the directory, or `AT_FDCWD`.
    pub(crate) fn directory(&self) -> InUse {
        self.file()
            .map_or(InUse::uncounted(libc::AT_FDCWD), HostFile::fd)
    }

    /// Returns the directory, unless it is the working directory.
    pub(crate) fn file(&self) -> Option<&HostFile> {
        HostFile::below(&***self.directory.as_ref()?)
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

impl Target<'_> {
    /// Returns the error of the lookup if it has found nothing.
    pub(crate) fn error(&self) -> Option<Errno> {
        match self {
            Target::Host(HostPath {
                resolved:
                    Some(Resolved {
                        found: Found::Nothing(errno),
                        ..
                    }),
                ..
            }) => Some(*errno),
            _ => None,
        }
    }
}
