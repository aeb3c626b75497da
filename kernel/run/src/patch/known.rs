//! Sites of files that are known to all processes, so that a new process does not trap at them.
//!
//! In a traced tree, a trap costs some tens of microseconds, because the host wakes the tracer for
//! each signal. A short program makes most of its calls once, while it is linked and at its exit,
//! at the same sites of libraries as earlier programs. So processes on one kernel count the traps
//! of each site of a file together. A site with [`HOT`] traps is inspected once for all. A process
//! that maps the file later changes the sites that are worth it: they have trapped in at least one
//! of [`RARE`] mappings in which they could. Such a change costs a tenth of a trap. One of
//! [`TRIAL`] mappings is not changed, so that a site that is no longer called drops out.
//!
//! The identity of a file is its device, inode, size, and the time of the last change of its inode,
//! which no program can set. A file that has changed in the last seconds has no identity, as it may
//! change again without a new time. Each process compares the bytes that a change replaces in any
//! case. KnownFiles in memory change without a new time when a program writes to a mapping, so
//! there each process searches for branches itself.
//!
//! Without a shared kernel, a process inherits the results of its parents and of earlier programs.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use fdtable_posix::{fdt_fstat, fdt_fstatfs};
use fdtable_shm::Mutex;

use super::change::Change;
use crate::abi::checked;

/// How many calls of a site trap, in all processes, before a process inspects it.
const HOT: u32 = 3;
/// The most mappings without a change, for each trap, of a site that is changed at once.
const RARE: u32 = 16;
/// How many mappings of a file there are for one without changes.
const TRIAL: u32 = 1024;
/// The most files that are known, and sites of each.
const FILES: usize = 64;
const SITES: usize = 256;
/// How long a file has to be unchanged, in seconds.
const SETTLED: i64 = 2;

/// The kinds of file systems in memory: `tmpfs`, which the kernel's own shows too, and `ramfs`.
const IN_MEMORY: [libc::__fsword_t; 2] = [libc::TMPFS_MAGIC, 0x8584_58F6];

/// Identity of a file, which distinguishes it from others, and from itself at another time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    seconds: i64,
    nanoseconds: i64,
    is_in_memory: bool,
}

impl Identity {
    /// Identity of no file.
    #[cfg(test)]
    pub(super) const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        size: 0,
        seconds: 0,
        nanoseconds: 0,
        is_in_memory: false,
    };

    /// Returns the identity of the file at a descriptor of ours, if it is a regular one that was
    /// not changed lately.
    pub(super) fn of(fd: i32) -> Option<Self> {
        // SAFETY: all zeroes is a valid value of this struct of integers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for the answer.
        checked(unsafe { fdt_fstat(fd, &raw mut stat) }.into()).ok()?;
        // SAFETY: as above.
        let mut filesystem: libc::statfs64 = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for the answer.
        checked(unsafe { fdt_fstatfs(fd, &raw mut filesystem) }.into()).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let is_settled = stat.st_ctime.saturating_add(SETTLED) < now.as_secs() as i64;
        let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        (is_settled && is_regular).then_some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            seconds: stat.st_ctime,
            nanoseconds: stat.st_ctime_nsec,
            is_in_memory: IN_MEMORY.contains(&filesystem.f_type),
        })
    }

    /// Returns true if the file may change without being another one.
    pub(super) fn changes_unseen(&self) -> bool {
        self.is_in_memory
    }

    /// Returns the size of the file, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size.cast_unsigned()
    }
}

/// Record of a site: its traps, its mappings without a change, and the verdict about it.
struct Site {
    traps: u32,
    /// How many mappings were made without a change.
    unchanged: u32,
    verdict: Verdict,
}

/// The verdict about a site, for the process that has trapped there. Addresses in changes are
/// places in the file.
#[derive(Clone)]
pub(super) enum Verdict {
    /// The site continues to trap: not enough of its calls have trapped.
    Wait,
    /// The process that gets this verdict inspects the site.
    Inspect,
    /// The site cannot be changed.
    Reject,
    Change(Change),
}

struct KnownFile {
    identity: Identity,
    mapped: u32,
    sites: BTreeMap<u64, Site>,
    /// True if a process searches for the sites of `cpuid` in the file, or has done so.
    has_searcher: bool,
}

struct KnownFiles {
    files: Vec<KnownFile>,
    /// How many changes are known.
    changes: u32,
}

fdtable_sync::global! {
    pub(super) static FILES_KNOWN: Mutex<KnownFiles> = Mutex::new(KnownFiles {
        files: Vec::new(),
        changes: 0,
    });
}

impl KnownFiles {
    fn find(&mut self, identity: &Identity) -> Option<&mut KnownFile> {
        self.files
            .iter_mut()
            .find(|file| file.identity == *identity)
    }
}

