//! Opens files: find or create the inode, check access, open it.

use std::borrow::Cow;
use std::sync::Arc;

use fdtable::FileRef;

use super::{At, PathContext, is_directory};
use crate::fs::namei::{Follow, PathWalk};
use crate::fs::path::{Last, Path};
use crate::fs::path_file::PathFile;
use crate::fs::{
    AccessMode, Capabilities, FileKind, Inode, LaterName, Mode, NewInode, NewKind, Opening, Target,
    VfsPath, want_write,
};
use crate::{Errno, OpenFlags, RcuObject};

/// Inode that an open has found or created.
struct Found {
    vfs_path: VfsPath,
    origin: Origin,
}

/// How the inode of an open was found.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Existing,
    /// An existing inode, reached through a magic link of `/proc` and not by a name.
    MagicLink,
    /// Created by this open, which may access it as asked, whatever its permissions are.
    Created,
}

impl Found {
    fn existing(vfs_path: VfsPath) -> Self {
        let origin = Origin::Existing;
        Found { vfs_path, origin }
    }

    fn created(vfs_path: VfsPath) -> Self {
        let origin = Origin::Created;
        Found { vfs_path, origin }
    }
}

/// Arguments of an open, checked as far as possible without a lookup.
pub(crate) struct OpenRequest<'p> {
    path: Path<'p>,
    flags: OpenFlags,
}

impl<'p> OpenRequest<'p> {
    /// Checks the arguments.
    ///
    /// # Errors
    /// `EINVAL` for the flags; `ENOENT` if the path is empty, and `ENAMETOOLONG` if it is too long.
    #[inline]
    pub(crate) fn new(path: &'p [u8], flags: OpenFlags) -> Result<Self, Errno> {
        let flags = checked(flags)?;
        let path = Path::parse(path)?;
        Ok(OpenRequest { path, flags })
    }
}

/// File that was found, for [`open_later`](PathContext::open_later) to open.
pub(crate) struct ToOpen {
    vfs_path: VfsPath,
    flags: OpenFlags,
}

impl ToOpen {
    /// Returns true if opening the file, and releasing it at once, has a visible effect. If not, an
    /// open that finds no free descriptor may have done that.
    #[inline]
    pub(crate) fn has_side_effect(&self) -> bool {
        !self.flags.contains(OpenFlags::PATH) && self.vfs_path.inode.open_has_side_effect()
    }
}

