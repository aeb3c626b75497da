//! When the value of a counted object is dropped: the two kinds of objects.
//!
//! | type | the value is dropped | a reader without a reference |
//! |---|---|---|
//! | `Ref<T>` | by the last put, after the hook | can upgrade, and cannot look at the value |
//! | `Ref<Rcu<T>>` | after a grace period, in a callback | can look at the value until its section ends |
//!
//! In both kinds the memory of the block is freed after a grace period.
//!
//! # Why a borrowed value is alive
//!
//! [`Borrowed::object`](super::Borrowed::object) exists for `Rcu<T>` alone, and leads to a value
//! that is dropped after a grace period. No `Rcu` can be made outside of a block, nor moved out of
//! one. So a block of a `Ref<Rcu<T>>` can be made in two ways:
//!
//! - By a function of the [late](Late) kind. The value of the block is dropped by its callback, and
//!   what the object leads to lives until then.
//! - By a function of the [prompt](Prompt) kind with a `coerce` that returns an `&Rcu<T>`. That
//!   lives at least as long as the value of the prompt block, and is in another block,
//!   which is late. So a reference to the late block exists until that value is dropped. The value
//!   is dropped after the last reference to the prompt block was put, and that was after the
//!   reader's section began, as for each block that a reader finds. Therefore the last reference to
//!   the late block is put after the section began, and its callback waits for the section's end.

use core::fmt;
use core::ops::Deref;

/// A value that readers can borrow inside a read-side section, without a reference. It exists only
/// inside a counted object, and is dropped after a grace period.
///
/// As a type argument it says of which kind an object is. It dereferences to the value.
///
/// ```
/// use fdtable_objects::object::{Rcu, Ref};
///
/// let name: Ref<Rcu<String>> = Ref::new_rcu("file".to_string());
/// let shown: &Rcu<dyn core::fmt::Display> = &*name;
/// assert_eq!((name.len(), shown.to_string()), (4, "file".to_string()));
/// ```
#[repr(transparent)]
pub struct Rcu<T: ?Sized>(T);

impl<T: ?Sized> Deref for Rcu<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Rcu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Rcu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A kind of objects: [`Prompt`] or [`Late`].
///
/// # Safety
/// For the two kinds of this module only.
pub unsafe trait Kind: sealed::Sealed + fmt::Debug + 'static {
    /// True if the value is dropped after a grace period.
    const IS_LATE: bool;

    /// Target of a reference to an object of this kind, if its value is known as a `T`.
    type Object<T: ?Sized>: ?Sized;

    /// Converts a reference to the value of a block, or to what belongs to that value.
    ///
    /// # Safety
    /// The block is of this kind. The result is used as the object of that block and for nothing
    /// else.
    unsafe fn object<T: ?Sized>(value: &T) -> &Self::Object<T>;
}

/// The kind of objects whose value is dropped by the last put.
#[derive(Debug)]
pub enum Prompt {}

/// The kind of objects whose value is dropped after a grace period, so that readers can borrow it.
#[derive(Debug)]
pub enum Late {}

// SAFETY: one of the two.
unsafe impl Kind for Prompt {
    const IS_LATE: bool = false;

    type Object<T: ?Sized> = T;

    #[inline(always)]
    unsafe fn object<T: ?Sized>(value: &T) -> &T {
        value
    }
}

// SAFETY: one of the two.
unsafe impl Kind for Late {
    const IS_LATE: bool = true;

    type Object<T: ?Sized> = Rcu<T>;

    #[inline(always)]
    unsafe fn object<T: ?Sized>(value: &T) -> &Rcu<T> {
        // SAFETY: an `Rcu` is transparent: it has the address, the layout and the metadata of its
        // only field.
        unsafe { &*(&raw const *value as *const Rcu<T>) }
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Prompt {}
    impl Sealed for super::Late {}
}
