//! If a counter is wrong, an event is lost, counted twice, or not waited for.

use std::sync::Arc;

use super::*;
use crate::Object;
use crate::call::Call;

fn eventfd(initial: u64, flags: EventFdFlags) -> EventFd {
    EventFd::new(initial, flags).unwrap()
}

fn add(eventfd: &EventFd, addend: u64) -> Result<usize, Errno> {
    eventfd.try_write(&addend.to_ne_bytes())
}

fn take(eventfd: &EventFd) -> Result<u64, Errno> {
    let mut word = [0; WORD];
    eventfd.try_read(&mut word)?;
    Ok(u64::from_ne_bytes(word))
}

#[test]
fn a_read_takes_everything() {
    let eventfd = eventfd(3, EventFdFlags::empty());
    assert_eq!(add(&eventfd, 4), Ok(8));
    assert_eq!(take(&eventfd), Ok(7));
    assert_eq!(take(&eventfd), Err(Errno::EAGAIN));
}

#[test]
fn a_read_of_a_semaphore_takes_one() {
    let eventfd = eventfd(2, EventFdFlags::SEMAPHORE);
    assert_eq!(take(&eventfd), Ok(1));
    assert_eq!(take(&eventfd), Ok(1));
    assert_eq!(take(&eventfd), Err(Errno::EAGAIN));
}

#[test]
fn a_read_leaves_more_than_eight_bytes_alone_and_a_write_refuses_them() {
    let eventfd = eventfd(1, EventFdFlags::empty());
    assert_eq!(eventfd.try_read(&mut [0; 7]), Err(Errno::EINVAL));
    assert_eq!(eventfd.try_write(&[0; 7]), Err(Errno::EINVAL));
    let mut long = [0xff; 12];
    assert_eq!(eventfd.try_read(&mut long), Ok(8));
    assert_eq!(long[8..], [0xff; 4]);
    assert_eq!(eventfd.try_write(&[1; 12]), Err(Errno::EINVAL));
    assert_eq!(eventfd.try_write(&[1; 8]), Ok(8));
}

#[test]
fn the_highest_count_is_two_below_two_to_the_sixty_four() {
    assert!(EventFd::new(u64::MAX, EventFdFlags::empty()).is_err());
    let eventfd = eventfd(0, EventFdFlags::empty());
    assert_eq!(add(&eventfd, u64::MAX), Err(Errno::EINVAL));
    assert_eq!(add(&eventfd, u64::MAX - 1), Ok(8));
    assert_eq!(eventfd.events(), Events::IN);
    assert_eq!(add(&eventfd, 1), Err(Errno::EAGAIN));
    assert_eq!(add(&eventfd, 0), Ok(8));
    assert_eq!(take(&eventfd), Ok(u64::MAX - 1));
    assert_eq!(eventfd.events(), Events::OUT);
}

#[test]
fn one_write_serves_as_many_readers_of_a_semaphore() {
    let eventfd = Arc::new(eventfd(0, EventFdFlags::SEMAPHORE));
    let reading = || {
        let eventfd = Arc::clone(&eventfd);
        Call::start_waiting(move || eventfd.read(&mut [0; WORD]))
    };
    let (one, other, third) = (reading(), reading(), reading());
    add(&eventfd, 3).unwrap();
    for call in [one, other, third] {
        assert_eq!(call.result(), Ok(8));
    }
}

/// The first writer in the queue needs more room than there is. The second does not.
#[test]
fn a_read_wakes_every_writer_that_fits() {
    let eventfd = Arc::new(eventfd(u64::MAX - 1, EventFdFlags::SEMAPHORE));
    let writing = |addend: u64| {
        let eventfd = Arc::clone(&eventfd);
        Call::start_waiting(move || eventfd.write(&addend.to_ne_bytes()))
    };
    let (long, short) = (writing(100), writing(1));
    take(&eventfd).unwrap();
    assert_eq!(short.result(), Ok(8));
    long.assert_waiting();
    for _ in 0..100 {
        take(&eventfd).unwrap();
    }
    assert_eq!(long.result(), Ok(8));
}

#[test]
fn a_sleeper_in_a_revoked_eventfd_wakes() {
    let eventfd = Arc::new(eventfd(0, EventFdFlags::empty()));
    let reader = {
        let eventfd = Arc::clone(&eventfd);
        Call::start_waiting(move || eventfd.read(&mut [0; WORD]))
    };
    eventfd.revoke();
    assert_eq!(reader.result(), Err(Errno::EIO));
    assert_eq!(add(&eventfd, 1), Err(Errno::EIO));
    assert!(eventfd.events().contains(Events::ERR));
}