impl Site {
    /// Returns true if each mapping gets the change of this site: its traps are not counted.
    fn is_always(&self) -> bool {
        self.traps == u32::MAX
    }

    /// Returns the change, if the site traps often enough for it.
    fn change(&self) -> Option<&Change> {
        match &self.verdict {
            Verdict::Change(change) if self.traps.saturating_mul(RARE) >= self.unchanged => {
                Some(change)
            }
            _ => None,
        }
    }
}

impl KnownFile {
    /// Counts a mapping. Returns true if it is a trial: without changes at sites that are counted.
    fn count(&mut self) -> bool {
        self.mapped = self.mapped.saturating_add(1);
        let is_trial = self.mapped.is_multiple_of(TRIAL);
        let counted = self.sites.values_mut().filter(|site| !site.is_always());
        for site in counted {
            if is_trial {
                // Earlier traps and mappings count half.
                (site.traps, site.unchanged) = (site.traps / 2, site.unchanged / 2);
            }
            if is_trial || site.change().is_none() {
                site.unchanged = site.unchanged.saturating_add(1);
            }
        }
        is_trial
    }

    /// Returns the changes that are worth it, of sites that are wanted.
    fn worthy(&self, is_wanted: impl Fn(&Site) -> bool) -> Vec<Change> {
        // The copies are the caller's own.
        let _private = fdtable_shm::leave();
        let wanted = self.sites.values().filter(|site| is_wanted(site));
        wanted.filter_map(Site::change).cloned().collect()
    }
}

/// Runs `f` with a known file and the count of all changes.
fn with_file<R>(identity: &Identity, f: impl FnOnce(&mut KnownFile, &mut u32) -> R) -> Option<R> {
    let _call = fdtable_shm::enter();
    let mut files = FILES_KNOWN.lock();
    let KnownFiles { files, changes } = &mut *files;
    let mut files = files.iter_mut();
    let file = files.find(|file| file.identity == *identity)?;
    Some(f(file, changes))
}

/// Counts a mapping of a file, and returns the changes to make in it.
pub(super) fn map(identity: &Identity) -> Vec<Change> {
    let worthy = with_file(identity, |file, _| match file.count() {
        true => file.worthy(Site::is_always),
        false => file.worthy(|_| true),
    });
    worthy.unwrap_or_default()
}

/// Returns how many changes are known, of all files.
pub(super) fn count() -> u32 {
    FILES_KNOWN.lock().changes
}

/// Returns the changes to make in a file that is mapped already.
pub(super) fn changes(identity: &Identity) -> Vec<Change> {
    with_file(identity, |file, _| file.worthy(|_| true)).unwrap_or_default()
}

/// Counts a trap at a place of a file, and returns the verdict about this site.
pub(super) fn trap(identity: &Identity, place: u64) -> Verdict {
    let _call = fdtable_shm::enter();
    let mut files = FILES_KNOWN.lock();
    if files.find(identity).is_none() {
        if files.files.len() == FILES {
            // The file with the fewest mappings: a process finds its sites again, if it is needed.
            let least = (0..FILES).min_by_key(|&index| files.files[index].mapped);
            files.files.swap_remove(least.unwrap_or(0));
        }
        files.files.push(KnownFile {
            identity: *identity,
            mapped: 1,
            sites: BTreeMap::new(),
            has_searcher: false,
        });
    }
    let Some(file) = files.find(identity) else {
        return Verdict::Wait;
    };
    if file.sites.len() == SITES && !file.sites.contains_key(&place) {
        return Verdict::Wait;
    }
    let site = file.sites.entry(place).or_insert(Site {
        traps: 0,
        unchanged: 1,
        verdict: Verdict::Wait,
    });
    site.traps = site.traps.saturating_add(1);
    match site.verdict {
        Verdict::Wait if site.traps >= HOT => Verdict::Inspect,
        ref verdict => {
            // The copy is the caller's own.
            let _private = fdtable_shm::leave();
            verdict.clone()
        }
    }
}

/// Records the change for a place of a file, or that the place cannot be changed.
pub(super) fn learn(identity: &Identity, place: u64, change: Option<&Change>) {
    with_file(identity, |file, changes| {
        if let Some(site) = file.sites.get_mut(&place) {
            // The copy is in shared memory.
            site.verdict = change.cloned().map_or(Verdict::Reject, Verdict::Change);
            *changes = changes.wrapping_add(1);
        }
    });
}

/// Returns true, once, if a file is mapped so often that its sites of `cpuid` are worth a search.
/// The process that gets this answer finds them.
pub(super) fn asks_first(identity: &Identity) -> bool {
    let is_first = with_file(identity, |file, _| {
        file.mapped >= HOT && !std::mem::replace(&mut file.has_searcher, true)
    });
    is_first.unwrap_or(false)
}

