mod files;
mod names;
mod races;
mod renames;

use std::any::Any;

use fdtable::FileRef;

use super::regular::RegularInode;
use super::*;
use crate::fs::{OpenRequest, RenameFlags};
use crate::{DirEntry, Object, OpenFlags};

/// Operations of user 0, from the root, without a process.
impl MemFs {
    fn open(&self, path: impl AsRef<[u8]>, flags: OpenFlags) -> Result<FileRef<RcuObject>, Errno> {
        let request = OpenRequest::new(path.as_ref(), flags)?;
        self.path_context()
            .open(At::Cwd, &request, Mode::DEFAULT_FILE)
    }
    fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.path_context().rmdir(At::Cwd, path.as_ref())
    }
    fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.path_context().unlink(At::Cwd, path.as_ref())
    }
    fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<(), Errno> {
        let (old, new) = ((At::Cwd, old.as_ref()), (At::Cwd, new.as_ref()));
        self.path_context().rename(old, new, RenameFlags::empty())
    }
}

/// Returns the names in an open directory.
fn entries(directory: &dyn Object) -> Result<Vec<DirEntry>, Errno> {
    directory.stat()?;
    directory.path().ok_or(Errno::ENOTDIR)?.inode.names()
}

/// Makes a file system with the directories and files of `paths`; the paths of directories end in
/// `/`.
fn tree(paths: &[&str]) -> MemFs {
    let fs = MemFs::default();
    for path in paths {
        match path.strip_suffix('/') {
            Some(directory) => fs.mkdir(directory).unwrap(),
            None => create(&fs, path),
        }
    }
    fs
}

fn create(fs: &MemFs, path: &str) {
    let flags = OpenFlags::CREAT | OpenFlags::EXCL;
    fs.open(path, flags).unwrap();
}

fn open_error(fs: &MemFs, path: &str, flags: OpenFlags) -> Errno {
    match fs.open(path, flags) {
        Ok(_) => panic!("{path} was opened"),
        Err(errno) => errno,
    }
}

/// Lists a directory, sorted by name.
fn list(fs: &MemFs, path: &str) -> Vec<String> {
    let directory = fs.open(path, OpenFlags::DIRECTORY).unwrap();
    let mut names: Vec<String> = entries(&**directory)
        .unwrap()
        .iter()
        .map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
        .collect();
    names.sort();
    names
}

/// Finds a directory, as its own type.
fn directory(fs: &MemFs, path: &str) -> Arc<Directory> {
    let found = fs
        .path_context()
        .find(At::Cwd, path.as_bytes(), Follow::Yes);
    let inode: Arc<dyn Any + Send + Sync> = found.unwrap().inode;
    inode.downcast().expect("a directory")
}

/// Finds a file, as its own type.
fn file(fs: &MemFs, path: &str) -> Arc<RegularInode> {
    let found = fs
        .path_context()
        .find(At::Cwd, path.as_bytes(), Follow::Yes);
    let inode: Arc<dyn Any + Send + Sync> = found.unwrap().inode;
    inode.downcast().expect("a file")
}
