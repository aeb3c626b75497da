//! If the list is wrong, a waiter sleeps on though a member is ready.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use fdtable_shm::Mutex;

use crate::event::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use crate::event::{Events, FileId, Pollee, Watcher};
use crate::object::file;
use crate::{Object, OpenFlags};

/// A file that is ready, and answers only when it is allowed to.
struct Slow(Arc<Answers>);

struct Answers {
    tell_asked: Sender<()>,
    hear_let: Mutex<Receiver<()>>,
}

impl Pollee for Answers {
    fn events(&self) -> Events {
        self.tell_asked.send(()).expect("the receiver exists");
        self.hear_let.lock().recv().expect("the sender exists");
        Events::IN
    }

    fn watch(&self, _watcher: &Arc<dyn Watcher>, _interest: Events, _file: Option<FileId>) {}

    fn unwatch(&self, _watcher: &Arc<dyn Watcher>) {}

    fn forget(&self, _file: FileId) {}
}

impl Object for Slow {
    fn status(&self) -> OpenFlags {
        OpenFlags::RDONLY
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.0) as Arc<dyn Pollee>)
    }
}

/// One thread polls the set, and has its only member in hand; another finds the list empty.
#[test]
fn a_waiter_that_finds_the_list_empty_during_a_poll_is_woken_after_it() {
    let (tell_asked, hear_asked) = channel();
    let (tell_let, hear_let) = channel();
    let (tell_awake, hear_awake) = channel();
    let hear_let = Mutex::new(hear_let);
    let answers = Answers {
        tell_asked,
        hear_let,
    };
    let epoll = Arc::new(Epoll::new(EpollCreateFlags::empty()));
    let slow = file(Slow(Arc::new(answers))).expect("memory");
    tell_let.send(()).expect("the receiver exists");
    let event = EpollEvent::new(EpollFlags::IN, 0);
    epoll.add(0, &slow, event).expect("no member yet");
    hear_asked.recv().expect("it was asked when it joined");

    let (watched, waited_for) = (Arc::clone(&epoll), Arc::clone(&epoll));
    let looks = thread::spawn(move || watched.events());
    hear_asked.recv().expect("it is asked");
    // Not joined: it may sleep forever. It has collected, and found nothing, before the poll ends.
    thread::spawn(move || {
        waited_for.set.sleep(None).unwrap();
        tell_awake.send(()).expect("the receiver exists");
    });
    thread::sleep(Duration::from_millis(50));
    tell_let.send(()).expect("the receiver exists");
    assert_eq!(looks.join().expect("it ends"), Events::READABLE);
    let awake = hear_awake.recv_timeout(Duration::from_secs(5));
    awake.expect("the member is in the list again");
}
