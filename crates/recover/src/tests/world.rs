//! A small kernel in shared memory, with everything that can be left half done, and its judge.
//!
//! Each record has a table of slots. A slot is a reference to an object of the pool; an object may
//! have one to another object, its child. Two accounts have a sum that never changes, and three
//! words are always equal: a lock guards each, and the kernel repairs the first, a journal the
//! second.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, fence};
use core::time::Duration;

use crate::lock::NO_REPAIR;
use crate::platform::{address, object};
use crate::records::State;
use crate::{Burial, Claim, Count, Guard, Kernel, Lock, Once, Records, Thread};

pub(super) const RECORDS: usize = 24;
pub(super) const SLOTS: usize = 6;
const OBJECTS: usize = 40;
const SUM: u64 = 1000;

/// The kind of repair of the accounts.
pub(super) const ACCOUNTS: u8 = 1;

#[repr(C)]
pub(super) struct Object {
    count: Count,
    /// How many times it was allocated.
    incarnation: AtomicU64,
    /// The incarnation that was released last.
    released: AtomicU64,
    child: AtomicU64,
    /// The next free object.
    next: AtomicU64,
}

#[repr(C)]
pub(super) struct Shared {
    objects: [Object; OBJECTS],
    pub(super) pool: Lock,
    free: AtomicU64,
    pub(super) tables: [[AtomicU64; SLOTS]; RECORDS],
    pub(super) accounts: Lock,
    money: [AtomicU64; 2],
    pub(super) words_lock: Lock,
    words: [AtomicU64; 3],
    once: Once<u64>,
    /// The points at which a process has died, a bit for each, and the last one.
    reached: [AtomicU64; 2],
    /// Odd if the workers shall stop, and the number at which each thread did.
    pub(super) stop: AtomicU64,
    pub(super) stopped: [AtomicU64; RECORDS],
    /// What workers have done.
    pub(super) operations: AtomicU64,
    /// How far the processes of a test have come.
    pub(super) stage: AtomicU64,
}

/// The shared memory as one process sees it.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub(super) shared: &'static Shared,
    pub(super) records: Records<'static>,
    pub(super) life: libc::c_int,
    /// Called in a child before it gives its life sign, and after that.
    pub(super) on_birth: [fn(&Self); 2],
    /// Called before a lock is repaired.
    pub(super) on_repair: fn(&Self),
    /// Called when a thread has asked whether a process lives.
    pub(super) on_question: fn(&Self),
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Exited,
    Killed,
}

pub(super) struct Child {
    pid: libc::pid_t,
    pub(super) claim: Claim,
    pub(super) process: u32,
}

/// Maps zeroed shared memory that stays for the rest of the test program.
fn map(size: usize) -> ptr::NonNull<u8> {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: makes a new mapping.
    let memory = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    ptr::NonNull::new(memory.cast()).unwrap()
}

impl World {
    /// Makes a world, and the record of this process in it.
    pub(super) fn new() -> (Self, Thread<'static>) {
        let sizes = [Records::layout(RECORDS).size(), size_of::<Shared>()];
        let [memory, shared] = sizes.map(map);
        let range =
            |memory: ptr::NonNull<u8>, size| memory.addr().get()..memory.addr().get() + size;
        let ranges = vec![range(memory, sizes[0]), range(shared, sizes[1])].leak();
        // SAFETY: it has the layout, is zero, and is shared by all children that are forked later.
        let records = unsafe { Records::place(memory, RECORDS, ranges) };
        let records = records.expect("the CPU has cmpxchg16b");
        // SAFETY: all zero is a valid value: no object, free locks. It is never unmapped.
        let shared: &'static Shared = unsafe { shared.cast().as_ref() };
        for object in &shared.objects {
            object.next.store(shared.free.load(Relaxed), Relaxed);
            shared.free.store(address(object), Relaxed);
        }
        shared.money[0].store(SUM, Relaxed);
        // SAFETY: the name is a string.
        let life = unsafe { libc::memfd_create(c"life".as_ptr(), 0) };
        assert!(life >= 0);
        // SAFETY: registers this process, and has no pointers.
        let registered = unsafe {
            libc::syscall(
                libc::SYS_membarrier,
                libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
                0,
                0,
            )
        };
        assert_eq!(registered, 0);
        let world = Self {
            shared,
            records,
            life,
            on_birth: [|_| {}; 2],
            on_repair: |_| {},
            on_question: |_| {},
        };
        let claim = records.claim_process().unwrap();
        let thread = world.adopt(claim).unwrap();
        (world, thread)
    }

