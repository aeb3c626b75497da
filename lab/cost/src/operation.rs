//! The operations, and the tables on which they are done.
//!
//! Each leaves the tables as it has found them. Only the part inside of [`Meter::measure`] is
//! counted.

use std::hint::black_box;

use fdtable::{Access, FdData, FdFlags, FileRef, Files, RawFd, Rcu, SuperBlock, rcu};
use fdtable_slab::Cache;

use crate::meter::Meter;
use crate::rival::Rivals;

/// The object behind a descriptor: 64 bytes.
pub(crate) type Object = [u64; 8];
type File = FileRef<Rcu<Object>>;

/// Our table, and what is beside it.
pub(crate) struct Tables {
    files: Files<Rcu<Object>>,
    /// A table of files with a word each.
    words: Files<Rcu<Object>>,
    /// A file that is not in the table.
    file: File,
    objects: Cache<Object>,
    superblock: SuperBlock<Rcu<Object>>,
    rivals: Rivals,
    live: usize,
}

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// With how many open descriptors it is traced.
    pub(crate) sizes: &'static [usize],
    place: Place,
    /// Gets an open descriptor.
    perform: fn(&Tables, &mut Meter, RawFd),
}

/// Which descriptor an operation gets.
#[derive(Clone, Copy)]
enum Place {
    /// Another one each time.
    Random,
    /// The one in the middle of the table.
    Middle,
}
use Place::{Middle, Random};

const SIZES: &[usize] = &[64, 1_000, 1_000_000];
const FORKS: &[usize] = &[0, 10, 64, 1_000_000];
/// An operation that no table takes part in.
const ANY_SIZE: &[usize] = &[64];
/// An operation that is not traced, but counted under an emulator.
const EMULATED: &[usize] = &[];

/// Makes the list of operations from functions.
macro_rules! operations {
    ($($name:ident, $place:ident, $sizes:expr;)*) => {
        pub(crate) const OPERATIONS: &[Operation] = &[$(Operation {
            name: stringify!($name),
            sizes: $sizes,
            place: $place,
            perform: $name,
        }),*];
    };
}

operations! {
    get, Random, SIZES;
    get_of_two_descriptors, Middle, SIZES;
    section_get_upgrade, Random, SIZES;
    get_with_data, Random, SIZES;
    get_of_rwlock_vec, Random, SIZES;
    get_rcu, Random, SIZES;
    open, Middle, SIZES;
    open_any, Middle, SIZES;
    open_far, Random, SIZES;
    open_new, Middle, SIZES;
    open_of_mutex_slab, Middle, SIZES;
    close, Middle, SIZES;
    close_of_open_any, Middle, SIZES;
    close_far, Random, SIZES;
    close_last, Middle, SIZES;
    close_of_mutex_slab, Middle, SIZES;
    close_nothing, Middle, SIZES;
    dup, Random, SIZES;
    dup_min, Random, SIZES;
    dup2, Random, SIZES;
    replace, Random, SIZES;
    reserve_and_install, Middle, SIZES;
    close_range_empty, Middle, SIZES;
    close_on_exec_empty, Middle, SIZES;
    fork, Middle, FORKS;
    new_file_and_drop, Middle, ANY_SIZE;
    listed_file_and_drop, Middle, ANY_SIZE;
    object_and_drop, Middle, ANY_SIZE;
    nothing, Random, EMULATED;
    open_and_close, Random, EMULATED;
    open_new_and_close, Random, EMULATED;
}

impl Tables {
    /// Opens `live` files in each table. The tables are not on the stack, which is not counted.
    pub(crate) fn new(live: usize) -> Box<Self> {
        let [files, words] = [(); 2].map(|()| Files::with_limit(1 << 21));
        for nth in 0..live {
            for (table, data) in [(&files, FdFlags::empty().into()), (&words, with_word(nth))] {
                table.open(new_file(nth), data).expect("there is memory");
            }
        }
        Box::new(Tables {
            files,
            words,
            file: new_file(live),
            objects: Cache::new("objects").expect("there is memory"),
            superblock: SuperBlock::new().expect("there is memory"),
            rivals: Rivals::new(live),
            live,
        })
    }

    /// Performs an operation on one of the open descriptors, which `nth` chooses.
    pub(crate) fn perform(&mut self, operation: &Operation, meter: &mut Meter, nth: usize) {
        let fd = match operation.place {
            // A prime, so that each descriptor is met equally often, and far from the last one.
            Random => nth.wrapping_mul(611_953) % self.live.max(1),
            Middle => self.live / 2,
        };
        (operation.perform)(self, meter, black_box(fd as RawFd));
    }

    fn open(&self) -> RawFd {
        let fd = self.files.open(self.file.clone(), FdFlags::empty());
        fd.expect("there is memory").raw()
    }

    fn close(&self, fd: RawFd) -> File {
        self.files.close(fd).expect("open").into_file()
    }
}

fn with_word(nth: usize) -> FdData {
    (FdFlags::empty(), nth as u64).into()
}

fn new_file(nth: usize) -> File {
    FileRef::new_rcu([nth as u64; 8])
}

fn nothing(_: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| black_box(fd));
}

fn get(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| black_box(tables.files.get(fd).expect("open")[0]));
}

