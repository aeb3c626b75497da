//! Conversions of references to objects: to another type, and back.
//!
//! # To an unsized type
//!
//! A block's type is fixed when it is made: a `dyn` object has a wide pointer in front of its
//! header, for which a block of a sized type has no place. So [`Ref::into_dyn`] makes another
//! block, whose value is the reference. `From<Arc<T>>` does the same with an `Arc`.
//!
//! # To the type of the value
//!
//! [`Ref::downcast_by`] goes the other way and costs nothing. A reference of either kind is the
//! address of the block's value, and the header in front of it is the same. Functions that were
//! made with the block know its type, and use the part in front of the header;
//! [`object`](super::object) does so for a wide type. A sized type `S` needs only that the value's
//! address is that of an `S`.
//!
//! The caller's function shows that: it returns an `&S`, and the address of that is compared with
//! the value's. These are the cases to think of:
//!
//! - *How long the `S` is there.* The function takes `&'a T` and returns `&'a S` for every `'a`.
//!   The object is only ever shared until its block is freed, and `T` is `'static`, so the function
//!   could be called once with an `'a` that ends then. The result is valid for as long as a `Ref`
//!   is, whatever is between: a field, a cell that is set once, another allocation.
//! - *The `S` is a part of the value*, such as its first field. Then the `Ref<S>` is a reference
//!   to that part, and keeps the whole. The `S` is not moved out by it (see below), and the block
//!   ends by the function in its header, which drops the value that was made.
//! - *The `S` is elsewhere, at the same address.* If `S` has a size, and there is a byte of the
//!   block at the address, this cannot be: allocations do not overlap, and a reference stays inside
//!   of one. There is such a byte if the value has a size, which [`State::HAS_BYTES`] says. If the
//!   value has none, its address may be the end of the block and the beginning of another
//!   allocation. The `S` would be valid there, but not reachable by a pointer to the block, so the
//!   downcast is refused.
//! - *`S` has no size.* Then the `&S` stands for no memory, so any pointer with its address will
//!   do, and only the type could be wrong. It is not: the caller's function had an `&'a S` with
//!   that address, and the `Ref<S>` gives out the same.
//! - *Alignment*. The address is that of an `&S`, which is aligned. The layout that the memory is
//!   freed with is in the function in the header.
//! - *A wide `S`* would need a pointer in front of the header: `S` is sized.
//! - *Threads.* `Ref<S>` is `Send` and `Sync` only if `S` is both. The value, which any thread may
//!   drop, is so in any case.
//!
//! # To the value itself
//!
//! [`Ref::into_inner`] and [`Ref::try_unwrap`] move the value out of a block. They put the last
//! reference in one of the ways of any last put, so no reader that comes at the same time takes
//! another one. Then they end the block likewise, without the drop of the value. No reader may look
//! at it without a reference, which those of late blocks do. And it has to be of the type that the
//! block was made of. Its size does not show that: a type that lends a field, and never moves it
//! out, may be as large as the field, such as one around a `ManuallyDrop`. So the function in the
//! header is asked, which knows the type.

use alloc::alloc::handle_alloc_error;
use alloc::sync::Arc;
use core::any::TypeId;
use core::marker::PhantomData;
use core::ptr;

use fdtable_sync::fallible::OutOfMemory;

use super::end::take;
use super::header::{Header, RawObject, State};
use super::make::{NoHook, assert_unsized, layout, make, value_type};
use super::{Prompt, Ref};

impl<T: ?Sized> Ref<T> {
    /// Returns the address of the object. It stays the same for as long as there are references.
    ///
    /// It is the object's address, not the block's: where the object is outside of its block, as
    /// after [`into_dyn`](Self::into_dyn) or a conversion from an `Arc`, two blocks may have the
    /// same one.
    #[inline]
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        ptr::from_ref(&**this)
    }
}

impl<T: ?Sized + Send + Sync + 'static> Ref<T> {
    /// Makes a counted object of another, unsized type that holds this reference. `coerce` converts
    /// a reference to the object. Allocates, and ends the process if there is no memory.
    ///
    /// It is another object: its count and its revocation are its own. This reference is dropped
    /// with the last one of the new object; the hook of the old object runs then, unless it has
    /// other references.
    #[must_use]
    pub fn into_dyn<U: ?Sized + 'static>(this: Self, coerce: fn(&T) -> &U) -> Ref<U> {
        Self::try_into_dyn(this, coerce).unwrap_or_else(|(OutOfMemory, this)| {
            drop(this);
            handle_alloc_error(layout::<U, Self, NoHook, ()>());
        })
    }

    /// As [`into_dyn`](Self::into_dyn).
    ///
    /// # Errors
    /// [`OutOfMemory`], with the reference.
    pub fn try_into_dyn<U: ?Sized + 'static>(
        this: Self,
        coerce: fn(&T) -> &U,
    ) -> Result<Ref<U>, (OutOfMemory, Self)> {
        const { assert_unsized::<U>() };
        // If there is no memory, the value is dropped: so it is another reference.
        match make::<Prompt, U, _, _, _>((), this.clone(), |held: &Self| coerce(held), NoHook) {
            Ok(raw) => Ok(Ref {
                raw,
                owns: PhantomData,
            }),
            Err(OutOfMemory) => Err((OutOfMemory, this)),
        }
    }
}

