//! The text of `/proc/self/fdinfo/N`.

use std::fmt::Write;

use fdtable::{FdFlags, FileRef, Files};

use super::ProcessRef;
use crate::event::{FileId, async_io};
use crate::fs::SeekTo;
use crate::fs::locks::{LockKind, Owner, Range, Record};
use crate::{Errno, Object, OpenFlags, RcuObject};

/// Makes the text of a descriptor: position, flags, mount, inode, the locks set through the open
/// file, and the object's own lines.
///
/// # Errors
/// `ENOENT` if it is closed; `EIO` if its file is revoked.
pub(super) fn text(shown: &ProcessRef, fd: i32) -> Result<Vec<u8>, Errno> {
    let files = shown.files()?;
    let file = file_of(&files, fd)?;
    let mut flags = match files.fd_flags(fd)?.contains(FdFlags::CLOEXEC) {
        true => OpenFlags::CLOEXEC,
        false => OpenFlags::empty(),
    };
    if let Some(text) = file.fdinfo(shown.id, flags) {
        return Ok(text);
    }
    flags |= file.status() - OpenFlags::CREAT;
    if async_io::is_on(FileId::of(&**file)) {
        flags |= OpenFlags::ASYNC;
    }
    let position = file.seek(SeekTo::Current(0)).unwrap_or(0);
    let mount = file.path().map_or(0, |path| path.mount_id());
    let (device, inode) = file.stat().map_or((0, 0), |stat| (stat.device, stat.inode));
    let mut text = format!(
        "pos:\t{position}\nflags:\t0{:o}\nmnt_id:\t{mount}\nino:\t{inode}\n",
        flags.bits()
    );
    add_locks(
        &mut text,
        &**file,
        &format!("{:02x}:{:02x}:{inode}", device >> 8, device & 0xff),
    );
    file.show_fdinfo(&mut text);
    Ok(text.into_bytes())
}

/// Returns the file of a descriptor.
///
/// # Errors
/// `ENOENT` if it is closed; `EIO` if its file is revoked.
pub(super) fn file_of(files: &Files<RcuObject>, fd: i32) -> Result<FileRef<RcuObject>, Errno> {
    files.get(fd).map_err(|error| match Errno::from(error) {
        Errno::EBADF => Errno::ENOENT,
        errno => errno,
    })
}

/// Appends a line for each lock set through an open file. `inode` is the spelling of the inode in
/// these lines.
fn add_locks(text: &mut String, object: &dyn Object, inode: &str) {
    let Some(locks) = object.locks().and_then(|locks| locks.locks_if_any()) else {
        return;
    };
    let [flocks, records] = locks.list(FileId::of(object));
    let flocks = flocks.iter().map(|lock| line_of(lock, "FLOCK ", inode));
    let records = records.iter().map(|lock| {
        let owner = match lock.owner {
            Owner::Table(_) => "POSIX ",
            Owner::File(_) => "OFDLCK",
        };
        line_of(lock, owner, inode)
    });
    for (number, line) in flocks.chain(records).enumerate() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "lock:\t{}: {line}", number + 1);
    }
}

fn line_of(lock: &Record, owner: &str, inode: &str) -> String {
    let Range { first, last } = lock.range;
    let last = match last == Range::ALL.last {
        true => "EOF".to_string(),
        false => last.to_string(),
    };
    let (kind, pid) = (kind(lock.kind), lock.pid);
    format!("{owner} ADVISORY  {kind} {pid} {inode} {first} {last}")
}

fn kind(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Read => "READ ",
        LockKind::Write => "WRITE",
        LockKind::Unlock => "UNLCK",
    }
}
