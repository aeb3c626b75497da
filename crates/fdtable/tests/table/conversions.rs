//! Weak references to files, and files of one type that become files of another.

use std::any::Any;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

use fdtable::{Access, Error, FdFlags, FileRef, Files, ReleaseReason, SuperBlock, WeakFile, rcu};

const NONE: FdFlags = FdFlags::empty();

type AnyFile = FileRef<dyn Any + Send + Sync>;

#[test]
fn a_weak_file_is_found_until_the_last_close() {
    let files = Files::new();
    let file = FileRef::new_rcu("motd");
    let weak = FileRef::downgrade(&file);
    let fd = files.open(file, NONE).expect("there is room");
    let copy = files.dup(fd).expect("there is room");
    drop(files.close(fd).expect("it is open"));
    assert!(files.refers_to(copy, &weak.upgrade().expect("it is open")));
    let section = rcu::read_lock();
    let borrowed = files.get_rcu(copy, &section).expect("it is open");
    drop(files.close(copy).expect("it is open"));
    assert!(weak.upgrade().is_none(), "though a reader still has it");
    assert_eq!(*borrowed, "motd");
}

#[test]
fn a_cache_finds_the_file_that_is_open_and_makes_another_afterwards() {
    struct Cache(Mutex<HashMap<&'static str, WeakFile<String>>>);
    impl Cache {
        fn open(&self, name: &'static str) -> FileRef<String> {
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files
                .get(name)
                .and_then(WeakFile::upgrade)
                .unwrap_or_else(|| {
                    let file = FileRef::new(name.to_owned());
                    files.insert(name, FileRef::downgrade(&file));
                    file
                })
        }
    }
    let cache = Cache(Mutex::default());
    let (one, two, other) = (cache.open("motd"), cache.open("motd"), cache.open("log"));
    assert!(FileRef::ptr_eq(&one, &two) && !FileRef::ptr_eq(&one, &other));
    let before = FileRef::downgrade(&one);
    drop((one, two));
    let again = cache.open("motd");
    assert!(!before.ptr_eq(&FileRef::downgrade(&again)));
    assert!(before.upgrade().is_none());
}

#[test]
fn a_revoked_file_is_upgraded_and_released_once() {
    let superblock: SuperBlock<dyn Display + Send + Sync> =
        SuperBlock::new().expect("there is memory");
    let reasons = Arc::new(Mutex::new(vec![]));
    let hook = {
        let reasons = reasons.clone();
        move |_: &u32, reason| reasons.lock().expect("no panic").push(reason)
    };
    let file = FileRef::<u32>::builder(7)
        .on_release(hook)
        .on(&superblock, Access::Write)
        .try_build_dyn(|number| number)
        .expect("it is mounted");
    let weak = FileRef::downgrade(&file);
    assert_eq!(superblock.revoke(), Ok(1));
    let upgraded = weak.upgrade().expect("there is a reference");
    assert!(FileRef::is_revoked(&upgraded));
    drop((file, upgraded));
    assert!(weak.upgrade().is_none());
    assert_eq!(*reasons.lock().expect("no panic"), [ReleaseReason::Revoked]);
}

#[test]
fn a_file_is_downcast_out_of_one_table_and_into_another() {
    let any: Files<dyn Any + Send + Sync> = Files::new();
    let numbers: Files<u64> = Files::new();
    let released = Arc::new(AtomicUsize::new(0));
    let hook = {
        let released = released.clone();
        move |number: &u64, _| _ = released.fetch_add(*number as usize, SeqCst)
    };
    let file = FileRef::<u64>::builder(9)
        .on_release(hook)
        .build_dyn::<dyn Any + Send + Sync>(|number| number);
    let fd = any.open(file, NONE).expect("there is room");
    let file = FileRef::downcast::<u32>(any.get(fd).expect("it is open")).unwrap_err();
    let number = FileRef::downcast::<u64>(file).expect("it is one");
    let other = numbers.open(number, NONE).expect("there is room");
    drop(any.close(fd).expect("it is open"));
    assert_eq!(numbers.get(other).map(|number| *number), Ok(9));
    assert_eq!(released.load(SeqCst), 0);
    drop(numbers.close(other).expect("it is open"));
    assert_eq!(released.load(SeqCst), 9);
}

#[test]
fn files_that_hold_others_are_files_of_their_own() {
    let file: FileRef<u32> = FileRef::new(7);
    let outer: FileRef<dyn Display + Send + Sync> = FileRef::into_dyn(file.clone(), |it| it);
    let weak = FileRef::downgrade(&outer);
    assert_eq!(
        (outer.to_string(), FileRef::strong_count(&file)),
        ("7".into(), 2)
    );
    assert!(std::ptr::addr_eq(
        FileRef::as_ptr(&outer),
        FileRef::as_ptr(&file)
    ));
    assert!(FileRef::revoke(&outer) && !FileRef::is_revoked(&file));
    drop(outer);
    assert!(weak.upgrade().is_none());
    rcu::barrier().expect("outside of sections");
    assert_eq!(FileRef::strong_count(&file), 1);

    let tried = FileRef::try_into_dyn::<dyn Any + Send + Sync>(file, |it| it);
    let tried: AnyFile = tried.map_err(|(error, _)| error).expect("there is memory");
    assert!(tried.is::<u32>());
    assert!(
        FileRef::downcast::<u32>(tried).is_err(),
        "it is in the other file"
    );

    let shared: Arc<dyn Any + Send + Sync> = Arc::new(8_u32);
    let file = AnyFile::from(shared.clone());
    assert_eq!(file.downcast_ref(), Some(&8_u32));
    assert!(
        FileRef::downcast::<u32>(file).is_err(),
        "it is in the `Arc`"
    );
    rcu::barrier().expect("outside of sections");
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn a_file_is_taken_where_its_object_is() {
    fn length(name: impl AsRef<str>) -> usize {
        name.as_ref().len()
    }
    fn by_borrow<B: Borrow<String>>(name: B) -> usize {
        name.borrow().len()
    }
    let file: FileRef<str> = FileRef::from(Arc::<str>::from("motd"));
    assert_eq!(length(file), 4);
    assert_eq!(by_borrow(FileRef::new("motd".to_owned())), 4);
}

#[test]
fn a_weak_reference_of_no_file_finds_none() {
    let none: WeakFile<u8> = WeakFile::default();
    assert!(none.upgrade().is_none() && none.ptr_eq(&WeakFile::new()));
    let file = FileRef::new(1_u8);
    let weak = FileRef::try_downgrade(&file).map_err(Error::errno);
    assert!(!weak.expect("there is memory").ptr_eq(&none));
    assert_eq!(format!("{none:?}"), "(Weak)");
}

/// An object that counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_last_reference_gives_the_object_back_after_its_hook_and_does_not_drop_it() {
    let (drops, hooks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let files = Files::new();
    let hook = {
        let (drops, hooks) = (drops.clone(), hooks.clone());
        move |_: &Counted, reason| {
            assert_eq!((reason, drops.load(SeqCst)), (ReleaseReason::Released, 0));
            hooks.fetch_add(1, SeqCst);
        }
    };
    let file = FileRef::builder(Counted(drops.clone())).on_release(hook);
    let fd = files.open(file.build(), NONE).expect("there is room");
    let weak = FileRef::downgrade(&files.get(fd).expect("it is open"));
    let kept = files.get(fd).expect("it is open");
    let closed = files.close(fd).expect("it is open").into_file();
    let Err(closed) = FileRef::try_unwrap(closed) else {
        panic!("there is another reference");
    };
    assert_eq!(hooks.load(SeqCst), 0);
    drop(kept);
    let Ok(object) = FileRef::try_unwrap(closed) else {
        panic!("it is the last reference");
    };
    assert!(weak.upgrade().is_none());
    assert_eq!((hooks.load(SeqCst), drops.load(SeqCst)), (1, 0));
    drop(object);
    rcu::barrier().expect("outside of sections");
    assert_eq!((hooks.load(SeqCst), drops.load(SeqCst)), (1, 1));
}

#[test]
fn an_object_that_can_be_borrowed_or_is_a_part_is_not_moved_out() {
    let drops = Arc::new(AtomicUsize::new(0));
    let late = FileRef::new_rcu(Counted(drops.clone()));
    drop(
        FileRef::try_unwrap(late)
            .err()
            .expect("readers may have it"),
    );
    let late: FileRef<fdtable::Rcu<dyn Any + Send + Sync>> =
        FileRef::new_dyn_rcu(Counted(drops.clone()), |it| it);
    let found = FileRef::downcast_by(late, |it| (**it).downcast_ref::<Counted>());
    let Ok(found) = found else {
        panic!("it is one");
    };
    drop(
        FileRef::try_unwrap(found)
            .err()
            .expect("readers may have it"),
    );
    // The first field of two.
    let part = FileRef::<dyn Any + Send + Sync>::new_dyn(
        (Counted(drops.clone()), Counted(drops.clone())),
        |pair| &pair.0,
    );
    if let Ok(part) = FileRef::downcast::<Counted>(part) {
        drop(FileRef::try_unwrap(part).err().expect("it is a part"));
    }
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 4);
}

#[test]
fn a_hook_that_panics_drops_the_object_that_was_asked_for() {
    let drops = Arc::new(AtomicUsize::new(0));
    let file = FileRef::builder(Counted(drops.clone()))
        .on_release(|_, _| panic!("as expected"))
        .build();
    let taken =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| FileRef::into_inner(file)));
    assert!(taken.is_err());
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn one_of_all_holders_gets_the_object() {
    for _ in 0..1000 {
        let drops = Arc::new(AtomicUsize::new(0));
        let file = FileRef::new(Counted(drops.clone()));
        let other = file.clone();
        let got = std::thread::scope(|scope| {
            let other = scope.spawn(move || FileRef::into_inner(other));
            let got = FileRef::into_inner(file);
            [got, other.join().expect("no panic")]
        });
        assert_eq!(got.iter().flatten().count(), 1);
        drop(got);
        assert_eq!(drops.load(SeqCst), 1);
    }
}
