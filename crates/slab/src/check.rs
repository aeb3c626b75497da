//! Checks of a cache's objects, for debugging.
//!
//! Around each object is a *red zone*: in front of it as many bytes as its alignment, 16 or more,
//! and behind it 8 or more. They are 0xcc while the object has a user, and 0xbb while it is free. A
//! free object is filled with *poison*, 0x6b and at its end 0xa5 (the values are those of Linux).
//!
//! | error | when it is detected |
//! |---|---|
//! | a write in front of an object or past its end | when it is freed |
//! | a write to an object that is free | when it is taken again |
//! | an object that is freed twice | then |
//! | an address that is none of an object of this cache | when it is freed |
//!
//! A detected error ends in a panic with a report. The object in question stays out of use.

use core::fmt;
use core::ptr::NonNull;

use super::chunk::{CHUNK, chunk_of};
use super::header::Slab;
use super::shape::Shape;
use super::slabs::Slabs;

/// The red zone of an object that is free.
const INACTIVE: u8 = 0xbb;
/// The red zone of an object that has a user.
const ACTIVE: u8 = 0xcc;
/// A free object.
const POISON: u8 = 0x6b;
/// The last byte of a free object.
const POISON_END: u8 = 0xa5;

/// How many bytes a report shows before and after the one in question.
const SHOWN: usize = 16;

const UNDERFLOW: &str = "the memory in front of an object was written";
const OVERFLOW: &str = "the memory behind an object was written";
const USE_AFTER_FREE: &str = "an object was written while it was free";
const DOUBLE_FREE: &str = "an object was freed twice";
const FOREIGN: &str = "the address is in no slab of this cache";
const MISPLACED: &str = "the address is not the beginning of an object";

/// A byte with an unexpected value.
#[derive(Clone, Copy, Debug)]
struct Byte {
    /// Its distance from the object, in bytes.
    offset: isize,
    expected: u8,
    found: u8,
    /// The bytes around it, at `offset - SHOWN` and on.
    around: [Option<u8>; 2 * SHOWN],
}

/// An error in the use of an object.
#[derive(Debug)]
pub(super) struct Mistake {
    what: &'static str,
    cache: &'static str,
    size: usize,
    address: usize,
    /// The slab, and the index of the object in it.
    place: Option<(usize, usize)>,
    byte: Option<Byte>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "slab: {}", self.what)?;
        writeln!(
            f,
            "  cache:   {}, objects of {} bytes",
            self.cache, self.size
        )?;
        write!(f, "  address: {:#x}", self.address)?;
        if let Some((slab, index)) = self.place {
            write!(f, ", object {index} of the slab at {slab:#x}")?;
        }
        if let Some(byte) = self.byte {
            write!(f, "\n{byte}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            expected,
            found,
            around,
        } = *self;
        write!(
            f,
            "  byte {offset}: expected {expected:#04x}, found {found:#04x}"
        )?;
        for (row, bytes) in around.chunks(SHOWN).enumerate() {
            write!(
                f,
                "\n  {:>+6}:",
                offset - SHOWN as isize + (row * SHOWN) as isize
            )?;
            for byte in bytes {
                match byte {
                    Some(byte) => write!(f, " {byte:02x}")?,
                    None => write!(f, " --")?,
                }
            }
        }
        Ok(())
    }
}

/// One object with its zones, for callers that may read and write them.
struct Checked<'s> {
    shape: &'s Shape,
    object: NonNull<u8>,
}

