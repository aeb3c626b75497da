//! The kernel's own lock: it spins, with interrupts off.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardNoSend, Mutex, RawMutex};
use x86_64::instructions::interrupts;

/// A value that one CPU at a time uses, for a short time. Interrupts of the CPU are off meanwhile.
pub type Lock<T> = Mutex<RawLock, T>;

pub struct RawLock {
    is_taken: AtomicBool,
    /// True if the holder had its interrupts on before.
    were_enabled: AtomicBool,
}

// SAFETY: one thread at a time leaves the loop of `lock`, until it has called `unlock`.
unsafe impl RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "of the trait")]
    const INIT: Self = Self {
        is_taken: AtomicBool::new(false),
        were_enabled: AtomicBool::new(false),
    };
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let were_enabled = interrupts::are_enabled();
        interrupts::disable();
        // Acquire: pairs with the release in `unlock`, so the value is as its last user left it.
        while self.is_taken.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        self.were_enabled.store(were_enabled, Ordering::Relaxed);
    }

    fn try_lock(&self) -> bool {
        false
    }

    unsafe fn unlock(&self) {
        let were_enabled = self.were_enabled.load(Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
        if were_enabled {
            interrupts::enable();
        }
    }
}
