//! Paths through the descriptors that `/proc` and `/dev` show: `/proc/self/fd/3`, `/dev/stdin`.
//!
//! The host shows the descriptors of the runner there, so no such path goes to the host as it is. A
//! link to a host file leads to the host's link of its host descriptor: the host opens the file
//! anew, shows its path, and looks up names below it. All else is ours.
//!
//! The text of a path decides, before symbolic links are followed. So a link elsewhere that leads
//! to such a path is followed on the side that has the link.

use std::borrow::Cow;
use std::ffi::{CString, c_int};

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};
use libc::AT_FDCWD;

use crate::abi::links::path_of_host;
use crate::abi::path::{HostPath, Target};
use crate::abi::pin::LastLink;
use crate::abi::routing::{Links, Side, names};
use crate::abi::system::System;
use crate::host;
use crate::host::file::HostFile;
use crate::process::tree;

/// Destination of a path through the descriptors of a process.
pub(crate) enum FdPath {
    /// A file that symbolic links lead nowhere else from.
    Whole(Target<'static>),
    /// A path relative to a directory of the host.
    Below(FileRef<RcuObject>, CString),
}

/// Parts of such a path.
struct Parts<'p> {
    process: c_int,
    /// `fd` or `fdinfo`.
    directory: &'static str,
    /// Name of a descriptor; empty for the directory itself.
    fd: &'p [u8],
    /// The path below it.
    rest: &'p [u8],
    /// A link in `/dev` leads to that of the descriptor.
    is_device: bool,
}

impl System {
    /// Returns where a path leads if it goes through the descriptors of a process of the tree, and
    /// would not find them on the side where it begins.
    ///
    /// # Errors
    /// `EINVAL` if the path has a null byte.
    pub(crate) fn fd_path(
        &self,
        directory: c_int,
        path: &[u8],
        last: LastLink,
    ) -> Result<Option<FdPath>, Errno> {
        let whole = self.whole_path(directory, path);
        let Some((whole, parts)) = whole.as_deref().and_then(|it| Some((it, Parts::of(it)?)))
        else {
            return Ok(None);
        };
        let other;
        let process = match parts.process == host::process_id() {
            true => self.process,
            false => match tree::process_of(parts.process) {
                None => return Ok(None),
                Some(process) => {
                    other = process;
                    &other
                }
            },
        };
        let file = parts.followed(last).map(|fd| process.files().get(fd));
        if let Some(Ok(file)) = file
            && let Some(found) = self.path_to_host(&parts, file)?
        {
            return Ok(Some(found));
        }
        Ok(match self.routes.load().side_of(whole) {
            Side::Ours => None,
            Side::Host => Some(FdPath::Whole(Target::Ours(AT_FDCWD, parts.ours().into()))),
        })
    }

    /// Returns where the link of a descriptor and the rest of its path lead, if it has a host file.
    fn path_to_host(
        &self,
        parts: &Parts<'_>,
        file: FileRef<RcuObject>,
    ) -> Result<Option<FdPath>, Errno> {
        let Some(host_file) = HostFile::with_inode_below(&**file) else {
            return Ok(None);
        };
        let text = |path| CString::new(path).map_err(|_| Errno::EINVAL);
        let used = host_file.fd();
        let link = host_file.path_in_proc(parts.process, "fd", &used);
        Ok(match parts.rest {
            [] => {
                let path = HostPath::new(Some(file), text(link.into())?.into());
                Some(FdPath::Whole(Target::Host(path)))
            }
            rest if used.get() >= 0 => {
                let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
                let below = match &rest[slashes..] {
                    b"" => b".",
                    below => below,
                };
                Some(FdPath::Below(file, text(below.to_vec())?))
            }
            rest => match self.routes.load().links() {
                Links::Stay => {
                    let path = HostPath::absolute([link.as_bytes(), rest].concat())?;
                    Some(FdPath::Whole(Target::Host(path)))
                }
                Links::Cross => None,
            },
        })
    }