impl Checked<'_> {
    /// The bytes of the object and its zones, as distances from the object.
    fn all(&self) -> core::ops::Range<isize> {
        let zone = self.shape.zone as isize;
        -zone..self.shape.stride as isize - zone
    }

    fn in_front(&self) -> core::ops::Range<isize> {
        self.all().start..0
    }

    fn object(&self) -> core::ops::Range<isize> {
        0..self.shape.size as isize
    }

    fn behind(&self) -> core::ops::Range<isize> {
        self.object().end..self.all().end
    }

    fn read(&self, offset: isize) -> u8 {
        // SAFETY: all bytes of an object and its zones are in its slab, and the zones and free
        // objects were written.
        let place = unsafe { self.object.offset(offset) };
        // SAFETY: as above.
        unsafe { place.read() }
    }

    fn fill(&self, bytes: core::ops::Range<isize>, value: u8) {
        for offset in bytes {
            // SAFETY: all bytes of an object and its zones are in its slab.
            let place = unsafe { self.object.offset(offset) };
            // SAFETY: the caller may write them.
            unsafe { place.write(value) };
        }
    }

    fn mark(&self, zone: u8) {
        self.fill(self.in_front(), zone);
        self.fill(self.behind(), zone);
    }

    /// Marks the object as free.
    fn free(&self) {
        self.mark(INACTIVE);
        let object = self.object();
        self.fill(object.clone(), POISON);
        self.fill((object.end - 1).max(0)..object.end, POISON_END);
    }

    /// Finds the first byte that is not as expected. `shown` are the bytes that may be read.
    fn find(
        &self,
        mut bytes: core::ops::Range<isize>,
        shown: core::ops::Range<isize>,
        expected: u8,
    ) -> Option<Byte> {
        let offset = bytes.find(|&offset| self.read(offset) != expected)?;
        let around = core::array::from_fn(|step| {
            let near = offset - SHOWN as isize + step as isize;
            shown.contains(&near).then(|| self.read(near))
        });
        Some(Byte {
            offset,
            expected,
            found: self.read(offset),
            around,
        })
    }

    fn wrong_zone(&self, zone: u8) -> Option<(&'static str, Byte)> {
        // Of an object in use not every byte need be written, so those are not shown.
        if let Some(byte) = self.find(self.in_front(), self.in_front(), zone) {
            return Some((UNDERFLOW, byte));
        }
        let byte = self.find(self.behind(), self.behind(), zone)?;
        Some((OVERFLOW, byte))
    }

    fn wrong_poison(&self) -> Option<(&'static str, Byte)> {
        let object = self.object();
        let last = (object.end - 1).max(0)..object.end;
        let byte = self
            .find(0..last.start, self.all(), POISON)
            .or_else(|| self.find(last, self.all(), POISON_END))?;
        Some((USE_AFTER_FREE, byte))
    }
}

impl Mistake {
    #[cold]
    pub(super) fn report(self) -> ! {
        panic!("{self}");
    }
}

/// The checks of one cache.
pub(super) struct Checks<'c> {
    /// Its name.
    pub(super) cache: &'static str,
    pub(super) shape: &'c Shape,
}

