//! What operations on counts, pins and locks cost, beside what they replace.
//!
//! ```console
//! $ cargo run --release -p fdtable-recover --example costs
//! ```
//!
//! The subjects take turns; each figure is the median of many turns, with the 10th and the 90th
//! percentile.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    linux::measure();
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("for Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::alloc::{alloc_zeroed, handle_alloc_error};
    use std::hint::{black_box, spin_loop};
    use std::ptr::{self, NonNull};
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
    use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, compiler_fence};
    use std::thread;
    use std::time::Instant;

    use fdtable::{Fd, FdFlags, FileRef, Files};
    use fdtable_recover::lock::NO_REPAIR;
    use fdtable_recover::{Count, Kernel, Lock, Records, Thread};

    /// How many operations a turn has.
    const OPERATIONS: u32 = 5_000;

    const TURNS: usize = 500;

    /// Many of them are left out where other programs run too.
    const TURNS_TOGETHER: usize = 5_000;

    /// No operation has this index.
    const END: usize = usize::MAX;

    /// A kernel of one process, without objects.
    struct Alone;

    // SAFETY: no process dies.
    unsafe impl Kernel for Alone {
        fn is_alive(&self, _: u32) -> bool {
            true
        }

        fn repair(&self, _: &Lock, _: u8) {}

        fn release(&self, _: &Thread<'_>, _: &Count) {}

        fn free(&self, _: &Thread<'_>, _: &Count, (place, value): (&AtomicU64, u64)) {
            place.store(value, Relaxed);
        }

        fn drop_process(&self, _: &Thread<'_>, _: u32) {}
    }

    /// A name for each operation, and its figures.
    type Figures = Vec<(&'static str, Vec<f64>)>;

    /// A count that a note goes before, and which a burial could not repair exactly.
    #[derive(Default)]
    #[repr(align(64))]
    struct Noted {
        count: AtomicU64,
    }

    /// What a thread is about to do.
    #[derive(Default)]
    #[repr(align(64))]
    struct Note([AtomicU64; 3]);

    impl Noted {
        fn add(&self, Note(note): &Note, amount: u64, place: &AtomicU64, value: u64) {
            let [object, amount_noted, place_noted] = note;
            amount_noted.store(amount, Relaxed);
            place_noted.store(ptr::from_ref(place).addr() as u64, Relaxed);
            compiler_fence(Release);
            object.store(ptr::from_ref(&self.count).addr() as u64, Relaxed);
            compiler_fence(Release);
            self.count.fetch_add(amount, AcqRel);
            place.store(value, Release);
            object.store(0, Relaxed);
        }
    }

    /// A lock of one word without an owner.
    fn with_plain_lock(word: &AtomicU32) {
        while word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        word.swap(0, Release);
    }

    #[allow(clippy::single_range_in_vec_init, reason = "it is a list of one range")]
    fn records() -> Records<'static> {
        const CAPACITY: usize = 800;
        let layout = Records::layout(CAPACITY);
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: it is zero, of this layout, never freed, and only this process has it.
        unsafe { Records::place(memory, CAPACITY, &[0..usize::MAX]) }
            .expect("the CPU has cmpxchg16b")
    }

    fn claim_process(records: Records<'static>) -> Thread<'static> {
        let claim = records.claim_process().expect("a record is free");
        // SAFETY: it was claimed for this thread. Where a thread has two, it is one after the
        // other, as if they took turns.
        unsafe { records.adopt(claim) }.expect("it was just claimed")
    }

    /// What the operations are about: a file in our table, and an object that a slot refers to.
    struct Subjects {
        records: Records<'static>,
        noted: Noted,
        count: Count,
        slot: AtomicU64,
        files: Files<u64>,
        fd: Fd,
        lock: Lock,
        word: AtomicU32,
    }

    impl Subjects {
        /// Two records for the calling thread.
        fn threads(&self) -> [Thread<'static>; 2] {
            [(); 2].map(|()| claim_process(self.records))
        }

        fn new() -> Box<Self> {
            let files = Files::new();
            let file = files.open(FileRef::new(7), FdFlags::empty());
            let subjects = Box::new(Self {
                records: records(),
                noted: Noted::default(),
                count: Count::new(),
                slot: AtomicU64::new(0),
                fd: file.expect("there is memory"),
                files,
                lock: Lock::new(),
                word: AtomicU32::new(0),
            });
            let address = ptr::from_ref(&subjects.count).expose_provenance();
            subjects.slot.store(address as u64, Relaxed);
            subjects
        }

        /// Calls `each` with the name of an operation, how many parts it has, and the operation,
        /// for two threads in turn.
        fn each(
            &self,
            [one, other]: &[Thread<'_>; 2],
            mut each: impl FnMut(&'static str, u32, &mut dyn FnMut()),
        ) {
            let place = AtomicU64::new(0);
            each("atomic add", 2, &mut || {
                black_box(&self.noted.count).fetch_add(1, AcqRel);
                black_box(&self.noted.count).fetch_sub(1, AcqRel);
            });
            let note = Note::default();
            each("noted atomic add", 2, &mut || {
                black_box(&self.noted).add(&note, 1, &place, 1);
                black_box(&self.noted).add(&note, u64::MAX, &place, 0);
            });
            each("get or put", 2, &mut || {
                // SAFETY: no thread dies, and only this one writes the place.
                unsafe { black_box(&self.count).get(one, &place, 1) };
                // SAFETY: no thread dies, and only this one writes the place.
                unsafe { black_box(&self.count).put(one, &place, 0) };
            });
            each("get or put, names of two records", 2, &mut || {
                // SAFETY: no thread dies, and only this one writes the place.
                unsafe { black_box(&self.count).get(one, &place, 1) };
                // SAFETY: no thread dies, and only this one writes the place.
                unsafe { black_box(&self.count).put(other, &place, 0) };
            });
            each("owned lookup and its put (fdtable)", 1, &mut || {
                black_box(self.files.get(black_box(self.fd)).expect("it is open"));
            });
            each("pin and unpin", 1, &mut || {
                // SAFETY: the slot is a reference.
                let pin =
                    unsafe { one.pin(black_box(&self.slot)) }.expect("the slot has an object");
                black_box(pin.count());
                pin.unpin();
            });
            each("plain lock and unlock", 1, &mut || {
                with_plain_lock(black_box(&self.word));
            });
            each("lock and unlock", 1, &mut || {
                // SAFETY: no thread dies.
                drop(unsafe { black_box(&self.lock).lock(one, NO_REPAIR, &Alone) });
            });
        }
    }

    /// What two threads do at the same time.
    struct Together {
        /// The index of the operation that is measured.
        current: AtomicUsize,
        /// How often the other thread has done it.
        others: AtomicU32,
    }

    /// Measures each operation. Where another thread does the same, leaves out the figure if one of
    /// the two has done less than half of what the other has: it was not on a CPU all the time.
    fn turn(
        subjects: &Subjects,
        threads: &[Thread<'_>; 2],
        together: Option<&Together>,
        figures: &mut Figures,
    ) {
        let mut index = 0;
        subjects.each(threads, |name, parts, run| {
            if let Some(Together { current, others }) = together {
                current.store(index, Relaxed);
                others.store(0, Relaxed);
            }
            let start = Instant::now();
            for _ in 0..OPERATIONS {
                run();
            }
            let nanoseconds = start.elapsed().as_nanos() as f64;
            if figures.len() == index {
                figures.push((name, Vec::new()));
            }
            let alike = OPERATIONS / 2..=OPERATIONS * 2;
            if together.is_none_or(|it| alike.contains(&it.others.load(Relaxed))) {
                let figure = nanoseconds / f64::from(OPERATIONS * parts);
                figures[index].1.push(figure);
            }
            index += 1;
        });
    }

    /// Does each operation as long as the other thread measures it, until the end.
    fn disturb(subjects: &Subjects, Together { current, others }: &Together) {
        let threads = subjects.threads();
        while current.load(Relaxed) != END {
            let mut index = 0;
            subjects.each(&threads, |_, _, run| {
                while current.load(Relaxed) == index {
                    for _ in 0..100 {
                        run();
                    }
                    others.fetch_add(100, Relaxed);
                }
                index += 1;
            });
        }
    }

    fn print(title: &str, figures: Figures) {
        println!(
            "{title:<40} {:>7} {:>7} {:>7} {:>7}",
            "p10", "median", "p90", "turns"
        );
        for (name, mut figures) in figures {
            figures.sort_by(f64::total_cmp);
            let turns = figures.len();
            let at = |tenth| figures.get(turns * tenth / 10).copied().unwrap_or(f64::NAN);
            let [low, median, high] = [1, 5, 9].map(at);
            println!("{name:<40} {low:>7.1} {median:>7.1} {high:>7.1} {turns:>7}");
        }
    }

    pub(super) fn measure() {
        let subjects = Subjects::new();
        let threads = subjects.threads();
        let measured = |turns, together: Option<&Together>| {
            let mut figures = Figures::new();
            for _ in 0..turns {
                turn(&subjects, &threads, together, &mut figures);
            }
            figures
        };
        print("ns, one thread", measured(TURNS, None));
        let together = Together {
            current: AtomicUsize::new(0),
            others: AtomicU32::new(0),
        };
        let figures = thread::scope(|scope| {
            scope.spawn(|| disturb(&subjects, &together));
            let figures = measured(TURNS_TOGETHER, Some(&together));
            together.current.store(END, Relaxed);
            figures
        });
        print("ns, another thread does the same", figures);
    }
}
