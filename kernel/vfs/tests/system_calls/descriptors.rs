use std::sync::Arc;

use fdtable::{Fd, FdFlags, Files};
use fdtable_vfs::event::{EpollCreateFlags, EventFdFlags};
use fdtable_vfs::socket::SocketType;
use fdtable_vfs::{
    At, CloseRangeFlags, DescriptorChoice, DevFs, Errno, FileKind, MemFs, MemfdFlags, OpenFlags,
    Process,
};

fn process_with_limit(limit: u32) -> Process {
    Process::with(Files::with_limit(limit), MemFs::default())
}

fn create(process: &Process, name: &str) -> i32 {
    process
        .open(name, OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap()
        .raw()
}

#[test]
fn each_call_gets_the_lowest_free_descriptor() {
    let process = Process::new();
    assert_eq!(
        [
            create(&process, "a"),
            create(&process, "b"),
            create(&process, "c")
        ],
        [0, 1, 2]
    );
    process.close(0).unwrap();
    process.close(1).unwrap();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!((reader.raw(), writer.raw()), (0, 1));
    assert_eq!(process.dup(0).unwrap().raw(), 3);
    process.close(0).unwrap();
    assert_eq!(process.dup(3).unwrap().raw(), 0);
}

#[test]
fn a_pair_that_finds_one_free_descriptor_leaves_no_trace() {
    let process = process_with_limit(2);
    create(&process, "a");
    assert_eq!(process.pipe2(OpenFlags::empty()), Err(Errno::EMFILE));
    assert_eq!(process.socketpair(OpenFlags::empty()), Err(Errno::EMFILE));
    assert_eq!(process.files().open_count(), 1);
    assert_eq!(create(&process, "b"), 1);
}

#[test]
fn an_open_without_a_free_descriptor_creates_no_file() {
    let process = process_with_limit(1);
    create(&process, "a");
    assert_eq!(process.open("b", OpenFlags::CREAT), Err(Errno::EMFILE));
    process.close(0).unwrap();
    assert_eq!(process.open("b", OpenFlags::RDONLY), Err(Errno::ENOENT));
}

#[test]
fn a_full_table_is_reported_before_path_errors() {
    let process = process_with_limit(1);
    create(&process, "a");
    let (at, fifo) = (At::Cwd, FileKind::Fifo);
    process.mknodat(at, "fifo", fifo, 0o600).unwrap();
    process.mkdir("/dev").unwrap();
    process.mount("/dev", Arc::new(DevFs::default())).unwrap();
    for path in ["a", ".", "none", "a/b", "fifo", "dev/zero", "dev/none"] {
        let opened = process.open(path, OpenFlags::RDONLY | OpenFlags::NONBLOCK);
        assert_eq!(opened, Err(Errno::EMFILE), "{path}");
    }
    // The other end of the FIFO was never there.
    process.close(0).unwrap();
    let opened = process.open("fifo", OpenFlags::WRONLY | OpenFlags::NONBLOCK);
    assert_eq!(opened, Err(Errno::ENXIO));
    assert_eq!(process.files().open_count(), 0);
}

#[test]
fn invalid_arguments_are_reported_before_a_full_table() {
    let process = process_with_limit(0);
    let cases = [
        ("", OpenFlags::RDONLY, Errno::ENOENT),
        ("", OpenFlags::CREAT, Errno::ENOENT),
        (&"x/".repeat(2048), OpenFlags::RDONLY, Errno::ENAMETOOLONG),
        (&"x/".repeat(2048), OpenFlags::TRUNC, Errno::ENAMETOOLONG),
        (".", OpenFlags::CREAT | OpenFlags::DIRECTORY, Errno::EINVAL),
        (".", OpenFlags::TMPFILE, Errno::EINVAL),
        ("", OpenFlags::TMPFILE - OpenFlags::DIRECTORY, Errno::EINVAL),
        (&"x".repeat(256), OpenFlags::RDONLY, Errno::EMFILE),
    ];
    for (path, flags, errno) in cases {
        assert_eq!(process.open(path, flags), Err(errno), "{path} {flags:?}");
    }
}

#[test]
fn an_open_without_a_free_descriptor_keeps_nothing_busy() {
    let process = process_with_limit(1);
    let fd = create(&process, "a");
    let superblock = process.fs().superblock().unwrap();
    for path in ["a", "/", "/proc/self/fd/0"] {
        for flags in [OpenFlags::RDONLY, OpenFlags::RDWR, OpenFlags::PATH] {
            process.open(path, flags).unwrap_err();
        }
    }
    assert_eq!((superblock.open_files(), superblock.writers()), (1, 1));
    process.close(fd).unwrap();
    assert_eq!((superblock.open_files(), superblock.writers()), (0, 0));
    superblock.remount_read_only().unwrap();
}

#[test]
fn a_failed_open_frees_its_descriptor() {
    let process = process_with_limit(1);
    assert_eq!(process.open("none", OpenFlags::RDONLY), Err(Errno::ENOENT));
    assert_eq!(create(&process, "a"), 0);
}

#[test]
fn dup2_closes_what_the_number_named() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let file = create(&process, "a");
    assert_eq!(process.dup2(file, writer), Ok(writer));
    assert_eq!(process.read(reader, &mut [0]), Ok(0));
    process.write(writer, b"into the file").unwrap();
    assert_eq!(process.dup2(file, file).unwrap().raw(), file);
}

