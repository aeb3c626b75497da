//! Permission checks by capability: which of them each system call needs.

use fdtable_vfs::fs::{AccessMode, At, AtFlags, Capabilities, Credentials, Time};
use fdtable_vfs::socket::{MsgFlags, OptionValue, SendMessage, SocketOption, SocketType, Ucred};
use fdtable_vfs::{Errno, Limit, OpenFlags, Process, Resource};

const NONE: Capabilities = Capabilities::empty();

/// Gives the process user 0 with these capabilities alone.
fn have(process: &Process, capabilities: Capabilities) {
    let credentials = Credentials {
        capabilities,
        ..Credentials::ROOT
    };
    process.set_credentials(credentials, credentials);
}

/// Makes a call without capabilities, with all but `needed`, and with `needed` alone. Checks that
/// it fails with `errno` without `needed`, and not with it.
#[track_caller]
fn assert_needs<T: std::fmt::Debug>(
    process: &Process,
    needed: Capabilities,
    errno: Errno,
    call: impl Fn() -> Result<T, Errno>,
) {
    for without in [NONE, Capabilities::all() - needed] {
        have(process, without);
        assert_eq!(call().err(), Some(errno), "with {without:?}");
    }
    have(process, needed);
    let made = call();
    assert!(made.is_ok(), "with {needed:?}: {made:?}");
    have(process, Capabilities::all());
}

/// Makes a file of user 1 and group 1.
fn theirs(process: &Process, path: &str, mode: u32) {
    let flags = OpenFlags::CREAT | OpenFlags::EXCL;
    let fd = process.open(path, flags).unwrap();
    process.fchown(fd, Some(1), Some(1)).unwrap();
    process.fchmod(fd, mode).unwrap();
    process.close(fd).unwrap();
}

#[test]
fn user_0_without_capabilities_is_a_user_like_any_other() {
    let process = Process::new();
    theirs(&process, "theirs", 0o600);
    have(&process, NONE);
    let open = |path| process.open(path, OpenFlags::RDONLY);
    assert_eq!(open("theirs"), Err(Errno::EACCES));
    let mine = process.open("mine", OpenFlags::CREAT).unwrap();
    assert_eq!(process.fchmod(mine, 0o600), Ok(()));
    assert!(open("mine").is_ok());
}

#[test]
fn files_of_others_need_capabilities() {
    let process = Process::new();
    theirs(&process, "file", 0);
    let open = |flags| {
        let fd = process.open("file", flags)?;
        process.close(fd)
    };
    let overrides = Capabilities::DAC_OVERRIDE;
    assert_needs(&process, overrides, Errno::EACCES, || open(OpenFlags::RDWR));
    assert_needs(&process, overrides, Errno::EACCES, || {
        process.truncate("file", 0)
    });
    for reads in [overrides, Capabilities::DAC_READ_SEARCH] {
        have(&process, reads);
        assert_eq!(open(OpenFlags::RDONLY), Ok(()));
    }
    have(&process, Capabilities::DAC_READ_SEARCH);
    assert_eq!(open(OpenFlags::WRONLY), Err(Errno::EACCES));
    let owner = Capabilities::FOWNER;
    assert_needs(&process, owner, Errno::EPERM, || {
        process.fchmodat(At::Cwd, "file", 0o004, AtFlags::empty())
    });
    assert_needs(&process, owner, Errno::EPERM, || open(OpenFlags::NOATIME));
    let times = [Time::At(1, 1); 2];
    assert_needs(&process, owner, Errno::EPERM, || {
        process.utimensat(At::Cwd, "file", times, AtFlags::empty())
    });
    assert_needs(&process, Capabilities::CHOWN, Errno::EPERM, || {
        process.fchownat(At::Cwd, "file", Some(1), Some(3), AtFlags::empty())
    });
    // This change of the owner clears a bit.
    theirs(&process, "program", 0o4777);
    have(&process, Capabilities::CHOWN);
    let chown = || process.fchownat(At::Cwd, "program", Some(2), None, AtFlags::empty());
    assert_eq!(chown(), Err(Errno::EPERM));
    have(&process, Capabilities::CHOWN | owner);
    assert_eq!(chown(), Ok(()));
}