    /// Notes the points at which processes die, until the test ends.
    pub(super) fn note_deaths(&self) {
        let reached = ptr::from_ref(&self.shared.reached).cast_mut();
        crate::death::REACHED.store(reached, Relaxed);
    }

    /// Returns the numbers of the points at which no process has died yet.
    pub(super) fn missed(&self) -> Vec<u32> {
        let reached = self.shared.reached[0].load(Relaxed);
        let is_missed = |point: &u32| reached >> point & 1 == 0;
        (0..crate::death::POINTS).filter(is_missed).collect()
    }

    /// Returns what the last death left: the point, and the kind of the operation that a process
    /// had announced.
    pub(super) fn last_death(&self, process: u32) -> (u64, u64) {
        let operation = &self.records.record(process).operation;
        let point = self.shared.reached[1].load(Relaxed);
        (point, operation.word.load(Relaxed) & 3)
    }

    fn life_of(process: u32, kind: libc::c_int) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: process.into(),
            l_len: 1,
            l_pid: 0,
        }
    }

    /// Gives the life sign of this process, and adopts its record.
    fn adopt(&self, claim: Claim) -> Option<Thread<'static>> {
        let lock = Self::life_of(claim.index(), libc::F_WRLCK);
        let [before, after] = self.on_birth;
        before(self);
        // SAFETY: the kernel reads the lock.
        while unsafe { libc::fcntl(self.life, libc::F_SETLK, &raw const lock) } != 0 {
            if !self.records.is_pending(claim) {
                return None;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        after(self);
        // SAFETY: it was claimed for this process, which has no other record in this world.
        unsafe { self.records.adopt(claim) }
    }

    /// Forks a child that runs `run` and exits without a word: as a death at the end of a call.
    ///
    /// An aborted one exits at once.
    pub(super) fn fork(&self, run: impl FnOnce(&Thread<'static>)) -> Child {
        let claim = self.records.claim_process().expect("a record is free");
        // SAFETY: the child uses the world, threads of its own, and what it has inherited.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid > 0 {
            return Child {
                pid,
                claim,
                process: claim.index(),
            };
        }
        // SAFETY: has no pointers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(300) };
        exit_if_it_panics(|| {
            if let Some(thread) = self.adopt(claim) {
                run(&thread);
            }
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) }
    }

    /// Returns true if a child has ended. It still has to be reaped.
    pub(super) fn has_ended(child: &Child) -> bool {
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: all zero is a valid value.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        // SAFETY: the kernel writes what it knows of the child.
        let waited = unsafe { libc::waitid(libc::P_PID, child.pid as u32, &raw mut info, flags) };
        assert_eq!(waited, 0);
        info.si_signo != 0
    }

    /// Waits for the end of a child, and reaps it.
    pub(super) fn wait(&self, child: &Child) -> End {
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        let waited = unsafe { libc::waitpid(child.pid, &raw mut status, 0) };
        assert_eq!(waited, child.pid);
        if libc::WIFSIGNALED(status) {
            assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
            return End::Killed;
        }
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child panicked");
        End::Exited
    }

    /// Waits until a test has come so far.
    pub(super) fn wait_for(&self, stage: u64) {
        for _ in 0..3_000_000 {
            if self.shared.stage.load(Acquire) >= stage {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        panic!("a process of the test does not come so far");
    }

    pub(super) fn reach(&self, stage: u64) {
        self.shared.stage.store(stage, Release);
    }

    pub(super) fn kill(&self, child: &Child) {
        // SAFETY: it is a child that was not reaped.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
    }

    /// Buries a child that has ended, unless another process has done it.
    pub(super) fn bury(&self, thread: &Thread<'_>, child: &Child) {
        let found = self.bury_process(thread, child.process);
        // It may have died before it had adopted its record.
        if found == Burial::NotDead && self.records.abort(child.claim) {
            assert_eq!(self.bury_process(thread, child.process), Burial::Done);
        }
    }

    /// Buries a process, and waits as long as another process is at it.
    pub(super) fn bury_process(&self, thread: &Thread<'_>, process: u32) -> Burial {
        for _ in 0..3_000_000 {
            match thread.bury(process, self) {
                Burial::Underway => std::thread::sleep(Duration::from_micros(100)),
                found => return found,
            }
        }
        panic!("a burial does not end");
    }

    /// The records of a process.
    pub(super) fn members(&self, process: u32) -> impl Iterator<Item = (u32, State)> {
        let records = self.records.used();
        records.filter_map(move |(index, record)| {
            let status = record.status();
            let is_member = status.state() != State::Free && status.process(index) == process;
            is_member.then_some((index, status.state()))
        })
    }

    /// Returns true if a dead process was inside a call, in any thread.
    pub(super) fn has_left_something(&self, process: u32) -> bool {
        let mut members = self.members(process);
        members.any(|(index, _)| !self.records.record(index).is_empty())
    }

    /// Returns true if all threads of a process have stopped, as asked for.
    pub(super) fn is_stopped(&self, process: u32) -> bool {
        let stop = self.shared.stop.load(Relaxed);
        let is_stopped = |index| self.shared.stopped[index as usize].load(Acquire) == stop;
        let mut members = self.members(process);
        members.all(|(index, state)| state == State::Alive && is_stopped(index))
    }

    /// The slot of a record.
    pub(super) fn slot(&self, index: u32, slot: usize) -> &'static AtomicU64 {
        &self.shared.tables[index as usize][slot]
    }

    /// Returns true if every thread was seen outside of sections: freed memory can be used again.
    fn grace_period_is_over(&self) -> bool {
        // SAFETY: has no pointers.
        let fenced = unsafe {
            libc::syscall(
                libc::SYS_membarrier,
                libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED,
                0,
                0,
            )
        };
        assert_eq!(fenced, 0);
        fence(SeqCst);
        (0..self.records.most_claimed()).all(|index| !self.records.is_in_section(index))
    }

    /// Takes a lock of the world.
    pub(super) fn lock<'a>(
        &self,
        thread: &'a Thread<'a>,
        lock: &'static Lock,
        kind: u8,
    ) -> Guard<'a> {
        // SAFETY: it is in shared memory forever.
        unsafe { lock.lock(thread, kind, self) }
    }

    /// Opens a new object in an empty slot of this thread, if the pool has one.
    pub(super) fn open(&self, thread: &Thread<'_>, slot: &AtomicU64) -> bool {
        assert_eq!(slot.load(Relaxed), 0);
        let shared = self.shared;
        let _pool = self.lock(thread, &shared.pool, NO_REPAIR);
        let free = shared.free.load(Relaxed);
        if free == 0 || !self.grace_period_is_over() {
            return false;
        }
        // SAFETY: objects live forever.
        let object: &Object = unsafe { object(free) };
        // SAFETY: the lock is held, and no thread has the free object any more.
        unsafe { ptr::from_ref(&object.count).cast_mut().write(Count::new()) };
        let incarnation = object.incarnation.load(Relaxed) + 1;
        let stores = [
            (&object.incarnation, incarnation),
            (&shared.free, object.next.load(Relaxed)),
            (slot, free),
        ];
        // SAFETY: the pool is locked, and the slot is one of this thread.
        unsafe { thread.store_together(&stores) };
        true
    }

    /// Copies the reference in one slot of this thread to an empty place.
    pub(super) fn dup(&self, thread: &Thread<'_>, slot: &AtomicU64, place: &AtomicU64) {
        let value = slot.load(Relaxed);
        // SAFETY: the slot is a reference.
        let object: &Object = unsafe { object(value) };
        // SAFETY: the slot is a reference of this thread, which has the place too.
        assert!(unsafe { object.count.get(thread, place, value) });
    }

    /// Copies the reference in a slot of another thread, if it has one, to an empty place.
    pub(super) fn take(&self, thread: &Thread<'_>, slot: &AtomicU64, place: &AtomicU64) -> bool {
        // SAFETY: slots are references.
        let Some(pin) = (unsafe { thread.pin(slot) }) else {
            return false;
        };
        let object = self.object_of(pin.count());
        let incarnation = object.incarnation.load(Relaxed);
        assert_ne!(
            object.released.load(Relaxed),
            incarnation,
            "a pinned object was released"
        );
        // SAFETY: it is pinned, and the place is one of this thread.
        let is_taken = unsafe { pin.count().get(thread, place, address(object)) };
        assert_ne!(
            object.released.load(Relaxed),
            incarnation,
            "a pinned object was released"
        );
        pin.unpin();
        is_taken
    }

    /// Puts a copy of the reference in one slot of this thread into another one, which may have
    /// another reference.
    pub(super) fn replace(&self, thread: &Thread<'_>, from: &AtomicU64, to: &AtomicU64) {
        // SAFETY: only a reference is stored there.
        let transit = &unsafe { thread.transit() }[0];
        self.dup(thread, from, transit);
        let (new, old) = (transit.load(Relaxed), to.load(Relaxed));
        // SAFETY: both places are of this thread.
        unsafe { thread.store_together(&[(to, new), (transit, old)]) };
        self.close(thread, transit);
    }

    /// Clears a slot of this thread, if it has a reference.
    pub(super) fn close(&self, thread: &Thread<'_>, slot: &AtomicU64) {
        let value = slot.load(Relaxed);
        if value != 0 {
            // SAFETY: the slot is a reference.
            let object: &Object = unsafe { object(value) };
            // SAFETY: the slot is one of this thread.
            unsafe { object.count.put(thread, slot, 0) };
        }
    }

    /// The place in the object of a slot where it refers to a child.
    pub(super) fn child_of(&self, slot: &AtomicU64) -> &'static AtomicU64 {
        // SAFETY: objects live forever.
        let object: &'static Object = unsafe { object(slot.load(Relaxed)) };
        &object.child
    }

    fn object_of(&self, count: &Count) -> &'static Object {
        // SAFETY: the count is the first field of an object, and objects live forever.
        unsafe { object(address(count)) }
    }

    /// Moves money, in two steps.
    pub(super) fn transfer(&self, thread: &Thread<'_>) {
        let _accounts = self.lock(thread, &self.shared.accounts, ACCOUNTS);
        let [from, to] = &self.shared.money;
        let (from, to) = if from.load(Relaxed) == 0 {
            (to, from)
        } else {
            (from, to)
        };
        from.store(from.load(Relaxed) - 1, Relaxed);
        crate::death::die_here!(57);
        to.store(to.load(Relaxed) + 1, Relaxed);
        crate::death::die_here!(3);
    }

    /// Changes the three words, together.
    pub(super) fn rotate(&self, thread: &Thread<'_>) {
        let _words = self.lock(thread, &self.shared.words_lock, NO_REPAIR);
        let next = self.shared.words[0].load(Relaxed) + 1;
        let stores = self.shared.words.each_ref().map(|word| (word, next));
        // SAFETY: the lock is held.
        unsafe { thread.store_together(&stores) };
    }

    pub(super) fn make_once(&self, thread: &Thread<'_>) {
        self.make_once_of(thread, || 7);
    }

    pub(super) fn make_once_of(&self, thread: &Thread<'_>, make: impl FnOnce() -> u64) {
        // SAFETY: it is in shared memory forever.
        let made = unsafe { self.shared.once.get_or_make(thread, self, make) };
        assert_eq!(*made, 7);
    }

    /// Lets the next [`make_once`](Self::make_once) begin again.
    pub(super) fn forget_once(&self) {
        let once = ptr::from_ref(&self.shared.once).cast_mut();
        // SAFETY: the caller is the only process that uses it now, and all zero is an empty cell.
        unsafe { once.write_bytes(0, 1) };
    }

    /// Returns how many places refer to each object. No thread changes any now.
    fn references(&self) -> [u64; OBJECTS] {
        let mut references = [0; OBJECTS];
        let slots = self.shared.tables.iter().flatten();
        let children = self.shared.objects.iter().map(|object| &object.child);
        for place in slots.chain(children) {
            let value = place.load(Relaxed);
            if value != 0 {
                let offset = value - address(&self.shared.objects);
                references[offset as usize / size_of::<Object>()] += 1;
            }
        }
        references
    }

    /// Checks what is true after each death. What a lock guards is whole unless the lock is held. A
    /// record that leads to a count without a reference is in a section. A thread has announced
    /// an operation or a journal, and not both.
    pub(super) fn judge_death(&self) {
        let shared = self.shared;
        let [one, other] = shared.money.each_ref().map(|money| money.load(Relaxed));
        assert!(one + other == SUM || !shared.accounts.is_free());
        let words = shared.words.each_ref().map(|word| word.load(Relaxed));
        assert!(words == [words[0]; 3] || !shared.words_lock.is_free());
        for (index, record) in self.records.used() {
            let operation = record.operation.word.load(Relaxed);
            assert!(operation == 0 || record.stores.count.load(Relaxed) == 0);
            let is_put = operation & 3 == 2;
            let is_checked = record.check.load(Relaxed) != 0;
            assert!(!is_put && !is_checked || self.records.is_in_section(index));
        }
    }

    /// Checks everything. Only `living` processes have records, and none of them is inside a call.
    pub(super) fn judge(&self, living: usize) {
        let shared = self.shared;
        fence(SeqCst);
        assert_eq!(self.records.claimed(), living, "records are left");
        let mut free = Vec::new();
        let mut next = shared.free.load(Acquire);
        while next != 0 {
            assert!(!free.contains(&next), "an object was freed twice");
            free.push(next);
            // SAFETY: objects live forever.
            next = unsafe { object::<Object>(next) }.next.load(Relaxed);
        }
        for (object, references) in shared.objects.iter().zip(self.references()) {
            let incarnation = object.incarnation.load(Relaxed);
            let is_released = object.released.load(Relaxed) == incarnation;
            let is_free = free.contains(&address(object));
            assert_eq!(is_released, references == 0, "{references} references");
            assert_eq!(is_free, references == 0, "{references} references");
            // That of a free object may be that of an open which died.
            if references > 0 {
                assert_eq!(object.count.references(), references);
                assert!(object.count.is_live());
            }
        }
        for index in 0..self.records.most_claimed() {
            let pins = &self.records.pins(index).0;
            assert!(
                pins.iter().all(|pin| pin.load(Relaxed) == 0),
                "a pin is left"
            );
            assert!(!self.records.is_in_section(index), "a section is left");
        }
        for lock in [&shared.pool, &shared.accounts, &shared.words_lock] {
            assert!(lock.is_free(), "a lock is left");
        }
        let [one, other] = shared.money.each_ref().map(|money| money.load(Relaxed));
        assert_eq!(one + other, SUM);
        let words = shared.words.each_ref().map(|word| word.load(Relaxed));
        assert_eq!(words, [words[0]; 3]);
    }
}

