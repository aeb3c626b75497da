//! Seals of files, and of anonymous files.

use fdtable::RawFd;
use fdtable_vfs::{At, Errno, FallocateFlags, MemfdFlags, Mode, OpenFlags, Process, Seals, Stat};

const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
const PUNCH: FallocateFlags = KEEP.union(FallocateFlags::PUNCH_HOLE);

/// Makes a file of 10,000 bytes with these seals.
fn sealed(process: &Process, seals: Seals) -> RawFd {
    let fd = process
        .memfd_create("a", MemfdFlags::ALLOW_SEALING)
        .unwrap();
    process.write(fd, &[7; 10_000]).unwrap();
    process.add_seals(fd, seals).unwrap();
    assert_eq!(process.seals(fd), Ok(seals));
    fd.raw()
}

fn size(process: &Process, fd: RawFd) -> u64 {
    let Stat { size, .. } = process.fstat(fd).unwrap();
    size
}

#[test]
fn only_an_anonymous_file_that_was_made_for_it_can_be_sealed() {
    let process = Process::new();
    let plain = process.memfd_create("a", MemfdFlags::EXEC).unwrap();
    let named = process
        .openat(At::Cwd, "b", OpenFlags::CREAT | OpenFlags::RDWR, 0o600)
        .unwrap();
    for fd in [plain, named] {
        assert_eq!(process.seals(fd), Ok(Seals::SEAL));
        assert_eq!(process.add_seals(fd, Seals::empty()), Err(Errno::EPERM));
    }
    let root = process.openat(At::Cwd, "/", OpenFlags::empty(), 0).unwrap();
    let path = process.openat(At::Cwd, "b", OpenFlags::PATH, 0).unwrap();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.seals(root), Err(Errno::EINVAL));
    assert_eq!(process.seals(reader), Err(Errno::EINVAL));
    assert_eq!(process.seals(path), Err(Errno::EBADF));
    assert_eq!(process.seals(99), Err(Errno::EBADF));
    assert_eq!(process.add_seals(path, Seals::SEAL), Err(Errno::EBADF));
    assert_eq!(process.add_seals(reader, Seals::SEAL), Err(Errno::EPERM));
    assert_eq!(process.add_seals(writer, Seals::SEAL), Err(Errno::EINVAL));
    let unknown = Seals::from_bits_retain(0x40);
    assert_eq!(process.add_seals(plain, unknown), Err(Errno::EINVAL));
}

#[test]
fn seals_end_what_they_name_and_nothing_else() {
    let process = Process::new();
    let fd = sealed(&process, Seals::SHRINK);
    assert_eq!(process.ftruncate(fd, 9_999), Err(Errno::EPERM));
    assert_eq!(process.ftruncate(fd, 10_000), Ok(()));
    assert_eq!(process.ftruncate(fd, 10_001), Ok(()));
    assert_eq!(process.pwrite(fd, b"x", 10_001), Ok(1));

    let fd = sealed(&process, Seals::WRITE);
    assert_eq!(process.pwrite(fd, b"x", 0), Err(Errno::EPERM));
    assert_eq!(process.pwrite(fd, b"", 0), Ok(0));
    assert_eq!(process.fallocate(fd, PUNCH, 0, 1), Err(Errno::EPERM));
    assert_eq!(process.fallocate(fd, KEEP, 0, 20_000), Ok(()));
    assert_eq!(process.ftruncate(fd, 5), Ok(()));

    let fd = sealed(&process, Seals::FUTURE_WRITE);
    assert_eq!(process.pwrite(fd, b"x", 0), Err(Errno::EPERM));
    assert_eq!(process.ftruncate(fd, 20_000), Ok(()));

    let fd = sealed(&process, Seals::SEAL);
    assert_eq!(process.add_seals(fd, Seals::GROW), Err(Errno::EPERM));
    assert_eq!(process.pwrite(fd, b"x", 10_000), Ok(1));
}

#[test]
fn a_write_that_would_extend_a_sealed_file_ends_with_its_last_whole_page() {
    let process = Process::new();
    let fd = sealed(&process, Seals::GROW);
    assert_eq!(process.pwrite(fd, &[1; 20_000], 0), Ok(8_192));
    assert_eq!(process.pwrite(fd, &[1; 20_000], 9_000), Err(Errno::EPERM));
    assert_eq!(process.pwrite(fd, &[1; 20_000], 20_000), Err(Errno::EPERM));
    assert_eq!(process.pwrite(fd, &[1; 1_000], 9_000), Ok(1_000));
    assert_eq!(process.ftruncate(fd, 10_001), Err(Errno::EPERM));
    assert_eq!(process.fallocate(fd, KEEP, 0, 10_001), Err(Errno::EPERM));
    assert_eq!(process.fallocate(fd, PUNCH, 0, 20_000), Ok(()));
    assert_eq!(size(&process, fd), 10_000);
}

#[test]
fn sealed_permissions_to_execute_stay_and_seal_the_bytes_of_code() {
    let process = Process::new();
    let data = process.memfd_create("a", MemfdFlags::NOEXEC_SEAL).unwrap();
    assert_eq!(process.seals(data), Ok(Seals::EXEC));
    assert_eq!(process.fstat(data).unwrap().mode.bits(), 0o666);
    assert_eq!(process.fchmod(data, Mode::new(0o700)), Err(Errno::EPERM));
    assert_eq!(process.fchmod(data, Mode::new(0o600)), Ok(()));
    let code = sealed(&process, Seals::empty());
    process.add_seals(code, Seals::EXEC).unwrap();
    assert_eq!(process.seals(code), Ok(Seals::EXEC | Seals::CONTENTS));
    let both = MemfdFlags::EXEC | MemfdFlags::NOEXEC_SEAL;
    assert_eq!(process.memfd_create("a", both), Err(Errno::EINVAL));
}
