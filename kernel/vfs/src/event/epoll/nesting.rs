//! Epolls that are members of epolls.
//!
//! A file notifies its items, and an item notifies the watchers of its epoll, and so on upwards.
//! That terminates because sets never contain each other, and quickly because chains are short: at
//! most [`MAX_LINKS`] links from the outermost epoll to the innermost, as on Linux. Both are
//! checked when an epoll is added, under one global lock, so that two threads cannot close a loop
//! together. Removing a link needs no check.
//!
//! Short chains can still be very many, if sets share members: a change is propagated once for each
//! path upwards. So no set has more than [`MAX_PATHS`] of them (Linux limits the paths of each
//! length, to fewer).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use fdtable_shm::Mutex;

use super::Set;
use crate::Errno;

/// Most links in a chain: five epolls.
const MAX_LINKS: usize = 4;

/// Most paths from a set upwards, counted with each set at which they may end: what a change of it
/// may cost.
const MAX_PATHS: usize = 1000;

fdtable_sync::global! {
    /// Serialises all additions of epolls to epolls.
    pub(super) static LINKING: Mutex<()> = Mutex::new(());
}

/// Checks that `child` may become a member of `parent`, and calls `insert` to add it.
///
/// # Errors
/// `ELOOP` if it may not; `EINVAL` if there would be too many paths upwards; those of `insert`.
pub(super) fn link(
    parent: &Arc<Set>,
    child: &Arc<Set>,
    insert: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let _linking = LINKING.lock();
    let mut below = Lengths::new();
    let links = longest(child, Set::children, &mut below)
        + 1
        + longest(parent, Set::parents, &mut Lengths::new());
    // The parent must not be anywhere below.
    if below.contains_key(&address(parent)) || links > MAX_LINKS {
        return Err(Errno::ELOOP);
    }
    // The link comes first: any removal of the member removes it again.
    child.parents.lock().push(Arc::downgrade(parent));
    let linked = check_paths(child).and_then(|()| insert());
    linked.inspect_err(|_| unlink(parent, child))
}

/// Checks the paths from a set that was linked, and from all sets below it.
fn check_paths(set: &Arc<Set>) -> Result<(), Errno> {
    let (mut counted, mut seen) = (Lengths::new(), BTreeSet::new());
    let mut next = vec![Arc::clone(set)];
    while let Some(set) = next.pop() {
        if paths(&set, &mut counted) > MAX_PATHS {
            return Err(Errno::EINVAL);
        }
        if seen.insert(address(&set)) {
            next.extend(set.children());
        }
    }
    Ok(())
}

/// Returns how many paths lead from a set upwards, including the one that ends there.
fn paths(set: &Set, counted: &mut Lengths) -> usize {
    if let Some(&paths) = counted.get(&address(set)) {
        return paths;
    }
    let parents = set.parents();
    let upwards = parents.iter().map(|parent| paths(parent, counted));
    let sum = upwards.fold(1, usize::saturating_add);
    counted.insert(address(set), sum);
    sum
}

/// Removes one link.
pub(super) fn unlink(parent: &Set, child: &Set) {
    let mut parents = child.parents.lock();
    let same = |link: &Weak<Set>| std::ptr::eq(link.as_ptr(), parent);
    if let Some(at) = parents.iter().position(same) {
        parents.swap_remove(at);
    }
}

/// Lengths of chains, or numbers of paths, of sets that were visited, by their addresses: many
/// chains may share a set.
type Lengths = BTreeMap<usize, usize>;

/// Returns the length of the longest chain from a set in one direction. There are no loops, and no
/// chain exceeds the maximum.
fn longest(set: &Set, next: fn(&Set) -> Vec<Arc<Set>>, lengths: &mut Lengths) -> usize {
    if let Some(&length) = lengths.get(&address(set)) {
        return length;
    }
    let links = next(set);
    let lengths_on = links.iter().map(|on| 1 + longest(on, next, lengths));
    let length = lengths_on.max().unwrap_or(0);
    lengths.insert(address(set), length);
    length
}

fn address(set: &Set) -> usize {
    std::ptr::from_ref(set).addr()
}