impl PathContext<'_> {
    /// Opens the file at a path.
    pub(crate) fn open(
        &self,
        at: At,
        request: &OpenRequest<'_>,
        mode: Mode,
    ) -> Result<FileRef<RcuObject>, Errno> {
        let OpenRequest { path, flags } = *request;
        if flags.contains(OpenFlags::TMPFILE) {
            return self.open_unnamed(at, request, mode);
        }
        if flags.contains(OpenFlags::CREAT) {
            // Most of these files exist.
            if !flags.contains(OpenFlags::EXCL)
                && !path.asks_for_directory
                && let Some(Ok(found)) = self.find_rcu(at, &path, Follow::Yes)
            {
                match self.open_found(Found::existing(found), flags) {
                    // Its name was removed meanwhile.
                    Err(Errno::ENOENT) => {}
                    opened => return opened,
                }
            }
            let start = self.start(at, path.from_root)?;
            return self.open_or_create(&start, &path, flags, mode);
        }
        self.open_later(self.find_to_open(at, request)?)
    }

    /// Finds the file at a path, to be opened later: `flags` do not ask to create it.
    #[inline]
    pub(crate) fn find_to_open(&self, at: At, request: &OpenRequest<'_>) -> Result<ToOpen, Errno> {
        let OpenRequest { path, flags } = *request;
        let vfs_path = self.find_parsed(at, &path, follow(flags))?;
        Ok(ToOpen { vfs_path, flags })
    }

    /// Opens a file that was found.
    #[inline]
    pub(crate) fn open_later(&self, found: ToOpen) -> Result<FileRef<RcuObject>, Errno> {
        self.open_found(Found::existing(found.vfs_path), found.flags)
    }

    /// Opens a file, and creates it if it does not exist.
    fn open_or_create(
        &self,
        start: &VfsPath,
        path: &Path<'_>,
        flags: OpenFlags,
        mode: Mode,
    ) -> Result<FileRef<RcuObject>, Errno> {
        loop {
            let mut walk = PathWalk::new(self);
            let found = self.find_or_create(&mut walk, Cow::Borrowed(start), path, flags, mode)?;
            let had_name = found.origin != Origin::MagicLink;
            let inode = Arc::clone(&found.vfs_path.inode);
            match self.open_found(found, flags) {
                // Its name was removed between the two steps: look again, or create another.
                Err(Errno::ENOENT) if had_name && inode.stat().links == 0 => {}
                opened => return opened,
            }
        }
    }

    #[inline]
    fn open_found(&self, found: Found, flags: OpenFlags) -> Result<FileRef<RcuObject>, Errno> {
        let VfsPath { mount, inode } = found.vfs_path;
        let kind = inode.kind();
        let asks_for_directory =
            flags.contains(OpenFlags::DIRECTORY) && !flags.contains(OpenFlags::TMPFILE);
        if asks_for_directory && kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let opening = Opening {
            flags: match found.origin {
                Origin::Created => flags,
                _ => flags - OpenFlags::CREAT,
            },
            kind,
            fs: self.fs_mounted(mount.as_deref()),
            mount: mount.clone(),
        };
        if flags.contains(OpenFlags::PATH) {
            return opening.file(PathFile::new(opening.path(inode), flags)?);
        }
        // The access mode 3 asks for both permissions, and gives neither access.
        let is_neither = flags.contains(OpenFlags::ACCMODE);
        let changes = flags.can_write()
            || is_neither
            || flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC);
        match kind {
            FileKind::Symlink => return Err(Errno::ELOOP),
            FileKind::Directory if changes => return Err(Errno::EISDIR),
            _ => {}
        }
        if found.origin != Origin::Created {
            self.may_open(&*inode, &opening)?;
        }
        if flags.contains(OpenFlags::DIRECT) && kind != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let truncates = flags.contains(OpenFlags::TRUNC)
            && kind == FileKind::Regular
            && found.origin != Origin::Created;
        if truncates && !self.credentials.has(Capabilities::FSETID) {
            let opened = Arc::clone(&inode).open(&opening)?;
            self.remove_privileges(&*inode)?;
            return Ok(opened);
        }
        inode.open(&opening)
    }

    /// Checks the caller's access. `EROFS` comes before `EACCES`, as on Linux; for a file that
    /// passes, the open itself checks for a read-only file system.
    #[inline]
    fn may_open(&self, inode: &dyn Inode, opening: &Opening<'_>) -> Result<(), Errno> {
        let all = Capabilities::DAC_OVERRIDE | Capabilities::FOWNER;
        if self.credentials.has(all) {
            return Ok(());
        }
        let flags = opening.flags;
        let mut wanted = AccessMode::empty();
        let is_neither = flags.contains(OpenFlags::ACCMODE);
        wanted.set(AccessMode::READ, flags.can_read() || is_neither);
        wanted.set(
            AccessMode::WRITE,
            flags.can_write() || is_neither || flags.contains(OpenFlags::TRUNC),
        );
        if wanted.contains(AccessMode::WRITE) && opening.kind == FileKind::Regular {
            want_write(opening.fs)?;
        }
        self.may(wanted, inode)?;
        if flags.contains(OpenFlags::NOATIME) && !self.credentials.owns(inode.permissions().uid) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Finds a file, or creates it, also at the target of a dangling symbolic link.
    fn find_or_create(
        &self,
        walk: &mut PathWalk<'_>,
        start: Cow<'_, VfsPath>,
        path: &Path<'_>,
        flags: OpenFlags,
        mode: Mode,
    ) -> Result<Found, Errno> {
        let exclusive = flags.contains(OpenFlags::EXCL);
        let mut parent = start;
        walk.link_path_walk(&mut parent, path.parent)?;
        let name = match path.last {
            Last::Name(name) if !path.asks_for_directory => name,
            Last::Root if exclusive => return Err(Errno::EEXIST),
            Last::Root => return Err(Errno::EISDIR),
            last => {
                self.may_search(&*parent.inode)?;
                let is_name = matches!(last, Last::Name(_));
                return Err(match exclusive && !is_name {
                    true => Errno::EEXIST,
                    false => Errno::EISDIR,
                });
            }
        };
        loop {
            // Most of these files exist: look them up first, which takes no lock.
            let found = match walk.walk_component(&parent, name) {
                Err(Errno::ENOENT) => match self.create_file(&parent, name, mode) {
                    // Another thread created it first.
                    Err(Errno::EEXIST) if !exclusive => continue,
                    created => return created.map(Found::created),
                },
                found => found?,
            };
            return match found.inode.kind() {
                _ if exclusive => Err(Errno::EEXIST),
                FileKind::Symlink if !flags.contains(OpenFlags::NOFOLLOW) => {
                    self.create_at_target(walk, &parent, &found, flags, mode)
                }
                _ => Ok(Found::existing(found)),
            };
        }
    }

    /// Finds or creates the target of a link.
    fn create_at_target(
        &self,
        walk: &mut PathWalk<'_>,
        parent: &VfsPath,
        link: &VfsPath,
        flags: OpenFlags,
        mode: Mode,
    ) -> Result<Found, Errno> {
        match walk.target(link)? {
            Target::MagicLink { path: vfs_path, .. } => {
                let origin = Origin::MagicLink;
                Ok(Found { vfs_path, origin })
            }
            Target::Path(text) => {
                let path = Path::parse(&text)?;
                let start = if path.from_root { self.root } else { parent };
                self.find_or_create(walk, Cow::Borrowed(start), &path, flags, mode)
            }
        }
    }

    fn create_file(&self, parent: &VfsPath, name: &[u8], mode: Mode) -> Result<VfsPath, Errno> {
        if parent.inode.has_fixed_names() {
            return Err(Errno::ENOENT);
        }
        self.create_in(parent, name, NewKind::Regular, mode)
    }

    /// Makes an unnamed file and opens it.
    fn open_unnamed(
        &self,
        at: At,
        request: &OpenRequest<'_>,
        mode: Mode,
    ) -> Result<FileRef<RcuObject>, Errno> {
        let ToOpen {
            vfs_path: directory,
            flags,
        } = self.find_to_open(at, request)?;
        if !is_directory(&*directory.inode) {
            return Err(Errno::ENOTDIR);
        }
        let _change = want_write(self.fs_of(&directory))?;
        self.may_change(&*directory.inode)?;
        let new = self.new_inode(NewKind::Regular, mode);
        let later = if flags.contains(OpenFlags::EXCL) {
            LaterName::Never
        } else {
            LaterName::Possible
        };
        let inode = directory.inode.create_unnamed(&new, later)?;
        self.open_found(Found::created(directory.with(inode)), flags)
    }

    /// Describes an inode to be made by this caller.
    pub(crate) fn new_inode<'n>(&self, what: NewKind<'n>, mode: Mode) -> NewInode<'n> {
        let umask = match what {
            // The permissions of a link are never checked.
            NewKind::Symlink(_) => Mode::NONE,
            _ => self.umask,
        };
        NewInode {
            what,
            mode: mode.without(umask),
            maker: self.credentials,
        }
    }
}

/// Checks the flags of an open, and clears those without effect.
fn checked(flags: OpenFlags) -> Result<OpenFlags, Errno> {
    if flags.contains(OpenFlags::PATH) {
        let kept = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
        return Ok(flags & (kept | OpenFlags::CLOEXEC));
    }
    let both = OpenFlags::CREAT | OpenFlags::DIRECTORY;
    let half = OpenFlags::TMPFILE - OpenFlags::DIRECTORY;
    let unnamed = flags.contains(OpenFlags::TMPFILE);
    let refused =
        flags.contains(half) && !unnamed || unnamed && !flags.can_write() || flags.contains(both);
    if refused {
        return Err(Errno::EINVAL);
    }
    Ok(flags)
}

fn follow(flags: OpenFlags) -> Follow {
    if flags.contains(OpenFlags::NOFOLLOW) {
        Follow::No
    } else {
        Follow::Yes
    }
}
