//! A hash map that readers search inside read-side sections, without a lock or a shared write.
//!
//! # How it works
//!
//! Each bucket is a list of nodes. A writer holds the lock of the map. It builds a node before it
//! publishes it with one store, so a reader sees all of a node or nothing of it. A node never
//! changes after that, except for its link to the next one:
//! - An insertion puts the node at the head of its list.
//! - A replacement puts the new node in the place of the old one with one store, so a key that is
//!   replaced is found throughout.
//! - A removal links the node before the removed one to the node after it. The removed node keeps
//!   its own link, so a reader that stands on it finds the rest of the list.
//!
//! Growth and shrinking copy every node into a new table, and publish the table with one store. A
//! reader of the old table sees the map as it was when the reader's search began or later: the old
//! lists no longer change. That is why keys and values are [`Clone`]; they are usually counted
//! pointers. Copies avoid a second link in each node, and a search that looks at two tables.
//!
//! A node that a writer takes out is freed a grace period later, by a
//! [callback](fdtable_sync::rcu::call): a reader borrows it until its section ends. The thread of
//! [timely callbacks](fdtable_sync::rcu::call_timely) frees it if no other does. A writer runs no
//! callbacks, which may take locks: its caller calls [`catch_up`](fdtable_sync::rcu::catch_up)
//! after it has released the lock of the map and its own.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use fdtable_sync::fallible::{OutOfMemory, try_box};
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::{Mutex, MutexGuard, shared};
use fdtable_sync::rcu::{Effect, Guard, Head, call_later};

/// Buckets of the first table.
const FIRST_BUCKETS: usize = if cfg!(loom) { 1 } else { 8 };

/// A table shrinks when it has this many buckets for each key.
const SPARSE: usize = 16;

/// Hash map for readers under RCU.
///
/// ```
/// use std::collections::hash_map::RandomState;
/// use fdtable_rcu_map::RcuMap;
/// use fdtable_sync::rcu;
///
/// let routes: RcuMap<&str, u32, RandomState> = RcuMap::default();
/// let mut writer = routes.lock();
/// let route = writer.prepare("a", 1)?;
/// writer.insert(route)?;
/// drop(writer);
///
/// let section = rcu::read_lock();
/// let found = routes.get("a", &section);
/// routes.lock().remove("a");
/// rcu::catch_up();
/// assert_eq!(found, Some(&1)); // stays until the section ends
/// assert_eq!(routes.get("a", &section), None);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
pub struct RcuMap<K, V, S, T = ()> {
    /// Null at first, and after `clear`.
    table: AtomicPtr<Table<K, V>>,
    hasher: S,
    /// Held by the writer.
    guarded: Mutex<Guarded<T>>,
    /// It owns keys and values. The pointer keeps the compiler from deriving `Send` and `Sync`.
    owns: PhantomData<(K, V, *mut ())>,
}

// SAFETY: it owns its nodes, as a `HashMap` does; the callbacks that free them may run anywhere.
unsafe impl<K: Send, V: Send, S: Send, T: Send> Send for RcuMap<K, V, S, T> {}
// SAFETY: readers share `&K` and `&V` between threads, and a writer on one thread frees what was
// inserted on another.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Sync, T: Send> Sync for RcuMap<K, V, S, T> {}

/// State that the lock of a map guards, besides its changes.
struct Guarded<T> {
    /// Number of keys.
    len: usize,
    state: T,
}

/// Lists of the nodes. The number of lists is a power of two.
#[repr(C)]
struct Table<K, V> {
    /// First, so that the callback finds the table.
    head: Head,
    buckets: Box<[Link<K, V>]>,
}

/// Link to the next node of a list, or to the first.
type Link<K, V> = AtomicPtr<Node<K, V>>;

/// A link, and the node that a writer looked for, if the link leads to it.
type Found<'w, K, V> = (&'w Link<K, V>, Option<&'w Node<K, V>>);

#[repr(C)]
struct Node<K, V> {
    /// First, so that the callback finds the node.
    head: Head,
    next: Link<K, V>,
    hash: u64,
    key: K,
    value: V,
}

/// Writer of a map: it holds the lock until it is dropped.
pub struct Writer<'m, K, V, S, T = ()> {
    map: &'m RcuMap<K, V, S, T>,
    guarded: MutexGuard<'m, Guarded<T>>,
}

/// A key and its value that are not in the map yet.
pub struct Prepared<K, V>(Box<Node<K, V>>);

