use std::thread;

use fdtable::Fd;
use fdtable_vfs::{Errno, OpenFlags, Process, pipe};

use crate::call::{Call, within_time};

fn process_with_pipe() -> (Process, Fd, Fd) {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    (process, reader, writer)
}

fn reading(process: &Process, fd: Fd) -> Call<Result<usize, Errno>> {
    let process = process.clone();
    Call::start_waiting(move || process.read(fd, &mut [0; 100]))
}

fn writing(process: &Process, fd: Fd) -> Call<Result<usize, Errno>> {
    let process = process.clone();
    Call::start_waiting(move || process.write(fd, &[0; 100]))
}

fn fill(process: &Process, writer: Fd) {
    assert_eq!(
        process.write(writer, &[0; pipe::CAPACITY]),
        Ok(pipe::CAPACITY)
    );
}

#[test]
fn written_bytes_are_read() {
    let (process, reader, writer) = process_with_pipe();
    process.write(writer, b"through").unwrap();
    let mut buf = [0; 100];
    assert_eq!(process.read(reader, &mut buf), Ok(7));
    assert_eq!(&buf[..7], b"through");
}

#[test]
fn each_end_has_one_direction_and_no_position() {
    let (process, reader, writer) = process_with_pipe();
    assert_eq!(process.write(reader, b"x"), Err(Errno::EBADF));
    assert_eq!(process.read(writer, &mut [0]), Err(Errno::EBADF));
    assert_eq!(
        process.lseek(reader, std::io::SeekFrom::Start(0)),
        Err(Errno::ESPIPE)
    );
}

#[test]
fn end_of_file_comes_with_the_last_descriptor_of_the_writing_end() {
    let (process, reader, writer) = process_with_pipe();
    let copy = process.dup(writer).unwrap();
    let child = process.fork().unwrap();
    let read = reading(&process, reader);
    process.close(writer).unwrap();
    read.assert_waiting();
    process.close(copy).unwrap();
    read.assert_waiting();
    child.close(writer).unwrap();
    read.assert_waiting();
    child.close(copy).unwrap();
    assert_eq!(read.result(), Ok(0));
}

#[test]
fn the_end_of_a_process_ends_its_pipes() {
    let (process, reader, writer) = process_with_pipe();
    let child = process.fork().unwrap();
    process.close(writer).unwrap();
    let read = reading(&process, reader);
    drop(child);
    assert_eq!(read.result(), Ok(0));
}

