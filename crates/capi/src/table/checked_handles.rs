//! Handles of the caller, with checks: the feature `debug`.
//!
//! Each table, reference, reservation and section of the caller is a number that is never given
//! out again, in the place of a pointer. Maps lead from the numbers to the values. A number that is
//! not in the map of its kind is a misuse, and [`stop`] ends the process.
//!
//! Two calls at the same time, of which one ends what the other uses, are not found. The maps have
//! a lock, so a call in a handler of a signal may wait forever for the one that it has interrupted.

use std::any::type_name;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io::{self, Write as _};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use fdtable::rcu::Guard;
use fdtable::{FileRef, Rcu, Reservation, rcu};
use fdtable_sync::fallible::try_box;

use super::{Object, fdt_file, fdt_private, fdt_reservation, fdt_section, fdt_table, fdt_weak};
use crate::environment::{Entry, enter};
use crate::errno::Errno;
use crate::memory::check;

/// Numbers are this far apart. A number modulo this is an index of [`KINDS`], plus 1.
const SPACING: usize = 16;

/// Kind of handle.
pub(super) trait Handle: Sized {
    /// Index in [`KINDS`].
    const KIND: usize;

    /// Returns the map of the handles that have not ended.
    fn live(handles: &mut Handles) -> &mut BTreeMap<usize, Self>;
}

/// Table or weak reference, made by `Box::into_raw`.
#[derive(Clone, Copy)]
pub(super) struct Boxed<T>(*mut T);

/// Reference of the caller to an open file.
type Reference = FileRef<Rcu<Object>>;

#[derive(Clone, Copy)]
struct Reserved {
    /// Number of the table.
    table: usize,
    /// Valid as long as the table.
    reservation: *mut Reservation<'static, Rcu<Object>>,
}

/// Section of some thread: its [`OpenSections`] have the guards.
struct Section;

