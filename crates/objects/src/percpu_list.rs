//! A list of counted objects in parts, one for each CPU, under an
//! [lglock](mod@fdtable_sync::lglock).
//!
//! An object joins when it is made, on the part of the CPU that makes it, and leaves when its end
//! comes: at its last put, or when it is revoked. It remembers its part in its header. Joining and
//! leaving link and unlink it there under the local lock, without memory and without a search.
//! Where objects end on the CPU that made them, no line is written that another CPU writes; the
//! counts are kept with the parts too.
//!
//! The list has no references. An object on it may be about to end: a thread that finds an object
//! takes a reference, which fails if the last one has gone. The block of the object is there as
//! long as it is on the list: it leaves under the local lock, and its memory is freed after that.
//!
//! # When the list ends
//!
//! Objects may outlive the list's maker, and they need the part that they are on. A common count
//! would cost every join a line that all threads write. So there is no such count until the list is
//! *detached*; from then on nothing can join (as in Linux `percpu_ref`):
//!
//! | | leaving thread | | detaching thread |
//! |---|---|---|---|
//! | (U) | unlink, and read "detached", under the local lock | (G) | take the global lock |
//! | (V) | unlock | (S) | store how many are on the list, or write without being on it, plus one; write "detached" |
//! | (C) | if it was set, count one off; the last one ends the list | (H) | unlock |
//! | | | (D) | count one off, as (C) |
//!
//! *(U) before (G).* The object is not among those that (S) counted, and its maker does not come to
//! (C). After (V) it does not touch the list any more, and (G) waits for (V).
//!
//! *(U) after (H).* The object was counted in (S). It counts itself off in (C), after it has
//! touched the list for the last time.
//!
//! So the last thread to reach (C) or (D) is alone. The decrement is a release, so that what a
//! thread did with the list comes before the list's end, and an acquire, so that the last one sees
//! all that.

mod iter;
mod list_head;
mod statistics;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use iter::Iter;
pub use list_head::{Access, Refused};
pub use statistics::Statistics;

use crate::object::header::{RawObject, abandon};
use crate::object::make::{assert_unsized, make};
use crate::object::{Hook, Kind, Ref};
use fdtable_sync::fallible::{OutOfMemory, try_box};
use fdtable_sync::lglock::LgLock;
use list_head::{ListHead, Node, Part};

/// A list of counted objects, in parts. Dropping it detaches it; its members live on.
///
/// ```
/// use fdtable_objects::object::{NoHook, Prompt};
/// use fdtable_objects::percpu_list::{Access, PerCpuList};
///
/// let list: PerCpuList<&str> = PerCpuList::try_new()?;
/// let one = list.try_add::<Prompt, _, _>("one", Access::Read, NoHook)?;
/// let two = list.try_add::<Prompt, _, _>("two", Access::Write, NoHook)?;
/// assert_eq!((list.len(), list.writers()), (2, 1));
/// drop(two);
/// assert_eq!(list.snapshot()?.iter().map(|member| **member).collect::<Vec<_>>(), ["one"]);
/// # drop(one);
/// # Ok::<(), fdtable_objects::percpu_list::Refused>(())
/// ```
pub struct PerCpuList<T: ?Sized> {
    head: NonNull<ListHead>,
    /// It gives out references.
    members: PhantomData<Ref<T>>,
    /// Members of one type are not those of a more general one: invariant in `T`.
    exchanges: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

// SAFETY: the shared state behind the pointer is `Sync`, and gives out references to members, which
// are `Send` if `T` is `Send` and `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for PerCpuList<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Send for PerCpuList<T> {}

impl<T: ?Sized> PerCpuList<T> {
    /// Makes a list without members. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new() -> Result<Self, OutOfMemory> {
        Self::with_parts(LgLock::try_new(|_cpu| Part::new())?)
    }

