//! Hard links and symbolic links.

use fdtable::FdFlags;
use fdtable_vfs::{
    At, AtFlags, Errno, FileKind, MemfdFlags, OpenFlags, Process, RenameFlags, UnlinkFlags,
};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

fn link(process: &Process, old: &str, new: &str) -> Result<(), Errno> {
    process.linkat(At::Cwd, old, At::Cwd, new, AtFlags::empty())
}

#[test]
fn a_file_has_as_many_names_as_links_were_made() {
    let process = Process::new();
    let fd = process.open("a", NEW).unwrap();
    process.write(fd, b"kept").unwrap();
    process.close(fd).unwrap();
    link(&process, "a", "b").unwrap();
    assert_eq!(process.stat("a").unwrap().links, 2);
    assert_eq!(process.stat("a").unwrap(), process.stat("b").unwrap());
    process.unlink("a").unwrap();
    let stat = process.stat("b").unwrap();
    assert_eq!((stat.links, stat.size), (1, 4), "the bytes have a name");
    process.rename("b", "b").unwrap();
    assert_eq!(process.stat("b").unwrap().links, 1);
}

#[test]
fn a_rename_over_one_of_several_names_removes_that_one() {
    let process = Process::new();
    process.open("a", NEW).unwrap();
    process.open("b", NEW).unwrap();
    link(&process, "a", "c").unwrap();
    process.rename("b", "a").unwrap();
    assert_eq!(process.stat("c").unwrap().links, 1);
    link(&process, "a", "d").unwrap();
    process.rename("a", "d").unwrap();
    assert_eq!(process.stat("a").unwrap().links, 2, "both names stay");
}

#[test]
fn a_directory_has_one_name_and_counts_those_in_it() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    assert_eq!(link(&process, "d", "e"), Err(Errno::EPERM));
    process.mkdir("d/e").unwrap();
    process.mkdir("d/f").unwrap();
    process.open("d/a", NEW).unwrap();
    assert_eq!(process.stat("d").unwrap().links, 4);
    process.rename("d/e", "e").unwrap();
    process.rmdir("d/f").unwrap();
    assert_eq!(process.stat("d").unwrap().links, 2);
    assert_eq!(process.stat("/").unwrap().links, 4);
}

#[test]
fn an_unnamed_file_can_be_linked_while_it_never_had_a_name() {
    let process = Process::new();
    let flags = OpenFlags::TMPFILE | OpenFlags::RDWR;
    let fd = process.openat(At::Cwd, ".", flags, 0o600).unwrap();
    process.write(fd, b"whole").unwrap();
    let stat = process.fstat(fd).unwrap();
    assert_eq!((stat.links, stat.kind), (0, FileKind::Regular));
    let name = |new| process.linkat(fd, "", At::Cwd, new, AtFlags::EMPTY_PATH);
    name("a").unwrap();
    assert_eq!(process.stat("a").unwrap().size, 5);
    process.unlink("a").unwrap();
    assert_eq!(name("b"), Err(Errno::ENOENT), "it has lost its last name");
    let read_only = OpenFlags::TMPFILE | OpenFlags::RDONLY;
    let refused = process.openat(At::Cwd, ".", read_only, 0o600);
    assert_eq!(refused.unwrap_err(), Errno::EINVAL);
}

#[test]
fn a_relative_link_starts_at_its_own_directory() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    process.symlinkat("b", At::Cwd, "d/a").unwrap();
    assert_eq!(process.readlinkat(At::Cwd, "d/a").unwrap(), b"b");
    assert_eq!(process.open("d/a", OpenFlags::RDONLY), Err(Errno::ENOENT));
    process.open("d/a", NEW).unwrap();
    assert_eq!(process.stat("d/b").unwrap(), process.stat("d/a").unwrap());
    let link = process.fstatat(At::Cwd, "d/a", NOFOLLOW).unwrap();
    assert_eq!(
        (link.kind, link.size, link.mode_bits()),
        (FileKind::Symlink, 1, 0o120777)
    );
    process.symlinkat("/d", At::Cwd, "e").unwrap();
    assert_eq!(process.stat("e/b").unwrap(), process.stat("d/b").unwrap());
    assert_eq!(process.stat("e/..").unwrap(), process.stat("/").unwrap());
}

#[test]
fn a_walk_follows_forty_links_and_no_more() {
    let process = Process::new();
    process.open("0", NEW).unwrap();
    for number in 1..=41 {
        let (target, name) = ((number - 1).to_string(), number.to_string());
        process.symlinkat(target, At::Cwd, name).unwrap();
    }
    process.stat("40").unwrap();
    assert_eq!(process.stat("41"), Err(Errno::ELOOP));
    process.symlinkat("loop", At::Cwd, "loop").unwrap();
    assert_eq!(process.stat("loop"), Err(Errno::ELOOP));
    assert_eq!(process.open("loop/a", NEW), Err(Errno::ELOOP));
    assert_eq!(process.open("loop", NEW), Err(Errno::ELOOP));
}

#[test]
fn a_link_itself_is_opened_only_with_o_path() {
    let process = Process::new();
    process.symlinkat("none", At::Cwd, "l").unwrap();
    let nofollow = OpenFlags::NOFOLLOW;
    assert_eq!(process.open("l", nofollow), Err(Errno::ELOOP));
    let fd = process.open("l", nofollow | OpenFlags::PATH).unwrap();
    assert_eq!(process.fstat(fd).unwrap().kind, FileKind::Symlink);
    assert_eq!(process.readlinkat(fd, "").unwrap(), b"none");
    assert_eq!(process.readlinkat(At::Cwd, "/"), Err(Errno::EINVAL));
    process
        .unlinkat(At::Cwd, "l", UnlinkFlags::empty())
        .unwrap();
    assert_eq!(process.readlinkat(fd, "").unwrap(), b"none");
}

