//! Calls in threads of their own, which may block.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Long enough for a thread to fall asleep. A shorter time can only hide a failure.
const SETTLE: Duration = Duration::from_millis(50);

/// Far longer than any wake-up takes.
const NEVER: Duration = Duration::from_secs(20);

/// Call that runs in another thread.
pub(crate) struct Call<T>(Receiver<T>);

impl<T: Send + 'static> Call<T> {
    pub(crate) fn start(call: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || sender.send(call()));
        Call(receiver)
    }

    /// Starts a call that is expected to block, and checks that it does.
    #[track_caller]
    pub(crate) fn start_waiting(call: impl FnOnce() -> T + Send + 'static) -> Self {
        let call = Self::start(call);
        call.assert_waiting();
        call
    }

    #[track_caller]
    pub(crate) fn assert_waiting(&self) {
        match self.0.recv_timeout(SETTLE) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => panic!("the call did not wait"),
        }
    }

    #[track_caller]
    pub(crate) fn result(self) -> T {
        match self.0.recv_timeout(NEVER) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => panic!("the call was never woken"),
            Err(RecvTimeoutError::Disconnected) => panic!("the call panicked"),
        }
    }
}

/// Runs `body`, and fails if it hangs.
#[track_caller]
pub(crate) fn within_time(body: impl FnOnce() + Send + 'static) {
    Call::start(body).result();
}
