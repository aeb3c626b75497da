//! The processes of a tree that shares one kernel.
//!
//! A process has an entry from before the fork that makes it until it is *reaped*, which closes its
//! descriptors in its name. A process that exits has closed them itself. A killed process has not,
//! so its parent reaps it before `wait` returns, as Linux closes the files of a process before its
//! parent learns of its end. The [supervisor](super::supervisor) reaps processes whose parent does
//! not wait.

use std::ffi::c_int;
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_sync::rcu;
use fdtable_vfs::{Errno, Process};

use crate::abi::guard::{guarded, inside};
use crate::host;
use crate::process::supervisor;

/// State of the kernel for a process of the tree, in memory that all processes share.
pub(super) struct Member {
    pub(super) process: Process,
    /// Another process kills it.
    must_exit: AtomicCell<bool>,
}

impl Member {
    pub(super) fn leaked(process: Process) -> &'static Self {
        Box::leak(Box::new(Member {
            process,
            must_exit: AtomicCell::new(false),
        }))
    }
}

/// The member of this process.
pub(super) static OWN: AtomicCell<Option<&'static Member>> = AtomicCell::new(None);

/// A process of the tree.
pub(super) struct Entry {
    /// The name of the process, as the ids of processes are used again. Later ones are larger.
    pub(super) name: u32,
    /// The id of the process, or 0 until it is known.
    id: c_int,
    /// The name of the process that forks it, or 0.
    parent: u32,
    pub(super) member: &'static Member,
    /// The process that reaps it, or 0.
    reaper: c_int,
}

/// The process that has to complete the reaping of another one.
enum Reaping {
    /// No process: the entry is gone.
    Over,
    /// Another process.
    UnderWay,
    /// The caller.
    Ours(u32, &'static Member),
}

/// All processes of the tree.
pub(super) struct Tree {
    pub(super) entries: Vec<Entry>,
    next: u32,
}

fdtable_sync::global! {
    pub(super) static TREE: Mutex<Tree> = Mutex::new(Tree {
        entries: Vec::new(),
        next: fdtable_shm::FIRST,
    });
}

impl Tree {
    /// Enters a process, and names it.
    pub(super) fn add(&mut self, id: c_int, parent: u32, member: &'static Member) -> u32 {
        let name = self.next;
        // After four thousand million processes, a name may be that of a living one.
        self.next = self.next.wrapping_add(1).max(fdtable_shm::FIRST);
        self.entries.push(Entry {
            name,
            id,
            parent,
            member,
            reaper: 0,
        });
        name
    }

    /// Notes the id of a process that has begun.
    pub(super) fn set_id(&mut self, name: u32, id: c_int) {
        let entry = self.entries.iter_mut().find(|entry| entry.name == name);
        if let Some(entry) = entry {
            entry.id = id;
        }
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, name: u32) -> Option<&'static Member> {
        let is_it = |entry: &Entry| entry.name == name;
        let at = self.entries.iter().position(is_it)?;
        Some(self.entries.swap_remove(at).member)
    }

    /// Begins the reaping of a process.
    fn begin_reaping(&mut self, is_it: impl Fn(&Entry) -> bool) -> Reaping {
        let Some(entry) = self.entries.iter_mut().find(|entry| is_it(entry)) else {
            return Reaping::Over;
        };
        if entry.reaper != 0 && host::is_alive(entry.reaper) {
            return Reaping::UnderWay;
        }
        // One that has died left descriptors open, or none.
        entry.reaper = host::process_id();
        Reaping::Ours(entry.name, entry.member)
    }
}

/// Enters the first process.
pub(crate) fn root(process: Process) -> &'static Process {
    let member = Member::leaked(process);
    TREE.lock().add(host::process_id(), 0, member);
    OWN.store(Some(member));
    &member.process
}

/// Returns this process, once it exists.
pub(crate) fn current() -> Option<&'static Process> {
    OWN.load().map(|member| &member.process)
}

/// Returns the process with this id, if it is one of the tree.
pub(crate) fn process_of(id: c_int) -> Option<Process> {
    let tree = TREE.lock();
    let entry = tree.entries.iter().find(|entry| entry.id == id);
    entry.map(|entry| entry.member.process.clone())
}

