//! If an open is wrong, a shell pipeline over a FIFO hangs, or loses bytes.

use super::*;
use crate::MemFs;
use crate::call::{Call, within_time};
use crate::event::Watcher;
use crate::object::file;

impl Fifo {
    /// Opens an end with the path of some directory.
    fn open_named(self: &Arc<Self>, flags: OpenFlags) -> Result<FileRef<RcuObject>, Errno> {
        let path = MemFs::default().top().clone();
        self.open(flags, path, false, file)
    }
}

fn fifo() -> Arc<Fifo> {
    Arc::default()
}

fn opening(fifo: &Arc<Fifo>, flags: OpenFlags) -> Call<Result<FileRef<RcuObject>, Errno>> {
    let fifo = Arc::clone(fifo);
    Call::start_waiting(move || fifo.open_named(flags))
}

const READ_NOW: OpenFlags = OpenFlags::NONBLOCK;
const WRITE_NOW: OpenFlags = OpenFlags::WRONLY.union(OpenFlags::NONBLOCK);

#[test]
fn a_reader_and_a_writer_wait_for_each_other() {
    for (first, second) in [
        (OpenFlags::RDONLY, OpenFlags::WRONLY),
        (OpenFlags::WRONLY, OpenFlags::RDONLY),
    ] {
        let fifo = fifo();
        let waiting = opening(&fifo, first);
        let partner = fifo.open_named(second).unwrap();
        let opened = waiting.result().unwrap();
        let (reader, writer) = if first == OpenFlags::RDONLY {
            (opened, partner)
        } else {
            (partner, opened)
        };
        assert_eq!(writer.write(b"hello"), Ok(5));
        assert_eq!(reader.read(&mut [0; 8]), Ok(5));
        drop(writer);
        assert_eq!(reader.read(&mut [0; 8]), Ok(0));
    }
}

#[test]
fn an_opener_that_has_closed_again_lets_the_other_in() {
    let fifo = fifo();
    let waiting = opening(&fifo, OpenFlags::WRONLY);
    drop(fifo.open_named(READ_NOW).unwrap());
    let writer = waiting.result().unwrap();
    assert_eq!(writer.write(b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_nonblocking_reader_opens_at_once_and_a_writer_needs_a_reader() {
    let fifo = fifo();
    assert_eq!(fifo.open_named(WRITE_NOW).err(), Some(Errno::ENXIO));
    let reader = fifo.open_named(READ_NOW).unwrap();
    assert_eq!(reader.try_read(&mut [0]), Ok(0));
    assert_eq!(reader.events(), Events::empty());
    let writer = fifo.open_named(WRITE_NOW).unwrap();
    assert_eq!(reader.try_read(&mut [0]), Err(Errno::EAGAIN));
    assert_eq!(writer.events(), Events::WRITABLE);
    drop(writer);
    assert_eq!(reader.events(), Events::HUP);
    let _writer = fifo.open_named(WRITE_NOW).unwrap();
    assert_eq!(reader.events(), Events::empty());
}

#[test]
fn an_end_for_both_never_waits_and_never_sees_end_of_file() {
    let fifo = fifo();
    let both = fifo.open_named(OpenFlags::RDWR).unwrap();
    assert_eq!(both.try_read(&mut [0]), Err(Errno::EAGAIN));
    assert_eq!(both.write(b"self"), Ok(4));
    assert_eq!(both.events(), Events::READABLE | Events::WRITABLE);
    assert_eq!(both.read(&mut [0; 8]), Ok(4));
}

#[test]
fn unread_bytes_stay_as_long_as_an_end_is_open() {
    let fifo = fifo();
    let reader = fifo.open_named(READ_NOW).unwrap();
    let writer = fifo.open_named(WRITE_NOW).unwrap();
    writer.write(b"left").unwrap();
    drop(reader);
    let reader = fifo.open_named(READ_NOW).unwrap();
    assert_eq!(reader.read(&mut [0; 8]), Ok(4));
    writer.write(b"lost").unwrap();
    drop((reader, writer));
    let reader = fifo.open_named(READ_NOW).unwrap();
    assert_eq!(reader.read(&mut [0; 8]), Ok(0));
}

#[test]
fn an_end_of_one_direction_refuses_the_other() {
    let fifo = fifo();
    let reader = fifo.open_named(READ_NOW).unwrap();
    let writer = fifo.open_named(WRITE_NOW).unwrap();
    assert_eq!(reader.write(b"x"), Err(Errno::EBADF));
    assert_eq!(reader.try_write(b"x"), Err(Errno::EBADF));
    assert_eq!(writer.read(&mut [0]), Err(Errno::EBADF));
    assert_eq!(writer.try_read(&mut [0]), Err(Errno::EBADF));
}

#[test]
fn a_revoked_end_returns_eio_also_to_sleepers_and_the_others_go_on() {
    let fifo = fifo();
    let (one, other) = (
        fifo.open_named(READ_NOW).unwrap(),
        fifo.open_named(READ_NOW).unwrap(),
    );
    let writer = fifo.open_named(WRITE_NOW).unwrap();
    let sleeping = one.clone();
    let read = Call::start_waiting(move || sleeping.read(&mut [0; 8]));
    assert!(FileRef::revoke(&one));
    assert_eq!(read.result(), Err(Errno::EIO));
    writer.write(b"more").unwrap();
    assert_eq!(one.try_read(&mut [0; 8]), Err(Errno::EIO));
    assert_eq!(other.read(&mut [0; 8]), Ok(4));
    drop(one);
    assert_eq!(writer.write(b"more"), Ok(4));
}

#[test]
fn an_invalid_access_mode_is_refused() {
    assert_eq!(
        fifo().open_named(OpenFlags::ACCMODE).err(),
        Some(Errno::EINVAL)
    );
}

/// Openers of both directions come and go, and none is left waiting.
#[test]
fn no_opener_is_left_waiting() {
    let body = || {
        let fifo = fifo();
        std::thread::scope(|scope| {
            for flags in [OpenFlags::RDONLY, OpenFlags::WRONLY] {
                let fifo = &fifo;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        drop(fifo.open_named(flags).unwrap());
                    }
                    // Lets in all that come later.
                    std::mem::forget(fifo.open_named(OpenFlags::RDWR).unwrap());
                });
            }
        });
    };
    within_time(body);
}

/// Asks its pollee for events each time that it is notified.
struct Looks(Arc<dyn Pollee>, Arc<Mutex<Vec<Events>>>);

impl Watcher for Looks {
    fn wake(&self, _events: Events) {
        self.1.lock().push(self.0.events());
    }
}

#[test]
fn a_watcher_may_ask_for_events_when_an_end_closes() {
    within_time(|| {
        let fifo = fifo();
        let reader = fifo.open_named(READ_NOW).unwrap();
        let writer = fifo.open_named(WRITE_NOW).unwrap();
        let seen = Arc::default();
        let pollee = reader.pollee().unwrap();
        let looks: Arc<dyn Watcher> = Arc::new(Looks(Arc::clone(&pollee), Arc::clone(&seen)));
        pollee.watch(&looks, Events::IN, None);
        drop(writer);
        assert_eq!(*seen.lock(), [Events::HUP]);
        drop(fifo.open_named(WRITE_NOW).unwrap());
        FileRef::revoke(&reader);
        assert!(seen.lock().last().unwrap().contains(Events::ERR));
    });
}
