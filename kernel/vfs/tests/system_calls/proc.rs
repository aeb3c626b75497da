use std::sync::Arc;

use fdtable::{Fd, FdFlags};
use fdtable_vfs::event::{EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags};
use fdtable_vfs::{
    At, AtFlags, DevFs, Errno, FileKind, FileLock, FlockOperation, LockKind, LockOwner, LockWait,
    MemfdFlags, Mode, OpenFlags, ProcFs, Process, SeekTo,
};

use crate::call::within_time;

fn process() -> Process {
    let process = Process::new();
    process.mkdir("/proc").unwrap();
    process.mount("/proc", Arc::new(ProcFs::default())).unwrap();
    process.mkdir("/dev").unwrap();
    process.mount("/dev", Arc::new(DevFs::default())).unwrap();
    process
}

fn create(process: &Process, path: &str) -> i32 {
    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
    process.open(path, flags).unwrap().raw()
}

fn link(process: &Process, path: &str) -> Result<String, Errno> {
    let link = process.readlinkat(At::Cwd, path)?;
    Ok(String::from_utf8(link).unwrap())
}

fn text(process: &Process, path: &str) -> String {
    let fd = process.open(path, OpenFlags::RDONLY).unwrap();
    let mut text = Vec::new();
    let mut buf = [0; 7];
    loop {
        let count = process.read(fd, &mut buf).unwrap();
        if count == 0 {
            process.close(fd).unwrap();
            return String::from_utf8(text).unwrap();
        }
        text.extend_from_slice(&buf[..count]);
    }
}

fn names(process: &Process, path: &str) -> Vec<String> {
    let fd = process.open(path, OpenFlags::DIRECTORY).unwrap();
    let names = process.getdents(fd).unwrap();
    process.close(fd).unwrap();
    let name = |entry: fdtable_vfs::DirEntry| String::from_utf8(entry.name.to_vec()).unwrap();
    names.into_iter().map(name).collect()
}

#[test]
fn a_descriptor_of_a_path_keeps_the_contents_of_a_removed_file() {
    let process = process();
    let fd = create(&process, "/a");
    process.write(fd, b"kept").unwrap();
    let path = process.open("/a", OpenFlags::PATH).unwrap();
    process.close(fd).unwrap();
    process.unlink("/a").unwrap();
    let again = format!("/proc/self/fd/{}", path.raw());
    assert_eq!(text(&process, &again), "kept");
    process.close(path).unwrap();
    assert_eq!(process.open(&again, OpenFlags::RDONLY), Err(Errno::ENOENT));
}

#[test]
fn links_show_what_descriptors_name() {
    let process = process();
    process.mkdir("/log").unwrap();
    let file = create(&process, "/log/today");
    assert_eq!(link(&process, "/proc/self/fd/0").unwrap(), "/log/today");
    process.unlink("/log/today").unwrap();
    assert_eq!(
        link(&process, "/proc/self/fd/0").unwrap(),
        "/log/today (deleted)"
    );
    process.close(file).unwrap();
    assert_eq!(link(&process, "/proc/self/fd/0"), Err(Errno::ENOENT));
    process.open("/dev/null", OpenFlags::RDONLY).unwrap();
    assert_eq!(link(&process, "/dev/fd/0").unwrap(), "/dev/null");
    process
        .memfd_create("scratch", MemfdFlags::empty())
        .unwrap();
    assert_eq!(
        link(&process, "/proc/self/fd/1").unwrap(),
        "/memfd:scratch (deleted)"
    );
}

#[test]
fn an_open_of_a_link_has_a_position_of_its_own() {
    let process = process();
    let file = create(&process, "/a");
    process.write(file, b"abc").unwrap();
    process.unlink("/a").unwrap();
    let again = process.open("/proc/self/fd/0", OpenFlags::RDONLY).unwrap();
    let mut buf = [0; 8];
    assert_eq!(process.read(again, &mut buf), Ok(3));
    assert_eq!(process.write(again, b"x"), Err(Errno::EBADF));
    assert_eq!(process.lseek(file, SeekTo::Current(0)), Ok(3));
    let memory = process.memfd_create("m", MemfdFlags::empty()).unwrap();
    process.write(memory, b"words").unwrap();
    let path = format!("/proc/self/fd/{memory}");
    let again = process.open(&path, OpenFlags::RDWR).unwrap();
    assert_eq!(process.read(again, &mut buf), Ok(5));
}

