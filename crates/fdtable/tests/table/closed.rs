//! A closed file is given to the caller when its descriptor is free, before it is released.

use std::time::Duration;

use fdtable::{FdFlags, FileRef, Files};

fn table(count: usize) -> Files<usize> {
    let files = Files::with_limit(100_000);
    for number in 0..count {
        files
            .open(FileRef::new(number), FdFlags::empty())
            .expect("numbers are free");
    }
    files
}

#[test]
fn a_close_shows_the_file_when_its_number_is_free() {
    let files = table(3);
    let closed = files.close(1).expect("open");
    assert_eq!((*closed, files.get(1).is_err()), (1, true));
    files.close(1).expect_err("closed already");
}

#[test]
fn a_dup_shows_what_it_replaces() {
    let files = table(3);
    let replaced = files.dup3(0, 2, FdFlags::empty()).expect("open");
    assert_eq!(replaced.as_deref(), Some(&2));
    let replaced = files.dup2(0, 1).expect("open");
    assert_eq!(replaced.as_deref(), Some(&1));
    let replaced = files.dup3(0, 9, FdFlags::empty());
    assert!(replaced.expect("below the limit").is_none());
}

#[test]
fn a_range_shows_each_descriptor_once_also_in_leaves_that_are_shared() {
    for forked in [false, true] {
        let files = table(300);
        let child = forked.then(|| files.fork().expect("there is memory"));
        let mut seen = Vec::new();
        files
            .close_range(10, 290, |closed| {
                seen.extend(closed.files().map(|file| *file));
            })
            .expect("there is memory");
        assert_eq!(seen, (10..=290).collect::<Vec<_>>());
        assert_eq!(files.open_count(), 19);
        assert!(child.is_none_or(|child| child.open_count() == 300));
    }
}

#[test]
fn what_a_range_shows_is_released_after_it() {
    let files = Files::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    for _ in 0..200 {
        let sender = sender.clone();
        let file = FileRef::builder(())
            .on_release(move |(), _| sender.send(()).expect("a receiver"))
            .build();
        files.open(file, FdFlags::empty()).expect("free");
    }
    let mut shown = 0;
    files
        .close_range(0, u32::MAX, |closed| {
            let before = receiver.try_iter().count();
            assert_eq!(before, if shown == 0 { 0 } else { 64 });
            shown += closed.files().count();
        })
        .expect("there is memory");
    assert_eq!((shown, receiver.try_iter().count()), (200, 8));
}

/// The function may take long, or wait for a thread that waits for a descriptor.
#[test]
fn a_waiter_for_a_descriptor_is_awake_before_its_file_is_shown() {
    let files = Files::with_limit(1);
    files
        .open(FileRef::new(()), FdFlags::empty())
        .expect("free");
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::waiting::wait_until_free(&files).expect("there is memory");
            tell.send(()).expect("the receiver exists");
        });
        // Now or later it sleeps.
        std::thread::sleep(Duration::from_millis(50));
        let mut heard = None;
        files
            .close_range(0, 0, |_| {
                heard = hear.recv_timeout(Duration::from_secs(5)).ok();
            })
            .expect("there is memory");
        assert_eq!(heard, Some(()), "it is awake while the file is shown");
    });
}

#[test]
fn an_exec_shows_what_it_closes() {
    let files = table(70);
    for fd in [3, 68] {
        files.set_fd_flags(fd, FdFlags::CLOEXEC).expect("open");
    }
    let mut seen = Vec::new();
    files
        .close_on_exec(|closed| seen.extend(closed.files().map(|file| *file)))
        .expect("there is memory");
    assert_eq!(seen, [3, 68]);
}

#[test]
fn a_number_names_its_file_and_no_other() {
    let files = table(100);
    let file = files.get(70).expect("open");
    assert!(files.refers_to(70, &file));
    assert!(
        !files.refers_to(71, &file) && !files.refers_to(-1, &file) && !files.refers_to(5000, &file)
    );
    let child = files.fork().expect("there is memory");
    assert!(files.refers_to(70, &file) && child.refers_to(70, &file));
    drop(files.close(70).expect("open"));
    assert!(!files.refers_to(70, &file) && child.refers_to(70, &file));
}
