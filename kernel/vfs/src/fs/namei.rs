//! Path walk: from a path to its inode.
//!
//! The walk looks up one component after another in the directory that it has reached, crosses
//! mounts, and follows at most 40 symbolic links. It holds no lock between two components.
//!
//! There are two walks, as in Linux (`path-lookup.rst`):
//! - The *RCU walk* ([`PathContext::find_rcu`]) is inside one read-side section. It takes no lock,
//!   and no reference but to the inode at the end, so threads that walk through the same
//!   directories share no cache line. It gives up where it would have to do more: at a symbolic
//!   link, at `..`, and in file systems that do not support it.
//! - The *reference walk* ([`PathWalk`]) then begins again at the start. It holds a reference to
//!   each directory while it is there.

use std::borrow::Cow;
use std::sync::Arc;

use fdtable::rcu;

use super::path::{Last, Path, checked, components};
use super::{
    At, AtFlags, FileKind, Inode, MountPoint, MountRef, PathContext, RcuLookup, ResolveFlags,
    Target, VfsPath, is_directory,
};
use crate::Errno;

/// Most symbolic links that a walk follows: 40 (Linux `MAXSYMLINKS`).
const MAX_SYMLINKS: u32 = 40;

/// Choice to follow a symbolic link in the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Yes,
    No,
}

impl From<AtFlags> for Follow {
    fn from(flags: AtFlags) -> Self {
        if flags.contains(AtFlags::SYMLINK_NOFOLLOW) {
            Follow::No
        } else {
            Follow::Yes
        }
    }
}

/// Position of an RCU walk.
#[derive(Clone, Copy)]
struct Place<'s> {
    mount: Option<&'s MountRef>,
    inode: &'s Arc<dyn Inode>,
}

/// State of a reference walk.
pub(crate) struct PathWalk<'w> {
    context: &'w PathContext<'w>,
    /// Symbolic links followed so far.
    links: u32,
}

impl PathContext<'_> {
    /// Finds the inode at a path.
    ///
    /// # Errors
    /// Errors of path lookup.
    pub(crate) fn find(&self, at: At, path: &[u8], follow: Follow) -> Result<VfsPath, Errno> {
        let path = Path::parse(path)?;
        self.find_parsed(at, &path, follow)
    }

    /// Finds the inode at a path that is split already.
    ///
    /// # Errors
    /// Errors of path lookup.
    #[inline]
    pub(crate) fn find_parsed(
        &self,
        at: At,
        path: &Path<'_>,
        follow: Follow,
    ) -> Result<VfsPath, Errno> {
        if let Some(found) = self.find_rcu(at, path, follow) {
            return found;
        }
        let start = self.start(at, path.from_root)?;
        PathWalk::new(self).find(&start, path, follow)
    }

    /// Finds the inode at a path by an RCU walk. Returns nothing if the walk gives up.
    #[inline]
    pub(crate) fn find_rcu(
        &self,
        at: At,
        path: &Path<'_>,
        follow: Follow,
    ) -> Option<Result<VfsPath, Errno>> {
        let Last::Name(last) = path.last else {
            return None;
        };
        if !self.resolve.is_empty() {
            return None;
        }
        let of_fd = match at {
            At::Fd(fd) if !path.from_root => {
                let start = self.path_of(fd).ok()??;
                Some(start)
                    .filter(|start| is_directory(&*start.inode))?
                    .into()
            }
            _ => None,
        };
        let section = rcu::read_lock();
        let start = match &of_fd {
            Some(directory) => directory,
            None if path.from_root => self.root,
            None => {
                let cwd = self
                    .process
                    .and_then(|process| process.working_directory_rcu(&section));
                cwd.unwrap_or(self.root)
            }
        };
        let mut here = Place {
            mount: start.mount.as_ref(),
            inode: &start.inode,
        };
        for component in components(path.parent) {
            here = match self.step_rcu(here, component, &section)? {
                Ok(next) => next,
                Err(errno) => return Some(Err(errno)),
            };
            match here.inode.kind() {
                FileKind::Directory => {}
                FileKind::Symlink => return None,
                _ => return Some(Err(Errno::ENOTDIR)),
            }
        }
        let found = match self.step_rcu(here, last, &section)? {
            Ok(found) => found,
            Err(errno) => return Some(Err(errno)),
        };
        let kind = found.inode.kind();
        if kind == FileKind::Symlink && (follow == Follow::Yes || path.asks_for_directory) {
            return None;
        }
        if path.asks_for_directory && kind != FileKind::Directory {
            return Some(Err(Errno::ENOTDIR));
        }
        Some(Ok(VfsPath {
            mount: found.mount.map(MountRef::near),
            inode: Arc::clone(found.inode),
        }))
    }

    /// Looks up a component of an RCU walk, and crosses mounts on it. Returns nothing if the walk
    /// has to give up.
    #[inline]
    fn step_rcu<'s>(
        &'s self,
        here: Place<'s>,
        component: &[u8],
        section: &'s rcu::Guard<'_>,
    ) -> Option<Result<Place<'s>, Errno>> {
        let directory = &**here.inode;
        let may_search = self.credentials.searches_all() || directory.is_searchable_by_all();
        if component == b".." || !may_search {
            return None;
        }
        checked(component).ok()?;
        let inode = match directory.lookup_rcu(component, section) {
            RcuLookup::Found(inode) => inode,
            RcuLookup::NotFound => return Some(Err(Errno::ENOENT)),
            RcuLookup::Unsupported => return None,
        };
        let mut next = Place { inode, ..here };
        if inode.mount_point().is_some_and(MountPoint::is_used)
            && let Some(top) = self.mounts?.top(here.mount, &**inode, section)
        {
            next = Place {
                mount: Some(top),
                inode: top.root(),
            };
        }
        Some(Ok(next))
    }

    /// Finds the inode at a path. With [`AtFlags::EMPTY_PATH`] and an empty path, this is the file
    /// of the descriptor.
    ///
    /// # Errors
    /// Errors of path lookup; `EBADF` if the descriptor's file has no path.
    pub(crate) fn find_at(
        &self,
        at: At,
        path: &[u8],
        flags: AtFlags,
        follow: Follow,
    ) -> Result<VfsPath, Errno> {
        if path.is_empty() && flags.contains(AtFlags::EMPTY_PATH) {
            return match at {
                At::Fd(fd) => self.path_of(fd)?.ok_or(Errno::ENOTDIR),
                At::Cwd => self.start(at, false).map(Cow::into_owned),
            };
        }
        self.find(at, path, follow)
    }

    /// Finds the parent directory of the last component of a path.
    ///
    /// # Errors
    /// Errors of path lookup.
    pub(crate) fn find_parent(&self, at: At, path: &Path<'_>) -> Result<VfsPath, Errno> {
        let parent = self.find_parent_of_any(at, path)?;
        if let Last::Name(name) = path.last {
            checked_in(&*parent.inode, name)?;
        }
        Ok(parent)
    }

    /// Finds the parent directory of the last component of a path, which may be too long for a
    /// name.
    ///
    /// # Errors
    /// Errors of path lookup.
    pub(crate) fn find_parent_of_any(&self, at: At, path: &Path<'_>) -> Result<VfsPath, Errno> {
        let mut parent = self.start(at, path.from_root)?;
        PathWalk::new(self).link_path_walk(&mut parent, path.parent)?;
        if !is_directory(&*parent.inode) {
            return Err(Errno::ENOTDIR);
        }
        self.may_search(&*parent.inode)?;
        Ok(parent.into_owned())
    }
}