    /// Returns the absolute path, if it may go through the descriptors of a process.
    fn whole_path<'p>(&self, directory: c_int, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        const NAMES: [&[u8]; 5] = [b"fd", b"fdinfo", b"stdin", b"stdout", b"stderr"];
        let has_name = || names(path).any(|name| NAMES.contains(&name));
        if path.starts_with(b"/") {
            return has_name().then_some(path.into());
        }
        let is_descriptor = path.first().is_some_and(u8::is_ascii_digit);
        if !is_descriptor && !has_name() {
            return None;
        }
        let start = match directory {
            AT_FDCWD => self.routes.load().directory().to_vec(),
            fd => {
                let file = self.file(fd).ok()?;
                match HostFile::below(&**file) {
                    // The directories of descriptors are ours.
                    Some(host_file) if has_name() => path_of_host(host_file.fd().get()).ok()?,
                    Some(_) => return None,
                    None => file.path()?.full_path(),
                }
            }
        };
        let may_lead = start.starts_with(b"/proc") || start.starts_with(b"/dev");
        may_lead.then(|| [&start, &b"/"[..], path].concat().into())
    }
}

impl<'p> Parts<'p> {
    /// Splits an absolute path, if it is such a one.
    fn of(path: &'p [u8]) -> Option<Self> {
        let own = host::process_id();
        let (top, rest) = split_name(path)?;
        let (name, rest) = split_name(rest)?;
        let (process, directory, rest) = match (top, name) {
            (b"dev", b"stdin") => return Some(Self::device(own, b"0", rest)),
            (b"dev", b"stdout") => return Some(Self::device(own, b"1", rest)),
            (b"dev", b"stderr") => return Some(Self::device(own, b"2", rest)),
            (b"dev", b"fd") => (own, name, rest),
            (b"proc", process) => {
                let process = match process {
                    b"self" | b"thread-self" => own,
                    id => number(id)?,
                };
                let (name, rest) = split_name(rest)?;
                let (directory, rest) = match name {
                    b"task" => split_name(split_name(rest)?.1)?,
                    _ => (name, rest),
                };
                (process, directory, rest)
            }
            _ => return None,
        };
        let (fd, rest) = split_name(rest).unwrap_or_default();
        let directory = match directory {
            // The directory above is the host's.
            _ if fd == b".." => return None,
            b"fd" => "fd",
            b"fdinfo" => "fdinfo",
            _ => return None,
        };
        Some(Parts {
            process,
            directory,
            fd,
            rest,
            is_device: false,
        })
    }

    fn device(process: c_int, fd: &'static [u8], rest: &'p [u8]) -> Self {
        Parts {
            process,
            directory: "fd",
            fd,
            rest,
            is_device: true,
        }
    }

    /// Returns the descriptor whose link the call follows or reads.
    fn followed(&self, last: LastLink) -> Option<c_int> {
        let is_kept = match last {
            LastLink::Follow | LastLink::Create => false,
            LastLink::Keep => self.is_device,
            LastLink::Parent => true,
        };
        match self.directory == "fd" && !(self.rest.is_empty() && is_kept) {
            true => number(self.fd),
            false => None,
        }
    }

    /// Returns the path by which our side knows it.
    fn ours(&self) -> Vec<u8> {
        let process = match self.process == host::process_id() {
            true => "self".to_owned(),
            false => self.process.to_string(),
        };
        let start = format!("/proc/{process}/{}/", self.directory);
        [start.as_bytes(), self.fd, self.rest].concat()
    }
}

/// Splits the first name off.
fn split_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let path = &path[path.iter().position(|&byte| byte != b'/')?..];
    let end = path.iter().position(|&byte| byte == b'/');
    match path.split_at(end.unwrap_or(path.len())) {
        (b".", rest) => split_name(rest),
        split => Some(split),
    }
}

/// Parses a number as the names in `/proc` spell it.
fn number(name: &[u8]) -> Option<c_int> {
    let number: c_int = str::from_utf8(name).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == name).then_some(number)
}
