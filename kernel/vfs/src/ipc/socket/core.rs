//! The state of a socket apart from its open file: addresses, connection, receive queue.
//!
//! The open file holds the core, and so does a thread that has looked it up by its address or waits
//! to connect. Each core has a [`Queue`] of its own from the start. A connected core has a [`Link`]
//! to the queue of its peer, which is made once and read without a lock. A datagram socket has a
//! *partner* instead, which may change.
//!
//! The connecting side makes a connection: it makes the other end, an *embryo*, which waits in the
//! listener until it is accepted. Both ends can send before that.
//!
//! No thread holds the states of two sockets.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::{Mutex, OnceCell};

use super::address::{Name, SocketAddress};
use super::ancillary::Ucred;
use super::in_flight::{Holder, Mailbox, Rights};
use super::options::Options;
use super::queue::Queue;
use super::recv_queue::{RecvQueue, Sender};
use super::{Namespace, Shutdown, SocketType};
use crate::event::{self, Events, Limit, Sleeper, WaitQueue, Wakeups, Watcher};
use crate::fs::fresh_inode;
use crate::ipc::buffer::{Half, Side};
use crate::{Errno, RcuObject};

/// Most connections that may wait in a listener: 4,096, as `net.core.somaxconn` of Linux.
pub const MAX_BACKLOG: usize = 4096;

/// Socket without its open file.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) kind: SocketType,
    pub(super) namespace: Arc<Namespace>,
    /// Credentials of the process that made it.
    pub(super) maker: Ucred,
    pub(super) incoming: Queue,
    /// Identity of `incoming`, for files in flight.
    mailbox: Mailbox,
    pub(super) link: OnceCell<Link>,
    pub(super) name: Name,
    pub(super) options: Options,
    cookie: OnceCell<u64>,
    /// State of the open file.
    pub(super) file_state: AtomicCell<Side>,
    pub(super) state: Mutex<State>,
}

/// Link to the peer of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) outgoing: Queue,
    pub(super) mailbox: Mailbox,
    pub(super) name: Name,
    /// Credentials of the peer's maker.
    pub(super) credentials: Ucred,
}

#[derive(Debug)]
pub(super) struct State {
    phase: Phase,
    /// Abstract name, to be freed at the end.
    held: Option<Vec<u8>>,
    /// Credentials of the maker, of a datagram socket that was made as one of a pair.
    pair: Option<Ucred>,
    /// Peer of a datagram socket.
    pub(super) partner: Option<Partner>,
    /// Writing was shut down before there was a peer.
    pub(super) shut: bool,
    /// Waiters for a connection, and the watchers while there is none.
    pub(super) changes: WaitQueue,
    /// Waiters for room in the backlog.
    connectors: WaitQueue,
    /// Threads that wait at another socket to connect this one, or to send from it.
    away: WaitQueue,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Connecting,
    Connected,
    Listening {
        pending: VecDeque<Arc<Core>>,
        backlog: usize,
        credentials: Ucred,
    },
    Ended,
}

impl State {
    /// Returns the credentials that a socket shows as those of its peer without a connection: of
    /// the maker of its pair, or of the last caller of `listen`.
    pub(super) fn peer_credentials(&self) -> Option<Ucred> {
        match self.phase {
            Phase::Listening { credentials, .. } => Some(credentials),
            _ => self.pair,
        }
    }
}

/// Default destination of a datagram socket, and its only source.
#[derive(Clone, Debug)]
pub(super) struct Partner {
    pub(super) core: Weak<Core>,
    pub(super) recv_queue: Arc<RecvQueue>,
    pub(super) mailbox: Mailbox,
    pub(super) name: Name,
}

impl Partner {
    /// Calls `visit` with the wait queue of those that send to the partner, under its lock.
    pub(super) fn with_senders(&self, visit: &mut dyn FnMut(&mut WaitQueue)) {
        self.recv_queue.with_queue(Half::Write, visit);
    }
}

impl Core {
    pub(super) fn new(kind: SocketType, namespace: &Arc<Namespace>, maker: Ucred) -> Arc<Self> {
        Self::named(kind, namespace, maker, Name::default(), Mailbox::new())
    }

    fn named(
        kind: SocketType,
        namespace: &Arc<Namespace>,
        maker: Ucred,
        name: Name,
        mailbox: Mailbox,
    ) -> Arc<Self> {
        Arc::new(Core {
            kind,
            namespace: Arc::clone(namespace),
            maker,
            incoming: Queue::new(kind),
            mailbox,
            link: OnceCell::new(),
            name,
            options: Options::default(),
            cookie: OnceCell::new(),
            file_state: AtomicCell::new(Side::Open),
            state: Mutex::new(State {
                phase: Phase::Idle,
                held: None,
                pair: None,
                partner: None,
                shut: false,
                changes: WaitQueue::new(),
                connectors: WaitQueue::new(),
                away: WaitQueue::new(),
            }),
        })
    }