impl<K, V, S, T> RcuMap<K, V, S, T> {
    /// Makes an empty map, with state of the caller under its lock. Does not allocate.
    pub fn new(hasher: S, state: T) -> Self {
        RcuMap {
            table: AtomicPtr::new(ptr::null_mut()),
            hasher,
            guarded: Mutex::new(Guarded { len: 0, state }),
            owns: PhantomData,
        }
    }

    /// Locks the map for changes. May wait for another writer; readers do not wait.
    pub fn lock(&self) -> Writer<'_, K, V, S, T> {
        Writer {
            map: self,
            guarded: self.guarded.lock(),
        }
    }
}

impl<K, V, S: Default, T: Default> Default for RcuMap<K, V, S, T> {
    fn default() -> Self {
        Self::new(S::default(), T::default())
    }
}

impl<K, V, S: BuildHasher, T> RcuMap<K, V, S, T> {
    /// Finds the value of a key. Writes nothing, and waits for nothing.
    ///
    /// The value stays until the section ends, also if it is removed meanwhile.
    #[inline]
    pub fn get<'s, Q>(&'s self, key: &Q, _section: &'s Guard<'_>) -> Option<&'s V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: the caller's section protects table and nodes for `'s`: a writer that takes them
        // out frees them a grace period later. The map itself is borrowed for as long.
        let node = unsafe { self.find(key) }?;
        Some(&node.value)
    }

    /// Finds the node of a key.
    ///
    /// # Safety
    /// For `'s` the caller is inside a section, or holds the lock and removes nothing.
    #[inline]
    unsafe fn find<'s, Q>(&'s self, key: &Q) -> Option<&'s Node<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: as the caller promises.
        let table = unsafe { self.table() }?;
        let hash = self.hasher.hash_one(key);
        // SAFETY: as the caller promises; links lead to published nodes alone.
        let mut at = unsafe { follow(table.bucket(hash)) };
        while let Some(node) = at {
            if node.hash == hash && node.key.borrow() == key {
                return Some(node);
            }
            // SAFETY: as above.
            at = unsafe { follow(&node.next) };
        }
        None
    }

    /// Returns the table, if there is one.
    ///
    /// # Safety
    /// As for `find`.
    #[inline]
    unsafe fn table(&self) -> Option<&Table<K, V>> {
        // Acquire: pairs with the release in `Writer::publish`, so the table's words are visible.
        let table = self.table.load(Acquire);
        // SAFETY: a published table lives until a grace period after it is replaced, and the caller
        // is inside a section or keeps writers away.
        unsafe { table.as_ref() }
    }
}

/// Follows a link.
///
/// # Safety
/// The link is of a published table, and for `'s` the caller is inside a section, or holds the lock
/// and removes nothing.
#[inline]
unsafe fn follow<'s, K, V>(link: &Link<K, V>) -> Option<&'s Node<K, V>> {
    // Acquire: pairs with the releases in `Writer::insert`, so key and value of the node are
    // visible.
    let node = link.load(Acquire);
    // SAFETY: a published node lives until a grace period after it is taken out.
    unsafe { node.as_ref() }
}

impl<K, V> Table<K, V> {
    /// Makes a table of empty lists.
    fn new(buckets: usize) -> Result<Box<Self>, OutOfMemory> {
        let _shared = shared::allocate();
        let mut lists = Vec::new();
        lists.try_reserve_exact(buckets).map_err(|_| OutOfMemory)?;
        lists.resize_with(buckets, || Link::new(ptr::null_mut()));
        try_box(Table {
            head: Head::new(free_table::<K, V>),
            buckets: lists.into_boxed_slice(),
        })
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Link<K, V> {
        // A power of two; the low bits are the ones that hashers mix best.
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }
}

/// Frees the lists with all their nodes.
impl<K, V> Drop for Table<K, V> {
    fn drop(&mut self) {
        for link in &mut self.buckets {
            // Relaxed: this thread owns the table, whose last reader has left.
            let mut at = link.load(Relaxed);
            while !at.is_null() {
                // SAFETY: the nodes came from boxes, and are in the lists of this table alone.
                let node = unsafe { Box::from_raw(at) };
                at = node.next.load(Relaxed);
            }
        }
    }
}

/// Frees a table and its nodes, as a callback.
unsafe fn free_table<K, V>(head: NonNull<Head>) {
    // SAFETY: the head is the first field of a table that was leaked from a box, and the callback
    // is invoked once.
    drop(unsafe { Box::from_raw(head.cast::<Table<K, V>>().as_ptr()) });
}

/// Frees a node, as a callback.
unsafe fn free_node<K, V>(head: NonNull<Head>) {
    // SAFETY: as in `free_table`.
    drop(unsafe { Box::from_raw(head.cast::<Node<K, V>>().as_ptr()) });
}

impl<K, V, S, T> Drop for RcuMap<K, V, S, T> {
    fn drop(&mut self) {
        // Relaxed: this thread owns the map; readers borrow it.
        let table = self.table.load(Relaxed);
        if !table.is_null() {
            // SAFETY: the table came from a box, and no thread borrows the map.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

impl<K, V, S, T> fmt::Debug for RcuMap<K, V, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the lock, which this thread may hold.
        f.debug_struct("RcuMap").finish_non_exhaustive()
    }
}

impl<K, V, S, T> Writer<'_, K, V, S, T> {
    /// Returns the state of the caller.
    pub fn state(&self) -> &T {
        &self.guarded.state
    }

