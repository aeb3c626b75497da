//! Files that are made where memory may run out.

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
        move |_: &u32, _| _ = released.fetch_add(1, Relaxed)
    };
    let plain = FileRef::builder(1_u32)
        .try_build()
        .expect("there is memory");
    let hooked = FileRef::builder(2).on_release(hook(&released)).try_build();
    let hooked = hooked.expect("there is memory");
    let coerced = FileRef::<u32>::builder(3).on_release(hook(&released));
    let coerced = coerced
        .try_build_dyn::<dyn Display + Send + Sync>(|number| number)
        .expect("there is memory");
    let quiet = FileRef::builder(4)
        .try_build_dyn::<dyn Display + Send + Sync>(|number| number)
        .expect("there is memory");
    assert_eq!(
        (*plain, *hooked, coerced.to_string(), quiet.to_string()),
        (1, 2, "3".to_string(), "4".to_string())
    );
    drop((plain, hooked.clone(), quiet));
    assert_eq!(released.load(Relaxed), 0);
    drop((hooked, coerced));
    assert_eq!(released.load(Relaxed), 2);
}
