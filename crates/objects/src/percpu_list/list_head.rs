//! The shared state of the members: the parts, and how the list ends.
//!
//! The letters are those of the [parent module](super).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::statistics::Statistics;
use crate::object::Ref;
use crate::object::header::{Header, Prefix, RawObject, block_of, prefix};
use fdtable_sync::fallible::{OutOfMemory, try_box};
use fdtable_sync::lglock::LgLock;
use fdtable_sync::percpu;
use fdtable_sync::platform::Mutex;
use fdtable_sync::platform::atomic::AtomicUsize;
use fdtable_sync::platform::atomic::Ordering::{AcqRel, Relaxed};
use fdtable_sync::unwind;

/// How a member uses what the list stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It changes nothing.
    Read,
    /// It may change something. Such objects are counted separately, and can be kept out.
    Write,
}

/// Why an object could not join a list, or the list could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It writes, and writers are kept out.
    ReadOnly,
    /// Nothing can join any more.
    Detached,
    /// There are members, or writers, in the way.
    Busy,
    /// There is not enough memory.
    OutOfMemory,
}

impl From<OutOfMemory> for Refused {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The parts of a list, and the count of its keepers.
pub(super) struct ListHead {
    parts: LgLock<Part>,
    /// Members that have not counted themselves off since the list was detached.
    remaining: AtomicUsize,
    /// Called when there are none.
    gone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The handle, and the members together.
    keepers: AtomicUsize,
}

/// The members of one CPU. Both flags that a join checks are in each part, so that a join reads one
/// part alone; they are changed under the global lock.
pub(super) struct Part {
    pub(super) first: *mut Node,
    /// Members that joined, and that left. Present members are not counted: the store of a leave
    /// would delay the next load of a join.
    joined: u64,
    left: u64,
    /// Members that write.
    writers: usize,
    /// Writers that are not members.
    changes: usize,
    is_read_only: bool,
    is_detached: bool,
    /// Members that left on another CPU, and on another node.
    left_far: u64,
    left_very_far: u64,
}

// SAFETY: the nodes of the list are touched by the holder of its lock alone.
unsafe impl Send for Part {}

impl ListHead {
    /// Makes a list head for a handle and members.
    pub(super) fn try_new(parts: LgLock<Part>) -> Result<NonNull<Self>, OutOfMemory> {
        let head = try_box(Self {
            parts,
            remaining: AtomicUsize::new(0),
            gone: Mutex::new(None),
            keepers: AtomicUsize::new(2),
        })?;
        Ok(NonNull::from(Box::leak(head)))
    }

    /// Links a new member.
    ///
    /// # Safety
    /// The list head is alive. The block is one of a `T` with a node for this list head, and only
    /// the caller knows it.
    #[inline(always)]
    pub(super) unsafe fn join<T: ?Sized>(
        head: NonNull<Self>,
        raw: NonNull<RawObject>,
        access: Access,
    ) -> Result<(), Refused> {
        // SAFETY: as the caller promises.
        let parts = &unsafe { head.as_ref() }.parts;
        let cpu = percpu::current();
        // Looked up before the lock is taken.
        percpu::know_node(cpu);
        let mut part = parts.lock_local_of(cpu);
        part.check(access)?;
        let ticket = Ticket { cpu, access };
        // SAFETY: as the caller promises. It is not found on the list before it is unlocked.
        unsafe { Header::of(raw) }
            .state
            .set_list_word(ticket.pack());
        part.count_in(access);
        // SAFETY: as the caller promises.
        let node = unsafe { node_of::<T>(raw) };
        // SAFETY: the node is on no list, and stays in its place until it leaves.
        unsafe { part.link(node) };
        Ok(())
    }

    /// Unlinks a member.
    ///
    /// # Safety
    /// The block is one of a `T`, alive, and on this list head; it leaves once.
    #[inline(always)]
    pub(super) unsafe fn leave<T: ?Sized>(head: NonNull<Self>, raw: NonNull<RawObject>) {
        // SAFETY: as the caller promises.
        let ticket = Ticket::unpack(unsafe { Header::of(raw) }.state.list_word());
        let detached = {
            // SAFETY: a member keeps the list head until it has counted itself off.
            let parts = &unsafe { head.as_ref() }.parts;
            let here = percpu::current();
            // (U)
            let mut part = parts.lock_local_of(ticket.cpu);
            // SAFETY: as the caller promises.
            let node = unsafe { node_of::<T>(raw) };
            // SAFETY: it was linked here, as its ticket says.
            unsafe { part.unlink(node) };
            part.count_out(&ticket, here);
            part.is_detached
            // (V)
        };
        if detached {
            // (C)
            // SAFETY: it was counted in (S).
            unsafe { Self::count_off(head) };
        }
    }

