//! If a timer is wrong, it expires at the wrong time, or counts wrongly.

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Readings of the clocks, without their offset.
fn at(time: u64) -> Now {
    Now {
        time: seconds(time),
        offset: None,
    }
}

/// Timer that was set when the clock showed 100 seconds.
fn set(flags: TimerFlags, value: u64, interval: u64) -> Timer {
    let mut timer = Timer::new(Clock::Monotonic);
    let spec = ITimerSpec {
        interval: seconds(interval),
        value: seconds(value),
    };
    timer.set_at(at(100), flags, spec);
    timer
}

fn ticks_at(timer: &mut Timer, time: u64) -> u64 {
    timer.advance_to(at(time));
    timer.ticks
}

#[test]
fn a_timer_without_an_interval_expires_once() {
    let mut timer = set(TimerFlags::empty(), 5, 0);
    assert_eq!(ticks_at(&mut timer, 104), 0);
    assert_eq!(ticks_at(&mut timer, 105), 1);
    assert_eq!(timer.expiry, None);
    assert_eq!(ticks_at(&mut timer, 999), 1);
}

#[test]
fn an_absolute_time_may_have_passed() {
    let mut timer = set(TimerFlags::ABSTIME, 40, 0);
    assert_eq!(ticks_at(&mut timer, 100), 1);
    let mut timer = set(TimerFlags::ABSTIME, 105, 0);
    assert_eq!(ticks_at(&mut timer, 104), 0);
    assert_eq!(ticks_at(&mut timer, 105), 1);
}

#[test]
fn every_interval_that_passed_counts() {
    let mut timer = set(TimerFlags::empty(), 5, 3);
    assert_eq!(ticks_at(&mut timer, 105), 1);
    assert_eq!(timer.expiry, Some(seconds(108)));
    assert_eq!(ticks_at(&mut timer, 107), 1);
    assert_eq!(ticks_at(&mut timer, 114), 4);
    assert_eq!(timer.expiry, Some(seconds(117)));
    assert_eq!(timer.take_ticks(), Some(Ok(4)));
    assert_eq!(timer.take_ticks(), None);
}

#[test]
fn watchers_are_notified_once_of_each_expiration() {
    let mut timer = set(TimerFlags::empty(), 5, 5);
    assert!(!timer.take_unnotified());
    timer.advance_to(at(105));
    assert!(timer.take_unnotified());
    assert!(!timer.take_unnotified());
    timer.advance_to(at(110));
    timer.take_ticks();
    assert!(
        !timer.take_unnotified(),
        "the watchers were notified already"
    );
}

#[test]
fn a_new_setting_forgets_what_expired() {
    let mut timer = set(TimerFlags::empty(), 5, 5);
    let before = timer.setting;
    timer.advance_to(at(120));
    timer.set_at(at(120), TimerFlags::empty(), ITimerSpec::default());
    assert_ne!(timer.setting, before);
    assert_eq!((timer.ticks, timer.expiry), (0, None));
    assert_eq!(ticks_at(&mut timer, 999), 0);
}

#[test]
fn the_end_of_time_is_not_passed() {
    let mut timer = set(TimerFlags::empty(), u64::MAX, u64::MAX);
    assert_eq!(timer.expiry, Some(END_OF_TIME));
    let end = Now {
        time: END_OF_TIME,
        offset: None,
    };
    timer.advance_to(end);
    assert_eq!((timer.ticks, timer.expiry), (1, Some(END_OF_TIME)));
    let mut timer = set(TimerFlags::empty(), 1, 0);
    timer.interval = Duration::from_nanos(1);
    timer.advance_to(end);
    assert_eq!(timer.ticks, i64::MAX as u64 - 101_000_000_000 + 1);
}

#[test]
fn a_set_clock_cancels_once_if_that_was_requested() {
    let now = |offset| Now {
        time: seconds(100),
        offset: Some(seconds(offset)),
    };
    let far = ITimerSpec {
        interval: Duration::ZERO,
        value: seconds(1000),
    };
    let mut timer = Timer::new(Clock::Realtime);
    let flags = TimerFlags::ABSTIME | TimerFlags::CANCEL_ON_SET;
    timer.set_at(now(50), flags, far);
    timer.advance_to(now(50));
    assert_eq!(timer.take_ticks(), None);
    timer.advance_to(now(51));
    assert!(timer.take_unnotified());
    assert_eq!(timer.ticks, 1);
    assert_eq!(timer.take_ticks(), Some(Err(Errno::ECANCELED)));
    timer.advance_to(now(51));
    assert_eq!(timer.take_ticks(), None);

    timer.set_at(at(100), TimerFlags::ABSTIME, far);
    timer.advance_to(now(60));
    assert_eq!(timer.take_ticks(), None);
}

#[test]
fn only_a_time_of_day_follows_the_time_of_day() {
    let mut timer = Timer::new(Clock::Realtime);
    timer.set(TimerFlags::empty(), ITimerSpec::default());
    assert!(!timer.follows_the_time_of_day());
    timer.set(TimerFlags::ABSTIME, ITimerSpec::default());
    assert!(timer.follows_the_time_of_day());
}