#[test]
fn directories_of_others_need_capabilities() {
    let process = Process::new();
    process.mkdir("dir").unwrap();
    theirs(&process, "dir/file", 0o666);
    let set = |mode: u32| {
        process
            .fchmodat(At::Cwd, "dir", mode, AtFlags::empty())
            .unwrap();
        let flags = AtFlags::empty();
        process
            .fchownat(At::Cwd, "dir", Some(1), Some(1), flags)
            .unwrap();
    };
    set(0o700);
    for searches in [Capabilities::DAC_OVERRIDE, Capabilities::DAC_READ_SEARCH] {
        have(&process, searches);
        assert!(process.stat("dir/file").is_ok(), "{searches:?}");
    }
    have(&process, NONE);
    assert_eq!(process.stat("dir/file").err(), Some(Errno::EACCES));
    let overrides = Capabilities::DAC_OVERRIDE;
    assert_needs(&process, overrides, Errno::EACCES, || {
        process.mkdir("dir/new")?;
        process.rmdir("dir/new")
    });
    have(&process, Capabilities::all());
    set(0o1777);
    assert_needs(&process, Capabilities::FOWNER, Errno::EPERM, || {
        process.rename("dir/file", "dir/moved")
    });
}

#[test]
fn set_id_bits_stay_with_fsetid() {
    let process = Process::new();
    let after_write = |capabilities| {
        have(&process, Capabilities::all());
        let flags = OpenFlags::CREAT | OpenFlags::RDWR;
        let fd = process.open("file", flags).unwrap();
        process.fchmod(fd, 0o6777).unwrap();
        have(&process, capabilities);
        process.write(fd, b"x").unwrap();
        let mode = process.fstat(fd).unwrap().mode.bits();
        process.close(fd).unwrap();
        mode
    };
    assert_eq!(after_write(Capabilities::FSETID), 0o6777);
    assert_eq!(
        after_write(Capabilities::all() - Capabilities::FSETID),
        0o777
    );
}

#[test]
fn a_group_executable_file_in_a_set_group_id_directory_loses_the_bit_without_fsetid() {
    let process = Process::new();
    process.mkdir("dir").unwrap();
    let flags = AtFlags::empty();
    process
        .fchownat(At::Cwd, "dir", None, Some(7), flags)
        .unwrap();
    process.fchmodat(At::Cwd, "dir", 0o2777, flags).unwrap();
    let made_with = |capabilities, path: &str| {
        have(&process, capabilities);
        let fd = process
            .openat(At::Cwd, path, OpenFlags::CREAT, 0o2710)
            .unwrap();
        process.fstat(fd).unwrap().mode.bits()
    };
    assert_eq!(made_with(Capabilities::FSETID, "dir/a"), 0o2710);
    assert_eq!(made_with(Capabilities::DAC_OVERRIDE, "dir/b"), 0o710);
}

#[test]
fn limits_and_mounts_need_capabilities() {
    let process = Process::new();
    let limit = |hard| Limit { soft: 0, hard };
    let resource = Resource::FileSize;
    process.setrlimit(resource, limit(10)).unwrap();
    assert_needs(&process, Capabilities::SYS_RESOURCE, Errno::EPERM, || {
        process.setrlimit(resource, limit(11))
    });
    process.mkdir("dir").unwrap();
    assert_needs(&process, Capabilities::SYS_ADMIN, Errno::EPERM, || {
        process.mount("dir", std::sync::Arc::new(fdtable_vfs::MemFs::default()))?;
        process.unmount("dir")
    });
}