    /// Makes a list in one part under one lock, which all CPUs share: less memory, for lists whose
    /// members join one after another. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_whole() -> Result<Self, OutOfMemory> {
        Self::with_parts(LgLock::try_with_parts(1, |_| Part::new())?)
    }

    fn with_parts(parts: LgLock<Part>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            head: ListHead::try_new(parts)?,
            members: PhantomData,
            exchanges: PhantomData,
        })
    }

    /// Makes a counted object of either kind that is on the list until its end. The hook, if there
    /// is one, runs at its end, before it leaves. Allocates, and may wait for a local lock.
    ///
    /// # Errors
    /// [`Refused`]; value and hook are dropped, and the hook does not run.
    pub fn try_add<K, S, H>(&self, value: S, access: Access, hook: H) -> Result<Ref<T>, Refused>
    where
        K: Kind<Object<S> = T>,
        S: Send + Sync + 'static,
        H: Hook<S> + Send + Sync + 'static,
    {
        let node = Node::member_of(self.head);
        let raw = make::<K, S, S, H, Node>(node, value, |value| value, hook)?;
        self.join(raw, access)
    }

    /// Makes a counted object of one type that the list knows by another, unsized type, as
    /// [`Ref::coerced`] does. Everything else is as in [`try_add`](Self::try_add).
    ///
    /// # Errors
    /// [`Refused`]; value and hook are dropped, and the hook does not run.
    pub fn try_add_coerced<K, D, S, H>(
        &self,
        value: S,
        access: Access,
        coerce: fn(&S) -> &D,
        hook: H,
    ) -> Result<Ref<T>, Refused>
    where
        K: Kind<Object<D> = T>,
        D: ?Sized,
        S: Send + Sync + 'static,
        H: Hook<S> + Send + Sync + 'static,
    {
        const { assert_unsized::<D>() };
        let node = Node::member_of(self.head);
        let raw = make::<K, D, S, H, Node>(node, value, coerce, hook)?;
        self.join(raw, access)
    }

    /// Returns how many members there are. Takes the local locks one after another: members that
    /// join and leave meanwhile may be counted or not.
    pub fn len(&self) -> usize {
        self.head().sum(Part::members)
    }

    /// Returns true if there are no members. Counts as [`len`](Self::len) does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many members write. Counts as [`len`](Self::len) does.
    pub fn writers(&self) -> usize {
        self.head().sum(Part::writing)
    }

    /// Returns how often members joined and left, and where. Counts as [`len`](Self::len) does.
    pub fn statistics(&self) -> Statistics {
        self.head().statistics()
    }

    /// Returns a reference to each object that is a member at one instant, and has not ended. Holds
    /// the global lock meanwhile: during this walk over all members, joins and leaves wait (20 to
    /// 50 ns for each member). Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn snapshot(&self) -> Result<Vec<Ref<T>>, OutOfMemory> {
        self.snapshot_as(|member| member)
    }

    /// Acts as [`snapshot`](Self::snapshot), with the caller's own kind of references. `wrap` must
    /// only convert: it is called under the global lock, and deadlocks if it drops the last
    /// reference or uses the list.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn snapshot_as<U>(&self, wrap: fn(Ref<T>) -> U) -> Result<Vec<U>, OutOfMemory> {
        let mut members = Vec::new();
        // Some may join until the lock is taken.
        let mut margin = 64;
        loop {
            let enough = self.len() + margin;
            members.try_reserve(enough).map_err(|_| OutOfMemory)?;
            if self.head().collect(&mut members, wrap) {
                return Ok(members);
            }
            margin *= 2;
        }
    }

    /// Iterates over the members, part by part, each part from the youngest to the oldest. Holds
    /// no lock between two of them. Allocates a mark on the list.
    ///
    /// An object that is a member before and after the iteration comes once. One that joins or
    /// leaves meanwhile comes once or not at all.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn iter(&self) -> Result<Iter<'_, T>, OutOfMemory> {
        // SAFETY: the members are blocks of a `T`.
        unsafe { Iter::try_new(self.head()) }
    }

    /// Keeps writers out from now on. Takes the global lock.
    ///
    /// # Errors
    /// [`Refused::Busy`] while there is a writer; [`Refused::Detached`]. Nothing changes.
    pub fn refuse_writers(&self) -> Result<(), Refused> {
        self.head().refuse_writers()
    }

    /// Begins to write without being a member: counts as a writer until what it returns is dropped,
    /// and the list does not end before. May wait for a local lock.
    ///
    /// # Errors
    /// [`Refused::ReadOnly`] if writers are kept out; [`Refused::Detached`].
    pub fn begin_write(&self) -> Result<Writing<'_, T>, Refused> {
        Ok(Writing {
            cpu: self.head().begin_write()?,
            list: self,
        })
    }

    /// Lets writers join again. Takes the global lock.
    ///
    /// # Errors
    /// [`Refused::Detached`].
    pub fn admit_writers(&self) -> Result<(), Refused> {
        self.head().admit_writers()
    }

    /// Returns true if writers are kept out.
    pub fn refuses_writers(&self) -> bool {
        self.head().refuses_writers()
    }

    /// Keeps everything out, permanently. Calls `gone` when the last member has left and the last
    /// writer has ended: before this returns, or on the thread where the last of them ends. A panic
    /// of `gone` propagates there. Takes the global lock.
    ///
    /// # Errors
    /// - [`Refused::Detached`] if it was detached before; `gone` is dropped.
    /// - [`Refused::OutOfMemory`] if there is no memory to keep `gone`; nothing changes.
    pub fn detach(&self, gone: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
        let gone = try_box(gone)?;
        // SAFETY: this is the handle.
        unsafe { ListHead::detach(self.head, gone) }
    }

    /// Detaches as [`detach`](Self::detach) does, if there are no members and no writers.
    ///
    /// # Errors
    /// [`Refused::Busy`] if there are; nothing changes. A list that is detached and has none stays
    /// so.
    pub fn detach_if_empty(&self) -> Result<(), Refused> {
        // SAFETY: this is the handle.
        unsafe { ListHead::detach_if_empty(self.head) }
    }

    /// Returns true if the list is detached.
    pub fn is_detached(&self) -> bool {
        self.head().is_detached()
    }

    /// Lets a new block join.
    fn join(&self, raw: NonNull<RawObject>, access: Access) -> Result<Ref<T>, Refused> {
        // SAFETY: the block is on no list, and its one reference was not given to another owner.
        match unsafe { ListHead::join::<T>(self.head, raw, access) } {
            // SAFETY: as above.
            Ok(()) => Ok(unsafe { Ref::from_raw(raw) }),
            Err(refused) => {
                // SAFETY: as above; it has not joined.
                unsafe { abandon(raw) };
                Err(refused)
            }
        }
    }

    fn head(&self) -> &ListHead {
        // SAFETY: it is kept for `self`, until the drop.
        unsafe { self.head.as_ref() }
    }
}

impl<T: ?Sized> Drop for PerCpuList<T> {
    fn drop(&mut self) {
        // Its members may live on.
        // SAFETY: this is the handle, and gives up its share below.
        let _ = unsafe { ListHead::detach(self.head, Box::new(|| ())) };
        // SAFETY: this handle's share of the list head is given up once.
        unsafe { ListHead::put(self.head) };
    }
}

/// A writer that is no member. It is counted until this is dropped.
#[must_use = "the writing ends when this is dropped"]
pub struct Writing<'l, T: ?Sized> {
    list: &'l PerCpuList<T>,
    /// The part that counts it.
    cpu: usize,
}

impl<T: ?Sized> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        // SAFETY: counted when this was made, which is dropped once.
        unsafe { ListHead::end_write(self.list.head, self.cpu) };
    }
}

impl<T: ?Sized> fmt::Debug for Writing<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").finish_non_exhaustive()
    }
}

impl<T: ?Sized> fmt::Debug for PerCpuList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpuList")
            .field("len", &self.len())
            .field("writers", &self.writers())
            .field("statistics", &self.statistics())
            .finish()
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