    /// Connects two new sockets of one process to each other.
    pub(super) fn join(one: &Arc<Core>, other: &Arc<Core>, credentials: Ucred) {
        for (near, far) in [(one, other), (other, one)] {
            if near.kind == SocketType::Datagram {
                let mut state = near.state.lock();
                state.partner = far.as_partner();
                state.pair = Some(credentials);
            } else {
                near.link_to(far, credentials);
                near.state.lock().phase = Phase::Connected;
            }
        }
    }

    fn link_to(&self, far: &Core, credentials: Ucred) {
        // Set once: by the maker, or in the phase `Connecting`, which only one thread enters.
        let link = self.link.get_or_init(|| Link {
            outgoing: far.incoming.clone(),
            mailbox: far.mailbox.clone(),
            name: Arc::clone(&far.name),
            credentials,
        });
        // After the link, so that a change of the option meanwhile is not lost.
        let passes = self.options.passes_credentials();
        link.outgoing.pass_to(Half::Write, passes);
    }

    /// Returns a number that no other socket has. The first call makes it.
    pub(super) fn cookie(&self) -> u64 {
        *self.cookie.get_or_init(fresh_inode)
    }

    /// Sets whether this socket gets credentials with messages.
    pub(super) fn pass_credentials(&self, passes: bool) {
        self.options.set_passes_credentials(passes);
        self.incoming.pass_to(Half::Read, passes);
        if let Some(link) = self.link.get() {
            link.outgoing.pass_to(Half::Write, passes);
        }
    }

    fn as_partner(self: &Arc<Self>) -> Option<Partner> {
        let Queue::Messages(recv_queue) = &self.incoming else {
            return None;
        };
        Some(Partner {
            core: Arc::downgrade(self),
            recv_queue: Arc::clone(recv_queue),
            mailbox: self.mailbox.clone(),
            name: Arc::clone(&self.name),
        })
    }

    /// Sets the address of the socket.
    ///
    /// # Errors
    /// `EINVAL` if it has one.
    pub(super) fn set_name(&self, address: SocketAddress) -> Result<(), Errno> {
        self.name.set(Arc::new(address)).map_err(|_| Errno::EINVAL)
    }

    /// Binds the socket to a name in the abstract namespace; without a name, to a free one, unless
    /// it has an address.
    pub(super) fn bind(self: &Arc<Self>, name: Option<&[u8]>) -> Result<(), Errno> {
        let mut state = self.state.lock();
        self.file_state.load().check()?;
        let held = match (name, self.name.get()) {
            (Some(_), Some(_)) => return Err(Errno::EINVAL),
            (None, Some(_)) => return Ok(()),
            (Some(name), None) => self.namespace.bind(name, self).map(|()| name.to_vec())?,
            (None, None) => self.namespace.bind_automatically(self)?,
        };
        let named = self.set_name(SocketAddress::Abstract(held.clone()));
        if named.is_err() {
            self.namespace.unbind(self.kind, held);
            return named;
        }
        state.held = Some(held);
        Ok(())
    }

    /// Returns true if it has no address, no peer, no waiter and no watcher.
    pub(super) fn is_unused(&self) -> bool {
        let state = self.state.lock();
        // While there is no peer, each watcher is among those of changes.
        matches!(state.phase, Phase::Idle)
            && state.partner.is_none()
            && !state.shut
            && state.changes.is_empty()
            && self.name.get().is_none()
            && self.incoming.weight() == 0
    }

    /// Starts to listen, or changes the backlog.
    pub(super) fn listen(&self, backlog: usize, credentials: Ucred) -> Result<(), Errno> {
        if self.kind == SocketType::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        self.file_state.load().check()?;
        let _woken;
        let mut state = self.state.lock();
        if self.name.get().is_none() {
            return Err(Errno::EINVAL);
        }
        match &mut state.phase {
            Phase::Idle => {
                state.phase = Phase::Listening {
                    pending: VecDeque::new(),
                    backlog,
                    credentials,
                };
            }
            Phase::Listening {
                backlog: old_backlog,
                credentials: old_credentials,
                ..
            } => (*old_backlog, *old_credentials) = (backlog, credentials),
            _ => return Err(Errno::EINVAL),
        }
        _woken = state.connectors.wake_all(Events::OUT);
        Ok(())
    }