    /// Keeps everything out, and calls `gone` when no member is left.
    ///
    /// # Safety
    /// The caller has the handle.
    pub(super) unsafe fn detach(
        head: NonNull<Self>,
        gone: Box<dyn FnOnce() + Send>,
    ) -> Result<(), Refused> {
        // SAFETY: the caller has the handle.
        let this = unsafe { head.as_ref() };
        let mut parts = this.parts.lock_global();
        if parts.iter().any(|part| part.is_detached) {
            // The locks are released before the caller's `gone` is dropped.
            drop(parts);
            drop(gone);
            return Err(Refused::Detached);
        }
        *this.gone.lock() = Some(gone);
        this.shut(&mut parts);
        drop(parts);
        // (D)
        // SAFETY: (S) has counted one more for this.
        unsafe { Self::count_off(head) };
        Ok(())
    }

    /// Keeps everything out if there are no members.
    ///
    /// # Safety
    /// The caller has the handle.
    pub(super) unsafe fn detach_if_empty(head: NonNull<Self>) -> Result<(), Refused> {
        // SAFETY: the caller has the handle.
        let this = unsafe { head.as_ref() };
        let mut parts = this.parts.lock_global();
        if parts.iter().any(|part| part.users() > 0) {
            return Err(Refused::Busy);
        }
        if parts.iter().any(|part| part.is_detached) {
            return Ok(());
        }
        this.shut(&mut parts);
        drop(parts);
        // (D)
        // SAFETY: (S) has counted one more for this.
        unsafe { Self::count_off(head) };
        Ok(())
    }

    /// (S), under the global lock (G).
    fn shut(&self, parts: &mut fdtable_sync::lglock::GlobalGuard<'_, Part>) {
        let users: usize = parts.iter().map(Part::users).sum();
        // Relaxed: (H) publishes it to the threads that come to (C).
        // weaken: list-that-ends-before-its-detacher
        self.remaining.store(users + 1, Relaxed);
        for part in parts.iter_mut() {
            part.is_detached = true;
        }
    }

    /// (C), (D)
    ///
    /// # Safety
    /// The caller was counted in (S), and does not touch the list head after this, unless it has
    /// the handle.
    unsafe fn count_off(head: NonNull<Self>) {
        // SAFETY: a counted user keeps the list head until here.
        let this = unsafe { head.as_ref() };
        // AcqRel: what each user has done with the list comes before the list's end.
        if this.remaining.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        let share = MembersShare(head);
        let gone = this.gone.lock().take();
        if let Some(gone) = gone {
            // The last user may leave while its thread unwinds.
            unwind::run(gone);
        }
        drop(share);
    }

    /// Gives up the share of the handle, or of the members.
    ///
    /// # Safety
    /// Each is given up once, and no longer uses the list head.
    pub(super) unsafe fn put(head: NonNull<Self>) {
        // SAFETY: the share keeps it until here.
        let keepers = unsafe { &(*head.as_ptr()).keepers };
        // AcqRel: what either has done with the list head comes before its end.
        if keepers.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: leaked in `try_new`, and this was the last share.
            drop(unsafe { Box::from_raw(head.as_ptr()) });
        }
    }

    pub(super) fn parts(&self) -> &LgLock<Part> {
        &self.parts
    }

    /// Adds up a value of the parts, one after another.
    pub(super) fn sum(&self, of: impl Fn(&Part) -> usize) -> usize {
        (0..self.parts.parts())
            .map(|cpu| of(&self.parts.lock_local_of(cpu)))
            .sum()
    }

