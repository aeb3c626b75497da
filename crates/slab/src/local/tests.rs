use super::*;
use crate::magazine::ROUNDS;
use core::ptr;
use std::collections::HashSet;

fn object(number: usize) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(number)).expect("not zero")
}

pub(super) fn magazine(numbers: impl IntoIterator<Item = usize>) -> Magazine {
    let mut magazine = Magazine::try_new().expect("there is memory");
    for number in numbers {
        magazine.push(object(number)).expect("there is room");
    }
    magazine
}

fn empty(mut magazine: Magazine, into: &mut HashSet<usize>) {
    while let Some(object) = magazine.pop() {
        assert!(into.insert(object.addr().get()), "it was there twice");
    }
}

#[test]
fn without_magazines_nothing_comes_and_nothing_goes() {
    let mut local = Local::try_new().expect("there is memory");
    assert_eq!(local.pop(), None);
    assert_eq!(local.push(object(1)), Err(object(1)));
    local
        .drain(&mut |_| panic!("there is none"))
        .expect("no process shares it");
    local.take_all(&mut |_| panic!("there is none"));
}

#[test]
fn an_object_that_was_put_in_comes_out_of_the_same_cpu() {
    pin();
    let mut local = Local::try_new().expect("there is memory");
    assert!(local.relieve(magazine([])).is_none());
    for number in 1..=ROUNDS {
        assert_eq!(local.push(object(number)), Ok(()));
    }
    assert_eq!(local.push(object(1000)), Err(object(1000)));
    assert!(local.relieve(magazine([])).is_none(), "there was one place");
    for number in ROUNDS + 1..=2 * ROUNDS {
        assert_eq!(local.push(object(number)), Ok(()));
    }
    assert_eq!(local.push(object(1000)), Err(object(1000)));
    for number in (1..=2 * ROUNDS).rev() {
        assert_eq!(local.pop(), Some(object(number)));
    }
    assert_eq!(local.pop(), None);
    let mut magazines = 0;
    local.take_all(&mut |_| magazines += 1);
    assert_eq!(magazines, 2);
}

#[test]
fn a_full_magazine_displaces_an_empty_one() {
    pin();
    let local = Local::try_new().expect("there is memory");
    assert!(local.supply(magazine(1..=ROUNDS)).is_none());
    let mut refused = local.supply(magazine([1000])).expect("there are objects");
    assert_eq!(refused.pop(), Some(object(1000)));
    assert!((0..ROUNDS).all(|_| local.pop().is_some()));
    assert!(local.supply(magazine([1, 2])).is_none(), "there is a place");
    assert_eq!(local.pop(), Some(object(2)));
    assert_eq!(local.pop(), Some(object(1)));
    let displaced = local.supply(magazine([3])).expect("there was one");
    assert!(displaced.is_empty());
    let mut left = HashSet::new();
    local
        .drain(&mut |magazine| empty(magazine, &mut left))
        .expect("no process shares it");
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
    assert!(local.relieve(magazine([])).is_none());
    assert_eq!(fill(), ROUNDS + 1);
    assert!(local.relieve(magazine([])).is_none());
    assert!(
        local
            .relieve(magazine([]))
            .expect("there is room")
            .is_empty()
    );
    fill();
    let displaced = local.relieve(magazine([])).expect("there were two");
    let mut left = HashSet::new();
    empty(displaced, &mut left);
    assert_eq!(left, (1..=ROUNDS).collect());
    local
        .drain(&mut |magazine| empty(magazine, &mut left))
        .expect("no process shares it");
    assert_eq!(left.len(), 2 * ROUNDS);
}

/// Keeps the thread on its current CPU.
fn pin() {
    #[cfg(target_os = "linux")]
    pin_to(fdtable_sync::percpu::current());
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