// SAFETY: a process has its life sign until it ends, and objects live forever.
unsafe impl Kernel for World {
    fn patience(&self) -> Duration {
        Duration::from_micros(50)
    }

    fn is_alive(&self, process: u32) -> bool {
        let mut lock = Self::life_of(process, libc::F_WRLCK);
        // SAFETY: the kernel reads and writes the lock.
        let got = unsafe { libc::fcntl(self.life, libc::F_GETLK, &raw mut lock) };
        assert_eq!(got, 0);
        (self.on_question)(self);
        // A process never asks for itself.
        lock.l_type != libc::F_UNLCK as libc::c_short
    }

    fn repair(&self, lock: &Lock, kind: u8) {
        (self.on_repair)(self);
        assert_eq!(kind, ACCOUNTS);
        assert!(ptr::eq(lock, &raw const self.shared.accounts));
        let [one, other] = &self.shared.money;
        other.store(SUM - one.load(Relaxed), Relaxed);
    }

    fn release(&self, thread: &Thread<'_>, count: &Count) {
        let object = self.object_of(count);
        assert!(!count.is_live());
        assert_eq!(count.references(), 0);
        self.close(thread, &object.child);
        let incarnation = object.incarnation.load(Relaxed);
        object.released.store(incarnation, Release);
    }

    fn free(&self, thread: &Thread<'_>, count: &Count, end: (&AtomicU64, u64)) {
        let shared = self.shared;
        let object = self.object_of(count);
        let _pool = self.lock(thread, &shared.pool, NO_REPAIR);
        let stores = [
            (&object.next, shared.free.load(Relaxed)),
            (&shared.free, address(object)),
            end,
        ];
        // SAFETY: the pool is locked, and the record is that of this thread or a dead one.
        unsafe { thread.store_together(&stores) };
    }

    fn drop_process(&self, thread: &Thread<'_>, process: u32) {
        for (index, table) in (0..).zip(&self.shared.tables) {
            if self.records.process_of(index) != process {
                continue;
            }
            for slot in table {
                self.close(thread, slot);
                thread.release_all(self);
            }
        }
    }
}

/// Runs a part of a child. Ends the whole process if it panics, in whatever thread.
pub(super) fn exit_if_it_panics(run: impl FnOnce()) {
    let run = std::panic::AssertUnwindSafe(run);
    if std::panic::catch_unwind(run).is_err() {
        // SAFETY: ends the child.
        unsafe { libc::_exit(1) };
    }
}

/// Random numbers that a seed determines.
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        (state >> 32) as usize % bound
    }
}