#[test]
fn epipe_comes_with_the_last_descriptor_of_the_reading_end() {
    let (process, reader, writer) = process_with_pipe();
    let copy = process.dup(reader).unwrap();
    process.close(reader).unwrap();
    assert_eq!(process.write(writer, b"x"), Ok(1));
    process.close(copy).unwrap();
    assert_eq!(process.write(writer, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_waiting_reader_is_woken_by_a_write() {
    let (process, reader, writer) = process_with_pipe();
    let read = reading(&process, reader);
    process.write(writer, b"wake").unwrap();
    assert_eq!(read.result(), Ok(4));
}

#[test]
fn a_waiting_writer_is_woken_by_a_read() {
    let (process, reader, writer) = process_with_pipe();
    fill(&process, writer);
    let write = writing(&process, writer);
    process.read(reader, &mut [0; 8192]).unwrap();
    assert_eq!(write.result(), Ok(100));
}

#[test]
fn a_waiting_writer_is_woken_by_the_close_of_the_reader() {
    let (process, reader, writer) = process_with_pipe();
    fill(&process, writer);
    let write = writing(&process, writer);
    process.close(reader).unwrap();
    assert_eq!(write.result(), Err(Errno::EPIPE));
}

/// As on Linux: the waiting call holds the open file, and ends as if its descriptor had stayed
/// open.
#[test]
fn a_waiting_reader_keeps_its_file_when_its_descriptor_is_closed() {
    let (process, reader, writer) = process_with_pipe();
    let read = reading(&process, reader);
    process.close(reader).unwrap();
    read.assert_waiting();
    assert_eq!(process.write(writer, b"late"), Ok(4));
    assert_eq!(read.result(), Ok(4));
    // The call dropped its reference before it returned.
    assert_eq!(process.write(writer, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_nonblocking_pipe_returns_eagain() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    assert_eq!(process.read(reader, &mut [0]), Err(Errno::EAGAIN));
    fill(&process, writer);
    assert_eq!(process.write(writer, b"x"), Err(Errno::EAGAIN));
}

#[test]
fn small_writes_of_many_writers_stay_whole() {
    const RECORD: usize = 4096;
    const RECORDS: usize = 200;
    let (process, reader, writer) = process_with_pipe();
    let body = move || {
        thread::scope(|scope| {
            for tag in 1..=4u8 {
                let child = process.fork().unwrap();
                scope.spawn(move || {
                    for _ in 0..RECORDS {
                        assert_eq!(child.write(writer, &[tag; RECORD]), Ok(RECORD));
                    }
                });
            }
            process.close(writer).unwrap();
            let mut bytes = Vec::new();
            let mut buf = [0; 5000];
            loop {
                match process.read(reader, &mut buf).unwrap() {
                    0 => break,
                    count => bytes.extend_from_slice(&buf[..count]),
                }
            }
            assert_eq!(bytes.len(), 4 * RECORDS * RECORD);
            assert!(
                bytes
                    .chunks(RECORD)
                    .all(|record| record.iter().all(|&byte| byte == record[0]))
            );
        });
    };
    within_time(body);
}

/// Closes each pipe's writing end while other threads use its descriptor: borrowed lookups find a
/// file that is just being released. After a reader has seen end of file, no byte may follow.
#[test]
fn no_write_that_races_with_close_comes_after_end_of_file() {
    let round = || {
        let (process, reader, writer) = process_with_pipe();
        thread::scope(|scope| {
            scope.spawn(|| {
                while process.write(writer, b"some bytes").is_ok() {}
                assert_eq!(process.write(writer, b"x"), Err(Errno::EBADF));
            });
            scope.spawn(|| {
                while process.read(reader, &mut [0; 64]).unwrap() > 0 {}
                assert_eq!(process.read(reader, &mut [0; 64]), Ok(0));
            });
            process.close(writer).unwrap();
        });
    };
    within_time(move || (0..2_000).for_each(|_| round()));
}

#[test]
fn a_write_that_races_with_the_close_of_the_reader_never_hangs() {
    let round = || {
        let (process, reader, writer) = process_with_pipe();
        thread::scope(|scope| {
            scope.spawn(|| while process.write(writer, &[0; 3000]).is_ok() {});
            scope.spawn(|| while process.read(reader, &mut [0; 64]).is_ok_and(|n| n > 0) {});
            process.close(reader).unwrap();
        });
        assert_eq!(process.write(writer, b"x"), Err(Errno::EPIPE));
    };
    within_time(move || (0..2_000).for_each(|_| round()));
}

#[test]
fn the_size_of_a_pipe_is_returned_and_set() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    assert_eq!(process.pipe_size(reader), Ok(pipe::CAPACITY));
    assert_eq!(process.set_pipe_size(writer, 5000), Ok(8192));
    assert_eq!(process.write(writer, &[0; 10_000]), Ok(8192));
    assert_eq!(process.set_pipe_size(reader, 4096), Err(Errno::EBUSY));
    let above = pipe::MAX_CAPACITY + 1;
    process.set_ids(1, 1);
    assert_eq!(process.set_pipe_size(reader, above), Err(Errno::EPERM));
    process.set_ids(0, 0);
    let doubled = 2 * pipe::MAX_CAPACITY;
    assert_eq!(process.set_pipe_size(reader, above), Ok(doubled));
    // It does not grow.
    process.set_ids(1, 1);
    assert_eq!(process.set_pipe_size(reader, above), Ok(doubled));
    let most = (1 << 31) + 1;
    assert_eq!(process.set_pipe_size(reader, most), Err(Errno::EINVAL));
    let (socket, _far) = process.socketpair(OpenFlags::empty()).unwrap();
    assert_eq!(process.pipe_size(socket), Err(Errno::EBADF));
}

#[test]
fn a_waiting_writer_is_woken_when_the_pipe_grows() {
    let (process, _reader, writer) = process_with_pipe();
    fill(&process, writer);
    let write = writing(&process, writer);
    process.set_pipe_size(writer, 2 * pipe::CAPACITY).unwrap();
    assert_eq!(write.result(), Ok(100));
}

#[test]
fn a_pipe_reports_its_events() {
    use fdtable_vfs::event::Events;
    let (process, reader, writer) = process_with_pipe();
    let events = |fd| process.files().get(fd).unwrap().events();
    assert_eq!(events(reader), Events::empty());
    assert_eq!(events(writer), Events::WRITABLE);
    fill(&process, writer);
    assert_eq!(events(reader), Events::READABLE);
    assert_eq!(events(writer), Events::empty());
    assert_eq!(
        process.files().get(reader).unwrap().readable_bytes(),
        Ok(pipe::CAPACITY)
    );
    process.close(writer).unwrap();
    assert_eq!(events(reader), Events::READABLE | Events::HUP);
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    process.close(reader).unwrap();
    let file = process.files().get(writer).unwrap();
    assert_eq!(file.events(), Events::WRITABLE | Events::ERR);
}

#[test]
fn a_blocking_write_of_any_length_is_complete() {
    type Make = fn(&Process) -> Result<(Fd, Fd), Errno>;
    let makes: [Make; 2] = [
        |process| process.pipe2(OpenFlags::empty()),
        |process| process.socketpair(OpenFlags::empty()),
    ];
    for make in makes {
        let process = Process::new();
        let (reader, writer) = make(&process).unwrap();
        let mine = process.clone();
        let writing = Call::start_waiting(move || mine.write(writer, &vec![7; 1_000_000]));
        let (mut read, mut buf) = (0, vec![0; 100_000]);
        while read < 1_000_000 {
            read += process.read(reader, &mut buf).unwrap();
        }
        assert_eq!(writing.result(), Ok(1_000_000));
    }
}