    pub(super) fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for cpu in 0..self.parts.parts() {
            sum.add(&self.parts.lock_local_of(cpu).statistics());
        }
        sum
    }

    /// Takes a reference to each member. Returns true if there was room for all; if not, takes
    /// none.
    pub(super) fn collect<T: ?Sized, U>(
        &self,
        members: &mut Vec<U>,
        wrap: fn(Ref<T>) -> U,
    ) -> bool {
        let parts = self.parts.lock_global();
        let count: usize = parts.iter().map(Part::members).sum();
        if members.capacity() - members.len() < count {
            return false;
        }
        for part in parts.iter() {
            // SAFETY: the members of this list head are blocks of a `T`, as its handle's type says,
            // and the list is locked.
            let found = part.nodes().filter_map(|node| unsafe { reference(node) });
            members.extend(found.map(wrap));
        }
        true
    }

    /// Counts a writer that is not a member. Returns the CPU of its part.
    pub(super) fn begin_write(&self) -> Result<usize, Refused> {
        let cpu = percpu::current();
        let mut part = self.parts.lock_local_of(cpu);
        part.check(Access::Write)?;
        part.changes += 1;
        Ok(cpu)
    }

    /// Counts such a writer off, as a member that leaves.
    ///
    /// # Safety
    /// It was counted on this part of this list head, and is counted off once.
    pub(super) unsafe fn end_write(head: NonNull<Self>, cpu: usize) {
        let detached = {
            // (U)
            // SAFETY: the writer keeps the list head until it has counted itself off.
            let mut part = unsafe { head.as_ref() }.parts.lock_local_of(cpu);
            part.changes -= 1;
            part.is_detached
            // (V)
        };
        if detached {
            // (C)
            // SAFETY: it was counted in (S).
            unsafe { Self::count_off(head) };
        }
    }

    pub(super) fn refuse_writers(&self) -> Result<(), Refused> {
        let mut parts = self.parts.lock_global();
        if parts.iter().any(|part| part.is_detached) {
            return Err(Refused::Detached);
        }
        if parts.iter().any(|part| part.writing() > 0) {
            return Err(Refused::Busy);
        }
        parts.iter_mut().for_each(|part| part.is_read_only = true);
        Ok(())
    }

    pub(super) fn admit_writers(&self) -> Result<(), Refused> {
        let mut parts = self.parts.lock_global();
        if parts.iter().any(|part| part.is_detached) {
            return Err(Refused::Detached);
        }
        parts.iter_mut().for_each(|part| part.is_read_only = false);
        Ok(())
    }

    pub(super) fn refuses_writers(&self) -> bool {
        self.parts.lock_local().is_read_only
    }

    pub(super) fn is_detached(&self) -> bool {
        self.parts.lock_local().is_detached
    }
}

/// The share of all members. The last of them gives it up, also if `gone` panics.
struct MembersShare(NonNull<ListHead>);

impl Drop for MembersShare {
    fn drop(&mut self) {
        // SAFETY: made once, by the last one to count itself off.
        unsafe { ListHead::put(self.0) };
    }
}

/// Tells the model checker that no thread may touch the list head any more.
#[cfg(loom)]
impl Drop for ListHead {
    fn drop(&mut self) {
        self.remaining.with_mut(|_| ());
        self.keepers.with_mut(|_| ());
    }
}

impl Part {
    pub(super) fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            joined: 0,
            left: 0,
            writers: 0,
            changes: 0,
            is_read_only: false,
            is_detached: false,
            left_far: 0,
            left_very_far: 0,
        }
    }

    /// Returns how many members there are.
    pub(super) fn members(&self) -> usize {
        (self.joined - self.left) as usize
    }

    /// Returns how many write, as members or not.
    pub(super) fn writing(&self) -> usize {
        self.writers + self.changes
    }

    /// Returns how many users delay the end of the list.
    fn users(&self) -> usize {
        self.members() + self.changes
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            joined: self.joined,
            left: self.left,
            left_same_cpu: self.left - self.left_far,
            left_same_node: self.left - self.left_very_far,
        }
    }

    fn check(&self, access: Access) -> Result<(), Refused> {
        if self.is_detached {
            return Err(Refused::Detached);
        }
        if self.is_read_only && access == Access::Write {
            return Err(Refused::ReadOnly);
        }
        Ok(())
    }

    fn count_in(&mut self, access: Access) {
        self.joined += 1;
        if access == Access::Write {
            self.writers += 1;
        }
    }

    #[inline(always)]
    fn count_out(&mut self, ticket: &Ticket, here: usize) {
        self.left += 1;
        if ticket.access == Access::Write {
            self.writers -= 1;
        }
        if here != ticket.cpu {
            self.left_far += 1;
            let nodes = [here, ticket.cpu].map(percpu::known_node);
            self.left_very_far += u64::from(nodes[0] != nodes[1]);
        }
    }

    /// Links a node at the front.
    ///
    /// # Safety
    /// The node is on no list, and stays in its place until it is unlinked.
    #[inline(always)]
    pub(super) unsafe fn link(&mut self, node: NonNull<Node>) {
        // SAFETY: as the caller promises.
        let links = unsafe { node.as_ref() };
        links.next.set(self.first);
        links.previous.set(ptr::null_mut());
        // SAFETY: null, or a node of this list, which is locked.
        if let Some(second) = unsafe { self.first.as_ref() } {
            second.previous.set(node.as_ptr());
        }
        self.first = node.as_ptr();
    }

    /// Links a node behind another one.
    ///
    /// # Safety
    /// As [`link`](Self::link), and `before` is on this list.
    pub(super) unsafe fn link_behind(&mut self, before: NonNull<Node>, node: NonNull<Node>) {
        // SAFETY: as the caller promises.
        let links = unsafe { node.as_ref() };
        // SAFETY: as the caller promises.
        let before_links = unsafe { before.as_ref() };
        links.next.set(before_links.next.get());
        links.previous.set(before.as_ptr());
        // SAFETY: null, or a node of this list, which is locked.
        if let Some(next) = unsafe { links.next.get().as_ref() } {
            next.previous.set(node.as_ptr());
        }
        before_links.next.set(node.as_ptr());
    }

    /// Unlinks a node.
    ///
    /// # Safety
    /// It is on this list.
    #[inline(always)]
    pub(super) unsafe fn unlink(&mut self, node: NonNull<Node>) {
        // SAFETY: as the caller promises.
        let links = unsafe { node.as_ref() };
        let (previous, next) = (links.previous.get(), links.next.get());
        // SAFETY: null, or a node of this list, which is locked.
        match unsafe { previous.as_ref() } {
            None => self.first = next,
            Some(previous) => previous.next.set(next),
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }

    /// Iterates over the members' nodes, the youngest first.
    fn nodes(&self) -> impl Iterator<Item = NonNull<Node>> {
        let mut next = self.first;
        let nodes = core::iter::from_fn(move || {
            let node = NonNull::new(next)?;
            // SAFETY: a node of this list, which is locked as long as `self` is borrowed.
            next = unsafe { node.as_ref() }.next.get();
            Some(node)
        });
        // SAFETY: as above.
        nodes.filter(|node| !unsafe { node.as_ref() }.is_mark())
    }
}