#[test]
fn a_file_opened_with_o_path_supports_nothing_else() {
    let process = Process::new();
    let other = process.open("other", NEW).unwrap();
    process.open("a", NEW).unwrap();
    let fd = process
        .open("a", OpenFlags::PATH | OpenFlags::RDWR)
        .unwrap();
    assert_eq!(process.read(fd, &mut [0]), Err(Errno::EBADF));
    assert_eq!(process.write(fd, b"x"), Err(Errno::EBADF));
    assert_eq!(process.pread(fd, &mut [0], 0), Err(Errno::EBADF));
    assert_eq!(process.pwrite(fd, b"x", 0), Err(Errno::EBADF));
    assert_eq!(process.ftruncate(fd, 0), Err(Errno::EBADF));
    assert_eq!(process.fchmod(fd, 0), Err(Errno::EBADF));
    assert_eq!(process.fchown(fd, None, None), Err(Errno::EBADF));
    assert_eq!(process.fsync(fd), Err(Errno::EBADF));
    assert_eq!(process.getdents(fd), Err(Errno::EBADF));
    assert_eq!(process.sendfile(other, fd, None, 0), Err(Errno::EBADF));
    let copied = process.copy_file_range(fd, Some(&mut 0), other, None, 0);
    assert_eq!(copied, Err(Errno::EBADF));
    assert_eq!(process.read_dir(fd, 1), Err(Errno::EBADF));
    assert_eq!(process.fstat(fd).unwrap(), process.stat("a").unwrap());
    assert_eq!(process.openat(fd, "b", NEW, 0), Err(Errno::ENOTDIR));
    let again = process.dup(fd).unwrap();
    process
        .linkat(again, "", At::Cwd, "b", AtFlags::EMPTY_PATH)
        .unwrap();
}

#[test]
fn an_unnamed_file_opened_with_excl_cannot_be_linked() {
    let process = Process::new();
    let flags = OpenFlags::TMPFILE | OpenFlags::EXCL | OpenFlags::RDWR;
    let fd = process.openat(At::Cwd, ".", flags, 0o600).unwrap();
    assert_eq!(process.write(fd, b"mine"), Ok(4));
    let named = process.linkat(fd, "", At::Cwd, "a", AtFlags::EMPTY_PATH);
    assert_eq!(named, Err(Errno::ENOENT));
    process.symlinkat(".", At::Cwd, "l").unwrap();
    let at_link = process.openat(At::Cwd, "l", flags | OpenFlags::NOFOLLOW, 0o600);
    assert_eq!(at_link, Err(Errno::ENOTDIR));
}

/// It is on no file system that could name it.
#[test]
fn a_memfd_cannot_be_linked() {
    let process = Process::new();
    let fd = process.memfd_create("x", MemfdFlags::empty()).unwrap();
    let named = process.linkat(fd, "", At::Cwd, "a", AtFlags::EMPTY_PATH);
    assert_eq!(named, Err(Errno::EXDEV));
}

/// A directory that was opened under another root looks like one of this.
#[test]
fn names_do_not_move_between_file_systems() {
    let [one, other] = [(); 2].map(|()| Process::new());
    for process in [&one, &other] {
        process.mkdir("d").unwrap();
        process.open("d/a", NEW).unwrap();
        process.open("d", OpenFlags::DIRECTORY).unwrap();
    }
    let file = other.files().get(1).unwrap();
    let foreign = one.files().open(file, FdFlags::empty()).unwrap();
    let none = RenameFlags::empty();
    for (from, to) in [(foreign.into(), At::Cwd), (At::Cwd, foreign.into())] {
        let path = if from == At::Cwd { "d/a" } else { "a" };
        let moved = one.renameat2(from, path, to, "b", none);
        assert_eq!(moved, Err(Errno::EXDEV));
        let named = one.linkat(from, path, to, "b", AtFlags::empty());
        assert_eq!(named, Err(Errno::EXDEV));
    }
    let moved = one.renameat2(foreign, "a", foreign, "b", none);
    assert_eq!(moved, Err(Errno::EXDEV));
}

#[test]
fn an_unnamed_file_is_made_in_a_directory() {
    let process = Process::new();
    let half = OpenFlags::TMPFILE - OpenFlags::DIRECTORY;
    let made = process.open(".", half | OpenFlags::RDWR);
    assert_eq!(made, Err(Errno::EINVAL));
}

#[test]
fn a_path_is_free_of_links_if_its_walk_meets_none() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    process.open("d/file", NEW).unwrap();
    process.symlinkat("d", At::Cwd, "link").unwrap();
    let free = |path: &str, flags| process.is_free_of_links(At::Cwd, path, flags);
    for path in [
        "d/file",
        "/d/file",
        "d/missing",
        "missing/x",
        "d/file/x",
        "d/",
    ] {
        assert!(free(path, AtFlags::empty()), "{path}");
        assert!(free(path, NOFOLLOW), "{path}");
    }
    assert!(!free("link", AtFlags::empty()));
    assert!(free("link", NOFOLLOW));
    for path in ["link/file", "link/", "link/missing"] {
        assert!(!free(path, NOFOLLOW), "{path}");
    }
}
