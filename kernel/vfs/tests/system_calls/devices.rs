use std::sync::Arc;

use fdtable::Fd;
use fdtable_vfs::{At, AtFlags, DevFs, Errno, FileKind, Mode, OpenFlags, Process, SeekTo};

fn process() -> Process {
    let process = Process::new();
    process.mkdir("/dev").unwrap();
    process.mount("/dev", Arc::new(DevFs::default())).unwrap();
    process
}

fn open(process: &Process, path: &str) -> Fd {
    process.open(path, OpenFlags::RDWR).unwrap()
}

#[test]
fn null_is_empty_and_discards_writes() {
    let process = process();
    let null = open(&process, "/dev/null");
    assert_eq!(process.write(null, &[1; 100_000]), Ok(100_000));
    assert_eq!(process.read(null, &mut [7; 9]), Ok(0));
    assert_eq!(process.lseek(null, SeekTo::End(9)), Ok(0));
    assert_eq!(process.pwrite(null, b"x", 5), Ok(1));
}

#[test]
fn zero_returns_as_many_zeros_as_requested() {
    let process = process();
    let zero = process
        .open("/dev/zero", OpenFlags::RDONLY | OpenFlags::NONBLOCK)
        .unwrap();
    let mut long = vec![7; 300_000];
    assert_eq!(process.read(zero, &mut long), Ok(300_000));
    assert!(long.iter().all(|&byte| byte == 0));
    assert_eq!(process.write(zero, b"x"), Err(Errno::EBADF));
}

#[test]
fn full_has_no_room() {
    let process = process();
    let full = open(&process, "/dev/full");
    assert_eq!(process.write(full, b"x"), Err(Errno::ENOSPC));
    assert_eq!(process.read(full, &mut [7; 9]), Ok(9));
}

#[test]
fn devices_have_the_numbers_of_linux_and_cannot_be_removed() {
    let process = process();
    let number = |path| {
        let stat = process.fstatat(At::Cwd, path, AtFlags::empty()).unwrap();
        (stat.kind, stat.mode, stat.rdev)
    };
    let expected = |minor| (FileKind::CharDevice, Mode::new(0o666), 1u64 << 8 | minor);
    assert_eq!(number("/dev/null"), expected(3));
    assert_eq!(number("/dev/zero"), expected(5));
    assert_eq!(process.unlink("/dev/null"), Err(Errno::EROFS));
    assert_eq!(
        process.open("/dev/new", OpenFlags::CREAT | OpenFlags::RDWR),
        Err(Errno::EROFS)
    );
    let truncating = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC;
    process.open("/dev/null", truncating).unwrap();
}

#[test]
fn the_directory_lists_what_it_has() {
    let process = process();
    let directory = process.open("/dev", OpenFlags::DIRECTORY).unwrap();
    let mut names: Vec<_> = process
        .getdents(directory)
        .unwrap()
        .iter()
        .map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
        .collect();
    names.sort();
    let expected = ["fd", "full", "null", "stderr", "stdin", "stdout", "zero"];
    assert_eq!(names, expected);
    let link = process.readlinkat(At::Cwd, "/dev/stdin").unwrap();
    assert_eq!(link, b"/proc/self/fd/0");
}
