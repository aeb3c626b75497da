//! A revoked file: the answers of its descriptors, what still works, and when it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use fdtable::{Error, FdFlags, FileRef, Files, PrivateFiles, Rcu, ReleaseReason, rcu};

/// A file that notes its ends.
fn noted(ends: &Arc<Mutex<Vec<ReleaseReason>>>) -> FileRef<Rcu<&'static str>> {
    let ends = Arc::clone(ends);
    FileRef::builder("line")
        .on_release(move |_, end| ends.lock().unwrap().push(end))
        .rcu()
        .try_build()
        .unwrap()
}

#[test]
fn lookups_of_every_kind_answer_eio() {
    let ends = Arc::default();
    let file = noted(&ends);
    let (files, private) = (Files::new(), PrivateFiles::new());
    let fd = files.open(file.clone(), FdFlags::empty()).unwrap();
    let other = private.open(file.clone()).unwrap();
    assert!(FileRef::revoke(&file));
    let section = rcu::read_lock();
    assert_eq!(files.get(fd).unwrap_err(), Error::Revoked);
    assert_eq!(files.get_rcu(fd, &section).unwrap_err(), Error::Revoked);
    assert_eq!(private.get(other).unwrap_err(), Error::Revoked);
    assert_eq!(
        private.get_rcu(other, &section).unwrap_err(),
        Error::Revoked
    );
    assert_eq!(Error::Revoked.errno(), 5);
}

#[test]
fn a_revoked_descriptor_is_duplicated_inherited_and_closed_as_any() {
    let ends = Arc::default();
    let file = noted(&ends);
    let files = Files::new();
    let fd = files.open(file.clone(), FdFlags::CLOEXEC).unwrap();
    FileRef::revoke(&file);
    let copy = files.dup(fd).unwrap();
    let child = files.fork().unwrap();
    assert_eq!(child.get(copy).unwrap_err(), Error::Revoked);
    files.close_on_exec(drop).unwrap();
    assert_eq!(files.get(fd).unwrap_err(), Error::BadFd);
    drop(files.close(copy).unwrap());
    assert!(FileRef::is_revoked(&child.close(copy).unwrap().into_file()));
    assert_eq!(*ends.lock().unwrap(), [ReleaseReason::Revoked]);
}

#[test]
fn a_new_open_of_the_same_object_is_not_concerned() {
    let shared = Arc::new(7);
    let (one, two) = (FileRef::new(shared.clone()), FileRef::new(shared));
    let files = Files::new();
    let fds = [one.clone(), two].map(|file| files.open(file, FdFlags::empty()).unwrap());
    FileRef::revoke(&one);
    assert_eq!(files.get(fds[0]).unwrap_err(), Error::Revoked);
    assert_eq!(**files.get(fds[1]).unwrap(), 7);
}

#[test]
fn of_threads_that_revoke_and_close_at_once_one_ends_the_file() {
    for _ in 0..200 {
        let ends = Arc::default();
        let file = noted(&ends);
        let files = Files::new();
        let fd = files.open(file.clone(), FdFlags::empty()).unwrap();
        let other = file.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| FileRef::revoke(&file));
            scope.spawn(|| FileRef::revoke(&other));
            scope.spawn(|| files.close(fd));
        });
        drop((file, other));
        assert_eq!(*ends.lock().unwrap(), [ReleaseReason::Revoked]);
    }
}

/// `dup2` of equal numbers "only checks that they are open", and a revoked descriptor is open.
#[test]
fn dup2_onto_itself_succeeds_also_on_a_revoked_descriptor() {
    let files = Files::new();
    let file = FileRef::new(7);
    let fd = files.open(file.clone(), FdFlags::empty()).unwrap();
    FileRef::revoke(&file);
    assert!(files.dup2(fd, 9).is_ok(), "onto another number it does");
    assert!(files.fd_flags(fd).is_ok(), "it is open");
    assert_eq!(files.dup2(fd, fd).map(drop), Ok(()));
}

/// A panic of the hook ends the file as any hook does, and no holder loses the object.
#[test]
fn a_hook_that_panics_in_a_revocation_leaves_the_object_to_its_holders() {
    let object = Arc::new(7);
    let file = FileRef::builder(Arc::clone(&object))
        .on_release(|_, _| panic!("on purpose"))
        .build();
    assert!(catch_unwind(AssertUnwindSafe(|| FileRef::revoke(&file))).is_err());
    assert!(FileRef::is_revoked(&file));
    assert_eq!((**file, Arc::strong_count(&object)), (7, 2));
    drop(file);
    assert_eq!(Arc::strong_count(&object), 1);
}
