//! If a timerfd is wrong, a thread sleeps too long, or wakes for a cancelled expiration.

use std::sync::Arc;

use super::*;
use crate::call::Call;

const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(1000);

fn once(value: Duration) -> ITimerSpec {
    ITimerSpec {
        interval: Duration::ZERO,
        value,
    }
}

fn timer(clock: Clock) -> Arc<TimerFd> {
    Arc::new(TimerFd::new(clock, TimerFdFlags::empty()))
}

fn set(timer: &TimerFd, spec: ITimerSpec) {
    timer.set(TimerFlags::empty(), spec).unwrap();
}

fn take(timer: &TimerFd) -> Result<u64, Errno> {
    let mut ticks = [0; 8];
    timer.read(&mut ticks)?;
    Ok(u64::from_ne_bytes(ticks))
}

fn try_take(timer: &TimerFd) -> Result<u64, Errno> {
    let mut ticks = [0; 8];
    timer.try_read(&mut ticks)?;
    Ok(u64::from_ne_bytes(ticks))
}

fn reading(timer: &Arc<TimerFd>) -> Call<Result<u64, Errno>> {
    let timer = Arc::clone(timer);
    Call::start_waiting(move || take(&timer))
}

#[test]
fn a_read_waits_for_the_expiration() {
    for clock in [Clock::Realtime, Clock::Monotonic, Clock::Boottime] {
        let timer = timer(clock);
        let start = Instant::now();
        set(&timer, once(SOON));
        assert_eq!(try_take(&timer), Err(Errno::EAGAIN));
        assert_eq!(take(&timer), Ok(1));
        assert!(start.elapsed() >= SOON);
        assert_eq!(try_take(&timer), Err(Errno::EAGAIN));
    }
}

#[test]
fn an_absolute_time_is_one_of_the_clock() {
    for clock in [Clock::Realtime, Clock::Monotonic, Clock::Boottime] {
        let timer = timer(clock);
        let start = Instant::now();
        let expiry = once(clock.now() + SOON);
        timer.set(TimerFlags::ABSTIME, expiry).unwrap();
        assert!(timer.get().unwrap().value <= SOON);
        assert_eq!(take(&timer), Ok(1));
        assert!(start.elapsed() >= SOON);
    }
}

#[test]
fn a_sleeper_wakes_for_an_earlier_setting() {
    let timer = timer(Clock::Monotonic);
    let (off, far) = (reading(&timer), reading(&timer));
    set(&timer, once(LATER));
    off.assert_waiting();
    let soon = ITimerSpec {
        interval: SOON,
        value: SOON,
    };
    set(&timer, soon);
    assert!(off.result().is_ok_and(|ticks| ticks > 0));
    assert!(far.result().is_ok_and(|ticks| ticks > 0));
}

#[test]
fn a_disarmed_timer_wakes_no_thread() {
    let timer = timer(Clock::Monotonic);
    set(&timer, once(Duration::from_millis(80)));
    let call = reading(&timer);
    set(&timer, ITimerSpec::default());
    std::thread::sleep(Duration::from_millis(60));
    call.assert_waiting();
    set(&timer, once(SOON));
    assert_eq!(call.result(), Ok(1));
}

#[test]
fn the_old_setting_is_returned_as_what_is_left() {
    let timer = timer(Clock::Monotonic);
    let first = ITimerSpec {
        interval: SOON,
        value: LATER,
    };
    let old = timer.set(TimerFlags::empty(), first);
    assert_eq!(old, Ok(ITimerSpec::default()));
    let old = timer.set(TimerFlags::empty(), once(SOON)).unwrap();
    assert_eq!(old.interval, SOON);
    assert!(old.value <= LATER && old.value > LATER / 2);
    take(&timer).unwrap();
    assert_eq!(timer.get(), Ok(ITimerSpec::default()));
}

#[test]
fn a_sleeper_in_a_revoked_timerfd_wakes() {
    let timer = timer(Clock::Monotonic);
    let call = reading(&timer);
    timer.revoke();
    assert_eq!(call.result(), Err(Errno::EIO));
    assert_eq!(timer.get(), Err(Errno::EIO));
    assert_eq!(timer.events(), Events::ERR);
}
