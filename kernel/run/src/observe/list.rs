//! The list of open files, at the end of a process and while it runs.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use fdtable_listing::{Descriptor, List, Listing};
use fdtable_posix::runner;

use super::observers::OBSERVERS;
use super::sink::Sink;
use super::unwind::{self, Stack};
use super::{files, names, trace};
use crate::abi::exchange_mask;

/// Writes the list of open files.
pub(super) fn write(sink: &Sink) {
    let text = match runner::with_files(|files| Ok(files.list()?)) {
        Ok(listing) => described(listing).to_string(),
        Err(errno) => errno.to_string(),
    };
    let id = std::process::id();
    sink.write(&format!("fdtable: open files of process {id}\n{text}\n"));
}

/// Adds names, times and places to a list.
fn described(listing: Listing) -> Listing {
    let openings = files::openings();
    let rows = listing.into_iter().map(|mut row| {
        let Some(Descriptor::Fd { fd, .. }) = row.descriptor else {
            return row;
        };
        if let Some(name) = names::link(fd.raw()) {
            row.description.name = name.into();
        }
        let Some(event) = openings.get(&fd.raw()) else {
            return row;
        };
        let place = caller(&event.stack).unwrap_or_else(|| "an unknown place".to_owned());
        let opened = format!(
            "{} ({}, thread {}, {place})",
            row.description.name,
            trace::name(event.call),
            event.thread
        );
        row.description.name = opened.into();
        row.description.since = Some(event.time.into());
        row
    });
    rows.collect()
}

/// Returns the first place that is not in a C library or a dynamic loader.
fn caller(stack: &Stack) -> Option<String> {
    let is_library = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.starts_with("libc.so") || file.starts_with("libc-") || file.starts_with("ld-")
    };
    let names = stack.iter().map(|&place| match unwind::file(place) {
        Some(file) => format!("{file}+{:#x}", place.address),
        None => format!("{:#x}", place.address),
    });
    let names: Vec<_> = names.collect();
    let of_program = names.iter().find(|name| !is_library(name));
    of_program.or(names.first()).cloned()
}

/// The host's event descriptor by which the signal handler wakes the thread that lists; -1 if there
/// is none.
static WAKES: AtomicI32 = AtomicI32::new(-1);

/// Wakes the thread that lists, because a signal handler may take no lock. Returns false if there
/// is no list.
pub(crate) fn ask_for_list() -> bool {
    // Acquire: pairs with the release in `start_lister`, so the descriptor is open.
    let fd = WAKES.load(Ordering::Acquire);
    let one = 1_u64;
    // SAFETY: there are 8 bytes.
    fd >= 0 && unsafe { libc::write(fd, (&raw const one).cast(), 8) } == 8
}

/// Starts the thread that lists, if there is a list. The thread blocks all signals, because it is
/// no thread of the guest.
pub(crate) fn start_lister() {
    let Some(sink) = OBSERVERS.get().and_then(|all| all.list.as_ref()) else {
        return;
    };
    // SAFETY: it takes integers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    // Release: pairs with the acquire in `ask`. In a child, the parent's is replaced.
    let before = WAKES.swap(fd, Ordering::Release);
    if before >= 0 {
        // SAFETY: it takes an integer.
        unsafe { libc::close(before) };
    }
    let mask = exchange_mask(libc::SIG_SETMASK, !0);
    let body = move || {
        let mut count = 0_u64;
        // SAFETY: there is room for 8 bytes.
        while unsafe { libc::read(fd, (&raw mut count).cast(), 8) } == 8 {
            write(sink);
        }
    };
    // Without the thread, the list is written only at the end.
    if thread::Builder::new().spawn(body).is_err() {
        sink.write("fdtable: no thread for lists while the program runs\n");
    }
    exchange_mask(libc::SIG_SETMASK, mask);
}
