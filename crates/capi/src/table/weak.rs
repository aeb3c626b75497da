//! Weak references, for caches and lists that must not keep a file open.

use fdtable::{FileRef, Rcu, WeakFile};

use super::{
    Object, box_from_raw, box_into_raw, fdt_file, file_into_raw, file_ref, unless_null, with_errno,
};
use crate::errno::Errno;

/// Weak reference to an open file: keeps neither the file open nor its object.
pub struct fdt_weak(WeakFile<Rcu<Object>>);

/// Makes a weak reference to an open file, to be dropped by `fdt_weak_put`. Returns null with
/// `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_downgrade(file: *mut fdt_file) -> *mut fdt_weak {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { file_ref(file) }?;
        box_into_raw(fdt_weak(FileRef::try_downgrade(&file)?))
    })
}

/// Returns a reference to the open file of a weak one, or null with `ESTALE` if the last reference
/// was dropped. The caller keeps the weak reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_weak_upgrade(weak: *const fdt_weak) -> *mut fdt_file {
    on!(weak, {
        let file = weak.0.upgrade().ok_or(Errno::ESTALE)?;
        Ok(file_into_raw(file))
    })
}

/// Drops a weak reference. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_weak_put(weak: *mut fdt_weak) {
    // SAFETY: the caller got it from this library, and does not use it any more.
    unless_null(weak, || drop(unsafe { box_from_raw(weak) }));
}