#[test]
fn the_credentials_of_a_message_need_a_capability_each() {
    let process = Process::new();
    let (near, _far) = process.socketpair(OpenFlags::empty()).unwrap();
    let own = Ucred {
        pid: process.id(),
        uid: 0,
        gid: 0,
    };
    let send = |claimed| {
        let message = SendMessage {
            bytes: &[std::io::IoSlice::new(b"x")],
            credentials: Some(claimed),
            ..SendMessage::default()
        };
        process.sendmsg(near, message, MsgFlags::DONTWAIT)
    };
    have(&process, NONE);
    assert_eq!(send(own), Ok(1));
    let other = |pid, uid, gid| Ucred { pid, uid, gid };
    for (needed, claimed) in [
        (Capabilities::SYS_ADMIN, other(own.pid + 1, 0, 0)),
        (Capabilities::SETUID, other(own.pid, 1, 0)),
        (Capabilities::SETGID, other(own.pid, 0, 1)),
    ] {
        assert_needs(&process, needed, Errno::EPERM, || send(claimed));
    }
    // The real user and group are the caller's own too.
    let effective = Credentials::new(2, 2);
    process.set_credentials(effective, Credentials::new(1, 1));
    for id in [1, 2] {
        assert_eq!(send(other(own.pid, id, id)), Ok(1));
    }
    assert_eq!(send(own), Err(Errno::EPERM));
}

#[test]
fn options_of_sockets_need_capabilities() {
    let process = Process::new();
    let (socket, _far) = process.socketpair(OpenFlags::empty()).unwrap();
    let set = |option, value| process.setsockopt(socket, option, OptionValue::Number(value));
    let admin = Capabilities::NET_ADMIN;
    assert_needs(&process, admin, Errno::EPERM, || {
        set(SocketOption::SendBufferForce, 5000)
    });
    assert_needs(&process, admin, Errno::EACCES, || {
        set(SocketOption::Debug, 1)
    });
    let priority = || set(SocketOption::Priority, 7);
    for either in [admin, Capabilities::NET_RAW] {
        have(&process, either);
        assert_eq!(priority(), Ok(()));
    }
    have(&process, NONE);
    assert_eq!(priority(), Err(Errno::EPERM));
}

#[test]
fn access_checks_the_capabilities_of_the_real_user() {
    let process = Process::new();
    theirs(&process, "file", 0);
    let access = |flags| process.faccessat(At::Cwd, "file", AccessMode::READ, flags);
    process.set_credentials(Credentials::new(2, 2), Credentials::ROOT);
    assert_eq!(access(AtFlags::empty()), Ok(()));
    assert_eq!(access(AtFlags::EACCESS), Err(Errno::EACCES));
    let none = Credentials {
        capabilities: NONE,
        ..Credentials::ROOT
    };
    process.set_credentials(Credentials::ROOT, none);
    assert_eq!(access(AtFlags::empty()), Err(Errno::EACCES));
    assert_eq!(access(AtFlags::EACCESS), Ok(()));
}

#[test]
fn a_message_has_the_real_user_and_group() {
    for kind in [
        SocketType::Stream,
        SocketType::SeqPacket,
        SocketType::Datagram,
    ] {
        let process = Process::new();
        process.set_credentials(Credentials::new(2, 2), Credentials::ROOT);
        let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
        let option = SocketOption::PassCredentials;
        process
            .setsockopt(far, option, OptionValue::Number(1))
            .unwrap();
        let message = SendMessage {
            bytes: &[std::io::IoSlice::new(b"x")],
            ..SendMessage::default()
        };
        process.sendmsg(near, message, MsgFlags::empty()).unwrap();
        let mut byte = [0];
        let bufs = &mut [std::io::IoSliceMut::new(&mut byte)];
        let received = process.recvmsg(far, bufs, MsgFlags::empty()).unwrap();
        let sender = received.credentials.unwrap();
        assert_eq!((sender.uid, sender.gid), (0, 0), "{kind:?}");
    }
}