fn get_of_two_descriptors(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let second = tables.files.dup(fd).expect("open");
    get(tables, meter, fd);
    drop(tables.close(second.raw()));
}

fn section_get_upgrade(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| {
        let section = rcu::read_lock();
        let file = tables.files.get_rcu(fd, &section).expect("open").upgrade();
        drop(section);
        black_box(file.expect("open")[0])
    });
}

fn get_with_data(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| {
        let (file, data) = tables.words.get_with_data(fd).expect("open");
        black_box((file[0], data));
    });
}

fn get_of_rwlock_vec(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| black_box(tables.rivals.get(fd as usize).expect("open")[0]));
}

fn get_rcu(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| {
        let section = rcu::read_lock();
        black_box(tables.files.get_rcu(fd, &section).expect("open")[0])
    });
}

fn open(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = tables.close(fd);
    meter
        .measure(|| tables.files.open(file, FdFlags::empty()))
        .expect("there is memory");
}

fn open_far(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    open(tables, meter, fd);
}

fn open_any(tables: &Tables, meter: &mut Meter, _: RawFd) {
    let file = tables.file.clone();
    let fd = meter.measure(|| tables.files.open_any(file, FdFlags::empty()));
    drop(tables.close(fd.expect("there is memory").raw()));
}

fn open_new(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    drop(tables.close(fd));
    meter
        .measure(|| tables.files.open(new_file(fd as usize), FdFlags::empty()))
        .expect("there is memory");
}

fn open_of_mutex_slab(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = tables.rivals.close(fd as usize).expect("open");
    meter.measure(|| black_box(tables.rivals.open(file)));
}

fn close(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = meter.measure(|| tables.files.close(fd)).expect("open");
    tables
        .files
        .open(file.into_file(), FdFlags::empty())
        .expect("there is memory");
}

fn close_far(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    close(tables, meter, fd);
}

fn close_of_open_any(tables: &Tables, meter: &mut Meter, _: RawFd) {
    let fd = tables.files.open_any(tables.file.clone(), FdFlags::empty());
    let fd = fd.expect("there is memory");
    drop(meter.measure(|| tables.files.close(fd)).expect("open"));
}

fn close_last(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| drop(tables.files.close(fd).expect("open")));
    tables
        .files
        .open(new_file(fd as usize), FdFlags::empty())
        .expect("there is memory");
}

fn close_of_mutex_slab(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = meter.measure(|| tables.rivals.close(fd as usize));
    tables.rivals.open(file.expect("open"));
}

fn close_nothing(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = tables.close(fd);
    meter.measure(|| tables.files.close(fd).is_err());
    tables
        .files
        .open(file, FdFlags::empty())
        .expect("there is memory");
}

fn dup(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let new = meter.measure(|| tables.files.dup(fd)).expect("open");
    drop(tables.close(new.raw()));
}

fn dup_min(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let new = meter.measure(|| tables.files.dup_min(fd, 0, FdFlags::empty()));
    drop(tables.close(new.expect("open").raw()));
}

fn dup2(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let own = tables.open();
    drop(meter.measure(|| tables.files.dup2(fd, own)).expect("open"));
    drop(tables.close(own));
}

fn replace(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = tables.file.clone();
    let displaced = meter.measure(|| tables.files.replace(fd, file, FdFlags::empty()));
    let (file, _) = displaced.expect("there is memory").expect("open");
    drop(tables.files.replace(fd, file.into_file(), FdFlags::empty()));
}

fn reserve_and_install(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    let file = tables.close(fd);
    meter.measure(|| {
        let reserved = tables.files.reserve(FdFlags::empty());
        reserved.expect("there is memory").install(file)
    });
}

/// Above all descriptors, in the last leaf that has some.
fn close_range_empty(tables: &Tables, meter: &mut Meter, _: RawFd) {
    let first = tables.live as u32;
    let closed = meter.measure(|| tables.files.close_range(first, u32::MAX, drop));
    closed.expect("there is memory");
}

fn close_on_exec_empty(tables: &Tables, meter: &mut Meter, _: RawFd) {
    let closed = meter.measure(|| tables.files.close_on_exec(drop));
    closed.expect("there is memory");
}

fn fork(tables: &Tables, meter: &mut Meter, _: RawFd) {
    drop(
        meter
            .measure(|| tables.files.fork())
            .expect("there is memory"),
    );
}

fn new_file_and_drop(_: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| drop(black_box(new_file(fd as usize))));
}

fn listed_file_and_drop(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| {
        let builder = FileRef::<Object>::builder([fd as u64; 8]);
        drop(black_box(
            builder
                .on(&tables.superblock, Access::Read)
                .rcu()
                .try_build(),
        ));
    });
}

fn object_and_drop(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| drop(black_box(tables.objects.insert([fd as u64; 8]))));
}

fn open_and_close(tables: &Tables, meter: &mut Meter, _: RawFd) {
    meter.measure(|| {
        let fd = tables.open();
        drop(tables.close(fd));
    });
}

fn open_new_and_close(tables: &Tables, meter: &mut Meter, fd: RawFd) {
    meter.measure(|| {
        let opened = tables.files.open(new_file(fd as usize), FdFlags::empty());
        drop(
            tables
                .files
                .close(opened.expect("there is memory"))
                .expect("open"),
        );
    });
}
