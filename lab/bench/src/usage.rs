//! CPU time and context switches of a run.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};

/// Time and context switches of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Switches because a thread went to sleep.
    pub(crate) voluntary_switches: u64,
    /// Switches because the scheduler preempted a thread.
    pub(crate) involuntary_switches: u64,
}

impl Usage {
    /// Reads the usage of the process until now.
    pub(crate) fn now() -> anyhow::Result<Self> {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Reads the usage of the process, or of all its children that have ended.
    pub(crate) fn of(who: UsageWho) -> anyhow::Result<Self> {
        let usage = getrusage(who)?;
        Ok(Usage {
            user: duration(usage.user_time()),
            system: duration(usage.system_time()),
            voluntary_switches: usage.voluntary_context_switches().unsigned_abs(),
            involuntary_switches: usage.involuntary_context_switches().unsigned_abs(),
        })
    }

    /// Returns the usage since `earlier`.
    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

/// Reads the CPU time that the calling thread has used.
pub(crate) fn thread_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Converts a time of the system.
fn duration(time: TimeVal) -> Duration {
    Duration::from_secs(time.tv_sec().unsigned_abs())
        + Duration::from_micros(time.tv_usec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_a_voluntary_switch() {
        let before = Usage::now().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        let used = Usage::now().unwrap().since(&before);
        assert!(used.voluntary_switches >= 1, "{used:?}");
    }
}