impl Checks<'_> {
    /// Makes a mistake with an address, which is that of an object if the slab is given.
    fn mistake(&self, what: &'static str, object: NonNull<u8>, slab: Option<Slab>) -> Mistake {
        let address = object.addr().get();
        let index = |slab: Slab| self.shape.index(address - slab.first().addr().get());
        Mistake {
            what,
            cache: self.cache,
            size: self.shape.size,
            address,
            place: slab.map(|slab| (slab.address(), index(slab))),
            byte: None,
        }
    }

    fn of(&self, object: NonNull<u8>) -> Checked<'_> {
        let shape = self.shape;
        Checked { shape, object }
    }

    /// Marks all objects of a new slab as free.
    pub(super) fn prepare(&self, slab: Slab) {
        for index in 0..self.shape.count {
            // SAFETY: the index is below the count.
            let object = unsafe { self.shape.object(slab.first(), index) };
            self.of(object).free();
        }
    }

    /// Checks an object that was taken, and marks it as in use.
    ///
    /// # Panics
    /// If it or its zones were written while it was free.
    pub(super) fn check_taken(&self, object: NonNull<u8>) {
        let checked = self.of(object);
        let poison = || checked.wrong_poison();
        if let Some((what, byte)) = checked.wrong_zone(INACTIVE).or_else(poison) {
            // SAFETY: the object is one of a slab; only constant fields of the slab are read.
            let slab = unsafe { Slab::of(object) };
            let mistake = self.mistake(what, object, Some(slab));
            Mistake {
                byte: Some(byte),
                ..mistake
            }
            .report();
        }
        checked.mark(ACTIVE);
    }

    /// Checks an object that is freed, and marks it as free. For the holder of the lock of the
    /// slabs, which does not panic while it holds it.
    #[expect(
        clippy::result_large_err,
        reason = "an error happens once, and is reported by a panic"
    )]
    pub(super) fn check_freed(&self, slabs: &Slabs, object: NonNull<u8>) -> Result<(), Mistake> {
        let mistake = |what, slab| self.mistake(what, object, slab);
        let chunk = chunk_of(object).addr();
        let slab = slabs.iter().find(|slab| slab.address() == chunk);
        let slab = slab.ok_or_else(|| mistake(FOREIGN, None))?;
        let distance = object.addr().get().wrapping_sub(slab.first().addr().get());
        let index = self.shape.index(distance.min(CHUNK));
        if index >= self.shape.count || index * self.shape.stride != distance {
            return Err(mistake(MISPLACED, None));
        }
        if slab.is_free(index) {
            return Err(mistake(DOUBLE_FREE, Some(slab)));
        }
        let checked = self.of(object);
        if let Some((what, byte)) = checked.wrong_zone(ACTIVE) {
            let byte = Some(byte);
            return Err(Mistake {
                byte,
                ..mistake(what, Some(slab))
            });
        }
        checked.free();
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Cache, Colouring, Object};
    use core::ptr::NonNull;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn cache() -> Cache<[u8; 20]> {
        Cache::of_kind("checked", Colouring::On, true).expect("there is memory")
    }

    fn insert(cache: &Cache<[u8; 20]>) -> Object<'_, [u8; 20]> {
        cache.insert([1; 20]).expect("there is memory")
    }

    /// Writes a byte near an object, as a wild pointer does.
    fn write_wild<T>(place: NonNull<T>, offset: isize, byte: u8) {
        // SAFETY: inside the slab.
        let wild = unsafe { place.cast::<u8>().offset(offset) };
        // SAFETY: inside the slab, and only the checks read it.
        unsafe { wild.write(byte) };
    }

    /// Makes an error, and returns the report.
    fn report(f: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it is found");
        *payload.downcast::<String>().expect("a report")
    }

    #[test]
    fn right_use_is_not_reported() {
        let cache = cache();
        for round in 0..3 {
            let objects: Vec<_> = (0..3000).map(|_| insert(&cache)).collect();
            assert!(objects.iter().all(|object| **object == [1; 20]));
            assert_eq!(cache.info().in_use, 3000, "round {round}");
        }
        assert_eq!(cache.info().in_use, 0);
        assert!(cache.shrink() > 0);
    }

    #[test]
    fn a_write_behind_an_object_is_found_when_the_object_is_freed() {
        let cache = cache();
        let object = insert(&cache);
        write_wild(object.place, 20, 0x41);
        let report = report(|| drop(object));
        assert!(report.contains("behind an object"), "{report}");
        assert!(
            report.contains("cache:   checked, objects of 20 bytes"),
            "{report}"
        );
        assert!(
            report.contains("byte 20: expected 0xcc, found 0x41"),
            "{report}"
        );
        assert!(report.contains("+20: 41 cc cc"), "{report}");
    }

    #[test]
    fn a_write_in_front_of_an_object_is_found_when_the_object_is_freed() {
        let cache = cache();
        let object = insert(&cache);
        write_wild(object.place, -1, 0x41);
        let report = report(|| drop(object));
        assert!(report.contains("in front of an object"), "{report}");
        assert!(
            report.contains("byte -1: expected 0xcc, found 0x41"),
            "{report}"
        );
    }

    #[test]
    fn a_write_to_a_free_object_is_found_when_it_is_taken_again() {
        for (offset, expected) in [(3, "0x6b"), (19, "0xa5")] {
            let cache = cache();
            let object = insert(&cache);
            let place = object.place;
            drop(object);
            write_wild(place, offset, 0);
            let report = report(|| drop(insert(&cache)));
            assert!(report.contains("while it was free"), "{report}");
            let byte = format!("byte {offset}: expected {expected}, found 0x00");
            assert!(report.contains(&byte), "{report}");
            assert!(report.contains("object 0 of the slab"), "{report}");
        }
    }

    #[test]
    fn an_object_that_is_freed_twice_is_found() {
        let cache = cache();
        let object = insert(&cache);
        let twin = Object {
            place: object.place,
            cache: object.cache,
            owns: core::marker::PhantomData,
        };
        drop(object);
        let report = report(|| drop(twin));
        assert!(report.contains("freed twice"), "{report}");
        drop(insert(&cache));
    }

    #[test]
    fn an_address_of_something_else_is_found() {
        let (cache, other) = (cache(), cache());
        let object = insert(&other);
        let _used = insert(&cache);
        // SAFETY: violated on purpose: the checks must detect it.
        let text = report(|| unsafe { cache.raw.free(object.place.cast()) });
        assert!(text.contains("in no slab of this cache"), "{text}");
        // SAFETY: inside the slab.
        let inside = unsafe { object.place.cast::<u8>().add(1) };
        // SAFETY: violated on purpose: the checks must detect it.
        let text = report(|| unsafe { other.raw.free(inside) });
        assert!(text.contains("not the beginning of an object"), "{text}");
    }

    #[test]
    fn nothing_has_no_bytes_to_check() {
        let cache = Cache::of_kind("nothing", Colouring::On, true).expect("there is memory");
        let one = cache.insert(()).expect("there is memory");
        let two = cache.insert(()).expect("there is memory");
        drop(one);
        drop(two);
        drop(cache.insert(()).expect("there is memory"));
    }
}
