use std::thread;

use super::*;
use crate::fs::{MemFsLimits, Mode};

const DEFAULT_LIMIT: u64 = i64::MAX as u64;

fn try_at(offset: u64) -> Transfer<'static> {
    Transfer {
        at: Some(offset),
        ..Transfer::SECTION
    }
}

fn try_read_at(file: &dyn Object, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
    file.read_to(&mut [IoSliceMut::new(buf)], try_at(offset))
}

fn try_write_at(file: &dyn Object, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    file.write_from(&[IoSlice::new(bytes)], try_at(offset))
}

fn inode(limit: u64) -> Arc<RegularInode> {
    let permissions = Permissions {
        mode: Mode::DEFAULT_FILE,
        uid: 0,
        gid: 0,
    };
    let limits = FileLimits::new(MemFsLimits {
        file_size: limit,
        ..MemFsLimits::NONE
    });
    let device = Device {
        number: 1,
        first_inode: 0,
    };
    Arc::new(RegularInode::new(device, permissions, limits))
}

fn open(inode: &Arc<RegularInode>, flags: OpenFlags) -> RegularFile {
    RegularFile::open(Arc::clone(inode), None, flags).unwrap()
}

fn file() -> RegularFile {
    open(&inode(DEFAULT_LIMIT), OpenFlags::RDWR)
}

/// Reads everything, whatever the position of other open files.
fn contents(inode: &Arc<RegularInode>) -> Vec<u8> {
    let mut buf = vec![0; inode.len() as usize + 1];
    let count = open(inode, OpenFlags::RDONLY).read(&mut buf).unwrap();
    buf.truncate(count);
    buf
}

#[test]
fn transfers_move_the_position_and_a_read_at_the_end_gives_nothing() {
    let file = file();
    assert_eq!(file.write(b"hello "), Ok(6));
    assert_eq!(file.write(b"world"), Ok(5));
    let mut buf = [0; 8];
    assert_eq!(file.read(&mut buf), Ok(0));
    assert_eq!(file.seek(SeekTo::Start(3)), Ok(3));
    assert_eq!(file.read(&mut buf), Ok(8));
    assert_eq!(&buf, b"lo world");
    assert_eq!(file.seek(SeekTo::Current(0)), Ok(11));
    assert_eq!(file.seek(SeekTo::Start(100)), Ok(100));
    assert_eq!(file.read(&mut buf), Ok(0));
}

#[test]
fn a_write_in_the_middle_replaces_and_then_extends() {
    let inode = inode(DEFAULT_LIMIT);
    let file = open(&inode, OpenFlags::WRONLY);
    file.write(b"abcdef").unwrap();
    file.seek(SeekTo::Start(1)).unwrap();
    file.write(b"12").unwrap();
    assert_eq!(contents(&inode), b"a12def");
    file.seek(SeekTo::Start(4)).unwrap();
    file.write(b"3456").unwrap();
    assert_eq!(contents(&inode), b"a12d3456");
}

#[test]
fn a_hole_reads_as_zeros() {
    let inode = inode(DEFAULT_LIMIT);
    let file = open(&inode, OpenFlags::WRONLY);
    file.write(b"ab").unwrap();
    file.seek(SeekTo::Start(5)).unwrap();
    file.write(b"c").unwrap();
    assert_eq!(contents(&inode), b"ab\0\0\0c");
}

#[test]
fn a_write_stops_at_the_size_limit() {
    let inode = inode(4);
    let file = open(&inode, OpenFlags::WRONLY);
    assert_eq!(file.write(b"abcdef"), Ok(4));
    assert_eq!(file.write(b"e"), Err(Errno::EFBIG));
    assert_eq!(file.write(b""), Ok(0));
    file.seek(SeekTo::Start(i64::MAX as u64 - 1)).unwrap();
    assert_eq!(file.write(b"e"), Err(Errno::EFBIG));
    file.seek(SeekTo::Start(i64::MAX as u64)).unwrap();
    assert_eq!(file.write(b""), Ok(0));
    // As on Linux: the end of the write would be above `i64::MAX`.
    assert_eq!(file.write(b"e"), Err(Errno::EINVAL));
    assert_eq!(contents(&inode), b"abcd");
}

#[test]
fn seek_counts_from_the_start_the_position_and_the_end() {
    let file = file();
    file.write(b"0123456789").unwrap();
    assert_eq!(file.seek(SeekTo::Start(4)), Ok(4));
    assert_eq!(file.seek(SeekTo::Current(-3)), Ok(1));
    assert_eq!(file.seek(SeekTo::End(-2)), Ok(8));
    assert_eq!(file.seek(SeekTo::End(5)), Ok(15));
}

