//! Random lock calls on three open files of one file, here and on the host. Every answer must be
//! the same, including which of several conflicting locks is returned.
//!
//! It compares locks of open files, of which one process can have several. Locks of processes use
//! the same list here.

use std::fs::File;
use std::os::fd::AsFd;

use fdtable::Fd;
use fdtable_vfs::{
    Errno, FileLock, FlockOperation, LockFrom, LockKind, LockOwner, LockWait, OpenFlags, Process,
};
use nix::fcntl::{FcntlArg, FlockArg, OFlag, fcntl, open};
use nix::libc;
use nix::sys::stat::Mode;
use proptest::collection::vec;
use proptest::prelude::*;

const FILES: usize = 3;

struct Both {
    process: Process,
    ours: Vec<Fd>,
    hosts: Vec<File>,
}

impl Both {
    fn new() -> Self {
        let process = Process::new();
        // Two tests may run at once.
        let me = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("fdtable-locks-{me:?}"));
        let flags = OpenFlags::CREAT | OpenFlags::RDWR;
        let ours = (0..FILES).map(|_| process.open("file", flags).expect("a number is free"));
        let ours = ours.collect();
        let host_flags = OFlag::O_CREAT | OFlag::O_RDWR;
        let hosts = (0..FILES).map(|_| {
            let opened = open(&path, host_flags, Mode::S_IRWXU).expect("the host has files");
            File::from(opened)
        });
        let hosts = hosts.collect();
        std::fs::remove_file(&path).expect("it was made above");
        Both {
            process,
            ours,
            hosts,
        }
    }

    fn set(&self, file: usize, lock: FileLock) -> (Result<(), i32>, Result<(), i32>) {
        let ours =
            self.process
                .fcntl_setlk(self.ours[file], LockOwner::OpenFile, lock, LockWait::No);
        let host = fcntl(
            self.hosts[file].as_fd(),
            FcntlArg::F_OFD_SETLK(&to_host(lock)),
        );
        (
            ours.map_err(Errno::errno),
            host.map(drop).map_err(|errno| errno as i32),
        )
    }

    fn get(&self, file: usize, lock: FileLock) -> (Result<FileLock, i32>, Result<FileLock, i32>) {
        let ours = self
            .process
            .fcntl_getlk(self.ours[file], LockOwner::OpenFile, lock);
        let mut found = to_host(lock);
        let host = fcntl(self.hosts[file].as_fd(), FcntlArg::F_OFD_GETLK(&mut found));
        (
            ours.map_err(Errno::errno),
            host.map(|_| from_host(found)).map_err(|errno| errno as i32),
        )
    }
}

fn to_host(lock: FileLock) -> libc::flock {
    let from = match lock.from {
        LockFrom::Start => libc::SEEK_SET,
        LockFrom::Current => libc::SEEK_CUR,
        LockFrom::End => libc::SEEK_END,
    };
    libc::flock {
        l_type: lock.kind as libc::c_short,
        l_whence: from as libc::c_short,
        l_start: lock.start,
        l_len: lock.length,
        l_pid: lock.pid,
    }
}

fn from_host(lock: libc::flock) -> FileLock {
    let kind = match libc::c_int::from(lock.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        _ => LockKind::Unlock,
    };
    let from = match libc::c_int::from(lock.l_whence) {
        libc::SEEK_CUR => LockFrom::Current,
        libc::SEEK_END => LockFrom::End,
        _ => LockFrom::Start,
    };
    FileLock {
        kind,
        from,
        start: lock.l_start,
        length: lock.l_len,
        pid: lock.l_pid,
    }
}

fn kind() -> impl Strategy<Value = LockKind> {
    prop_oneof![
        Just(LockKind::Read),
        Just(LockKind::Write),
        Just(LockKind::Unlock)
    ]
}

fn lock() -> impl Strategy<Value = FileLock> {
    let from = prop_oneof![
        8 => Just(LockFrom::Start),
        1 => Just(LockFrom::Current),
        1 => Just(LockFrom::End)
    ];
    let start = prop_oneof![20 => -2..30i64, 1 => Just(i64::MAX), 1 => Just(i64::MAX - 3)];
    let length = prop_oneof![20 => -5..12i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    (kind(), from, start, length).prop_map(|(kind, from, start, length)| FileLock {
        from,
        ..FileLock::new(kind, start, length)
    })
}

proptest! {
    #[test]
    fn record_locks(calls in vec((0..FILES, any::<bool>(), lock()), 1..40)) {
        let both = Both::new();
        for (file, asks, lock) in calls {
            if asks && lock.kind != LockKind::Unlock {
                let (ours, host) = both.get(file, lock);
                prop_assert_eq!(ours, host, "{:?} asks for {:?}", file, lock);
            } else {
                let (ours, host) = both.set(file, lock);
                prop_assert_eq!(ours, host, "{:?} sets {:?}", file, lock);
            }
        }
    }

    #[test]
    fn locks_of_whole_files(calls in vec((0..FILES, kind()), 1..30)) {
        let both = Both::new();
        for (file, kind) in calls {
            let (ours, host) = match kind {
                LockKind::Read => (FlockOperation::SHARED, FlockArg::LockSharedNonblock),
                LockKind::Write => (FlockOperation::EXCLUSIVE, FlockArg::LockExclusiveNonblock),
                LockKind::Unlock => (FlockOperation::UNLOCK, FlockArg::Unlock),
            };
            let ours = both.process.flock(both.ours[file], ours | FlockOperation::NONBLOCK);
            #[allow(deprecated)]
            let host = nix::fcntl::flock(std::os::fd::AsRawFd::as_raw_fd(&both.hosts[file]), host);
            prop_assert_eq!(ours.map_err(Errno::errno), host.map_err(|errno| errno as i32));
        }
    }
}