impl<T: ?Sized + 'static> Ref<T> {
    /// Converts the reference to one to the value of the block, if `find` finds an `S` at the
    /// value's address. If not, returns the reference. It is the same object, with its count, its
    /// hook and its revocation. Neither blocks nor allocates.
    ///
    /// ```
    /// use std::any::Any;
    ///
    /// use fdtable_objects::object::Ref;
    ///
    /// let any: Ref<dyn Any + Send + Sync> = Ref::coerced(7_u32, |number| number);
    /// let any = Ref::downcast_by(any, |any| any.downcast_ref::<u64>()).unwrap_err();
    /// let number: Ref<u32> = Ref::downcast_by(any, |any| any.downcast_ref()).unwrap();
    /// assert_eq!(*number, 7);
    /// ```
    ///
    /// The result of `find` lives as long as the object. This does not compile:
    ///
    /// ```compile_fail,E0308
    /// use fdtable_objects::object::Ref;
    ///
    /// let outer = 7_u32;
    /// let _ = Ref::downcast_by(Ref::new(7_u32), |_| Some(&outer));
    /// ```
    ///
    /// # Errors
    /// The reference, if `find` returns nothing, or an `S` elsewhere.
    ///
    /// # Panics
    /// If `find` does; the reference is dropped.
    pub fn downcast_by<S: 'static>(
        this: Self,
        find: for<'a> fn(&'a T) -> Option<&'a S>,
    ) -> Result<Ref<S>, Self> {
        if !find(&this).is_some_and(|found| this.has_value_at(found)) {
            return Err(this);
        }
        Ok(Ref {
            // The reference is not put: it is the one that is returned. At its address is an `S`,
            // in the block if it has a size, which stays until the block is freed, and the header
            // is that of any type: see the head of this file.
            raw: this.into_raw(),
            owns: PhantomData,
        })
    }

    /// Returns true if `found` is at the address of the block's value, and in the block if it has a
    /// size.
    fn has_value_at<S>(&self, found: &S) -> bool {
        let has_its_address = ptr::from_ref(found).cast::<RawObject>() == self.block().as_ptr();
        has_its_address && (size_of::<S>() == 0 || self.header().state.has(State::HAS_BYTES))
    }
}

impl<T: 'static> Ref<T> {
    /// Drops the reference. If it was the last one, the hook runs, unless a revocation has run it,
    /// and then the object belongs to the caller instead of being dropped. If all holders of
    /// references call this, one of them gets the object. May run RCU callbacks, as the drop of a
    /// reference does.
    ///
    /// Returns nothing also if readers can borrow the object, or if it is not of the type that the
    /// block was made of, but a part of that: then it is dropped as ever.
    ///
    /// ```
    /// use fdtable_objects::object::Ref;
    ///
    /// let name = Ref::new("motd".to_string());
    /// let other = name.clone();
    /// assert_eq!(Ref::into_inner(name), None);
    /// assert_eq!(Ref::into_inner(other).unwrap(), "motd");
    /// ```
    ///
    /// # Panics
    /// If the hook does; the object is dropped.
    pub fn into_inner(this: Self) -> Option<T> {
        if !this.may_be_taken() {
            return None;
        }
        let raw = this.into_raw();
        // SAFETY: the reference, which is put here, keeps the block.
        if !unsafe { Header::of(raw) }.put_as_last() {
            return None;
        }
        // SAFETY: the last reference was put above; the rest is as in `try_unwrap`.
        Some(unsafe { take(raw) })
    }

    /// Moves the object out like [`into_inner`](Self::into_inner), or keeps the reference. A lookup
    /// that comes at the same time finds nothing, or keeps its reference and makes this fail.
    ///
    /// # Errors
    /// The reference, if there are others, if readers can borrow the object, or if it is not of the
    /// type that the block was made of, but a part of that.
    ///
    /// # Panics
    /// If the hook does; the object is dropped.
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        if !this.may_be_taken() || !this.header().put_if_last() {
            return Err(this);
        }
        // SAFETY: the last reference was put above. The block is prompt, and its value is a `T`.
        Ok(unsafe { take(this.into_raw()) })
    }

    /// Returns true if the block is prompt, and its value is a `T`.
    fn may_be_taken(&self) -> bool {
        let header = self.header();
        !header.state.has(State::LATE) && value_type(header) == Some(TypeId::of::<T>())
    }
}

/// Makes a counted object of an unsized type that holds the `Arc`. Allocates, and ends the process
/// if there is no memory.
///
/// The other direction does not exist: an `Arc` has a count and a layout of its own.
impl<T: ?Sized + Send + Sync + 'static> From<Arc<T>> for Ref<T> {
    fn from(object: Arc<T>) -> Self {
        Self::coerced(object, |object| object)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
