//! Atomics under the model checker. A run can weaken one of their orderings, or leave out one
//! fence.
//!
//! `cargo xtask mutate` finds the orderings and fences in the source, weakens one at a time, and
//! requires that a model fails. Nothing is rebuilt for that: every operation looks up
//! its caller's place in the source. Two environment variables are read, once:
//!
//! - `FDTABLE_WEAKEN=SITE=ORDERING` weakens one site to that ordering; `SITE=nothing` leaves a
//!   fence out.
//! - `FDTABLE_SITES=FILE` appends to a file each site that the process executes.
//!
//! A site is `FILE:LINE:COLUMN:PART`. The part is `first` for the first ordering of an operation,
//! `second` for the ordering of a failed exchange, and `fence` for a fence.

use core::panic::Location;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex};

pub use loom::sync::atomic::Ordering;

/// An ordering or a fence in the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Site {
    file: &'static str,
    line: u32,
    column: u32,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    First,
    Second,
    Fence,
}

/// A site, and the ordering that replaces its own: `None` leaves the fence out.
type Weakening = (Site, Option<Ordering>);

/// The sites that this process has executed, and the file that lists them.
struct Record {
    seen: HashSet<Site>,
    file: File,
}

static WEAKENING: LazyLock<Option<Weakening>> = LazyLock::new(|| {
    let text = std::env::var("FDTABLE_WEAKEN").ok()?;
    Some(parse(text.leak()).expect("FDTABLE_WEAKEN is FILE:LINE:COLUMN:PART=ORDERING"))
});

static RECORD: LazyLock<Option<Mutex<Record>>> = LazyLock::new(|| {
    let path = std::env::var_os("FDTABLE_SITES")?;
    let file = File::options().create(true).append(true).open(path);
    Some(Mutex::new(Record {
        seen: HashSet::new(),
        file: file.expect("the file for the sites can be written"),
    }))
});

fn parse(text: &'static str) -> Option<Weakening> {
    let (site, order) = text.split_once('=')?;
    let mut fields = site.rsplitn(4, ':');
    let part = match fields.next()? {
        "first" => Part::First,
        "second" => Part::Second,
        "fence" => Part::Fence,
        _ => return None,
    };
    let column = fields.next()?.parse().ok()?;
    let line = fields.next()?.parse().ok()?;
    let file = fields.next()?;
    let order = match order {
        "Relaxed" => Some(Ordering::Relaxed),
        "Acquire" => Some(Ordering::Acquire),
        "Release" => Some(Ordering::Release),
        "AcqRel" => Some(Ordering::AcqRel),
        "nothing" if part == Part::Fence => None,
        _ => return None,
    };
    let site = Site {
        file,
        line,
        column,
        part,
    };
    Some((site, order))
}

impl Site {
    /// The place in the source from which the calling function was called.
    #[track_caller]
    fn of_caller(part: Part) -> Self {
        let caller = Location::caller();
        Self {
            file: caller.file(),
            line: caller.line(),
            column: caller.column(),
            part,
        }
    }

    /// Lists the site, if sites are listed.
    fn record(self) {
        let Some(record) = &*RECORD else {
            return;
        };
        let mut record = record.lock().expect("no writer of the list panics");
        if record.seen.insert(self) {
            let part = match self.part {
                Part::First => "first",
                Part::Second => "second",
                Part::Fence => "fence",
            };
            writeln!(
                record.file,
                "{}:{}:{}:{part}",
                self.file, self.line, self.column
            )
            .expect("the file for the sites can be written");
        }
    }
}

/// Returns the ordering that the operation of the caller uses: its own, unless this run weakens it.
#[track_caller]
fn weakened(part: Part, order: Ordering) -> Ordering {
    if order == Ordering::Relaxed {
        return order;
    }
    let site = Site::of_caller(part);
    site.record();
    match *WEAKENING {
        Some((weakened, Some(weaker))) if weakened == site => weaker,
        _ => order,
    }
}

/// Returns true if this run leaves out the fence of the caller.
#[track_caller]
pub fn is_fence_left_out() -> bool {
    let site = Site::of_caller(Part::Fence);
    site.record();
    *WEAKENING == Some((site, None))
}

/// A fence, unless this run leaves it out.
#[track_caller]
pub fn fence(order: Ordering) {
    if !is_fence_left_out() {
        loom::sync::atomic::fence(order);
    }
}

/// Wraps the model checker's atomics, each with a list of its further operations.
macro_rules! atomics {
    ($($name:ident $(<$target:ident>)?, $value:ty: $($operation:ident)*;)*) => {$(
        #[derive(Default)]
        pub struct $name $(<$target>)? (loom::sync::atomic::$name $(<$target>)?);

        #[allow(dead_code)]
        impl $(<$target>)? $name $(<$target>)? {
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(weakened(Part::First, order))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, weakened(Part::First, order));
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = weakened(Part::First, success);
                let failure = weakened(Part::Second, failure);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            $(
                #[track_caller]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    self.0.$operation(value, weakened(Part::First, order))
                }
            )*
        }

        impl $(<$target>)? core::fmt::Debug for $name $(<$target>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

atomics! {
    AtomicBool, bool: swap fetch_and fetch_or;
    AtomicU8, u8: swap;
    AtomicU16, u16:;
    AtomicU32, u32: swap fetch_add fetch_sub fetch_and fetch_or;
    AtomicU64, u64: swap fetch_add fetch_sub fetch_and fetch_or;
    AtomicUsize, usize: swap fetch_add fetch_sub fetch_and fetch_or;
    AtomicIsize, isize: swap fetch_add fetch_sub fetch_and fetch_or;
    AtomicPtr<T>, *mut T: swap;
}

impl AtomicUsize {
    #[track_caller]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut usize) -> R) -> R {
        self.0.with_mut(f)
    }
}

impl<T> AtomicPtr<T> {
    #[track_caller]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut *mut T) -> R) -> R {
        self.0.with_mut(f)
    }
}

impl AtomicIsize {
    #[track_caller]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut isize) -> R) -> R {
        self.0.with_mut(f)
    }
}

impl AtomicU64 {
    #[track_caller]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.0.with_mut(f)
    }
}
