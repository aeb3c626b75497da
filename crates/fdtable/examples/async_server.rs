//! An async server whose connections are descriptors. It answers each line in capitals.
//!
//! It shows two accept loops on a table that is full. The public one keeps a spare descriptor, so
//! it can accept a client and say that the server is busy. The patient one leaves a client waiting
//! until `poll_until_free` reports a free descriptor. Tasks hold owned references across an await;
//! the executor requires futures that are `Send`, so one that held a read-side section there would
//! not compile. `main` has the clients, and checks what they receive.
//!
//! The executor is a queue of a few lines, since all that a table needs of one is its waker.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use fdtable::{Error, Fd, FdFlags, FileRef, Files};

/// The tasks that are ready to run, on one thread.
#[derive(Clone, Default)]
struct Executor(Arc<Mutex<VecDeque<Arc<Task>>>>);

/// A task, until it has ended, and where it runs.
struct Task(Mutex<Option<Work>>, Executor);
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.clone().0.lock().unwrap().push_back(self);
    }
}

impl Executor {
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let work: Work = Box::pin(future);
        Arc::new(Task(Mutex::new(Some(work)), self.clone())).wake();
    }
    fn next(&self) -> Option<Arc<Task>> {
        self.0.lock().unwrap().pop_front()
    }
    /// Runs until each task has ended or waits.
    fn run(&self) {
        while let Some(task) = self.next() {
            let waker = Waker::from(task.clone());
            let mut work = task.0.lock().unwrap();
            let poll = |it: &mut Work| it.as_mut().poll(&mut Context::from_waker(&waker));
            if work.as_mut().map(poll) == Some(Poll::Ready(())) {
                *work = None;
            }
        }
    }
}

/// A queue of messages for one task, and its waker. No message is the end.
struct Channel<M>(Mutex<(VecDeque<Option<M>>, Waker)>);

impl<M> Channel<M> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((VecDeque::new(), Waker::noop().clone()))))
    }
    fn send(&self, message: Option<M>) {
        let mut state = self.0.lock().unwrap();
        state.0.push_back(message);
        state.1.wake_by_ref();
    }
    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<M>> {
        let mut state = self.0.lock().unwrap();
        state.1.clone_from(context.waker());
        state.0.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
    async fn receive(&self) -> Option<M> {
        poll_fn(|context| self.poll(context)).await
    }
}

/// One side of a connection in memory: the object that a descriptor refers to.
struct Connection {
    input: Arc<Channel<String>>,
    output: Arc<Channel<String>>,
}

/// Connects a client: the server gets the other side.
fn connect(server: &Channel<Connection>) -> Connection {
    let (input, output) = (Channel::new(), Channel::new());
    let client = Connection {
        input: output.clone(),
        output: input.clone(),
    };
    server.send(Some(Connection { input, output }));
    client
}

struct Server {
    files: Files<Connection>,
    executor: Executor,
}

impl Server {
    /// Makes an open file. When its last reference is dropped, its hook ends the client's stream.
    fn file(connection: Connection) -> FileRef<Connection> {
        let file = FileRef::builder(connection);
        file.on_release(|it, _| it.output.send(None)).build()
    }

    async fn accept(self: Arc<Self>, clients: Arc<Channel<Connection>>) {
        let reserve = || self.files.reserve(FdFlags::CLOEXEC);
        // Kept for a client that comes when no other descriptor is free.
        let mut spare = reserve().ok();
        while let Some(client) = clients.receive().await {
            spare = spare.or_else(|| reserve().ok());
            let file = Self::file(client);
            if let Ok(free) = reserve() {
                self.executor.spawn(self.clone().serve(free.install(file)));
            } else if let Some(kept) = spare.take() {
                let refused = self.files.close(kept.install(file)).expect("just opened");
                refused.output.send(Some("busy".into()));
                // Keep the descriptor from others now, not only at the next client.
                spare = reserve().ok();
            }
            // Otherwise the file is dropped, and its hook ends the stream.
        }
    }

    async fn accept_patiently(self: Arc<Self>, clients: Arc<Channel<Connection>>) {
        while let Some(client) = clients.receive().await {
            // Not `open`, which would drop the client if no descriptor is free.
            let free = loop {
                match self.files.reserve(FdFlags::CLOEXEC) {
                    Err(Error::TooManyFiles) => {
                        let free = poll_fn(|context| self.files.poll_until_free(context));
                        free.await.expect("memory");
                    }
                    reserved => break reserved.expect("memory"),
                }
            };
            let fd = free.install(Self::file(client));
            self.executor.spawn(self.clone().serve(fd));
        }
    }

    async fn serve(self: Arc<Self>, fd: Fd) {
        let client = self.files.get(fd).expect("opened by the caller");
        while let Some(line) = client.input.receive().await {
            client.output.send(Some(line.to_uppercase()));
        }
        drop(client);
        drop(self.files.close(fd));
    }
}

pub(crate) fn main() {
    let (executor, public, patient) = (Executor::default(), Channel::new(), Channel::new());
    let server = Arc::new(Server {
        files: Files::with_limit(3), // Two clients, and the spare descriptor.
        executor: executor.clone(),
    });
    executor.spawn(server.clone().accept(public.clone()));
    executor.spawn(server.clone().accept_patiently(patient.clone()));
    executor.run();

    let sends = |client: &Connection, text: Option<&str>| {
        client.output.send(text.map(str::to_string));
        executor.run();
    };
    let receives = |client: &Connection, expected: Poll<Option<&str>>| {
        let line = client.input.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(line, expected.map(|it| it.map(str::to_string)));
    };
    let (ann, bob, late) = (connect(&public), connect(&public), connect(&public));
    let waiting = connect(&patient);
    sends(&ann, Some("hello"));
    receives(&ann, Poll::Ready(Some("HELLO")));
    receives(&late, Poll::Ready(Some("busy")));
    receives(&late, Poll::Ready(None));
    sends(&waiting, Some("at last"));
    receives(&waiting, Poll::Pending);
    sends(&ann, None); // Its descriptor is closed, which wakes the patient loop.
    receives(&ann, Poll::Ready(None));
    receives(&waiting, Poll::Ready(Some("AT LAST")));

    sends(&bob, None);
    sends(&waiting, None);
    sends(&waiting, Some("too late")); // Its task has ended.
    public.send(None);
    patient.send(None);
    executor.run();
    assert_eq!(server.files.open_count(), 0);
    assert_eq!(Arc::strong_count(&server), 1, "all tasks have ended");
    println!("async_server: one client was refused, one waited for a descriptor");
}
