use fdtable::{FdFlags, Files};
use fdtable_vfs::{Errno, MemFs, OpenFlags, Process};

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
fn each_call_gets_the_lowest_free_number() {
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
fn a_pair_that_gets_one_number_of_two_leaves_no_trace() {
    let process = process_with_limit(2);
    create(&process, "a");
    assert_eq!(process.pipe2(OpenFlags::empty()), Err(Errno::EMFILE));
    assert_eq!(process.socketpair(OpenFlags::empty()), Err(Errno::EMFILE));
    assert_eq!(process.files().open_count(), 1);
    assert_eq!(create(&process, "b"), 1);
}

#[test]
fn an_open_without_a_number_creates_no_file() {
    let process = process_with_limit(1);
    create(&process, "a");
    assert_eq!(process.open("b", OpenFlags::CREAT), Err(Errno::EMFILE));
    process.close(0).unwrap();
    assert_eq!(process.open("b", OpenFlags::RDONLY), Err(Errno::ENOENT));
}

#[test]
fn a_failed_open_gives_its_number_back() {
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
    let process = Process::new();
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
fn exec_closes_what_was_opened_with_cloexec() {
    let process = Process::new();
    let kept = create(&process, "kept");
    process.open("kept", OpenFlags::CLOEXEC).unwrap();
    process.pipe2(OpenFlags::CLOEXEC).unwrap();
    process.socketpair(OpenFlags::CLOEXEC).unwrap();
    process.exec().expect("there is memory");
    assert_eq!(process.files().open_count(), 1);
    assert_eq!(process.read(kept, &mut [0]), Ok(0));
}

#[test]
fn a_number_that_is_not_open_answers_ebadf() {
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
fn a_pair_refuses_flags_that_mean_nothing_to_it() {
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
