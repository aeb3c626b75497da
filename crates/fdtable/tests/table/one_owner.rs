//! A table with one owner: it lends objects without references.

use fdtable::{Error, FdData, FdFlags, FileRef, Files, Rcu};

const ROOM: &str = "there is room";

#[test]
fn an_owner_borrows_what_lookups_find_and_counts_nothing() {
    let mut files = Files::with_limit(100_000);
    let file = FileRef::new_dyn(7, |number: &i32| number as &(dyn ToString + Send + Sync));
    for fd in [0, 63, 64, 40_000] {
        let data = (FdFlags::CLOEXEC, fd as u64);
        assert!(files.replace(fd, file.clone(), data).expect(ROOM).is_none());
    }
    let reserved = files.reserve(FdFlags::empty()).expect(ROOM);
    let held = reserved.fd();
    std::mem::forget(reserved);
    let references = FileRef::exact_strong_count(&file);
    for fd in [0, 63, 64, 40_000] {
        let object = files.get_mut(fd).expect("it is open");
        assert!(std::ptr::addr_eq(object, FileRef::as_ptr(&file)));
        assert_eq!(FileRef::exact_strong_count(&file), references);
    }
    let mut found = Vec::new();
    for (fd, object, data) in files.iter_mut() {
        assert_eq!(FileRef::exact_strong_count(&file), references);
        found.push((fd.raw(), object.to_string(), data));
    }
    let data = |word| FdData::new(FdFlags::CLOEXEC, word);
    assert_eq!(
        found,
        [0, 63, 64, 40_000].map(|fd| (fd, "7".to_string(), data(fd as u64)))
    );
    for fd in [held.raw(), -1, 65, 99_999, i32::MAX] {
        assert_eq!(files.get_mut(fd).err(), Some(Error::BadFd));
    }
    drop(files.close(63));
    assert_eq!(files.get_mut(63).err(), Some(Error::BadFd));
    FileRef::revoke(&file);
    assert_eq!(files.get_mut(64).err(), Some(Error::Revoked));
    assert_eq!(files.iter_mut().count(), 3, "a revoked file is still open");
}

#[test]
fn an_owner_finds_its_own_files_after_a_fork() {
    let mut parent: Files<Rcu<&str>> = Files::new();
    for _ in 0..200 {
        let file = FileRef::new_rcu("shared");
        parent.open(file, FdFlags::empty()).expect(ROOM);
    }
    let mut child = parent.fork().expect("there is memory");
    let changed = FileRef::new_rcu("the child's");
    drop(child.replace(100, changed, FdFlags::empty()).expect(ROOM));
    drop(parent.close(150).expect("it is open"));
    assert_eq!(**parent.get_mut(100).expect("it is open"), "shared");
    assert_eq!(**child.get_mut(100).expect("it is open"), "the child's");
    assert_eq!(**child.get_mut(150).expect("it is open"), "shared");
    assert_eq!(
        (parent.iter_mut().count(), child.iter_mut().count()),
        (199, 200)
    );
    drop(parent);
    assert_eq!(
        child
            .iter_mut()
            .filter(|(_, name, _)| ***name == "shared")
            .count(),
        199
    );
}
