//! Work that runs beside other work: as many pieces at a time as there are CPUs.

use std::sync::Mutex;
use std::thread;

/// Calls `work` with each item, on as many threads as the machine has CPUs, in the order of the
/// items. The results come in the order in which the calls end.
pub(crate) fn each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items = Mutex::new(items.into_iter());
    let results = Mutex::new(Vec::new());
    // A statement of its own, so that the lock is not held while the item is worked on.
    let next = || items.lock().expect("no iterator panics").next();
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let result = work(item);
                    results.lock().expect("a push does not panic").push(result);
                }
            });
        }
    });
    results.into_inner().expect("a push does not panic")
}

/// The number of CPUs that this process may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        let mut results = each(0..100, |item| item * 2);
        results.sort_unstable();
        assert_eq!(results, (0..100).map(|item| item * 2).collect::<Vec<_>>());
    }
}
