use std::sync::Arc;
use std::thread;

use super::*;
use crate::call::{Call, within_time};

fn buffer(capacity: usize) -> Arc<Buffer> {
    Arc::new(Buffer::new(capacity))
}

fn full(capacity: usize) -> Arc<Buffer> {
    let buffer = buffer(capacity);
    assert_eq!(buffer.try_write(&vec![0; capacity]), Ok(capacity));
    buffer
}

/// Starts a read of `count` bytes in another thread.
fn reading(buffer: &Arc<Buffer>, count: usize) -> Call<Result<usize, Errno>> {
    let buffer = Arc::clone(buffer);
    Call::start_waiting(move || buffer.read(&mut vec![0; count]))
}

/// Starts a write of `count` bytes in another thread.
fn writing(buffer: &Arc<Buffer>, count: usize) -> Call<Result<usize, Errno>> {
    let buffer = Arc::clone(buffer);
    Call::start_waiting(move || buffer.write(&vec![0; count]))
}

/// Repeatable pseudo-random numbers below `bound` (the generator of Knuth's MMIX).
fn random(seed: &mut u64, bound: usize) -> usize {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*seed >> 33) as usize % bound
}

#[test]
fn bytes_come_out_in_the_order_in_which_they_went_in() {
    let buffer = Buffer::new(PIPE_BUF + 100);
    let mut model = VecDeque::<u8>::new();
    let mut seed = 1;
    let mut next = 0u8;
    for _ in 0..10_000 {
        let mut bytes = vec![0; random(&mut seed, 2 * PIPE_BUF)];
        bytes.fill_with(|| {
            next = next.wrapping_add(1);
            next
        });
        match buffer.try_write(&bytes) {
            Ok(count) => model.extend(&bytes[..count]),
            Err(errno) => assert_eq!(errno, Errno::EAGAIN),
        }
        let mut buf = vec![0; random(&mut seed, PIPE_BUF)];
        match buffer.try_read(&mut buf) {
            Ok(count) => assert!(model.drain(..count).eq(buf[..count].iter().copied())),
            Err(errno) => assert!(errno == Errno::EAGAIN && model.is_empty()),
        }
    }
}

#[test]
fn an_empty_transfer_never_waits_and_never_fails() {
    let empty = Buffer::new(PIPE_BUF);
    assert_eq!(empty.read(&mut []), Ok(0));
    assert_eq!(empty.try_read(&mut []), Ok(0));
    let full = full(PIPE_BUF);
    assert_eq!(full.write(&[]), Ok(0));
    assert_eq!(full.try_write(&[]), Ok(0));
    full.end_reader(Side::Closed);
    assert_eq!(full.write(&[]), Ok(0));
    assert_eq!(full.try_write(&[]), Ok(0));
}

#[test]
fn a_read_returns_end_of_file_after_the_last_byte() {
    let buffer = Buffer::new(PIPE_BUF);
    buffer.write(b"last").unwrap();
    buffer.end_writer(Side::Closed);
    assert_eq!(buffer.read(&mut [0; 3]), Ok(3));
    assert_eq!(buffer.read(&mut [0; 3]), Ok(1));
    assert_eq!(buffer.read(&mut [0; 3]), Ok(0));
    assert_eq!(buffer.try_read(&mut [0; 3]), Ok(0));
}

#[test]
fn a_write_without_a_reader_returns_epipe() {
    let buffer = full(PIPE_BUF);
    buffer.end_reader(Side::Closed);
    assert_eq!(buffer.write(b"x"), Err(Errno::EPIPE));
    assert_eq!(buffer.try_write(b"x"), Err(Errno::EPIPE));
    assert_eq!(buffer.try_write(&[0; PIPE_BUF + 1]), Err(Errno::EPIPE));
}

#[test]
fn operations_of_a_closed_side_return_ebadf() {
    let buffer = full(PIPE_BUF);
    buffer.end_writer(Side::Closed);
    assert_eq!(buffer.write(b"x"), Err(Errno::EBADF));
    assert_eq!(buffer.try_write(b"x"), Err(Errno::EBADF));
    buffer.end_reader(Side::Closed);
    assert_eq!(buffer.read(&mut [0]), Err(Errno::EBADF));
    assert_eq!(buffer.try_read(&mut [0]), Err(Errno::EBADF));
}

