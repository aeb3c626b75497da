//! References as addresses: for a word that belongs to foreign code.
//!
//! The address is that of the block's value, which every kind of reference leads to. So it is one
//! word for unsized types too: the pointer to their object is in front of the header.

use core::ptr::NonNull;

use super::Ref;
use super::header::Header;

/// The lowest bits of an address are zero, for tags.
const _: () = assert!(align_of::<Header>() >= 8);

impl<T: ?Sized> Ref<T> {
    /// Converts the reference to an address, which keeps the object until
    /// [`from_raw`](FromRaw::from_raw) converts it back.
    ///
    /// It is the address of the value that the object was made of: a multiple of 8, and of the
    /// value's alignment. If `T` is sized, that is [`as_ptr`](Self::as_ptr).
    #[must_use = "an address that is lost keeps its object forever"]
    pub fn into_address(this: Self) -> NonNull<()> {
        this.into_raw().cast()
    }
}

/// References that addresses are converted back to.
pub trait FromRaw: From<Ref<Self::Object>> {
    /// The type of the object.
    type Object: ?Sized;

    /// Converts an address back to the reference that it was made of. Neither blocks nor allocates.
    ///
    /// # Safety
    /// `raw` came from a reference with the same type of object, and is converted back once for
    /// each reference that was made an address. Tags in its lowest bits are cleared. If the thread
    /// is another one, the object is `Send` and `Sync`.
    #[must_use]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: as the caller promises.
        Self::from(unsafe { Ref::from_raw(raw.cast()) })
    }
}