#[test]
fn a_seek_outside_the_range_fails_and_moves_nothing() {
    let file = file();
    file.write(b"abc").unwrap();
    assert_eq!(file.seek(SeekTo::Current(-4)), Err(Errno::EINVAL));
    assert_eq!(file.seek(SeekTo::End(-4)), Err(Errno::EINVAL));
    assert_eq!(file.seek(SeekTo::Start(1 << 63)), Err(Errno::EINVAL));
    assert_eq!(file.seek(SeekTo::End(i64::MAX)), Err(Errno::EINVAL));
    assert_eq!(file.seek(SeekTo::Current(0)), Ok(3));
}

#[test]
fn the_access_mode_is_kept() {
    let inode = inode(DEFAULT_LIMIT);
    let read_only = open(&inode, OpenFlags::RDONLY);
    assert_eq!(read_only.write(b"x"), Err(Errno::EBADF));
    assert_eq!(read_only.try_write(b"x"), Err(Errno::EBADF));
    let write_only = open(&inode, OpenFlags::WRONLY);
    assert_eq!(write_only.read(&mut [0]), Err(Errno::EBADF));
    assert_eq!(write_only.try_read(&mut [0]), Err(Errno::EBADF));
}

#[test]
fn an_append_goes_to_the_end_wherever_the_position_is() {
    let inode = inode(DEFAULT_LIMIT);
    let log = open(&inode, OpenFlags::RDWR | OpenFlags::APPEND);
    log.write(b"one ").unwrap();
    open(&inode, OpenFlags::WRONLY).write(b"ONE two ").unwrap();
    log.seek(SeekTo::Start(0)).unwrap();
    assert_eq!(log.write(b"three"), Ok(5));
    assert_eq!(contents(&inode), b"ONE two three");
    assert_eq!(log.seek(SeekTo::Current(0)), Ok(13));
}

#[test]
fn appends_of_many_open_files_lose_nothing() {
    const RECORDS: usize = 2_000;
    let inode = inode(DEFAULT_LIMIT);
    thread::scope(|scope| {
        for writer in 1..=4u8 {
            let log = open(&inode, OpenFlags::WRONLY | OpenFlags::APPEND);
            scope.spawn(move || {
                for _ in 0..RECORDS {
                    log.write(&[writer; 16]).unwrap();
                }
            });
        }
    });
    let bytes = contents(&inode);
    assert_eq!(bytes.len(), 4 * RECORDS * 16);
    assert!(
        bytes
            .chunks(16)
            .all(|record| record.iter().all(|&byte| byte == record[0]))
    );
}

#[test]
fn reads_on_a_shared_open_file_each_get_a_part_of_their_own() {
    const RECORDS: u32 = 40_000;
    let file = file();
    for record in 0..RECORDS {
        file.write(&record.to_le_bytes()).unwrap();
    }
    file.seek(SeekTo::Start(0)).unwrap();

    let read_all = || {
        let mut seen = Vec::new();
        let mut buf = [0; 4];
        while file.read(&mut buf).unwrap() == 4 {
            seen.push(u32::from_le_bytes(buf));
        }
        seen
    };
    let mut seen = thread::scope(|scope| {
        let readers = [
            scope.spawn(read_all),
            scope.spawn(read_all),
            scope.spawn(read_all),
        ];
        readers.map(|reader| reader.join().unwrap()).concat()
    });
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..RECORDS));
}

#[test]
fn a_transfer_at_an_offset_leaves_the_position() {
    let file = file();
    file.write(b"abcdef").unwrap();
    file.seek(SeekTo::Start(2)).unwrap();
    assert_eq!(file.write_at(b"12", 4), Ok(2));
    assert_eq!(file.write_at(b"9", 8), Ok(1));
    let mut buf = [0; 16];
    assert_eq!(file.read_at(&mut buf, 1), Ok(8));
    assert_eq!(&buf[..8], b"bcd12\0\09");
    assert_eq!(try_read_at(&file, &mut buf, 9), Ok(0));
    assert_eq!(file.seek(SeekTo::Current(0)), Ok(2));
    let past = i64::MAX as u64 + 1;
    assert_eq!(file.read_at(&mut buf, past), Err(Errno::EINVAL));
    assert_eq!(try_write_at(&file, b"x", past), Err(Errno::EINVAL));
}

#[test]
fn a_transfer_at_an_offset_keeps_the_access_mode_and_appends() {
    let inode = inode(DEFAULT_LIMIT);
    let log = open(&inode, OpenFlags::WRONLY | OpenFlags::APPEND);
    log.write_at(b"one", 0).unwrap();
    log.write_at(b"two", 0).unwrap();
    assert_eq!(contents(&inode), b"onetwo");
    assert_eq!(log.read_at(&mut [0], 0), Err(Errno::EBADF));
    let read_only = open(&inode, OpenFlags::RDONLY);
    assert_eq!(read_only.write_at(b"x", 0), Err(Errno::EBADF));
    assert_eq!(try_write_at(&read_only, b"x", 0), Err(Errno::EBADF));
}

