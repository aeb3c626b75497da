use super::*;
use crate::magazine::ROUNDS;
use core::ptr;
use std::collections::HashSet;

fn object(number: usize) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(number)).expect("not zero")
}

pub(super) fn magazine(numbers: impl IntoIterator<Item = usize>) -> Magazine {
    let magazine = Magazine::try_new().expect("there is memory");
    for number in numbers {
        magazine.push(object(number)).expect("there is room");
    }
    magazine
}

fn empty(magazine: &Magazine, into: &mut HashSet<usize>) {
    while let Some(object) = magazine.pop() {
        assert!(into.insert(object.addr().get()), "it was there twice");
    }
}

fn drain(local: &Local, into: &mut HashSet<usize>) {
    let mut drained = MagazineList::new();
    local.drain(&mut drained).expect("no process shares it");
    while let Some(magazine) = drained.pop() {
        empty(&magazine, into);
    }
}

#[test]
fn without_magazines_nothing_comes_and_nothing_goes() {
    let mut local = Local::try_new().expect("there is memory");
    assert_eq!(local.pop(), None);
    assert_eq!(local.push(object(1)), Err(object(1)));
    let mut none = MagazineList::new();
    local.drain(&mut none).expect("no process shares it");
    local.take_all(&mut none);
    assert_eq!(none.len(), 0);
}

#[test]
fn an_object_that_was_put_in_comes_out_of_the_same_cpu() {
    pin();
    let mut local = Local::try_new().expect("there is memory");
    assert!(local.load(magazine([]), Lack::Room).is_none());
    for number in 1..=ROUNDS {
        assert_eq!(local.push(object(number)), Ok(()));
    }
    assert_eq!(local.push(object(1000)), Err(object(1000)));
    assert!(
        local.load(magazine([]), Lack::Room).is_none(),
        "there was one place"
    );
    for number in ROUNDS + 1..=2 * ROUNDS {
        assert_eq!(local.push(object(number)), Ok(()));
    }
    assert_eq!(local.push(object(1000)), Err(object(1000)));
    for number in (1..=2 * ROUNDS).rev() {
        assert_eq!(local.pop(), Some(object(number)));
    }
    assert_eq!(local.pop(), None);
    let mut magazines = MagazineList::new();
    local.take_all(&mut magazines);
    assert_eq!(magazines.len(), 2);
}

#[test]
fn a_full_magazine_displaces_an_empty_one() {
    pin();
    let local = Local::try_new().expect("there is memory");
    assert!(local.load(magazine(1..=ROUNDS), Lack::Objects).is_none());
    let refused = local
        .load(magazine([1000]), Lack::Objects)
        .expect("there are objects");
    assert_eq!(refused.pop(), Some(object(1000)));
    assert!((0..ROUNDS).all(|_| local.pop().is_some()));
    assert!(
        local.load(magazine([1, 2]), Lack::Objects).is_none(),
        "there is a place"
    );
    assert_eq!(local.pop(), Some(object(2)));
    assert_eq!(local.pop(), Some(object(1)));
    let displaced = local
        .load(magazine([3]), Lack::Objects)
        .expect("there was one");
    assert!(displaced.is_empty());
    let mut left = HashSet::new();
    drain(&local, &mut left);
    assert_eq!(left, HashSet::from([3]));
    assert_eq!(local.pop(), None);
}

#[test]
fn an_empty_magazine_displaces_the_older_full_one() {
    pin();
    let local = Local::try_new().expect("there is memory");
    let mut put_in = 1..;
    let mut fill = || {
        let pushed = put_in.find(|&number| local.push(object(number)).is_err());
        pushed.expect("there is an end")
    };
    assert!(local.load(magazine([]), Lack::Room).is_none());
    assert_eq!(fill(), ROUNDS + 1);
    assert!(local.load(magazine([]), Lack::Room).is_none());
    assert!(
        local
            .load(magazine([]), Lack::Room)
            .expect("there is room")
            .is_empty()
    );
    fill();
    let displaced = local
        .load(magazine([]), Lack::Room)
        .expect("there were two");
    let mut left = HashSet::new();
    empty(&displaced, &mut left);
    assert_eq!(left, (1..=ROUNDS).collect());
    drain(&local, &mut left);
    assert_eq!(left.len(), 2 * ROUNDS);
}

/// Keeps the thread on its current CPU.
fn pin() {
    #[cfg(target_os = "linux")]
    pin_to(percpu::current());
}

#[cfg(target_os = "linux")]
pub(super) fn pin_to(cpu: usize) {
    // SAFETY: an all-zero `cpu_set_t` is an empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number of a CPU is below the size of the set, or it panics.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set lives on this frame and has the size that is passed.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(answer, 0);
}