    /// Returns the state of the caller, for a change.
    pub fn state_mut(&mut self) -> &mut T {
        &mut self.guarded.state
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.guarded.len
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all keys and values, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.nodes().map(|node| (&node.key, &node.value))
    }

    fn nodes(&self) -> impl Iterator<Item = &Node<K, V>> {
        // SAFETY: this writer keeps others away, and is borrowed, so nothing is taken out.
        let next = |link| unsafe { follow(link) };
        let lists = self.table().map_or(&[][..], |table| &table.buckets);
        lists
            .iter()
            .flat_map(move |first| std::iter::successors(next(first), move |node| next(&node.next)))
    }

    fn table(&self) -> Option<&Table<K, V>> {
        // Relaxed: only the writer changes it, which this is.
        let table = self.map.table.load(Relaxed);
        // SAFETY: this writer keeps others away, and is borrowed, so it replaces no table.
        unsafe { table.as_ref() }
    }

    fn buckets(&self) -> usize {
        self.table().map_or(0, |table| table.buckets.len())
    }
}

impl<K, V, S, T> Writer<'_, K, V, S, T>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
    S: BuildHasher,
{
    /// Returns the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: this writer keeps others away, and is borrowed, so nothing is taken out.
        let node = unsafe { self.map.find(key) }?;
        Some(&node.value)
    }

    /// Makes the node of a key, to be inserted. Allocates, and now and then copies all keys and
    /// values to a larger table.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed.
    pub fn prepare(&mut self, key: K, value: V) -> Result<Prepared<K, V>, OutOfMemory> {
        self.reserve()?;
        let node = try_box(Node {
            head: Head::new(free_node::<K, V>),
            next: Link::new(ptr::null_mut()),
            hash: self.map.hasher.hash_one(&key),
            key,
            value,
        })?;
        Ok(Prepared(node))
    }

    /// Inserts what was prepared, or puts it in the place of an equal key. Returns a copy of the
    /// replaced value; the value itself is freed a grace period later. Does not allocate, except
    /// after [`clear`](Self::clear).
    ///
    /// # Errors
    /// [`OutOfMemory`] if the map was cleared since; nothing has changed.
    pub fn insert(&mut self, prepared: Prepared<K, V>) -> Result<Option<V>, OutOfMemory> {
        if self.buckets() == 0 {
            self.resize(FIRST_BUCKETS)?;
        }
        let Prepared(mut node) = prepared;
        // It may have been prepared for another map, with another hasher.
        node.hash = self.map.hasher.hash_one(&node.key);
        let Some((link, old)) = self.place(node.hash, &node.key) else {
            return Err(OutOfMemory);
        };
        // Relaxed: only the writer changes links, which this is; the node is not published yet.
        let at = link.load(Relaxed);
        let next = old.map_or(at, |old| old.next.load(Relaxed));
        node.next.store(next, Relaxed);
        // First, since it may panic.
        let replaced = old.map(|old| old.value.clone());
        // Release: pairs with the acquire in `follow`, so readers see all of the node.
        link.store(Box::into_raw(node), Release);
        match (replaced.is_some(), NonNull::new(at)) {
            // SAFETY: the link led to the node, and the store above took it out.
            (true, Some(old)) => unsafe { free_later(old) },
            _ => self.guarded.len += 1,
        }
        Ok(replaced)
    }

