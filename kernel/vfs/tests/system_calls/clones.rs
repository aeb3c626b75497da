use fdtable_vfs::{CloneFlags, CloseRangeFlags, Errno, OpenFlags, Process};

fn create(process: &Process, name: &str) -> i32 {
    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
    process.open(name, flags).unwrap().raw()
}

#[test]
fn processes_have_ids_and_clones_share_them() {
    let process = Process::new();
    let child = process.fork().unwrap();
    assert_eq!((process.id(), process.clone().id(), child.id()), (1, 1, 2));
    assert_eq!(child.clone_with(CloneFlags::FILES).unwrap().id(), 3);
    child.set_id(1000);
    assert_eq!((process.id(), child.clone().id()), (1, 1000));
}

#[test]
fn a_process_may_share_the_table_of_another() {
    let process = Process::new();
    let file = create(&process, "a");
    let task = process.clone_with(CloneFlags::FILES).unwrap();
    task.close(file).unwrap();
    assert_eq!(process.read(file, &mut [0]), Err(Errno::EBADF));
}

#[test]
fn the_last_one_that_shares_a_table_closes_it_at_its_end() {
    let process = Process::new();
    let file = create(&process, "a");
    let task = process.clone_with(CloneFlags::FILES).unwrap();
    let dropped = process.clone_with(CloneFlags::FILES).unwrap();
    for _ in 0..2 {
        process.end();
        assert!(task.shares_files());
        assert_eq!(task.read(file, &mut [0]), Ok(0));
    }
    drop(dropped);
    assert!(!task.shares_files());
    task.end();
    assert_eq!(task.files().open_count(), 0);
}

#[test]
fn an_exec_leaves_a_shared_table_alone() {
    let process = Process::new();
    let kept = create(&process, "kept");
    process.open("kept", OpenFlags::CLOEXEC).unwrap();
    let mut task = process.clone_with(CloneFlags::FILES).unwrap();
    task.exec().unwrap();
    assert_eq!(task.files().open_count(), 1);
    assert_eq!(process.files().open_count(), 2);
    task.close(kept).unwrap();
    assert_eq!(process.read(kept, &mut [0]), Ok(0));
}

#[test]
fn an_exec_in_a_process_with_threads_works_on_their_table() {
    let mut process = Process::new();
    process
        .open("a", OpenFlags::CREAT | OpenFlags::CLOEXEC)
        .unwrap();
    let thread = process.clone();
    process.exec().unwrap();
    assert_eq!(thread.files().open_count(), 0);
}

#[test]
fn unshare_gives_a_table_of_its_own() {
    let process = Process::new();
    let file = create(&process, "a");
    let mut task = process.clone_with(CloneFlags::FILES).unwrap();
    let range = |process: &Process| process.close_range(0, 9, CloseRangeFlags::UNSHARE);
    assert_eq!(range(&task), Err(Errno::EINVAL));
    task.unshare(CloneFlags::FILES).unwrap();
    assert_eq!(range(&task), Ok(()));
    assert_eq!(process.read(file, &mut [0]), Ok(0));
    assert_eq!(task.read(file, &mut [0]), Err(Errno::EBADF));
}
