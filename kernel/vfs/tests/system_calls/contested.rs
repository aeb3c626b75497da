//! Files that lose their name between two steps of one call.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{FileRef, Files};
use fdtable_vfs::fs::{
    Attributes, Credentials, FileSystem, Inode, MayUnlink, NewInode, NewKind, Opening, PathContext,
    Permissions, StatFs, Unlink,
};
use fdtable_vfs::{Errno, FileKind, MemFs, Mode, OpenFlags, Process, RcuObject, Stat};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

/// Directory that removes each file right after it is found or made.
struct Contested {
    root: Arc<dyn Inode>,
    /// How many more times it does that.
    left: AtomicCell<u32>,
}

struct ContestedFs(Arc<Contested>);

impl Contested {
    fn remove(&self, name: &[u8]) {
        if self.left.load() > 0 {
            self.left.fetch_sub(1);
            self.root.unlink(name, Unlink::File, &|_| Ok(())).unwrap();
        }
    }
}

impl Inode for Contested {
    fn kind(&self) -> FileKind {
        FileKind::Directory
    }

    fn stat(&self) -> Stat {
        self.root.stat()
    }

    fn permissions(&self) -> Permissions {
        self.root.permissions()
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let found = self.root.lookup(name, context)?;
        self.remove(name);
        Ok(found)
    }

    fn create(&self, name: &[u8], new: &NewInode<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let made = self.root.create(name, new)?;
        self.remove(name);
        Ok(made)
    }

    /// Removes a name, after user 0 has put another file in its place.
    fn unlink(&self, name: &[u8], what: Unlink, may: MayUnlink<'_>) -> Result<(), Errno> {
        self.root.unlink(name, what, &|_| Ok(()))?;
        let new = NewInode {
            what: NewKind::Regular,
            mode: Mode::DEFAULT_FILE,
            maker: Credentials::ROOT,
        };
        self.root.create(name, &new)?;
        self.root.unlink(name, what, may)
    }
}

impl FileSystem for ContestedFs {
    fn root(&self) -> Arc<dyn Inode> {
        Arc::clone(&self.0) as _
    }

    fn statfs(&self) -> StatFs {
        StatFs::new(0, 0)
    }
}

/// It makes a file, or finds one. If that is removed meanwhile, it makes another.
#[test]
fn an_open_that_creates_gets_a_file_despite_removals_of_the_name() {
    let fs = Arc::new(MemFs::default());
    let direct = Process::with(Files::new(), Arc::clone(&fs));
    let made = direct.open("a", NEW).unwrap();
    direct.close(made).unwrap();
    let contested = Arc::new(Contested {
        root: fs.root(),
        left: AtomicCell::new(1),
    });
    let process = Process::new();
    process.mkdir("m").unwrap();
    let mounted = ContestedFs(Arc::clone(&contested));
    process.mount("m", Arc::new(mounted)).unwrap();
    process.open("m/a", NEW).unwrap();
    direct.unlink("a").unwrap();
    contested.left.store(3);
    let fd = process.open("m/a", NEW).unwrap();
    assert_eq!(contested.left.load(), 0);
    process.close(fd).unwrap();
    contested.left.store(1);
    assert_eq!(process.open("m/a", OpenFlags::RDONLY), Err(Errno::ENOENT));
}

/// In a sticky directory, a user removes only own files, however fast names change.
#[test]
fn the_removed_file_is_the_one_that_was_checked() {
    let fs = MemFs::default();
    let contested = Arc::new(Contested {
        root: fs.root(),
        left: AtomicCell::new(0),
    });
    let process = Process::new();
    process.mkdir("m").unwrap();
    let mounted = ContestedFs(Arc::clone(&contested));
    process.mount("m", Arc::new(mounted)).unwrap();
    let all = Mode::ALL.with(Mode::STICKY);
    let sticky = Attributes {
        mode: Some(all),
        ..Attributes::default()
    };
    contested.root.set_attributes(&sticky).unwrap();
    process.set_ids(1, 1);
    process.open("m/a", NEW).unwrap();
    assert_eq!(process.unlink("m/a"), Err(Errno::EPERM));
    assert_eq!(process.stat("m/a").unwrap().uid, 0);
}