#[test]
fn sleepers_on_a_revoked_side_get_eio() {
    let empty = buffer(PIPE_BUF);
    let reads = [reading(&empty, 8), reading(&empty, 8)];
    empty.end_reader(Side::Revoked);
    assert_eq!(reads.map(Call::result), [Err(Errno::EIO); 2]);
    let full = full(PIPE_BUF);
    let writes = [writing(&full, 1), writing(&full, PIPE_BUF + 1)];
    full.end_writer(Side::Revoked);
    assert_eq!(writes.map(Call::result), [Err(Errno::EIO); 2]);
    assert_eq!(full.read(&mut [0; 8]), Ok(8));
}

#[test]
fn a_try_form_returns_eagain_where_the_other_blocks() {
    let empty = Buffer::new(PIPE_BUF);
    assert_eq!(empty.try_read(&mut [0]), Err(Errno::EAGAIN));
    assert_eq!(full(PIPE_BUF).try_write(b"x"), Err(Errno::EAGAIN));
}

#[test]
fn a_write_of_pipe_buf_goes_in_whole_or_not_at_all() {
    let buffer = Buffer::new(2 * PIPE_BUF);
    assert_eq!(buffer.try_write(&[0; PIPE_BUF]), Ok(PIPE_BUF));
    assert_eq!(buffer.try_write(b"x"), Ok(1));
    assert_eq!(buffer.try_write(&[0; PIPE_BUF]), Err(Errno::EAGAIN));
    assert_eq!(buffer.try_write(&[0; PIPE_BUF - 1]), Ok(PIPE_BUF - 1));
}

#[test]
fn a_longer_write_goes_in_as_far_as_it_fits() {
    let buffer = Buffer::new(2 * PIPE_BUF);
    assert_eq!(buffer.try_write(&[0; PIPE_BUF]), Ok(PIPE_BUF));
    assert_eq!(buffer.try_write(b"x"), Ok(1));
    assert_eq!(buffer.try_write(&[0; PIPE_BUF + 1]), Ok(PIPE_BUF - 1));
    assert_eq!(buffer.try_write(&[0; PIPE_BUF + 1]), Err(Errno::EAGAIN));
}

#[test]
fn a_waiting_reader_is_woken_by_a_write() {
    let buffer = buffer(PIPE_BUF);
    let read = reading(&buffer, 8);
    buffer.write(b"wake").unwrap();
    assert_eq!(read.result(), Ok(4));
}

#[test]
fn waiting_readers_are_woken_by_the_end_of_writing() {
    let buffer = buffer(PIPE_BUF);
    let reads = [reading(&buffer, 8), reading(&buffer, 8)];
    buffer.end_writer(Side::Closed);
    assert_eq!(reads.map(Call::result), [Ok(0), Ok(0)]);
}

#[test]
fn a_waiting_writer_is_woken_by_a_read() {
    let buffer = full(PIPE_BUF);
    let write = writing(&buffer, 1);
    buffer.read(&mut [0; PIPE_BUF]).unwrap();
    assert_eq!(write.result(), Ok(1));
}

#[test]
fn waiting_writers_are_woken_by_the_end_of_reading() {
    let buffer = full(PIPE_BUF);
    let writes = [writing(&buffer, 1), writing(&buffer, PIPE_BUF + 1)];
    buffer.end_reader(Side::Closed);
    assert_eq!(
        writes.map(Call::result),
        [Err(Errno::EPIPE), Err(Errno::EPIPE)]
    );
}

#[test]
fn a_write_that_loses_its_reader_returns_what_was_taken() {
    let buffer = buffer(2 * PIPE_BUF);
    let write = writing(&buffer, 3 * PIPE_BUF);
    // On a busy machine, the thread may seem to wait before it has begun to write.
    while buffer.readable_bytes() < 2 * PIPE_BUF {
        thread::yield_now();
    }
    buffer.end_reader(Side::Closed);
    assert_eq!(write.result(), Ok(2 * PIPE_BUF));
}