#[test]
fn a_pipe_can_be_opened_again_at_either_end() {
    let process = process();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let again = process.open("/dev/fd/0", OpenFlags::RDONLY).unwrap();
    process.close(reader).unwrap();
    process.write(writer, b"x").unwrap();
    assert_eq!(process.read(again, &mut [0; 8]), Ok(1));
    let inode = process.fstat(writer).unwrap().inode;
    let shown = format!("pipe:[{inode}]");
    for fd in [again, writer] {
        assert_eq!(link(&process, &format!("/dev/fd/{fd}")).unwrap(), shown);
    }
    let other = process.open(format!("/proc/self/fd/{again}"), OpenFlags::WRONLY);
    process.close(writer).unwrap();
    assert_eq!(process.write(other.unwrap(), b"y"), Ok(1));
    assert_eq!(process.read(again, &mut [0; 8]), Ok(1));
    process.close(other.unwrap()).unwrap();
    assert_eq!(process.read(again, &mut [0; 8]), Ok(0));
}

#[test]
fn a_descriptor_of_a_path_keeps_no_end_open() {
    let process = process();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    for (fd, other) in [(reader, writer), (far, near)] {
        let path = format!("/proc/self/fd/{fd}");
        let shown = link(&process, &path).unwrap();
        let held = process.open(&path, OpenFlags::PATH).unwrap();
        process.close(fd).unwrap();
        assert_eq!(process.write(other, b"x"), Err(Errno::EPIPE));
        assert_eq!(
            link(&process, &format!("/proc/self/fd/{held}")).unwrap(),
            shown
        );
    }
}

#[test]
fn a_socket_is_shown_and_cannot_be_opened() {
    let process = process();
    let (socket, _) = process.socketpair(OpenFlags::empty()).unwrap();
    let inode = process.fstat(socket).unwrap().inode;
    let shown = link(&process, "/proc/self/fd/0").unwrap();
    assert_eq!(shown, format!("socket:[{inode}]"));
    let opened = process.open("/proc/self/fd/0", OpenFlags::RDWR);
    assert_eq!(opened, Err(Errno::ENXIO));
}

#[test]
fn a_walk_goes_on_through_a_link_to_a_directory() {
    let process = process();
    process.mkdir("/a").unwrap();
    create(&process, "/a/b");
    let directory = process.open("/a", OpenFlags::DIRECTORY).unwrap();
    let path = format!("/proc/self/fd/{directory}/b");
    process.open(&path, OpenFlags::RDONLY).unwrap();
    process.chdir("/a").unwrap();
    assert_eq!(link(&process, "/proc/self/cwd").unwrap(), "/a");
    process.open("/proc/self/cwd/b", OpenFlags::RDONLY).unwrap();
}

#[test]
fn each_process_finds_itself() {
    let process = process();
    let file = create(&process, "/a");
    let child = process.fork().unwrap();
    child.close(file).unwrap();
    assert_eq!(link(&process, "/proc/self").unwrap(), "1");
    assert_eq!(link(&child, "/proc/self").unwrap(), "2");
    assert!(link(&process, "/proc/self/fd/0").is_ok());
    assert_eq!(link(&child, "/proc/self/fd/0"), Err(Errno::ENOENT));
    assert_eq!(link(&child, "/proc/1/fd/0"), Err(Errno::ENOENT));
}

#[test]
fn the_directories_list_what_is_open() {
    let process = process();
    for path in ["/a", "/b", "/c"] {
        create(&process, path);
    }
    process.close(1).unwrap();
    // The directory itself has the descriptor that was free.
    assert_eq!(names(&process, "/proc/self/fd"), ["0", "1", "2"]);
    assert_eq!(names(&process, "/proc/self/fdinfo"), ["0", "1", "2"]);
    assert_eq!(names(&process, "/proc/self"), ["cwd", "fd", "fdinfo"]);
    assert_eq!(names(&process, "/proc"), ["self"]);
    for bad in ["00", "+0", "-1", "x", "9"] {
        let path = format!("/proc/self/fd/{bad}");
        assert_eq!(link(&process, &path), Err(Errno::ENOENT), "{bad}");
    }
}

#[test]
fn the_permissions_of_a_link_show_the_access_mode() {
    let process = process();
    create(&process, "/a");
    process.open("/a", OpenFlags::RDONLY).unwrap();
    let mode = |path| {
        let stat = process
            .fstatat(At::Cwd, path, AtFlags::SYMLINK_NOFOLLOW)
            .unwrap();
        (stat.kind, stat.mode)
    };
    assert_eq!(
        mode("/proc/self/fd/0"),
        (FileKind::Symlink, Mode::new(0o700))
    );
    assert_eq!(
        mode("/proc/self/fd/1"),
        (FileKind::Symlink, Mode::new(0o500))
    );
}

