//! Work that runs beside other work: as many pieces at a time as there are CPUs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use crate::Result;

/// Does the work on each item, and returns the results in the order of the items. After a failure
/// no other item is begun.
///
/// # Errors
///
/// The first error of the work, in the order of the items.
pub(crate) fn each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(BTreeMap::new());
    let left = || items.lock().expect("no iterator panics");
    let next = || left().next();
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                while let Some((nth, item)) = next() {
                    let result = work(item);
                    if result.is_err() {
                        left().by_ref().for_each(drop);
                    }
                    let mut results = results.lock().expect("an insert does not panic");
                    results.insert(nth, result);
                }
            });
        }
    });
    let results = results.into_inner().expect("an insert does not panic");
    results.into_values().collect()
}

/// The number of CPUs that this process may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let results = each(0..100, |item| Ok(item * 2)).unwrap();
        assert_eq!(results, (0..100).map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_is_the_result_and_ends_the_work() {
        let fails = each(0..1000, |item| match item {
            1 => Err("one".into()),
            _ => Ok(()),
        });
        assert_eq!(fails.unwrap_err().to_string(), "one");
    }
}