/// Notes the id of a process that was forked, and may not have run yet.
pub(super) fn born(name: u32, id: c_int) {
    inside(|| TREE.lock().set_id(name, id));
}

/// Reaps a process, and the children that it was about to fork.
///
/// # Safety
/// None of its threads runs any more. Its children that were forked were noted as [born](born).
pub(super) unsafe fn reap_traced(name: u32) {
    // SAFETY: as the caller promises.
    unsafe { reap_named(name) };
    let is_unborn = |entry: &Entry| entry.id == 0 && entry.parent == name;
    loop {
        let taken = guarded(|| {
            let mut tree = TREE.lock();
            let unborn = tree.entries.iter().find(|entry| is_unborn(entry));
            let name = unborn.map(|entry| entry.name);
            let member = name.and_then(|name| tree.take(name));
            drop(tree);
            // SAFETY: no process was made that could use it.
            Ok(member.map(|member| unsafe { free(member) }))
        });
        if !matches!(taken, Ok(Some(()))) {
            return;
        }
    }
}

/// Notes that a process is killed. Returns false if it is not one of the tree.
pub fn request_exit(id: c_int) -> bool {
    let asked = guarded(|| {
        let tree = TREE.lock();
        let entry = tree.entries.iter().find(|entry| entry.id == id);
        entry
            .map(|entry| entry.member.must_exit.store(true))
            .ok_or(Errno::ESRCH)
    });
    asked.is_ok()
}

/// Returns true if another process kills this one. For signal handlers.
pub fn must_exit() -> bool {
    supervisor::is_completion_process() || OWN.load().is_some_and(|member| member.must_exit.load())
}

/// Returns true if another process shares the table of this one.
pub(crate) fn shares_files() -> bool {
    OWN.load()
        .is_some_and(|member| member.process.shares_files())
}

/// Returns a name that no process has had yet.
#[must_use]
pub fn next_name() -> u32 {
    guarded(|| Ok(TREE.lock().next)).unwrap_or(0)
}

/// Reaps the process with this id and a name below `end`, if it is one of the tree. Returns when
/// its descriptors are closed.
///
/// # Safety
/// It has ended: the host has reported the end of a process with this id, which had begun when
/// [`next_name`] returned `end`.
pub unsafe fn reap(id: c_int, end: u32) {
    // SAFETY: as the caller promises.
    unsafe { reap_one(|entry| entry.id == id && entry.name < end) };
}

/// Reaps the process with this name, if it is one of the tree.
///
/// # Safety
/// It has ended.
pub(super) unsafe fn reap_named(name: u32) {
    // SAFETY: as the caller promises.
    unsafe { reap_one(|entry| entry.name == name) };
}

/// # Safety
/// The process has ended.
unsafe fn reap_one(is_it: impl Fn(&Entry) -> bool) {
    /// How long another process may take, in steps of [`PAUSE`].
    const LOOKS: u32 = 10_000;
    for _ in 0..LOOKS {
        let is_under_way = guarded(|| {
            let reaping = TREE.lock().begin_reaping(&is_it);
            if let Reaping::Ours(name, member) = reaping {
                // SAFETY: as the caller promises.
                unsafe { rcu::forget_process(name) };
                member.process.end();
                TREE.lock().take(name);
                // SAFETY: as the caller promises, the threads of the process do not exist, and no
                // other process finds it any more.
                unsafe { free(member) };
            }
            Ok(matches!(reaping, Reaping::UnderWay))
        });
        if is_under_way != Ok(true) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The time between two looks at the reaping of another process.
const PAUSE: Duration = Duration::from_micros(100);

/// Returns true if the tree has no process.
pub(crate) fn is_empty() -> bool {
    guarded(|| Ok(TREE.lock().entries.is_empty())).unwrap_or(false)
}

/// # Safety
/// It was leaked by `root` or `prepare`, and nothing uses it any more.
pub(super) unsafe fn free(member: &'static Member) {
    let member = std::ptr::from_ref(member).cast_mut();
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(member) });
}