#[test]
fn dup3_sets_the_flags_and_refuses_equal_numbers() {
    let mut process = Process::new();
    let file = create(&process, "a");
    assert_eq!(
        process.dup3(file, file, FdFlags::empty()),
        Err(Errno::EINVAL)
    );
    let copy = process.dup3(file, 9, FdFlags::CLOEXEC).unwrap();
    assert_eq!(copy.raw(), 9);
    process.exec().expect("there is memory");
    assert_eq!(process.read(9, &mut [0]), Err(Errno::EBADF));
    assert_eq!(process.read(file, &mut [0]), Ok(0));
}

#[test]
fn exec_closes_descriptors_with_cloexec() {
    let mut process = Process::new();
    let kept = create(&process, "kept");
    process.open("kept", OpenFlags::CLOEXEC).unwrap();
    process.pipe2(OpenFlags::CLOEXEC).unwrap();
    process.socketpair(OpenFlags::CLOEXEC).unwrap();
    process.exec().expect("there is memory");
    assert_eq!(process.files().open_count(), 1);
    assert_eq!(process.read(kept, &mut [0]), Ok(0));
}

#[test]
fn a_descriptor_that_is_not_open_returns_ebadf() {
    let process = Process::new();
    let file = create(&process, "a");
    process.close(file).unwrap();
    for fd in [file, -1, i32::MAX] {
        assert_eq!(process.read(fd, &mut [0]), Err(Errno::EBADF));
        assert_eq!(process.write(fd, b"x"), Err(Errno::EBADF));
        assert_eq!(
            process.lseek(fd, std::io::SeekFrom::Start(0)),
            Err(Errno::EBADF)
        );
        assert_eq!(process.dup(fd), Err(Errno::EBADF));
        assert_eq!(process.close(fd), Err(Errno::EBADF));
    }
}

#[test]
fn a_pair_refuses_unknown_flags() {
    let process = Process::new();
    assert_eq!(process.pipe2(OpenFlags::APPEND), Err(Errno::EINVAL));
    assert_eq!(process.socketpair(OpenFlags::CREAT), Err(Errno::EINVAL));
}

#[test]
fn a_clone_shares_the_table_and_a_child_does_not() {
    let process = Process::new();
    let file = create(&process, "a");
    let child = process.fork().unwrap();
    process.clone().close(file).unwrap();
    assert_eq!(process.read(file, &mut [0]), Err(Errno::EBADF));
    assert_eq!(child.read(file, &mut [0]), Ok(0));
    child.open("a", OpenFlags::RDONLY).unwrap();
}

#[test]
fn dup_from_takes_the_lowest_free_descriptor_from_a_bound_on() {
    let process = process_with_limit(20);
    let file = create(&process, "a");
    let copy = process.dup_min(file, 10, FdFlags::CLOEXEC).unwrap();
    assert_eq!(copy.raw(), 10);
    assert_eq!(process.get_flags(copy), Ok(FdFlags::CLOEXEC));
    assert_eq!(
        process.dup_min(file, 10, FdFlags::empty()).unwrap().raw(),
        11
    );
    let refused = |min| process.dup_min(file, min, FdFlags::empty());
    assert_eq!(refused(20), Err(Errno::EINVAL));
    assert_eq!(refused(-1), Err(Errno::EINVAL));
    assert_eq!(process.dup_min(5, 0, FdFlags::empty()), Err(Errno::EBADF));
}

#[test]
fn flags_belong_to_the_descriptor() {
    let process = Process::new();
    let file = create(&process, "a");
    let copy = process.dup(file).unwrap();
    process.set_flags(copy, FdFlags::CLOEXEC).unwrap();
    assert_eq!(process.get_flags(file), Ok(FdFlags::empty()));
    assert_eq!(process.get_flags(copy), Ok(FdFlags::CLOEXEC));
    assert_eq!(process.get_flags(9), Err(Errno::EBADF));
}