/// Records a change that each process makes at once.
pub(super) fn learn_always(identity: &Identity, place: u64, change: &Change) {
    with_file(identity, |file, changes| {
        if file.sites.len() < SITES {
            let site = Site {
                traps: u32::MAX,
                unchanged: 0,
                // The copy is in shared memory.
                verdict: Verdict::Change(change.clone()),
            };
            file.sites.insert(place, site);
            *changes = changes.wrapping_add(1);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::change::Instruction;
    use super::*;

    fn file(inode: u64) -> Identity {
        Identity {
            inode,
            ..Identity::EMPTY
        }
    }

    fn change(begin: u64) -> Change {
        Change::new(begin, Instruction::Syscall)
    }

    #[test]
    fn a_site_is_inspected_once_and_changed_by_all_that_map_the_file_later() {
        let identity = file(1);
        for _ in 1..HOT {
            assert!(matches!(trap(&identity, 100), Verdict::Wait));
        }
        assert!(map(&identity).is_empty());
        assert!(matches!(trap(&identity, 100), Verdict::Inspect));
        let before = count();
        learn(&identity, 100, Some(&change(95)));
        assert_ne!(count(), before);
        assert!(matches!(trap(&identity, 100), Verdict::Change(change) if change.begin == 95));
        assert_eq!(map(&identity).len(), 1);
        assert_eq!(changes(&identity).len(), 1);
        let changed_since = Identity {
            nanoseconds: 1,
            ..identity
        };
        assert!(map(&changed_since).is_empty());
    }

    #[test]
    fn a_site_that_is_seldom_called_is_not_changed_at_once() {
        let identity = file(2);
        trap(&identity, 100);
        // Mappings in which it did not trap, although it could.
        for _ in 0..2 * HOT * RARE {
            assert!(map(&identity).is_empty());
        }
        (1..HOT).for_each(|_| _ = trap(&identity, 100));
        learn(&identity, 100, Some(&change(95)));
        assert!(map(&identity).is_empty());
        (0..=HOT).for_each(|_| _ = trap(&identity, 100));
        assert_eq!(map(&identity).len(), 1);
    }

    #[test]
    fn a_site_that_is_changed_at_once_stays_so_while_it_is_called() {
        let identity = file(4);
        (0..HOT).for_each(|_| _ = trap(&identity, 100));
        learn(&identity, 100, Some(&change(95)));
        let mut trials = 0;
        while trials < 5 {
            for _ in 2..TRIAL {
                assert_eq!(map(&identity).len(), 1, "after {trials} trials");
            }
            assert!(map(&identity).is_empty());
            trap(&identity, 100);
            assert_eq!(map(&identity).len(), 1);
            trials += 1;
        }
        // The site is no longer called.
        let wasted = (0..10 * TRIAL).map(|_| map(&identity).len());
        assert!(wasted.sum::<usize>() < 3 * TRIAL as usize);
        assert!(map(&identity).is_empty());
    }

    #[test]
    fn a_site_that_is_always_changed_stays_so() {
        let identity = file(5);
        trap(&identity, 100);
        learn_always(&identity, 200, &change(195));
        for _ in 0..40 * TRIAL {
            assert_eq!(map(&identity).len(), 1);
        }
    }

    #[test]
    fn a_site_that_cannot_be_changed_is_not_inspected_again() {
        let identity = file(3);
        (0..HOT).for_each(|_| _ = trap(&identity, 100));
        learn(&identity, 100, None);
        assert!(matches!(trap(&identity, 100), Verdict::Reject));
        assert!(map(&identity).is_empty());
    }

    #[test]
    fn a_file_that_was_just_written_is_not_known() {
        let path = std::env::temp_dir().join(format!("fdtable-known-{}", std::process::id()));
        std::fs::write(&path, "code").expect("it can be written");
        let name = std::ffi::CString::new(path.to_str().expect("a name")).expect("no zero byte");
        // SAFETY: the path is a C string.
        let fd = unsafe { fdtable_posix::fdt_openat(libc::AT_FDCWD, name.as_ptr(), 0, 0) };
        assert!(fd >= 0);
        assert!(Identity::of(fd).is_none());
        let file = std::fs::File::options()
            .write(true)
            .open(&path)
            .expect("it is there");
        // Whatever time it is given.
        let settled = SystemTime::now() - std::time::Duration::from_secs(10);
        file.set_modified(settled).expect("it is ours");
        assert!(Identity::of(fd).is_none());
        std::fs::remove_file(&path).expect("it is ours");
        let name = c"/bin/sh";
        // SAFETY: the path is a C string.
        let fd = unsafe { fdtable_posix::fdt_openat(libc::AT_FDCWD, name.as_ptr(), 0, 0) };
        let size = std::fs::metadata("/bin/sh").expect("it is there").len();
        assert_eq!(Identity::of(fd).map(|identity| identity.size()), Some(size));
    }
}
