//! If a set is wrong inside, memory grows, or files notify it forever.

use super::*;
use crossbeam_utils::atomic::AtomicCell;

use crate::OpenFlags;
use crate::call::Call;
use crate::event::{EventFd, EventFdFlags};
use crate::object::file;

fn always_ready() -> FileRef<RcuObject> {
    file(EventFd::new(1, EventFdFlags::empty()).unwrap()).unwrap()
}

fn epoll() -> Epoll {
    Epoll::new(EpollCreateFlags::empty())
}

fn asked() -> EpollEvent {
    EpollEvent::new(EpollFlags::IN, 0)
}

#[test]
fn removed_members_do_not_fill_a_set_without_waiters() {
    let epoll = epoll();
    for fd in 0..1000 {
        let file = always_ready();
        epoll.add(fd, &file, asked()).unwrap();
        match fd % 2 {
            0 => epoll.delete(fd, &file).unwrap(),
            _ => drop(file),
        }
        assert!(epoll.set.interests.is_empty());
    }
    let stays = always_ready();
    epoll.add(0, &stays, asked()).unwrap();
    assert_eq!(
        epoll.members(),
        [(0, EpollEvent::new(asked().events | EpollFlags::ALWAYS, 0))]
    );
    let mut events = [EpollEvent::default(); 4];
    assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)), Ok(1));
}

#[test]
fn a_dropped_set_is_not_kept_by_its_files() {
    let stays = always_ready();
    let epoll = epoll();
    epoll.add(0, &stays, asked()).unwrap();
    let set = Arc::downgrade(&epoll.set);
    drop(epoll);
    assert!(set.upgrade().is_none(), "the file still refers to an item");
}

/// File that is always ready, and calls a closure each time that it is asked.
struct Asked(Arc<dyn Fn() + Send + Sync>);

impl Object for Asked {
    fn status(&self) -> OpenFlags {
        OpenFlags::RDWR
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::new(Asked(Arc::clone(&self.0))))
    }
}

impl Pollee for Asked {
    fn events(&self) -> Events {
        (self.0)();
        Events::IN
    }

    fn watch(&self, _watcher: &Arc<dyn Watcher>, _interest: Events, _file: Option<FileId>) {}

    fn unwatch(&self, _watcher: &Arc<dyn Watcher>) {}

    fn forget(&self, _file: FileId) {}
}

#[test]
fn a_waiter_that_falls_asleep_during_a_poll_of_the_set_is_woken() {
    let epoll = epoll();
    let waiting = Arc::new(Mutex::new(None));
    let (set, started) = (Arc::clone(&epoll.set), Arc::clone(&waiting));
    let look = Arc::new(AtomicCell::new(false));
    let during = Arc::clone(&look);
    let member = file(Asked(Arc::new(move || {
        if during.take() {
            let set = Arc::clone(&set);
            *started.lock() = Some(Call::start_waiting(move || set.sleep(None)));
        }
    })));
    epoll.add(0, &member.unwrap(), asked()).unwrap();
    look.store(true);
    assert_eq!(Object::events(&epoll), Events::READABLE);
    waiting.lock().take().unwrap().result().unwrap();
}
