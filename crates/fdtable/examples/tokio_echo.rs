//! An echo server on tokio whose connections are descriptors.
//!
//! The table is the limit of the server: the accept loop reserves a descriptor first, and only then
//! accepts. While none is free it waits by `poll_until_free`, and clients wait in the listener's
//! queue. A task holds an owned reservation, or an owned reference, across an await, never a
//! read-side section. `main` has the clients, and checks what they receive.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fdtable::{Error, Fd, FdFlags, FileRef, Files, Reservation};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

/// Object of a descriptor. Several tasks may use one at the same time.
trait File: Send + Sync {
    fn poll_read(&self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    fn poll_write(&self, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>>;
}

impl File for TcpStream {
    fn poll_read(&self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_read_ready(context))?;
            match self.try_read(into.initialize_unfilled()) {
                Ok(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_write(&self, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(context))?;
            match self.try_write(from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

/// A reference to an open file, as tokio's own functions want it.
struct Stream(FileRef<dyn File>);

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Table = Arc<Files<dyn File>>;

/// Waits for a descriptor.
async fn reserve(files: &Table) -> Result<Reservation<'_, dyn File>, Error> {
    loop {
        match files.reserve(FdFlags::CLOEXEC) {
            Err(Error::TooManyFiles) => poll_fn(|context| files.poll_until_free(context)).await?,
            reserved => return reserved,
        }
    }
}

async fn accept(files: Table, listener: TcpListener, clients: usize) -> io::Result<()> {
    for _ in 0..clients {
        let reserved = reserve(&files).await?;
        let (stream, _) = listener.accept().await?;
        let fd = reserved.install(FileRef::new_dyn(stream, |it| it));
        assert!(files.open_count() <= 2, "no more than the table allows");
        tokio::spawn(echo(files.clone(), fd));
    }
    Ok(())
}

/// Sends a client what it has sent, and closes the descriptor.
async fn echo(files: Table, fd: Fd) -> io::Result<()> {
    let file = files.get(fd)?;
    let (mut from, mut to) = (Stream(file.clone()), Stream(file));
    let copied = tokio::io::copy(&mut from, &mut to).await;
    // With these and the table's, the last reference goes, and the connection ends.
    drop((from, to));
    drop(files.close(fd)?);
    copied.map(drop)
}

async fn run() -> io::Result<()> {
    const CLIENTS: usize = 8;
    let files: Table = Arc::new(Files::with_limit(2));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(accept(files.clone(), listener, CLIENTS));
    let client = |nth: usize| async move {
        let mut stream = TcpStream::connect(address).await?;
        let sent = format!("client {nth}");
        stream.write_all(sent.as_bytes()).await?;
        stream.shutdown().await?;
        let mut received = String::new();
        stream.read_to_string(&mut received).await?;
        assert_eq!(received, sent);
        io::Result::Ok(())
    };
    let clients: Vec<_> = (0..CLIENTS).map(|nth| tokio::spawn(client(nth))).collect();
    for client in clients {
        client.await??;
    }
    server.await??;
    println!("tokio_echo: {CLIENTS} clients were served, two at a time");
    Ok(())
}

pub(crate) fn main() {
    let runtime = runtime::Builder::new_current_thread().enable_io().build();
    let done = runtime.and_then(|runtime| runtime.block_on(run()));
    done.expect("the host has a loopback interface");
}