#[test]
fn a_file_gets_the_length_that_is_set() {
    let inode = inode(100);
    let file = open(&inode, OpenFlags::RDWR);
    file.write(b"abcdef").unwrap();
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(contents(&inode), b"ab\0\0");
    assert_eq!(file.set_len(101), Err(Errno::EFBIG));
    assert_eq!(file.set_len(u64::MAX), Err(Errno::EFBIG));
    assert_eq!(file.stat().unwrap().size, 4);
    let read_only = open(&inode, OpenFlags::RDONLY);
    assert_eq!(read_only.set_len(0), Err(Errno::EINVAL));
}

#[test]
fn a_try_form_never_waits_for_a_lock() {
    let file = file();
    file.write(b"abcd").unwrap();
    file.seek(SeekTo::Start(0)).unwrap();
    let position = file.offset.lock();
    assert_eq!(file.try_read(&mut [0]), Err(Errno::EAGAIN));
    assert_eq!(file.try_write(b"x"), Err(Errno::EAGAIN));
    drop(position);
    let data = file.inode.data.write();
    assert_eq!(file.try_read(&mut [0]), Err(Errno::EAGAIN));
    assert_eq!(file.try_write(b"x"), Err(Errno::EAGAIN));
    assert_eq!(try_read_at(&file, &mut [0], 0), Err(Errno::EAGAIN));
    assert_eq!(try_write_at(&file, b"x", 0), Err(Errno::EAGAIN));
    drop(data);
    assert_eq!(file.try_read(&mut [0]), Ok(1));
    assert_eq!(file.try_write(b"x"), Ok(1));
}

#[test]
fn a_try_form_leaves_allocations_holes_and_long_copies_to_the_blocking_form() {
    let file = file();
    assert_eq!(file.try_write(b"x"), Err(Errno::EAGAIN), "needs memory");
    let long = vec![1; SHORT_COPY + 1];
    file.write(&long).unwrap();
    file.inode.data.write().contents().reserve(100);
    assert_eq!(file.try_write(b"x"), Ok(1));
    file.seek(SeekTo::Current(1)).unwrap();
    assert_eq!(file.try_write(b"x"), Err(Errno::EAGAIN), "leaves a hole");
    file.seek(SeekTo::Start(0)).unwrap();
    assert_eq!(file.try_write(&long), Err(Errno::EAGAIN), "is long");
    assert_eq!(try_write_at(&file, &long, 0), Err(Errno::EAGAIN), "is long");
    assert_eq!(
        file.try_read(&mut long.clone()),
        Err(Errno::EAGAIN),
        "is long"
    );
    assert_eq!(file.read(&mut long.clone()), Ok(long.len()));
}

#[test]
fn the_bytes_are_freed_with_the_last_name_and_the_last_open_file() {
    let named = inode(DEFAULT_LIMIT);
    let file = open(&named, OpenFlags::RDWR);
    file.write(b"kept").unwrap();
    file.release();
    assert_eq!(named.len(), 4, "it has a name");
    let [one, other] = [(); 2].map(|()| open(&named, OpenFlags::RDWR));
    named.drop_link();
    one.release();
    assert_eq!(other.read_at(&mut [0; 8], 0), Ok(4), "it is open");
    other.release();
    assert_eq!(named.len(), 0);
    let late = RegularFile::open(named, None, OpenFlags::RDONLY);
    assert_eq!(late.unwrap_err(), Errno::ENOENT);
}

#[test]
fn the_bytes_of_a_file_that_is_not_open_are_freed_with_the_name() {
    let closed = inode(DEFAULT_LIMIT);
    let file = open(&closed, OpenFlags::RDWR);
    file.write(b"bytes").unwrap();
    file.release();
    closed.drop_link();
    assert_eq!(closed.len(), 0);
}

#[test]
fn operations_on_a_released_file_return_ebadf() {
    let file = file();
    file.write(b"x").unwrap();
    file.release();
    assert_eq!(file.try_read(&mut [0]), Err(Errno::EBADF));
    assert_eq!(file.try_write(b"x"), Err(Errno::EBADF));
    assert_eq!(try_read_at(&file, &mut [0], 0), Err(Errno::EBADF));
    assert_eq!(try_write_at(&file, b"x", 0), Err(Errno::EBADF));
}

/// Releases an unnamed file while another thread reads it, as a borrowed lookup may: the reader
/// gets the bytes, or `EBADF`, but never a false end of file.
#[test]
fn a_read_that_races_with_the_release_finds_the_bytes_or_no_file() {
    for _ in 0..2_000 {
        let file = file();
        file.write(b"bytes").unwrap();
        file.inode.drop_link();
        thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    match try_read_at(&file, &mut [0; 8], 0) {
                        Ok(count) => assert_eq!(count, 5),
                        Err(Errno::EAGAIN) => {}
                        Err(errno) => break assert_eq!(errno, Errno::EBADF),
                    }
                }
            });
            file.release();
        });
    }
}

#[test]
fn an_emptied_file_frees_its_memory() {
    let file = file();
    file.write(&[1; 1 << 20]).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(file.inode.data.write().contents().capacity(), 0);
}
