//! Epolls that are members of epolls.
//!
//! A file tells its items, and an item tells those who watch its epoll, and so on upwards. That ends
//! because sets never contain each other, and soon because chains are short: at most
//! [`MAX_LINKS`] links from the outermost epoll to the innermost, as on Linux. Both are checked when
//! an epoll is added, under one lock for all, so that two threads do not close a loop together. Links
//! that go away need no check.
//!
//! Short chains may still be very many, where sets share members: a change is told once for each way
//! upwards. So no set has more than [`MAX_WAYS`] of them (Linux limits the ways of each length, to
//! fewer).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Set;
use crate::Errno;

/// Most links in a chain: five epolls.
const MAX_LINKS: usize = 4;

/// Most ways from a set upwards, each with the sets on which it may end: what a change of it may
/// cost.
const MAX_WAYS: usize = 1000;

/// Orders all additions of epolls to epolls.
static LINKING: Mutex<()> = Mutex::new(());

/// Checks that `child` may become a member of `parent`, and has `insert` put it there.
///
/// # Errors
/// `ELOOP` if not; `EINVAL` if there would be too many ways upwards; those of `insert`.
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
    // Of all that is below, nothing may be the parent.
    if below.contains_key(&address(parent)) || links > MAX_LINKS {
        return Err(Errno::ELOOP);
    }
    // First the link, which whoever takes the member out takes away.
    child.parents.lock().push(Arc::downgrade(parent));
    let linked = check_ways(child).and_then(|()| insert());
    linked.inspect_err(|_| unlink(parent, child))
}

/// Checks the ways from a set that was linked, and from all below it.
fn check_ways(set: &Arc<Set>) -> Result<(), Errno> {
    let (mut counted, mut seen) = (Lengths::new(), BTreeSet::new());
    let mut next = vec![Arc::clone(set)];
    while let Some(set) = next.pop() {
        if ways(&set, &mut counted) > MAX_WAYS {
            return Err(Errno::EINVAL);
        }
        if seen.insert(address(&set)) {
            next.extend(set.children());
        }
    }
    Ok(())
}

/// Returns how many ways there are from a set upwards, with the one that ends there.
fn ways(set: &Set, counted: &mut Lengths) -> usize {
    if let Some(&ways) = counted.get(&address(set)) {
        return ways;
    }
    let parents = set.parents();
    let upwards = parents.iter().map(|parent| ways(parent, counted));
    let sum = upwards.fold(1, usize::saturating_add);
    counted.insert(address(set), sum);
    sum
}

/// Takes one link away.
pub(super) fn unlink(parent: &Set, child: &Set) {
    let mut parents = child.parents.lock();
    let same = |link: &Weak<Set>| std::ptr::eq(link.as_ptr(), parent);
    if let Some(at) = parents.iter().position(same) {
        parents.swap_remove(at);
    }
}

/// Lengths of chains, or numbers of ways, from sets that were visited, by their addresses: many
/// chains may meet in one.
type Lengths = BTreeMap<usize, usize>;

/// Returns the length of the longest chain from a set in one direction. There are no loops, and no
/// chain is longer than the most.
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