#[test]
fn close_range_closes_or_marks() {
    let process = Process::new();
    for name in ["a", "b", "c", "d"] {
        create(&process, name);
    }
    process.close_range(1, 1, CloseRangeFlags::CLOEXEC).unwrap();
    assert_eq!(process.get_flags(1), Ok(FdFlags::CLOEXEC));
    process
        .close_range(2, u32::MAX, CloseRangeFlags::UNSHARE)
        .unwrap();
    assert_eq!(process.files().open_count(), 2);
    let refused = |first, last, bits| {
        process.close_range(first, last, CloseRangeFlags::from_bits_retain(bits))
    };
    assert_eq!(refused(2, 1, 0), Err(Errno::EINVAL));
    assert_eq!(refused(0, 1, 1), Err(Errno::EINVAL));
}

#[test]
fn a_memfd_has_no_name_and_is_freed_with_its_last_descriptor() {
    let process = Process::new();
    let file = process
        .memfd_create("scratch", MemfdFlags::CLOEXEC)
        .unwrap();
    assert_eq!(process.get_flags(file), Ok(FdFlags::CLOEXEC));
    assert_eq!(process.write(file, b"words"), Ok(5));
    let mut buf = [0; 8];
    assert_eq!(process.pread(file, &mut buf, 0), Ok(5));
    assert_eq!(
        process.memfd_create([b'x'; 250], MemfdFlags::empty()),
        Err(Errno::EINVAL)
    );
    process
        .memfd_create([b'x'; 249], MemfdFlags::empty())
        .unwrap();
}

/// The calls to which Linux answers `EINVAL`, and those of the table.
#[test]
fn an_unknown_flag_is_einval_and_takes_no_number() {
    let process = Process::new();
    let socket = process
        .socket(SocketType::Stream, OpenFlags::empty())
        .unwrap();
    let bits = [1 << 5, 1 << 30, u32::MAX];
    for bits in bits {
        let flags = OpenFlags::from_bits_retain(bits);
        let descriptor = FdFlags::from_bits_retain(bits);
        let answers = [
            process.dup3(0, 5, descriptor).map(drop),
            process.dup_min(0, 5, descriptor).map(drop),
            process.set_flags(0, descriptor),
            process.pipe2(flags).map(drop),
            process.socketpair(flags).map(drop),
            process.socket(SocketType::Stream, flags).map(drop),
            process.accept4(socket, flags).map(drop),
            process
                .eventfd(0, EventFdFlags::from_bits_retain(bits))
                .map(drop),
            process
                .epoll_create1(EpollCreateFlags::from_bits_retain(bits))
                .map(drop),
            process
                .memfd_create("", MemfdFlags::from_bits_retain(bits))
                .map(drop),
            process.close_range(0, 0, CloseRangeFlags::from_bits_retain(bits)),
        ];
        assert_eq!(answers, [Err(Errno::EINVAL); 11], "{bits:#x}");
        assert_eq!(process.files().open_count(), 1, "{bits:#x}");
        assert_eq!(process.get_flags(0), Ok(FdFlags::empty()), "{bits:#x}");
    }
}

#[test]
fn new_files_take_any_descriptor_and_copies_the_lowest() {
    let process = Process::new();
    process
        .kernel()
        .set_descriptor_choice(DescriptorChoice::Any);
    let standard: Vec<_> = (0..3)
        .map(|_| process.eventfd(0, EventFdFlags::empty()).unwrap().raw())
        .collect();
    assert_eq!(standard, [0, 1, 2], "they have a meaning");
    let (read, write) = process.pipe2(OpenFlags::empty()).unwrap();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let event = process.eventfd(0, EventFdFlags::empty()).unwrap();
    for fd in [read, write, near, far, event] {
        assert!(fd.raw() > 3, "{fd:?} is of a leaf of this CPU");
    }
    assert_eq!(process.dup(event).unwrap().raw(), 3);
    // At the limit, a pair takes none.
    process.files().set_limit(7);
    let count = process.files().open_count();
    for _ in 0..3 {
        process.dup(event).unwrap();
    }
    process.close(Fd::new(5).unwrap()).unwrap();
    let pair = process.pipe2(OpenFlags::empty());
    assert_eq!(pair.unwrap_err(), Errno::EMFILE);
    assert_eq!(process.files().open_count(), count + 2);
}
