//! Pins: descriptors of the host that keep open what a path leads to.

use std::ffi::{CStr, CString, c_int};
use std::os::fd::RawFd;

use fdtable_vfs::Errno;

use crate::host::{self, OpenHow, OwnedHostFd};

/// Treatment of a symbolic link at the end of the path of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// It follows the link.
    Follow,
    /// It follows the link, and creates a file if there is none.
    Create,
    /// It takes the link itself, unless a `/` is behind it.
    Keep,
    /// It changes a name of the directory above, and takes the link whatever is behind it.
    Parent,
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
            false if flags & libc::O_CREAT != 0 => Self::Create,
            false => Self::Follow,
        }
    }

    /// Returns true if the call follows a link.
    pub(crate) fn is_followed(self) -> bool {
        matches!(self, Self::Follow | Self::Create)
    }

    /// Returns what a call does with this path: it follows a link before a trailing `/` or `.`.
    pub(super) fn at_end_of(self, path: &[u8]) -> Self {
        match self {
            Self::Keep if path.ends_with(b"/") || path.ends_with(b"/.") => Self::Follow,
            last => last,
        }
    }
}

/// Opens a path of the host without following any symbolic link, from a directory. Fails with
/// `ELOOP` if there is a link.
pub(crate) type OpenOnHost<'c> = dyn FnMut(RawFd, &CStr) -> Result<OwnedHostFd, Errno> + 'c;

/// Descriptor of the host that keeps open what a path leads to.
pub(crate) struct Pin {
    fd: OwnedHostFd,
    /// The descriptor is that of the file, not that of its directory.
    is_whole: bool,
    /// Rest of the path, behind that of the descriptor.
    end: Vec<u8>,
    /// The descriptor is the one that the call opens.
    is_result: bool,
}

impl Pin {
    /// Pins what a path of the host leads to, from a directory: by `open` if the call opens it.
    ///
    /// # Errors
    /// `ELOOP` if there is a symbolic link on the way, or at an end that the call follows; those of
    /// the lookup, and of `open`.
    pub(super) fn open(
        (directory, path): (RawFd, &[u8]),
        last: LastLink,
        open: Option<&mut OpenOnHost<'_>>,
    ) -> Result<Option<Pin>, Errno> {
        if let Some(open) = open {
            let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
            return Ok(Some(Pin {
                fd: open(directory, &path)?,
                is_whole: true,
                end: Vec::new(),
                is_result: true,
            }));
        }
        if last == LastLink::Create
            && matches!(open_without_links(directory, path, 0), Err(Errno::ELOOP))
        {
            return Err(Errno::ELOOP);
        }
        let (pinned, end) = match last {
            LastLink::Follow => {
                let is_directory = path.ends_with(b"/") || path.ends_with(b"/.");
                // Also a call that would take a link itself follows it before a slash.
                (path, if is_directory { &b"/"[..] } else { b"" })
            }
            LastLink::Create | LastLink::Keep | LastLink::Parent => match above_and_end(path) {
                (_, end) if end.starts_with(b"/") => return Ok(None),
                (b"", end) => (&b"."[..], end),
                above_and_end => above_and_end,
            },
        };
        let name = end.iter().position(|&byte| byte == b'/');
        let end = match (last, name) {
            (LastLink::Follow, _) => end.to_vec(),
            // Of several slashes, one has the same meaning.
            (_, Some(name)) => [b"/", &end[..=name]].concat(),
            (_, None) => [b"/", end].concat(),
        };
        Ok(Some(Pin {
            fd: open_without_links(directory, pinned, 0)?,
            is_whole: last == LastLink::Follow,
            end,
            is_result: false,
        }))
    }

    /// Returns a path that leads to it.
    ///
    /// # Errors
    /// `EINVAL` if a name has a null byte.
    pub(crate) fn path(&self) -> Result<CString, Errno> {
        let directory = format!("/proc/self/fd/{}", self.fd.0);
        CString::new([directory.as_bytes(), &self.end].concat()).map_err(|_| Errno::EINVAL)
    }

    /// Returns the descriptor if it is that of the file.
    pub(crate) fn whole(&self) -> Option<RawFd> {
        self.is_whole.then_some(self.fd.0)
    }

    /// Returns true if the descriptor is the one that the call opens.
    pub(crate) fn is_result(&self) -> bool {
        self.is_result
    }

    /// Returns the descriptor.
    pub(crate) fn into_fd(self) -> OwnedHostFd {
        self.fd
    }
}

/// Opens a path of the host without following any symbolic link, only to name the file.
///
/// # Errors
/// `ELOOP` if there is a link; those of the lookup.
pub(super) fn open_without_links(
    directory: RawFd,
    path: &[u8],
    flags: c_int,
) -> Result<OwnedHostFd, Errno> {
    let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
    let how = OpenHow {
        flags: (libc::O_PATH | flags) as u64,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    host::openat2_inside(directory, &path, how)
}

/// Splits a path before its last name, which may be `.` or `..`, and has all of `/` behind it.
pub(crate) fn above_and_end(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/');
    let end = end.map_or(0, |end| end + 1);
    let name = path[..end].iter().rposition(|&byte| byte == b'/');
    path.split_at(name.map_or(0, |name| name + 1))
}