#[test]
fn a_write_longer_than_the_buffer_goes_through_in_pieces() {
    let buffer = buffer(PIPE_BUF);
    let write = writing(&buffer, 10 * PIPE_BUF + 7);
    let mut left = 10 * PIPE_BUF + 7;
    while left > 0 {
        left -= buffer.read(&mut [0; 1000]).unwrap();
    }
    assert_eq!(write.result(), Ok(10 * PIPE_BUF + 7));
}

#[test]
fn a_waiting_writer_sleeps_until_pipe_buf_is_free() {
    let buffer = full(2 * PIPE_BUF);
    let write = writing(&buffer, 1);
    buffer.read(&mut [0; PIPE_BUF - 1]).unwrap();
    write.assert_waiting();
    buffer.read(&mut [0; 1]).unwrap();
    assert_eq!(write.result(), Ok(1));
}

#[test]
fn a_reader_that_leaves_bytes_wakes_the_next() {
    let buffer = buffer(PIPE_BUF);
    let reads = [
        reading(&buffer, 1),
        reading(&buffer, 1),
        reading(&buffer, 1),
    ];
    buffer.write(b"123").unwrap();
    assert_eq!(reads.map(Call::result), [Ok(1); 3]);
}

#[test]
fn a_writer_that_leaves_room_wakes_the_next() {
    let buffer = full(2 * PIPE_BUF);
    let writes = [
        writing(&buffer, 1),
        writing(&buffer, 1),
        writing(&buffer, 1),
    ];
    buffer.read(&mut [0; 2 * PIPE_BUF]).unwrap();
    assert_eq!(writes.map(Call::result), [Ok(1); 3]);
}

/// Counts how many of two sleepers `operation` leaves asleep. The lock is held throughout, so that
/// no woken sleeper can go back to sleep.
fn left_asleep(
    buffer: &Buffer,
    sleepers: impl Fn(&mut State) -> &mut WaitQueue,
    events: Events,
    operation: impl FnOnce(&mut State, &mut Wakeups),
) -> usize {
    let mut woken = Wakeups::default();
    let mut state = buffer.state.lock();
    operation(&mut state, &mut woken);
    let mut asleep = Vec::new();
    while !sleepers(&mut state).is_empty() {
        asleep.push(sleepers(&mut state).pass_on(events));
    }
    drop(state);
    drop(woken);
    // They are woken too, and find nothing or go on.
    asleep.len()
}

/// Retries, because a thread may not have reached its sleep in time.
fn assert_once_left_asleep(expected: usize, attempt: impl Fn() -> usize) {
    assert!(
        (0..10).any(|_| attempt() == expected),
        "never were {expected} left asleep"
    );
}

#[test]
fn a_write_wakes_one_of_two_readers() {
    assert_once_left_asleep(1, || {
        let buffer = buffer(PIPE_BUF);
        let reads = [reading(&buffer, 8), reading(&buffer, 8)];
        let left = left_asleep(
            &buffer,
            |state| &mut state.readers,
            Events::IN,
            |state, woken| {
                state.put(b"1", woken).unwrap();
                state.put(b"2", woken).unwrap();
            },
        );
        buffer.end_writer(Side::Closed);
        assert!(reads.into_iter().all(|read| read.result().is_ok()));
        left
    });
}

#[test]
fn a_read_wakes_one_of_two_writers() {
    assert_once_left_asleep(1, || {
        let buffer = full(3 * PIPE_BUF);
        let writes = [writing(&buffer, 8), writing(&buffer, 8)];
        let left = left_asleep(
            &buffer,
            |state| &mut state.writers,
            Events::OUT,
            |state, woken| {
                state.take(&mut [0; PIPE_BUF], woken).unwrap();
                state.take(&mut [0; PIPE_BUF], woken).unwrap();
            },
        );
        assert!(writes.into_iter().all(|write| write.result().is_ok()));
        left
    });
}

#[test]
fn a_read_wakes_no_writer_before_pipe_buf_is_free() {
    assert_once_left_asleep(1, || {
        let buffer = full(PIPE_BUF);
        let write = writing(&buffer, 8);
        let left = left_asleep(
            &buffer,
            |state| &mut state.writers,
            Events::OUT,
            |state, woken| {
                state.take(&mut [0; PIPE_BUF - 1], woken).unwrap();
            },
        );
        buffer.read(&mut [0; 1]).unwrap();
        write.result().unwrap();
        left
    });
}