impl<'w> PathWalk<'w> {
    pub(crate) fn new(context: &'w PathContext<'w>) -> Self {
        PathWalk { context, links: 0 }
    }

    #[inline]
    pub(crate) fn find(
        &mut self,
        start: &VfsPath,
        path: &Path<'_>,
        follow: Follow,
    ) -> Result<VfsPath, Errno> {
        let mut parent = Cow::Borrowed(start);
        self.link_path_walk(&mut parent, path.parent)?;
        match path.last {
            Last::Root => Ok(parent.into_owned()),
            Last::Dot => self.dot(&parent),
            Last::DotDot => self.dot_dot(&parent),
            Last::Name(name) => {
                let found = self.walk_component(&parent, name)?;
                self.end(&parent, found, follow, path.asks_for_directory)
            }
        }
    }

    /// Walks to the parent directory of the last component.
    #[inline]
    pub(crate) fn link_path_walk(
        &mut self,
        here: &mut Cow<'_, VfsPath>,
        parent_path: &[u8],
    ) -> Result<(), Errno> {
        for component in components(parent_path) {
            if component == b".." {
                *here = Cow::Owned(self.dot_dot(here)?);
                continue;
            }
            let inode = self.lookup(here, component)?;
            if !is_plain_directory(&*inode) {
                *here = Cow::Owned(self.step_into(here, inode)?);
                continue;
            }
            // The common case: the walk stays in the same mount.
            match here {
                Cow::Owned(vfs_path) => vfs_path.inode = inode,
                Cow::Borrowed(vfs_path) => *here = Cow::Owned(vfs_path.with(inode)),
            }
        }
        Ok(())
    }

    /// Walks on from a component that is a symbolic link or a mount point.
    #[cold]
    fn step_into(&mut self, here: &VfsPath, inode: Arc<dyn Inode>) -> Result<VfsPath, Errno> {
        let mut next = self.cross(here, inode)?;
        if next.inode.kind() == FileKind::Symlink {
            next = self.follow(here, &next)?;
        }
        if !is_directory(&*next.inode) {
            return Err(Errno::ENOTDIR);
        }
        Ok(next)
    }

    /// Looks up a name, and crosses mounts on it. Follows no symbolic link.
    #[inline]
    pub(crate) fn walk_component(&self, here: &VfsPath, name: &[u8]) -> Result<VfsPath, Errno> {
        let inode = self.lookup(here, name)?;
        if inode.mount_point().is_some_and(MountPoint::is_used) {
            return self.cross(here, inode);
        }
        Ok(here.with(inode))
    }