#[test]
fn fdinfo_shows_position_flags_and_locks() {
    let process = process();
    let file = create(&process, "/a");
    process.write(file, b"12345").unwrap();
    process.set_flags(file, FdFlags::CLOEXEC).unwrap();
    let stat = process.fstat(file).unwrap();
    let device = stat.device;
    let inode = format!("{:02x}:{:02x}:{}", device >> 8, device & 0xff, stat.inode);
    let head = format!(
        "pos:\t5\nflags:\t02000002\nmnt_id:\t0\nino:\t{}\n",
        stat.inode
    );
    assert_eq!(text(&process, "/proc/self/fdinfo/0"), head);
    process.flock(file, FlockOperation::EXCLUSIVE).unwrap();
    for (owner, start, length) in [(LockOwner::Process, 2, 3), (LockOwner::OpenFile, 9, 0)] {
        let lock = FileLock::new(LockKind::Read, start, length);
        process
            .fcntl_setlk(file, owner, lock, LockWait::No)
            .unwrap();
    }
    let locks = format!(
        "lock:\t1: FLOCK  ADVISORY  WRITE 1 {inode} 0 EOF\n\
         lock:\t2: POSIX  ADVISORY  READ  1 {inode} 2 4\n\
         lock:\t3: OFDLCK ADVISORY  READ  -1 {inode} 9 EOF\n"
    );
    assert_eq!(text(&process, "/proc/self/fdinfo/0"), head + &locks);
}

#[test]
fn fdinfo_shows_the_lines_of_the_object() {
    let process = process();
    let counter = process.eventfd(0x2a, EventFdFlags::SEMAPHORE).unwrap();
    let set = process.epoll_create1(EpollCreateFlags::CLOEXEC).unwrap();
    let event = EpollEvent::new(EpollFlags::IN | EpollFlags::ET, 7);
    process
        .epoll_ctl(set, EpollCtl::Add, counter, Some(event))
        .unwrap();
    let tail = |fd: Fd| {
        let text = text(&process, &format!("/proc/self/fdinfo/{fd}"));
        text.split_once("ino:\t0\n").unwrap().1.to_string()
    };
    assert_eq!(
        tail(counter),
        "eventfd-count:               2a\neventfd-semaphore: 1\n"
    );
    let line = "tfd:        0 events: 80000019 data:                7  pos:0 ino:0 sdev:0\n";
    assert_eq!(tail(set), line);
    let labels = ["eventfd", "eventpoll"].map(|kind| format!("anon_inode:[{kind}]"));
    for (fd, label) in labels.iter().enumerate() {
        assert_eq!(&link(&process, &format!("/dev/fd/{fd}")).unwrap(), label);
    }
}

#[test]
fn an_open_directory_of_itself_does_not_keep_a_process() {
    let process = process();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let other = process.fork().unwrap();
    other.close(writer).unwrap();
    for path in [
        "/proc/self/fd",
        "/proc/self",
        "/proc/self/fdinfo/0",
        "/proc/self/fd/0",
    ] {
        process.open(path, OpenFlags::RDONLY).unwrap();
    }
    drop(process);
    assert_eq!(other.read(reader, &mut [0]), Ok(0));
}

#[test]
fn dot_dot_leads_out_of_proc() {
    let process = process();
    create(&process, "/a");
    process
        .open("/proc/self/fd/../../../a", OpenFlags::RDONLY)
        .unwrap();
    process.chdir("/proc/self/fd").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/proc/1/fd");
    process.open("../../../a", OpenFlags::RDONLY).unwrap();
}

#[test]
fn a_text_is_made_anew_from_the_start() {
    let process = process();
    let file = create(&process, "/a");
    let info = process
        .open("/proc/self/fdinfo/0", OpenFlags::RDONLY)
        .unwrap();
    let mut buf = [0; 6];
    process.read(info, &mut buf).unwrap();
    assert_eq!(&buf, b"pos:\t0");
    process.lseek(file, SeekTo::Start(7)).unwrap();
    process.lseek(info, SeekTo::Start(0)).unwrap();
    process.read(info, &mut buf).unwrap();
    assert_eq!(&buf, b"pos:\t7");
    let writing = process.open("/proc/self/fdinfo/0", OpenFlags::RDWR);
    assert_eq!(writing, Err(Errno::EACCES));
}

#[test]
fn a_file_opened_with_o_path_cannot_be_locked() {
    let process = process();
    create(&process, "/a");
    let path = process.open("/a", OpenFlags::PATH).unwrap();
    let lock = FileLock::new(LockKind::Unlock, 0, 0);
    let set = process.fcntl_setlk(path, LockOwner::Process, lock, LockWait::No);
    assert_eq!(set, Err(Errno::EBADF));
    assert_eq!(
        process.flock(path, FlockOperation::SHARED),
        Err(Errno::EBADF)
    );
    let link = format!("/proc/self/fd/{path}");
    process.open(&link, OpenFlags::RDWR).unwrap();
}

#[test]
fn a_text_may_describe_its_own_file() {
    within_time(|| {
        let process = process();
        let file = create(&process, "/a");
        let info = process
            .open("/proc/self/fdinfo/0", OpenFlags::RDONLY)
            .unwrap();
        process.dup2(info, file).unwrap();
        let mut buf = [0; 6];
        process.read(file, &mut buf).unwrap();
        assert_eq!(&buf, b"pos:\t0");
    });
}
