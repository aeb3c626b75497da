//! Two words that change together, by `lock cmpxchg16b`.
//!
//! All accesses are in assembly: a load of one half, and an exchange of both, are accesses of two
//! sizes to one place, which the atomics of the language do not mix.

/// The two halves, the lower one first.
pub(crate) type Halves = [u64; 2];

/// Two words that change together.
#[cfg(not(loom))]
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Pair(core::cell::UnsafeCell<Halves>);

// SAFETY: all accesses are single instructions, which a CPU does at once; those of both halves are
// locked.
#[cfg(not(loom))]
unsafe impl Sync for Pair {}

#[cfg(not(loom))]
impl Pair {
    pub(crate) const fn new(halves: Halves) -> Self {
        Self(core::cell::UnsafeCell::new(halves))
    }

    /// Loads the lower half, with acquire.
    #[inline(always)]
    pub(crate) fn low(&self) -> u64 {
        let low;
        // SAFETY: loads a word of `self`. On x86-64 each load acquires.
        unsafe {
            core::arch::asm!(
                "mov {low}, [{pair}]",
                pair = in(reg) self.0.get(),
                low = lateout(reg) low,
                options(nostack, preserves_flags, readonly),
            );
        }
        low
    }

    /// Loads both halves, one after the other, with acquire. Each half was there at some time, but
    /// they need not belong together.
    #[inline(always)]
    pub(crate) fn halves(&self) -> Halves {
        let (low, high);
        // SAFETY: loads two words of `self`. On x86-64 each load acquires.
        unsafe {
            core::arch::asm!(
                "mov {low}, [{pair}]",
                "mov {high}, [{pair} + 8]",
                pair = in(reg) self.0.get(),
                low = out(reg) low,
                high = lateout(reg) high,
                options(nostack, preserves_flags, readonly),
            );
        }
        [low, high]
    }

    /// Loads both halves at one time: a full fence.
    pub(crate) fn load(&self) -> Halves {
        match self.compare_exchange([0, 0], [0, 0]) {
            Ok(()) => [0, 0],
            Err(now) => now,
        }
    }

    /// Stores the upper half. No other thread changes the pair now.
    pub(crate) fn set_high(&self, high: u64) {
        // SAFETY: stores a word of `self`.
        unsafe {
            core::arch::asm!(
                "mov [{pair} + 8], {high}",
                pair = in(reg) self.0.get(),
                high = in(reg) high,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Stores `new` if the pair is `current`: a full fence in either case.
    ///
    /// # Errors
    /// What the pair was, if that is another value.
    #[inline(always)]
    pub(crate) fn compare_exchange(&self, current: Halves, new: Halves) -> Result<(), Halves> {
        let ([mut low, mut high], equal): (Halves, u8);
        [low, high] = current;
        // SAFETY: exchanges `self`, which is aligned to 16 bytes. The compiler reserves `rbx`, so
        // it gets its value back; the other operands have registers of their own.
        unsafe {
            core::arch::asm!(
                "xchg {new_low}, rbx",
                "lock cmpxchg16b [rdi]",
                "sete r8b",
                "mov rbx, {new_low}",
                new_low = inout(reg) new[0] => _,
                in("rcx") new[1],
                in("rdi") self.0.get(),
                inout("rax") low,
                inout("rdx") high,
                out("r8b") equal,
                options(nostack),
            );
        }
        if equal != 0 { Ok(()) } else { Err([low, high]) }
    }
}

/// Two words that change together, and whose loads are not together, as on the hardware.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Pair {
    /// An access reads it, and [`free`](Self::free) writes it: the checker reports an access that
    /// does not come before.
    memory: loom::cell::UnsafeCell<()>,
    halves: [loom::sync::atomic::AtomicU64; 2],
    exchange: loom::sync::Mutex<()>,
}

#[cfg(loom)]
impl Pair {
    #[cfg(test)]
    pub(crate) fn new(halves: Halves) -> Self {
        Self {
            memory: loom::cell::UnsafeCell::new(()),
            halves: halves.map(loom::sync::atomic::AtomicU64::new),
            exchange: loom::sync::Mutex::new(()),
        }
    }

    /// Takes the memory away.
    #[cfg(test)]
    pub(crate) fn free(&self) {
        self.memory.with_mut(|_| ());
    }

    pub(crate) fn low(&self) -> u64 {
        self.memory.with(|_| ());
        self.halves[0].load(loom::sync::atomic::Ordering::Acquire)
    }

    pub(crate) fn halves(&self) -> Halves {
        let low = self.low();
        let high = self.halves[1].load(loom::sync::atomic::Ordering::Acquire);
        [low, high]
    }

    pub(crate) fn load(&self) -> Halves {
        let _exchange = self.exchange.lock();
        self.halves()
    }

    pub(crate) fn set_high(&self, high: u64) {
        self.memory.with(|_| ());
        self.halves[1].store(high, loom::sync::atomic::Ordering::Release);
    }

    pub(crate) fn compare_exchange(&self, current: Halves, new: Halves) -> Result<(), Halves> {
        let _exchange = self.exchange.lock();
        let now = self.halves();
        if now != current {
            return Err(now);
        }
        for (half, new) in self.halves.iter().zip(new) {
            half.store(new, loom::sync::atomic::Ordering::Release);
        }
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}