    /// Looks up a name, without crossing mounts.
    #[inline]
    fn lookup(&self, here: &VfsPath, name: &[u8]) -> Result<Arc<dyn Inode>, Errno> {
        self.context.may_search(&*here.inode)?;
        here.inode
            .lookup(checked_in(&*here.inode, name)?, self.context)
    }

    #[cold]
    fn cross(&self, here: &VfsPath, inode: Arc<dyn Inode>) -> Result<VfsPath, Errno> {
        let found = here.with(inode);
        self.same_mount(
            here,
            match self.context.mounts {
                Some(mounts) => mounts.cross(found),
                None => found,
            },
        )
    }

    /// Checks that a walk may leave a mount, if it does.
    ///
    /// # Errors
    /// `EXDEV` if it may not.
    fn same_mount(&self, from: &VfsPath, to: VfsPath) -> Result<VfsPath, Errno> {
        let is_bound = self.context.resolve.contains(ResolveFlags::NO_XDEV);
        match is_bound && from.mount_id() != to.mount_id() {
            true => Err(Errno::EXDEV),
            false => Ok(to),
        }
    }

    /// Handles the last component: follows it if it is a symbolic link to be followed.
    #[inline]
    pub(crate) fn end(
        &mut self,
        parent: &VfsPath,
        found: VfsPath,
        follow: Follow,
        asks_for_directory: bool,
    ) -> Result<VfsPath, Errno> {
        let is_link = found.inode.kind() == FileKind::Symlink;
        let found = if is_link && (follow == Follow::Yes || asks_for_directory) {
            self.follow(parent, &found)?
        } else {
            found
        };
        if asks_for_directory && !is_directory(&*found.inode) {
            return Err(Errno::ENOTDIR);
        }
        Ok(found)
    }

    /// Follows a symbolic link in `directory`, and further links at its end.
    #[cold]
    pub(crate) fn follow(&mut self, directory: &VfsPath, link: &VfsPath) -> Result<VfsPath, Errno> {
        match self.target(link)? {
            Target::MagicLink { path: vfs_path, .. } => Ok(vfs_path),
            Target::Path(text) => {
                let path = Path::parse(&text)?;
                let start = if path.from_root {
                    self.context.root
                } else {
                    directory
                };
                self.find(start, &path, Follow::Yes)
            }
        }
    }

    /// Returns the target of a symbolic link, and counts the link as followed.
    ///
    /// # Errors
    /// `ELOOP` if it is one too many, or of a kind that is not followed; `EXDEV` if it leads where
    /// the walk may not go.
    pub(crate) fn target(&mut self, link: &VfsPath) -> Result<Target, Errno> {
        self.links += 1;
        let resolve = self.context.resolve;
        if self.links > MAX_SYMLINKS || resolve.contains(ResolveFlags::NO_SYMLINKS) {
            return Err(Errno::ELOOP);
        }
        let no_root = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
        match link.inode.link_target(self.context)? {
            Target::MagicLink { .. } if resolve.contains(ResolveFlags::NO_MAGICLINKS) => {
                Err(Errno::ELOOP)
            }
            Target::MagicLink { .. } if resolve.intersects(ResolveFlags::SCOPED) => {
                Err(Errno::EXDEV)
            }
            Target::MagicLink { path, shown } => {
                let path = self.same_mount(link, path)?;
                Ok(Target::MagicLink { path, shown })
            }
            Target::Path(text) if text.starts_with(b"/") && resolve.intersects(no_root) => {
                Err(Errno::EXDEV)
            }
            target => Ok(target),
        }
    }

    pub(crate) fn dot(&self, here: &VfsPath) -> Result<VfsPath, Errno> {
        self.context.only_directory(here)?;
        Ok(here.clone())
    }

    pub(crate) fn dot_dot(&self, here: &VfsPath) -> Result<VfsPath, Errno> {
        self.context.only_directory(here)?;
        if self.context.resolve.contains(ResolveFlags::BENEATH) && here.is(self.context.root) {
            return Err(Errno::EXDEV);
        }
        let parent = self.same_mount(here, self.context.parent_of(here)?)?;
        if parent.inode.mount_point().is_some_and(MountPoint::is_used) {
            // A file system was mounted on it after the walk, or its starting directory, had gone
            // through it.
            return self.cross(&parent, Arc::clone(&parent.inode));
        }
        Ok(parent)
    }
}

/// Checks the length of a name in a directory.
///
/// # Errors
/// `ENAMETOOLONG` if it is too long; `ENOENT` if the directory is removed too.
#[inline]
pub(crate) fn checked_in<'n>(directory: &dyn Inode, name: &'n [u8]) -> Result<&'n [u8], Errno> {
    checked(name).map_err(|errno| match directory.stat().links {
        0 => Errno::ENOENT,
        _ => errno,
    })
}

/// Returns true if an inode is a directory on which nothing is mounted.
#[inline]
fn is_plain_directory(inode: &dyn Inode) -> bool {
    is_directory(inode) && !inode.mount_point().is_some_and(MountPoint::is_used)
}
