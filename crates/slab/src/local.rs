//! The magazines of the CPUs: the fast path of allocating and freeing.
//!
//! Each CPU has two magazines, `loaded` and `previous`. A thread takes objects from the loaded one
//! of its CPU, and frees objects to it. If that one lacks an object or room and the previous one
//! does not, they are exchanged. So a thread that allocates and frees at the edge of a magazine
//! continues with these two. It needs another one, from the depot, only after a whole magazine of
//! one or the other operation (Bonwick and Adams, USENIX 2001).
//!
//! The thread may be moved to another CPU between any two operations, and each is correct on any
//! CPU. The method of mutual exclusion is chosen when the magazines are made:
//!
//! - [`rseq`]: by restartable sequences, on x86-64 Linux with glibc ≥ 2.35. Allocating and freeing
//!   an object takes 3 ns in total.
//! - With the lock of each [`Pair`], everywhere else and in models: 7 ns.

use core::ptr::NonNull;

use self::pair::Pair;
use super::magazine::{Lack, Magazine, MagazineList, Rounds};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::fence::NotRestarted;
use fdtable_sync::percpu::{self, PerCpu};
use fdtable_sync::platform::Mutex;
use fdtable_sync::platform::atomic::AtomicBool;
#[cfg(all(test, loom))]
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::sequence::Area;

mod pair;
mod rseq;

#[cfg(all(test, loom))]
pub(super) use fdtable_sync::sequence::model::with_sequences;

/// The magazines of all CPUs. The owner must [take them](Local::take_all) before it drops this;
/// else they leak, with their objects. On a line of its own, which all threads read.
#[repr(align(64))]
pub(super) struct Local {
    /// Place of a thread's rseq area. Without one, threads take the locks of the pairs.
    area: Option<Area>,
    /// With sequences, a CPU with an index past the last has none.
    pairs: PerCpu<Pair>,
    /// Set during a drain: only the drain changes the magazine of a place. For sequences.
    stopped: AtomicBool,
    /// Held during a drain. Magazines that were taken out by one whose second restart has failed:
    /// threads may use them still. For sequences.
    drains: Mutex<MagazineList>,
}

/// Figures of the CPUs' magazines.
#[derive(Default)]
pub(super) struct Held {
    pub(super) magazines: usize,
    pub(super) objects: usize,
}

impl Held {
    fn add(&mut self, pair: &Pair) {
        for place in [&pair.loaded, &pair.previous] {
            let rounds = Pair::rounds(place);
            self.magazines += usize::from(!core::ptr::eq(rounds, Rounds::none()));
            self.objects += rounds.len();
        }
    }
}

impl Local {
    /// Makes a place for the magazines of each CPU, without any. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the places.
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Self::with_area(rseq::find())
    }

    fn with_area(area: Option<Area>) -> Result<Self, OutOfMemory> {
        // Models with locks have one CPU.
        let copies = area.map_or_else(percpu::copies, |_| rseq::copies());
        Ok(Self {
            area,
            pairs: PerCpu::try_with_copies(copies, |_| Pair::new())?,
            stopped: AtomicBool::new(false),
            drains: Mutex::new(MagazineList::new()),
        })
    }

    /// Takes an object from this CPU's magazines, if they have one. Never waits with sequences;
    /// with locks, it waits for the thread that uses these magazines.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        match self.area {
            Some(area) => rseq::pop(self, area),
            None => self.pop_locked(),
        }
    }

    /// Puts an object into this CPU's magazines. Waits like [`pop`](Self::pop).
    ///
    /// # Errors
    /// The object, if they have no room or are not there.
    #[inline(always)]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        match self.area {
            Some(area) => rseq::push(self, area, object),
            None => self.push_locked(object),
        }
    }

    #[inline(never)]
    fn pop_locked(&self) -> Option<NonNull<u8>> {
        self.pairs.this().with(Pair::pop)
    }

    #[inline(never)]
    fn push_locked(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        self.pairs.this().with(|pair| pair.push(object))
    }

    /// Loads a magazine that does not lack that, if both of this CPU do, and returns the one that
    /// it displaces, if there was one. Returns the given one if one of this CPU does not lack it,
    /// or this CPU cannot have magazines now.
    pub(super) fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        match self.area {
            Some(area) => rseq::load(self, area, magazine, lack),
            None => self.pairs.this().with(|pair| pair.load(magazine, lack)),
        }
    }

    /// Moves the magazines of all CPUs to a list, while other threads pop and push. From then on
    /// the CPUs have none, until they are given some. Enters the operating system.
    ///
    /// # Errors
    /// [`NotRestarted`], where processes share memory: it took none.
    pub(super) fn drain(&self, list: &mut MagazineList) -> Result<(), NotRestarted> {
        if let Some(area) = self.area {
            return rseq::drain(self, area, list);
        }
        for pair in self.pairs.iter() {
            list.extend(pair.with(Pair::take));
        }
        Ok(())
    }

    /// Reads the figures of the magazines of all CPUs, from any CPU, while other threads pop and
    /// push: a hint.
    ///
    /// # Safety
    /// No magazine that was ever loaded here is freed meanwhile.
    pub(super) unsafe fn held(&self) -> Held {
        let mut held = Held::default();
        for pair in self.pairs.iter() {
            match self.area {
                Some(_) => held.add(pair),
                None => pair.with(|pair| held.add(pair)),
            }
        }
        held
    }

    /// Moves all magazines to a list, with exclusive access.
    pub(super) fn take_all(&mut self, list: &mut MagazineList) {
        for pair in self.pairs.iter() {
            list.extend(pair.take());
        }
        list.append(self.drains.get_mut());
    }
}

#[cfg(all(test, loom))]
impl Local {
    /// Puts one or two magazines on the first CPU, the last one loaded.
    fn place(&self, magazines: impl IntoIterator<Item = Magazine>) {
        let pair = self.pairs.of(0);
        for magazine in magazines {
            pair.set(magazine.into_raw(), pair.loaded.load(Relaxed));
        }
    }
}

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom), target_os = "linux", target_arch = "x86_64"))]
mod stress;

#[cfg(all(test, not(loom)))]
mod tests;
