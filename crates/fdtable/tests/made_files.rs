//! Files that are made where memory may run out.

#![cfg(not(loom))]

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use fdtable::FileRef;

#[test]
fn files_that_are_tried_are_as_others() {
    let released = Arc::new(AtomicUsize::new(0));
    let hook = |released: &Arc<AtomicUsize>| {
        let released = Arc::clone(released);
        move |_: &u32| _ = released.fetch_add(1, Relaxed)
    };
    let plain = FileRef::try_new(1_u32).expect("there is memory");
    let hooked = FileRef::try_with_release(2, hook(&released)).expect("there is memory");
    let coerced = FileRef::<dyn Display + Send + Sync>::try_coerced_with_release(
        3,
        |number: &u32| number,
        hook(&released),
    );
    let coerced = coerced.expect("there is memory");
    assert_eq!(
        (*plain, *hooked, coerced.to_string()),
        (1, 2, "3".to_string())
    );
    drop((plain, hooked.clone()));
    assert_eq!(released.load(Relaxed), 0);
    drop((hooked, coerced));
    assert_eq!(released.load(Relaxed), 2);
}
