//! Listening port of this process and the thread that serves it. A forked child does not inherit
//! either.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use mlprof_events::forking::Mutex;
use mlprof_events::own_thread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::connection::{self, Standing, StandingCell};
use super::profile::Captures;
use crate::descriptor::Descriptor;
use crate::service::recorded;

/// Maximum number of connections. A new connection beyond it replaces an older one.
const MOST_CONNECTIONS: usize = 16;

/// Id of the process that serves the port, or 0.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Descriptors that a forked child closes. If the child kept them open, no other process could use
/// the port, and clients would not notice the parent's end. The thread's other descriptors (an
/// event queue) are useless without these.
static LISTENER: Descriptor = Descriptor::none();
static CONNECTIONS: [Descriptor; MOST_CONNECTIONS] =
    [const { Descriptor::none() }; MOST_CONNECTIONS];

/// Port that this process serves.
pub(super) struct Opened {
    pub(super) port: u16,
    pub(super) is_new: bool,
}

fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Binds the port and starts the serving thread, unless this process already serves a port.
pub(super) fn listen(port: u16) -> io::Result<Opened> {
    /// The bound port.
    static LISTENING: Mutex<u16> = Mutex::new(0);
    let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(Opened { port: *listening, is_new: false });
    }
    // The server listens only on this address, because any client that can connect may start a
    // capture.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let number = listener.as_raw_fd();
    own_thread::spawn("mlprof-capture", move || serve(&runtime, listener))?;
    LISTENER.set(number);
    static AT_END: Once = Once::new();
    AT_END.call_once(|| {
        // SAFETY: both handlers are `extern "C"` functions of this library and stay valid while it
        // is loaded. `forked` only uses atomics and system calls, as required in a forked child.
        // Both registrations fail only if memory is exhausted. A child then keeps the port open,
        // and a capture is lost when the process ends.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    });
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    *listening = port;
    Ok(Opened { port, is_new: true })
}

/// Delivers the running capture to its client before the process ends.
extern "C" fn exiting() {
    if is_of_this_process() {
        recorded::deliver_at_exit();
    }
}

/// Closes the inherited descriptors in a forked child, which only has the forking thread.
extern "C" fn forked() {
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
    CONNECTIONS.iter().for_each(Descriptor::close_in_child);
}

fn serve(runtime: &Runtime, listener: TcpListener) {
    runtime.block_on(async {
        // The conversion fails only if resources are exhausted, and the port is then not served.
        let Ok(listener) = net::TcpListener::from_std(listener) else { return };
        let captures = Arc::new(Captures::default());
        let mut clients = Vec::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => welcome(stream, &captures, &mut clients).await,
                // The process may have reached its limit of open files, which is usually temporary.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
}

/// Connected client.
struct Client {
    standing: StandingCell,
    task: JoinHandle<()>,
}

/// Accepts a client. If all slots are taken, the oldest connection of the lowest standing is
/// closed. Clients send no password, so idle connections must not keep out a client that wants to
/// capture.
async fn welcome(stream: net::TcpStream, captures: &Arc<Captures>, clients: &mut Vec<Client>) {
    clients.retain(|client| !client.task.is_finished());
    if clients.len() >= MOST_CONNECTIONS {
        // `min_by_key` returns the first of equal elements, which is the oldest connection.
        let lowest = (0..clients.len()).min_by_key(|place| clients[*place].standing.get());
        let Some(lowest) = lowest.filter(|it| clients[*it].standing.get() < Standing::Captures)
        else {
            return;
        };
        let client = clients.remove(lowest);
        client.task.abort();
        // The aborted task must release its slot first.
        let _ = client.task.await;
    }
    if let Some(place) = Place::take(&stream) {
        // An answer consists of a few writes, which should not be delayed by Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        let stream = PlacedStream { place: Some(place), stream };
        let standing = StandingCell::default();
        let task = tokio::spawn(connection::serve(stream, captures.clone(), standing.clone()));
        clients.push(Client { standing, task });
    }
}

/// Connection with its slot.
struct PlacedStream {
    place: Option<Place>,
    stream: net::TcpStream,
}

impl Drop for PlacedStream {
    /// Releases the slot before the connection is closed. After that the descriptor number may
    /// belong to another file, which a forked child must not close.
    fn drop(&mut self) {
        drop(self.place.take());
    }
}

impl AsyncRead for PlacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PlacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Index of a connection slot.
struct Place(usize);

impl Place {
    fn take(stream: &net::TcpStream) -> Option<Self> {
        let number = stream.as_raw_fd();
        CONNECTIONS.iter().position(|place| place.set_if_none(number)).map(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CONNECTIONS[self.0].take();
    }
}