    fn reserve(&mut self) -> Result<(), OutOfMemory> {
        let buckets = self.buckets();
        if self.len() < buckets {
            return Ok(());
        }
        self.resize((buckets * 2).max(FIRST_BUCKETS))
    }

    /// Removes a key. Returns a copy of its value; the value itself is freed a grace period later.
    /// Does not fail: if there is no memory for a smaller table, the large one stays.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.map.hasher.hash_one(key);
        let (link, found) = self.place(hash, key)?;
        let node = found?;
        // First, since it may panic.
        let removed = node.value.clone();
        // Relaxed, as above.
        let at = NonNull::new(link.load(Relaxed))?;
        // Relaxed, as above. Release: the next node may be one that this reader has not seen yet,
        // so the acquire in `follow` pairs with this store too.
        link.store(node.next.load(Relaxed), Release);
        // SAFETY: the link led to the node, and the store above took it out.
        unsafe { free_later(at) };
        self.guarded.len -= 1;
        let buckets = self.buckets();
        if buckets > FIRST_BUCKETS && self.len() * SPARSE < buckets {
            let _ = self.resize((buckets / 4).max(FIRST_BUCKETS));
        }
        Some(removed)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.guarded.len = 0;
        self.publish(ptr::null_mut());
    }

    /// Finds the link to the node of a key. Without such a node, it is the link at the head of the
    /// list. Nothing if there is no table.
    fn place<'w, Q>(&'w self, hash: u64, key: &Q) -> Option<Found<'w, K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let first = self.table()?.bucket(hash);
        let mut link = first;
        // SAFETY: this writer keeps others away, and is borrowed, so nothing is taken out.
        while let Some(node) = unsafe { follow(link) } {
            if node.hash == hash && node.key.borrow() == key {
                return Some((link, Some(node)));
            }
            link = &node.next;
        }
        Some((first, None))
    }

    /// Copies all keys and values to a table of another size.
    fn resize(&mut self, buckets: usize) -> Result<(), OutOfMemory> {
        let table = Table::new(buckets)?;
        for node in self.nodes() {
            let link = table.bucket(node.hash);
            let copy = try_box(Node {
                head: Head::new(free_node::<K, V>),
                // Relaxed: no other thread sees the table yet.
                next: Link::new(link.load(Relaxed)),
                hash: node.hash,
                key: node.key.clone(),
                value: node.value.clone(),
            })?;
            // Relaxed, as above.
            link.store(Box::into_raw(copy), Relaxed);
        }
        self.publish(Box::into_raw(table));
        Ok(())
    }

    /// Replaces the table, and frees the old one with its nodes a grace period later.
    fn publish(&mut self, new: *mut Table<K, V>) {
        // Relaxed: only the writer changes it, which this is.
        let old = self.map.table.load(Relaxed);
        // Release: pairs with the acquire in `RcuMap::table`, so readers see table and nodes.
        self.map.table.store(new, Release);
        if let Some(old) = NonNull::new(old) {
            // SAFETY: the store above took the table out, and it lives until its callback runs.
            let weight = unsafe { old.as_ref() }.buckets.len();
            // SAFETY: the table is a leaked box that the store above took out, with the head as its
            // first field. Keys and values are `Send`, so any thread may free them.
            unsafe { call_later(Effect::RunsCode, weight, old.cast()) };
            note_call();
        }
    }
}

/// Frees a node a grace period later.
///
/// # Safety
/// The caller has just taken the node out.
unsafe fn free_later<K, V>(node: NonNull<Node<K, V>>)
where
    K: Send + 'static,
    V: Send + 'static,
{
    // SAFETY: the node is a leaked box with the head as its first field, no later search finds it,
    // and it is taken out once. Keys and values are `Send`, so any thread may free them.
    unsafe { call_later(Effect::RunsCode, 1, node.cast()) };
    note_call();
}

/// Bounds the time until what was taken out is freed, also if no other callback follows: a value
/// may hold much memory. A model has no worker.
fn note_call() {
    #[cfg(not(loom))]
    fdtable_sync::rcu::bound_wait();
}

impl<K, V, S, T> fmt::Debug for Writer<'_, K, V, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({} keys)", self.len())
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Prepared<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({:?}: {:?})", self.0.key, self.0.value)
    }
}

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom)))]
mod tests;