/// Sections of a thread, innermost last.
type OpenSections = Vec<(usize, (Entry, Guard<'static>))>;

/// Open sections of a thread, and the runs of its destructors.
struct OfThread {
    open: OpenSections,
    /// Number of times that its destructors have run.
    ends: u32,
}

/// How often the C library runs destructors at the end of a thread, at least.
const ENDS: u32 = 4;

// SAFETY: only the pointers keep it from being `Send`. The values behind them are `Send`, but for
// pointers of the embedder, who promises that any thread may use these.
unsafe impl Send for Handles {}

/// Defines the kinds: the name of its map and the type of each, its name, and what ends one.
macro_rules! kinds {
    ($($map:ident: $handle:ty, $name:literal, $ended:literal;)*) => {
        /// Indices in [`KINDS`].
        enum Kind { $($map),* }

        /// Name of each kind of handle, and what ends one.
        const KINDS: &[(&str, &str)] = &[$(($name, $ended)),*];

        /// All handles that have not ended.
        pub(super) struct Handles {
            /// How many handles there have been.
            count: usize,
            $($map: BTreeMap<usize, $handle>),*
        }

        static HANDLES: Mutex<Handles> = Mutex::new(Handles {
            count: 0,
            $($map: BTreeMap::new()),*
        });

        $(impl Handle for $handle {
            const KIND: usize = Kind::$map as usize;

            fn live(handles: &mut Handles) -> &mut BTreeMap<usize, Self> {
                &mut handles.$map
            }
        })*
    };
}

kinds! {
    tables: Boxed<fdt_table>, "table", "freed";
    private_tables: Boxed<fdt_private>, "private table", "freed";
    references: Reference, "reference", "put";
    reservations: Reserved, "reservation", "installed or cancelled";
    sections: Section, "section", "ended";
    weak_references: Boxed<fdt_weak>, "weak reference", "put";
}

/// Runs `action` on the handles, inside the freezer: a child of a fork finds them unlocked.
fn locked<R>(action: impl FnOnce(&mut Handles) -> R) -> R {
    let _inside = enter();
    action(&mut HANDLES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Gives a handle its number.
fn add<H: Handle>(handle: H) -> usize {
    locked(|handles| {
        handles.count += 1;
        let number = handles.count * SPACING + H::KIND + 1;
        H::live(handles).insert(number, handle);
        number
    })
}

/// Runs `look` on a handle. Stops if it is none of this kind that has not ended.
fn with<H: Handle, R>(number: usize, look: impl FnOnce(&H) -> R) -> R {
    let found = locked(|handles| match H::live(handles).get(&number) {
        Some(handle) => Ok(look(handle)),
        None => Err(fault::<H>(handles, number)),
    });
    found.unwrap_or_else(|fault| stop(&fault))
}

/// Ends a handle. Stops if it is none of this kind that has not ended.
fn remove<H: Handle>(number: usize) -> H {
    let found = locked(|handles| {
        let found = H::live(handles).remove(&number);
        found.ok_or_else(|| fault::<H>(handles, number))
    });
    found.unwrap_or_else(|fault| stop(&fault))
}

/// Returns what is wrong with a number that is not in the map of its kind.
fn fault<H: Handle>(handles: &Handles, number: usize) -> String {
    let (expected, ended) = KINDS[H::KIND];
    let kind = (number % SPACING).wrapping_sub(1);
    match KINDS.get(kind) {
        Some((actual, _)) if (1..=handles.count).contains(&(number / SPACING)) => {
            if kind == H::KIND {
                format!("this {expected} was {ended} before")
            } else {
                format!("this is a {actual}, not a {expected}")
            }
        }
        _ => format!("this is not a {expected} of the library"),
    }
}

thread_local! {
    /// Path of the function that the thread has called last.
    static FUNCTION: Cell<&'static str> = const { Cell::new("") };
}

/// Begins a function of the interface. `_body` is a closure in it, whose path has its name.
pub(super) fn begin_call<F>(_body: &F) {
    FUNCTION.set(type_name::<F>());
}

/// Ends the process with a sentence that names the function. The handles are not locked: a handler
/// of `SIGABRT` may look something up.
fn stop(fault: &str) -> ! {
    let path = FUNCTION.get();
    let function = path.split("::").find(|part| part.starts_with("fdt_"));
    let sentence = format!("fdtable: {}: {fault}\n", function.unwrap_or(path));
    // Nothing is left to do if it cannot be written.
    let _ = io::stderr().write_all(sentence.as_bytes());
    std::process::abort()
}

/// Passes a table or a weak reference to the caller.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn box_into_raw<T>(handle: T) -> Result<*mut T, Errno>
where
    Boxed<T>: Handle,
{
    let handle = Boxed(Box::into_raw(try_box(handle)?));
    Ok(ptr::without_provenance_mut(add(handle)))
}

/// Takes a table or a weak reference back from the caller.
///
/// # Safety
/// No other call uses it.
pub(super) unsafe fn box_from_raw<T>(handle: *mut T) -> T
where
    Boxed<T>: Handle,
{
    let Boxed(value) = remove(handle.addr());
    // SAFETY: `box_into_raw` made it, and the handle was there, so it is taken back once.
    *unsafe { Box::from_raw(value) }
}

/// Returns a reference to a table or a weak reference of the caller.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// It is not freed during the call.
pub(super) unsafe fn box_ref<'t, T>(handle: *const T) -> Result<&'t T, Errno>
where
    Boxed<T>: Handle,
{
    if handle.is_null() {
        return Err(Errno::EFAULT);
    }
    let value = with(handle.addr(), |&Boxed(value)| value);
    // SAFETY: the handle was there, so the value was not freed before; the rest as the caller
    // promises.
    Ok(unsafe { &*value })
}

/// Passes a reference to the caller.
pub(super) fn file_into_raw(file: Reference) -> *mut fdt_file {
    ptr::without_provenance_mut(add(file))
}

/// Takes a reference back from the caller.
///
/// # Safety
/// No other call uses the reference.
pub(super) unsafe fn file_from_raw(file: *mut fdt_file) -> Reference {
    remove(file.addr())
}

/// Returns a reference of the caller. The caller keeps it.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// The reference is not put during the call.
pub(super) unsafe fn file_ref(file: *mut fdt_file) -> Result<ManuallyDrop<Reference>, Errno> {
    if file.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the copy is not dropped, and the map keeps the value, as the caller promises.
    let copy = |file: &Reference| ManuallyDrop::new(unsafe { ptr::read(file) });
    Ok(with(file.addr(), copy))
}

/// Number in a reservation that is marked as used.
const USED: usize = 0;

/// Marks a reservation as used.
///
/// # Safety
/// There is room at `at`.
pub(super) unsafe fn mark_as_used(at: *mut fdt_reservation) {
    // SAFETY: as the caller promises.
    unsafe { store(at, USED) };
}

/// Stores a number as a reservation.
///
/// # Safety
/// There is room at `at`.
unsafe fn store(at: *mut fdt_reservation, number: usize) {
    let opaque = [number, 0].map(MaybeUninit::new);
    // SAFETY: as the caller promises.
    unsafe { at.write_unaligned(fdt_reservation { opaque }) };
}

/// Stores a reservation for the caller.
///
/// # Safety
/// There is room at `at`.
pub(super) unsafe fn store_reservation(
    at: *mut fdt_reservation,
    table: *const fdt_table,
    reserved: Reservation<'static, Rcu<Object>>,
) {
    let number = add(Reserved {
        table: table.addr(),
        reservation: Box::into_raw(Box::new(reserved)),
    });
    // SAFETY: as the caller promises.
    unsafe { store(at, number) };
}

/// Checks that a reservation can be installed in a table. Stops if not.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// If `at` can be an address, a reservation is there.
pub(super) unsafe fn check_reservation(
    at: *const fdt_reservation,
    table: *const fdt_table,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let number = unsafe { number_of(at) }?;
    if number == USED {
        stop("this reservation was installed or cancelled before");
    }
    if with(number, |it: &Reserved| it.table) != table.addr() {
        stop("this reservation is of another table");
    }
    Ok(())
}

/// Takes a reservation back from the caller, and marks it as used. Stops if a copy of it was used,
/// or its table was freed.
///
/// # Errors
/// `EFAULT` if it is null; `EINVAL` if it was marked before.
///
/// # Safety
/// If `at` can be an address, a reservation is there. Its table is not freed during the call.
pub(super) unsafe fn take_reservation(
    at: *mut fdt_reservation,
) -> Result<Reservation<'static, Rcu<Object>>, Errno> {
    // SAFETY: as the caller promises.
    let number = unsafe { number_of(at) }?;
    if number == USED {
        return Err(Errno::EINVAL);
    }
    let Reserved { table, reservation } = remove(number);
    // SAFETY: a reservation is there, so there is room.
    unsafe { mark_as_used(at) };
    if !locked(|handles| handles.tables.contains_key(&table)) {
        stop("the table of this reservation was freed before");
    }
    // SAFETY: `store_reservation` made it, and the handle was there, so it is taken back once.
    Ok(*unsafe { Box::from_raw(reservation) })
}

/// Returns the number in a reservation.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// If `at` can be an address, a reservation is there.
unsafe fn number_of(at: *const fdt_reservation) -> Result<usize, Errno> {
    check(at)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { at.cast::<usize>().read_unaligned() })
}

/// Begins a section.
pub(super) fn begin_section() -> fdt_section {
    let inside = (enter(), rcu::read_lock());
    let number = add(Section);
    // SAFETY: nothing else uses the sections of this thread now.
    unsafe { &mut *open_sections() }.push((number, inside));
    fdt_section {
        opaque: [MaybeUninit::new(number), MaybeUninit::new(0)],
    }
}

/// Ends a section. Stops if it was ended, is of another thread, or has another one inside.
///
/// # Safety
/// The caller has filled the section in.
pub(super) unsafe fn end_section(section: &fdt_section) {
    // SAFETY: as the caller promises.
    let number = unsafe { section.opaque[0].assume_init() };
    // SAFETY: nothing else uses the sections of this thread now.
    let open = unsafe { &mut *open_sections() };
    check_is_here(number, open);
    let Some((_, inside)) = open.pop_if(|(innermost, _)| *innermost == number) else {
        stop("this section has another one inside, which ends first");
    };
    remove::<Section>(number);
    let (entry, guard) = inside;
    drop(guard);
    drop(entry);
}

/// Returns the guard of a section. Stops if it was ended, or is of another thread.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// If it is not null, a section is there. It lasts, and no other one begins meanwhile.
pub(super) unsafe fn section_guard<'s>(
    section: *const fdt_section,
) -> Result<&'s Guard<'s>, Errno> {
    // SAFETY: as the caller promises.
    let section = unsafe { section.as_ref() }.ok_or(Errno::EFAULT)?;
    // SAFETY: as the caller promises, it was filled in.
    let number = unsafe { section.opaque[0].assume_init() };
    // SAFETY: only this thread changes them, and it does not meanwhile, as the caller promises.
    let open: &'s OpenSections = unsafe { &*open_sections() };
    let (_, (_, guard)) = check_is_here(number, open);
    Ok(guard)
}

/// Returns the entry of a section of this thread. Stops if it is none.
fn check_is_here(number: usize, open: &OpenSections) -> &(usize, (Entry, Guard<'static>)) {
    let here = open.iter().find(|(one, _)| *one == number);
    here.unwrap_or_else(|| {
        with(number, |_: &Section| ());
        stop("this section is of another thread")
    })
}

/// Returns the sections of this thread.
fn open_sections() -> *mut OpenSections {
    let _inside = enter();
    // SAFETY: the key was made by `key`.
    let mut sections = unsafe { libc::pthread_getspecific(key()) }.cast::<OfThread>();
    if sections.is_null() {
        sections = Box::into_raw(Box::new(OfThread {
            open: Vec::new(),
            ends: 0,
        }));
        set(sections);
    }
    // SAFETY: it lives as long as the thread has it.
    unsafe { &raw mut (*sections).open }
}

/// Returns the key of what each thread keeps. It is one of the C library: its destructor runs at
/// the end of a thread, and not in `exit(3)`, which may be called inside a section.
fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: there is room for the key.
        let error = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) };
        assert_eq!(error, 0, "no key is left for sections");
        key
    })
}

/// Gives this thread what it keeps.
fn set(sections: *mut OfThread) {
    // SAFETY: the key was made by `key`.
    let error = unsafe { libc::pthread_setspecific(key(), sections.cast()) };
    assert_eq!(error, 0, "no memory for sections");
}

extern "C" fn at_thread_end(sections: *mut c_void) {
    let sections = sections.cast::<OfThread>();
    // SAFETY: it was made below, and nothing else uses it now.
    let it = unsafe { &mut *sections };
    it.ends += 1;
    if it.open.is_empty() {
        // SAFETY: as above. A destructor that begins a section later makes another one.
        drop(unsafe { Box::from_raw(sections) });
    } else if it.ends < ENDS {
        // Another destructor may still end the section.
        set(sections);
    } else {
        begin_call(&super::fdt_read_lock);
        stop("the thread has ended inside this section");
    }
}