    pub(super) fn is_listening(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Listening { .. })
    }

    /// Accepts a pending connection. Waits for one as `policy` says.
    pub(super) fn accept(&self, policy: Limit) -> Result<Arc<Core>, Errno> {
        if self.kind == SocketType::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut wakeups = Wakeups::default();
        let accepted = event::wait(
            &self.state,
            |state| &mut state.changes,
            Events::IN,
            policy,
            |state| self.try_accept(state, &mut wakeups),
        );
        match accepted {
            // A call that does not wait does not see that none will come, as on Linux.
            Ok(None) if policy == Limit::NOW => Err(Errno::EAGAIN),
            accepted => accepted?.ok_or(Errno::EINVAL),
        }
    }

    /// Takes a pending connection, or `Ok(None)` if none will come. Returns nothing if the caller
    /// has to wait.
    fn try_accept(
        &self,
        state: &mut State,
        wakeups: &mut Wakeups,
    ) -> Option<Result<Option<Arc<Core>>, Errno>> {
        if let Err(errno) = self.file_state.load().check() {
            return Some(Err(errno));
        }
        let Phase::Listening { pending, .. } = &mut state.phase else {
            return Some(Err(Errno::EINVAL));
        };
        let Some(embryo) = pending.pop_front() else {
            return self.incoming.is_ended().then_some(Ok(None));
        };
        if !pending.is_empty() {
            wakeups.append(state.changes.pass_on(Events::IN));
        }
        wakeups.append(state.connectors.wake(Events::OUT));
        embryo.mailbox.accept();
        Some(Ok(Some(embryo)))
    }

    /// Connects to a listener. Waits for room in its backlog.
    pub(super) fn connect_stream(
        self: &Arc<Self>,
        listener: &Core,
        credentials: Ucred,
        policy: Limit,
    ) -> Result<(), Errno> {
        // Checked before the state of this socket, as on Linux.
        if !listener.is_listening() || listener.incoming.is_ended() {
            return Err(Errno::ECONNREFUSED);
        }
        self.begin_connecting()?;
        let mut wakeups = Wakeups::default();
        let connected = self.wait_elsewhere(|| {
            event::wait(
                &listener.state,
                |state| &mut state.connectors,
                Events::OUT,
                policy,
                |state| self.try_connect(listener, state, credentials, &mut wakeups),
            )
        });
        wakeups.run();
        self.end_connecting(connected.is_ok());
        connected
    }

    /// Runs a wait at another socket. The end of this socket wakes the thread there too: its
    /// attempts check the [file state](Self::file_state), which is set before that wake-up.
    pub(super) fn wait_elsewhere<R>(&self, wait: impl FnOnce() -> R) -> R {
        let me: Arc<dyn Watcher> = Sleeper::current();
        let ticket = self.state.lock().away.sleep_on(me, Events::ERR);
        let outcome = wait();
        self.state.lock().away.leave(ticket);
        outcome
    }

    fn begin_connecting(&self) -> Result<(), Errno> {
        self.file_state.load().check()?;
        let mut state = self.state.lock();
        match state.phase {
            Phase::Idle => {
                state.phase = Phase::Connecting;
                Ok(())
            }
            Phase::Connecting => Err(Errno::EALREADY),
            Phase::Connected => Err(Errno::EISCONN),
            Phase::Listening { .. } => Err(Errno::EINVAL),
            Phase::Ended => Err(Errno::EBADF),
        }
    }

    fn try_connect(
        self: &Arc<Self>,
        listener: &Core,
        state: &mut State,
        credentials: Ucred,
        wakeups: &mut Wakeups,
    ) -> Option<Result<(), Errno>> {
        if let Err(errno) = self.file_state.load().check() {
            // It may have been the chosen one.
            wakeups.append(state.connectors.pass_on(Events::OUT));
            return Some(Err(errno));
        }
        let Phase::Listening {
            pending,
            backlog,
            credentials: listeners,
        } = &mut state.phase
        else {
            return Some(Err(Errno::ECONNREFUSED));
        };
        if listener.incoming.is_ended() {
            return Some(Err(Errno::ECONNREFUSED));
        }
        if pending.len() > *backlog {
            return None;
        }
        // The other end has the listener's address.
        let name = Arc::clone(&listener.name);
        let mailbox = Mailbox::pending(&listener.mailbox);
        let embryo = Core::named(self.kind, &self.namespace, *listeners, name, mailbox);
        if listener.options.passes_credentials() {
            embryo.pass_credentials(true);
        }
        embryo.link_to(self, credentials);
        embryo.state.lock().phase = Phase::Connected;
        self.link_to(&embryo, *listeners);
        pending.push_back(embryo);
        wakeups.append(state.changes.wake(Events::READABLE | Events::SIGNAL_IN));
        Some(Ok(()))
    }

    fn end_connecting(&self, connected: bool) {
        let mut state = self.state.lock();
        if let Phase::Connecting = state.phase {
            state.phase = if connected {
                Phase::Connected
            } else {
                Phase::Idle
            };
        }
        let Some(link) = self.link.get() else {
            return;
        };
        for (watcher, interest, file) in state.changes.watchers() {
            link.outgoing.with_queue(Half::Write, &mut |queue| {
                queue.watch(watcher, interest, file);
            });
        }
        let ended = state.shut || self.file_state.load() != Side::Open;
        drop(state);
        link.outgoing.set_capacity(self.options.send_buffer());
        if ended {
            link.outgoing.end_writer(Side::Shut);
        }
    }

    /// Sets or removes the partner of a datagram socket.
    pub(super) fn connect_datagram(
        self: &Arc<Self>,
        other: Option<&Arc<Core>>,
    ) -> Result<(), Errno> {
        self.file_state.load().check()?;
        if let Some(other) = other {
            self.may_send_to(other)?;
        }
        let partner = other.and_then(|other| other.as_partner());
        let mut state = self.state.lock();
        let old = std::mem::replace(&mut state.partner, partner);
        for (watcher, interest, file) in state.changes.watchers() {
            if let Some(old) = &old {
                old.with_senders(&mut |queue| queue.unwatch(watcher));
            }
            if let Some(new) = &state.partner {
                new.with_senders(&mut |queue| queue.watch(watcher, interest, file));
            }
        }
        let stays = |new: &Partner, old: &Partner| Arc::ptr_eq(&new.recv_queue, &old.recv_queue);
        let old = old.filter(|old| !state.partner.as_ref().is_some_and(|new| stays(new, old)));
        drop(state);
        if let Some(old) = old {
            self.leave(&old);
        }
        Ok(())
    }

    /// Discards what a former partner has sent. Sets its error if its partner is this socket (Linux
    /// `unix_dgram_disconnected`).
    fn leave(self: &Arc<Self>, old: &Partner) {
        let Queue::Messages(recv_queue) = &self.incoming else {
            return;
        };
        let lost = recv_queue.purge();
        let counts = |other: Arc<Core>| other.has_partner(self);
        if lost && old.core.upgrade().is_some_and(counts) {
            old.recv_queue.set_error(Errno::ECONNRESET);
        }
    }

    fn has_partner(&self, other: &Arc<Core>) -> bool {
        let state = self.state.lock();
        let is_other = |partner: &Partner| Weak::as_ptr(&partner.core) == Arc::as_ptr(other);
        state.partner.as_ref().is_some_and(is_other)
    }

    /// Returns whether this socket sends to another as its partner or as a stranger.
    ///
    /// # Errors
    /// `EPERM` if the other has another partner.
    pub(super) fn may_send_to(self: &Arc<Self>, other: &Core) -> Result<Sender, Errno> {
        if other.has_partner(self) {
            Ok(Sender::Partner)
        } else if other.state.lock().partner.is_none() {
            Ok(Sender::Stranger)
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Removes a partner that is closed, and discards what it has sent.
    pub(super) fn lose_partner(self: &Arc<Self>, recv_queue: &Arc<RecvQueue>) {
        let is_it = |partner: &mut Partner| Arc::ptr_eq(&partner.recv_queue, recv_queue);
        let lost = self.state.lock().partner.take_if(is_it);
        if let Some(lost) = lost {
            self.leave(&lost);
        }
    }

    /// Shuts down receiving, sending, or both. Sleepers wake.
    ///
    /// # Errors
    /// `EIO` if revoked.
    pub(crate) fn shut_down(&self, how: Shutdown) -> Result<(), Errno> {
        self.file_state.load().check()?;
        if how != Shutdown::Write {
            self.incoming.end_writer(Side::Shut);
        }
        let mut wakeups = Wakeups::default();
        let mut state = self.state.lock();
        if how != Shutdown::Read {
            state.shut = true;
        }
        wakeups.append(state.changes.wake_all(Events::READABLE | Events::HUP));
        wakeups.append(state.connectors.wake_all(Events::OUT));
        drop(state);
        if let (Some(link), true) = (self.link.get(), how != Shutdown::Read) {
            link.outgoing.end_writer(Side::Shut);
        }
        match how {
            Shutdown::Read => {}
            Shutdown::Write => self.signal_peer(Events::SIGNAL_IN),
            Shutdown::Both => self.signal_peer(Events::SIGNAL_HUP),
        }
        Ok(())
    }

    /// Notifies the watchers of the peer of a connection that send signals.
    fn signal_peer(&self, events: Events) {
        if let Some(link) = self.link.get()
            && self.kind != SocketType::Datagram
        {
            link.outgoing.signal_reader(events);
        }
    }

    /// Ends the socket: the open file is released, or revoked.
    pub(super) fn end(&self, file_state: Side) {
        self.file_state.store(file_state);
        let mut state = self.state.lock();
        let phase = std::mem::replace(&mut state.phase, Phase::Ended);
        let held = state.held.take();
        let accepting = state.changes.wake_all(Events::READABLE | Events::HUP);
        let connecting = state.connectors.wake_all(Events::OUT);
        let wakeups = accepting
            .and(connecting)
            .and(state.away.wake_all(Events::ERR));
        drop(state);
        wakeups.run();
        if let Some(name) = held {
            self.namespace.unbind(self.kind, name);
        }
        self.end_queues(file_state);
        self.signal_peer(Events::SIGNAL_HUP);
        if let Phase::Listening { pending, .. } = phase {
            pending.iter().for_each(|embryo| embryo.end_embryo());
        }
        self.namespace.in_flight.collect_after_release();
    }

    fn end_queues(&self, file_state: Side) {
        let unread = self.incoming.end_reader(file_state);
        let Some(link) = self.link.get() else {
            return;
        };
        if unread {
            link.outgoing.set_error(Errno::ECONNRESET);
        }
        link.outgoing.end_writer(file_state);
    }

    /// Ends a connection that was never accepted.
    fn end_embryo(&self) {
        self.file_state.store(Side::Closed);
        if let Some(link) = self.link.get() {
            link.outgoing.set_error(Errno::ECONNRESET);
        }
        self.end_queues(Side::Closed);
    }

    /// Returns the events of the socket.
    pub(super) fn ready(&self) -> Events {
        let mut events = self.ready_but_for_band();
        events.set(Events::WRBAND, events.contains(Events::WRNORM));
        events
    }

    fn ready_but_for_band(&self) -> Events {
        let state = self.state.lock();
        let mut events = self.incoming.reader_events() & (Events::READABLE | Events::ERR);
        let ended = self.incoming.is_ended();
        if let Phase::Listening { pending, .. } = &state.phase {
            events.set(Events::READABLE, ended || !pending.is_empty());
            events.set(Events::RDHUP, ended);
            events.set(Events::HUP, ended && state.shut);
            return events;
        }
        if ended {
            events |= Events::READABLE | Events::RDHUP;
        }
        let partner = state.partner.clone();
        let shut = state.shut;
        drop(state);
        if self.kind == SocketType::Datagram {
            events.set(Events::HUP, ended && shut);
            events.set(Events::WRITABLE, self.can_send_to(partner));
        } else if let Some(link) = self.link.get() {
            events.set(Events::HUP, ended && link.outgoing.is_ended());
            events.set(Events::WRITABLE, link.outgoing.is_writable());
        } else {
            events |= Events::HUP | Events::WRITABLE;
        }
        events
    }

    /// Returns how many bytes can be read: of datagrams, those of the first one, as on Linux.
    ///
    /// # Errors
    /// `EINVAL` if it listens.
    pub(super) fn readable_bytes(&self) -> Result<usize, Errno> {
        match &self.incoming {
            _ if self.is_listening() => Err(Errno::EINVAL),
            Queue::Messages(recv_queue) if self.kind == SocketType::SeqPacket => {
                Ok(recv_queue.unread_bytes())
            }
            queue => Ok(queue.readable_bytes()),
        }
    }

    /// Returns true if a datagram to the partner would not block. To any other socket it is
    /// assumed.
    fn can_send_to(&self, partner: Option<Partner>) -> bool {
        partner.is_none_or(|partner| {
            let is_mine = |other: Arc<Core>| {
                let theirs = other.state.lock().partner.clone();
                theirs.is_some_and(|theirs| std::ptr::eq(Weak::as_ptr(&theirs.core), self))
            };
            let sender = match partner.core.upgrade().is_some_and(is_mine) {
                true => Sender::Partner,
                false => Sender::Stranger,
            };
            partner.recv_queue.is_writable(sender)
        })
    }
}

impl Holder<RcuObject> for Core {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Includes the pending connections in it.
    fn take_files(&self, taken: &mut Vec<Rights>) {
        self.incoming.take_rights(taken);
        if let Phase::Listening { pending, .. } = &self.state.lock().phase {
            for embryo in pending {
                embryo.incoming.take_rights(taken);
            }
        }
    }
}