/// Many threads use a small buffer, so that all of them sleep often. A lost wake-up hangs, and the
/// watchdog of `Call` ends the test.
#[test]
fn no_wake_up_is_lost_among_many_readers_and_writers() {
    const WRITERS: u64 = 4;
    const ROUNDS: usize = 3_000;
    let buffer = buffer(PIPE_BUF);

    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let buffer = Arc::clone(&buffer);
            Call::start(move || {
                let mut seed = writer;
                let mut total = 0;
                for _ in 0..ROUNDS {
                    let bytes = vec![0; 1 + random(&mut seed, 3 * PIPE_BUF / 2)];
                    total += buffer.write(&bytes).unwrap();
                }
                total
            })
        })
        .collect();
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let buffer = Arc::clone(&buffer);
            Call::start(move || {
                let mut seed = 100 + reader;
                let mut total = 0;
                loop {
                    match buffer
                        .read(&mut vec![0; 1 + random(&mut seed, PIPE_BUF)])
                        .unwrap()
                    {
                        0 => return total,
                        count => total += count,
                    }
                }
            })
        })
        .collect();

    let written: usize = writers.into_iter().map(Call::result).sum();
    buffer.end_writer(Side::Closed);
    let read: usize = readers.into_iter().map(Call::result).sum();
    assert_eq!(read, written);
}

#[test]
fn small_writes_of_many_writers_stay_whole() {
    const RECORD: usize = 1000;
    const RECORDS: usize = 500;
    let buffer = buffer(PIPE_BUF);
    let body = move || {
        thread::scope(|scope| {
            for writer in 1..=4u8 {
                let buffer = &buffer;
                scope.spawn(move || {
                    for _ in 0..RECORDS {
                        assert_eq!(buffer.write(&[writer; RECORD]), Ok(RECORD));
                    }
                });
            }
            let mut bytes = Vec::new();
            while bytes.len() < 4 * RECORDS * RECORD {
                // Of another length than the records, so that reads end in the middle of one.
                let mut buf = [0; 777];
                let count = buffer.read(&mut buf).unwrap();
                bytes.extend_from_slice(&buf[..count]);
            }
            for record in bytes.chunks(RECORD) {
                assert!(
                    record.iter().all(|&byte| byte == record[0]),
                    "a record was torn"
                );
            }
        });
    };
    within_time(body);
}

#[test]
fn bytes_that_are_put_back_come_first_and_may_exceed_the_capacity() {
    let buffer = full(PIPE_BUF);
    let mut taken = [1; PIPE_BUF];
    assert_eq!(buffer.try_read(&mut taken), Ok(PIPE_BUF));
    assert_eq!(buffer.try_write(&[2; PIPE_BUF]), Ok(PIPE_BUF));
    buffer.put_back(b"first");
    assert_eq!(buffer.readable_bytes(), PIPE_BUF + 5);
    assert_eq!(buffer.try_write(b"x"), Err(Errno::EAGAIN));
    assert_eq!(buffer.set_capacity(PIPE_BUF), Err(Errno::EBUSY));
    let mut read = [0; 6];
    assert_eq!(buffer.try_read(&mut read), Ok(6));
    assert_eq!(&read, b"first\x02");
    assert_eq!(buffer.try_write(b"x"), Ok(1));
}

#[test]
fn bytes_that_are_put_back_wake_a_reader() {
    let buffer = buffer(PIPE_BUF);
    buffer.write(b"taken").unwrap();
    assert_eq!(buffer.try_read(&mut [0; 5]), Ok(5));
    let read = reading(&buffer, 8);
    buffer.put_back(b"taken");
    assert_eq!(read.result(), Ok(5));
}

#[test]
fn bytes_that_are_put_back_without_a_reader_are_dropped() {
    let buffer = buffer(PIPE_BUF);
    buffer.write(b"taken").unwrap();
    assert_eq!(buffer.try_read(&mut [0; 5]), Ok(5));
    buffer.end_reader(Side::Closed);
    buffer.put_back(b"taken");
    assert_eq!(buffer.readable_bytes(), 0);
}