/// A place on a part of the list. The links are touched under the lock of the part.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Node {
    pub(super) next: Cell<*mut Node>,
    pub(super) previous: Cell<*mut Node>,
    /// Null in a mark. Never changes.
    head: *const ListHead,
}

impl Node {
    /// Makes the node of a member that has not joined yet.
    pub(super) fn member_of(head: NonNull<ListHead>) -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            head: head.as_ptr(),
        }
    }

    /// Makes the node of a mark.
    pub(super) fn mark() -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            head: ptr::null(),
        }
    }

    pub(super) fn is_mark(&self) -> bool {
        self.head.is_null()
    }
}

// SAFETY: three pointers: at least as aligned as a header, and nothing to drop.
unsafe impl Prefix for Node {
    unsafe fn leave<T: ?Sized>(raw: NonNull<RawObject>) {
        // SAFETY: the block is one of a `T`, as the caller promises, with this in front.
        let node = unsafe { node_of::<T>(raw) };
        // SAFETY: the block is alive, as the caller promises, and the field never changes.
        let head = unsafe { node.as_ref() }.head.cast_mut();
        // SAFETY: a member of a list, and no mark.
        let head = unsafe { NonNull::new_unchecked(head) };
        // SAFETY: the object joined when it was made, and leaves once. As a member it has kept
        // the list head.
        unsafe { ListHead::leave::<T>(head, raw) };
    }
}

/// Finds the node of a block.
///
/// # Safety
/// The block is one of a `T`, and was made with a node.
unsafe fn node_of<T: ?Sized>(raw: NonNull<RawObject>) -> NonNull<Node> {
    // SAFETY: as the caller promises.
    unsafe { prefix::<T, Node>(raw) }
}

/// Takes a reference to a member, unless its end has come.
///
/// # Safety
/// The node is that of a `T`, and on a list that the caller has locked.
pub(super) unsafe fn reference<T: ?Sized>(node: NonNull<Node>) -> Option<Ref<T>> {
    // SAFETY: as the caller promises.
    let block = unsafe { block_of::<T, Node>(node) };
    // SAFETY: a block is there as long as its node is on the list.
    unsafe { Ref::try_from_raw(block) }
}

/// Note of a member: the CPU on which it joined, and how it was counted.
struct Ticket {
    cpu: usize,
    access: Access,
}

impl Ticket {
    /// Indexes of CPUs are below 2^23.
    fn pack(&self) -> u32 {
        (self.cpu as u32) << 1 | u32::from(self.access == Access::Write)
    }

    fn unpack(word: u32) -> Self {
        let access = if word & 1 == 0 {
            Access::Read
        } else {
            Access::Write
        };
        Self {
            cpu: (word >> 1) as usize,
            access,
        }
    }
}
