//! Working directories, and reading directories.

use fdtable_vfs::{At, AtFlags, Errno, OpenFlags, Process, RenameFlags, SeekTo};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

/// Reads names, at most `max` at a time, until the end.
fn rest(process: &Process, fd: fdtable::Fd, max: usize) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let some = process.read_dir(fd, max).unwrap();
        if some.is_empty() {
            return names;
        }
        assert!(some.len() <= max);
        names.extend(
            some.iter()
                .map(|e| String::from_utf8(e.name.to_vec()).unwrap()),
        );
    }
}

fn directory_of(count: usize) -> (Process, fdtable::Fd) {
    let process = Process::new();
    process.mkdir("d").unwrap();
    for number in 0..count {
        process
            .close(process.open(format!("d/{number}"), NEW).unwrap())
            .unwrap();
    }
    let fd = process.open("d", OpenFlags::DIRECTORY).unwrap();
    (process, fd)
}

#[test]
fn names_come_in_parts_after_dot_and_dot_dot() {
    let (process, fd) = directory_of(10);
    let names = rest(&process, fd, 3);
    assert_eq!(names[..2], [".", ".."]);
    assert_eq!(
        names[2..],
        (0..10).map(|n| n.to_string()).collect::<Vec<_>>()
    );
    assert_eq!(process.read_dir(fd, 3), Ok(vec![]));
    assert_eq!(process.lseek(fd, SeekTo::Start(0)), Ok(0));
    assert_eq!(rest(&process, fd, 100).len(), 12);
    process.lseek(fd, SeekTo::Start(0)).unwrap();
    let first = process.read_dir(fd, 2).unwrap();
    assert_eq!(first[0].inode, process.stat("d").unwrap().inode);
    assert_eq!(first[1].inode, process.stat("/").unwrap().inode);
}

/// Every name that exists throughout is read once, whatever is added and removed meanwhile.
#[test]
fn names_that_stay_are_read_once_while_others_come_and_go() {
    let (process, fd) = directory_of(100);
    let mut names = Vec::new();
    let mut made = 100;
    loop {
        let some = process.read_dir(fd, 7).unwrap();
        if some.is_empty() {
            break;
        }
        for entry in &some {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            // Removes two odd names, one before the reader's position and one after it, and adds
            // others.
            if let Ok(number) = name.parse::<usize>()
                && number < 100
            {
                let _ = process.unlink(format!("d/{}", number | 1));
                let _ = process.unlink(format!("d/{}", 99 - (number & !1)));
                process
                    .close(process.open(format!("d/{made}"), NEW).unwrap())
                    .unwrap();
                made += 1;
            }
            names.push(name);
        }
    }
    for even in (0..100).step_by(2) {
        let count = names
            .iter()
            .filter(|name| **name == even.to_string())
            .count();
        assert_eq!(count, 1, "{even}");
    }
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "no name comes twice");
}

#[test]
fn a_position_means_the_same_name_for_every_reader() {
    let (process, fd) = directory_of(20);
    let some = process.read_dir(fd, 9).unwrap();
    let position = some[8].next();
    assert_eq!(process.lseek(fd, SeekTo::Current(0)), Ok(position));
    process.unlink("d/3").unwrap();
    process.open("d/new", NEW).unwrap();
    let other = process.open("d", OpenFlags::DIRECTORY).unwrap();
    process.lseek(other, SeekTo::Start(position)).unwrap();
    let names = rest(&process, other, 100);
    assert_eq!(names.first().unwrap(), "7");
    assert_eq!(names.last().unwrap(), "new");
    assert_eq!(process.lseek(fd, SeekTo::End(0)), Err(Errno::EINVAL));
}

#[test]
fn names_fit_a_buffer_of_bytes_or_the_read_fails() {
    let (process, fd) = directory_of(5);
    let size = |entry: &fdtable_vfs::DirEntry| 24 + entry.name.len();
    assert_eq!(process.read_dir_sized(fd, 24, size), Err(Errno::EINVAL));
    assert_eq!(process.read_dir_sized(fd, 60, size).unwrap().len(), 2);
    assert_eq!(process.read_dir_sized(fd, 74, size).unwrap().len(), 2);
    assert_eq!(rest(&process, fd, 9).len(), 3);
    let file = process.open("d/1", OpenFlags::RDONLY).unwrap();
    assert_eq!(process.read_dir(file, 1), Err(Errno::ENOTDIR));
}

#[test]
fn relative_paths_begin_in_the_working_directory() {
    let process = Process::new();
    assert_eq!(process.getcwd().unwrap(), b"/");
    process.mkdir("d").unwrap();
    process.mkdir("d/e").unwrap();
    process.chdir("d/e").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/d/e");
    process.open("a", NEW).unwrap();
    process.stat("/d/e/a").unwrap();
    process.rename("/d", "/f").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/f/e");
    let child = process.fork().unwrap();
    child.chdir("..").unwrap();
    assert_eq!(child.getcwd().unwrap(), b"/f");
    assert_eq!(process.getcwd().unwrap(), b"/f/e", "it has its own");
    assert_eq!(process.chdir("a"), Err(Errno::ENOTDIR));
    let fd = process
        .open("/f", OpenFlags::DIRECTORY | OpenFlags::PATH)
        .unwrap();
    process.fchdir(fd).unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/f");
    let (reader, _) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.fchdir(reader), Err(Errno::ENOTDIR));
}

#[test]
fn a_removed_working_directory_is_empty_and_can_be_left() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    process.chdir("d").unwrap();
    process.rmdir("/d").unwrap();
    assert_eq!(process.getcwd(), Err(Errno::ENOENT));
    assert_eq!(process.open("a", NEW), Err(Errno::ENOENT));
    assert_eq!(process.stat(".").unwrap().links, 0);
    process.chdir("..").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/");
}

#[test]
fn a_path_begins_in_an_open_directory() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    let d = process.open("d", OpenFlags::DIRECTORY).unwrap();
    let file = process.openat(d, "a", NEW, 0o600).unwrap();
    process.mkdirat(d, "e", 0o700).unwrap();
    process.stat("d/a").unwrap();
    process.rename("d", "moved").unwrap();
    let found = process.fstatat(d, "e/../a", AtFlags::empty()).unwrap();
    assert_eq!(found, process.fstat(file).unwrap());
    let slash = process.fstatat(file, "/moved/a", AtFlags::empty());
    assert_eq!(slash.unwrap(), found, "a path from the root begins there");
    assert_eq!(process.openat(file, "a", NEW, 0), Err(Errno::ENOTDIR));
    assert_eq!(process.openat(At::Fd(99), "a", NEW, 0), Err(Errno::EBADF));
    assert_eq!(process.fstatat(d, "", AtFlags::empty()), Err(Errno::ENOENT));
    let itself = process.fstatat(d, "", AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(itself, process.stat("moved").unwrap());
}

/// A name that is replaced existed throughout too.
#[test]
fn a_name_that_is_replaced_or_exchanged_is_read_once() {
    let (process, fd) = directory_of(4);
    assert_eq!(process.read_dir(fd, 6).unwrap().len(), 6);
    process.open("d/new", NEW).unwrap();
    process.rename("d/new", "d/0").unwrap();
    let at = At::Cwd;
    process
        .renameat2(at, "d/1", at, "d/2", RenameFlags::EXCHANGE)
        .unwrap();
    assert_eq!(rest(&process, fd, 9), Vec::<String>::new());
    process.lseek(fd, SeekTo::Start(0)).unwrap();
    assert_eq!(rest(&process, fd, 9)[2..], ["0", "1", "2", "3"]);
}
