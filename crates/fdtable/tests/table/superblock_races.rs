//! All operations of a superblock, concurrently, on objects that detect a wrong use.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use fdtable::{Access, FdFlags, FileRef, Files, PrivateFiles, Rcu, ReleaseReason, SuperBlock, rcu};
use fdtable_listing::{Describe, Description, List};

const ALIVE: u64 = 0xA11F_E000_A11F_E000;

struct Probe {
    canary: u64,
    ends: AtomicUsize,
    counts: Arc<[AtomicUsize; 2]>,
    /// Another file, whose last reference may be this one.
    other: Mutex<Option<FileRef<Rcu<Probe>>>>,
}

impl Probe {
    fn look(&self) {
        assert_eq!(self.canary, ALIVE);
    }
}

impl Describe for Probe {
    fn describe(&self) -> Description {
        self.look();
        Description::new("REG", "probe")
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.look();
        self.canary = 0;
        // Without an end it never was a file: the superblock was read-only then. A real file
        // without an end is missing in the count of ends.
        self.counts[1].fetch_add(*self.ends.get_mut(), SeqCst);
    }
}

fn open(
    superblock: &Arc<SuperBlock<Rcu<Probe>>>,
    counts: &Arc<[AtomicUsize; 2]>,
    other: Option<FileRef<Rcu<Probe>>>,
) -> Option<FileRef<Rcu<Probe>>> {
    let probe = Probe {
        canary: ALIVE,
        ends: AtomicUsize::new(0),
        counts: counts.clone(),
        other: Mutex::new(other),
    };
    let weak = Arc::downgrade(superblock);
    let hook = move |probe: &Probe, end: ReleaseReason| {
        probe.look();
        assert_eq!(probe.ends.fetch_add(1, SeqCst), 0);
        probe.counts[0].fetch_add(1, SeqCst);
        drop(probe.other.lock().unwrap().take());
        if end == ReleaseReason::Revoked
            && fastrand::u8(..4) == 0
            && let Some(superblock) = weak.upgrade()
        {
            for file in superblock.snapshot().unwrap() {
                file.look();
            }
        }
    };
    FileRef::builder(probe)
        .rcu()
        .on(
            superblock,
            if fastrand::bool() {
                Access::Write
            } else {
                Access::Read
            },
        )
        .on_release(hook)
        .try_build()
        .ok()
}

#[test]
fn everything_at_once_ends_each_file_once_and_drops_it_once() {
    for round in 0..40 {
        let counts: Arc<[AtomicUsize; 2]> = Arc::default();
        let made = AtomicUsize::new(0);
        let gone = Arc::new(AtomicUsize::new(0));
        let superblock = Arc::new(if round % 2 == 0 {
            SuperBlock::new().unwrap()
        } else {
            SuperBlock::with_one_list().unwrap()
        });
        let files: Files<Rcu<Probe>> = Files::with_limit(64);
        let private: PrivateFiles<Rcu<Probe>> = PrivateFiles::with_limit(64);
        if round % 5 == 0 {
            files.set_quarantine(3).expect("there is memory");
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..1500 {
                            let fd = fastrand::i32(..64);
                            match fastrand::u8(..12) {
                                0..4 => {
                                    if let Some(file) = open(
                                        &superblock,
                                        &counts,
                                        files.get(fastrand::i32(..64)).ok(),
                                    ) {
                                        made.fetch_add(1, SeqCst);
                                        if fastrand::u8(..4) == 0 {
                                            let _ = private.open(file);
                                        } else {
                                            let _ = files.open(file, FdFlags::CLOEXEC);
                                        }
                                    }
                                }
                                4 => _ = files.close(fd),
                                5 => _ = files.dup2(fd, fastrand::i32(..64)),
                                6 => {
                                    let section = rcu::read_lock();
                                    if let Ok(file) = files.get_rcu(fd, &section) {
                                        files.close(fd).ok();
                                        file.look();
                                        if let Some(file) = file.upgrade() {
                                            file.look();
                                        }
                                        file.look();
                                    }
                                }
                                7 => {
                                    if let Ok(child) = files.fork() {
                                        child.close_on_exec(drop).unwrap();
                                        drop(child);
                                    }
                                }
                                8 => {
                                    let _ = files.get(fd).map(|file| file.look());
                                    drop(files.close(fd));
                                }
                                9 => {
                                    for (fd, _) in private.iter() {
                                        if fastrand::bool() {
                                            private.close(fd).ok();
                                        }
                                    }
                                }
                                10 => _ = files.close_range(8, 24, drop),
                                _ => {
                                    for row in files.list().unwrap().rows() {
                                        assert_eq!(row.description.name, "probe");
                                    }
                                }
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    match fastrand::u8(..6) {
                        0 => {
                            _ = superblock
                                .revoke_where(|probe| {
                                    probe.look();
                                    fastrand::u8(..8) == 0
                                })
                                .unwrap();
                        }
                        1 => {
                            let mut iter = superblock.iter().unwrap();
                            for _ in 0..fastrand::usize(..8) {
                                if let Some(file) = iter.next() {
                                    file.look();
                                }
                            }
                        }
                        2 => _ = superblock.list().unwrap(),
                        3 => {
                            if superblock.remount_read_only().is_ok() {
                                _ = superblock.remount_read_write();
                            }
                        }
                        4 => drop(superblock.want_write()),
                        _ => drop(superblock.snapshot().unwrap()),
                    }
                    std::thread::yield_now();
                }
            });
            let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            stop.store(true, SeqCst);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        match round % 3 {
            0 => {
                let gone = gone.clone();
                superblock
                    .unmount_lazily(move || {
                        gone.fetch_add(1, SeqCst);
                    })
                    .unwrap();
            }
            1 => {
                superblock.unmount_by_force().unwrap();
                assert_eq!((superblock.open_files(), superblock.writers()), (0, 0));
            }
            _ => {}
        }
        drop(superblock);
        // Tables, in the two threads at once.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(files));
            scope.spawn(move || drop(private));
        });
        rcu::barrier().unwrap();
        rcu::barrier().unwrap();
        rcu::barrier().unwrap();
        let made = made.load(SeqCst);
        assert_eq!(counts[0].load(SeqCst), made, "ends");
        assert_eq!(counts[1].load(SeqCst), made, "drops");
        if round % 3 == 0 {
            assert_eq!(gone.load(SeqCst), 1);
        }
    }
}
