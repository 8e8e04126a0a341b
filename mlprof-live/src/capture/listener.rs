//! The port of this process, and the thread that answers there: none of a forked child's.

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

/// So many may be connected at once. For whoever comes then another one goes.
const MOST_CONNECTIONS: usize = 16;

/// The process that answers; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What a forked child has to close: as long as it has them open, nobody else can have the port, nor sees that its
/// parent is gone. What else the thread has open (a queue of events) leads nowhere without them.
static LISTENER: Descriptor = Descriptor::none();
static CONNECTIONS: [Descriptor; MOST_CONNECTIONS] =
    [const { Descriptor::none() }; MOST_CONNECTIONS];

/// A port that this process answers at.
pub(super) struct Opened {
    pub(super) port: u16,
    pub(super) is_new: bool,
}

fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Takes the port, if this process has none, and starts the thread that answers there.
pub(super) fn listen(port: u16) -> io::Result<Opened> {
    /// The port that was taken.
    static LISTENING: Mutex<u16> = Mutex::new(0);
    let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(Opened { port: *listening, is_new: false });
    }
    // Never another address than this: whoever can connect may capture.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let number = listener.as_raw_fd();
    own_thread::spawn("mlprof-capture", move || serve(&runtime, listener))?;
    LISTENER.set(number);
    static AT_END: Once = Once::new();
    AT_END.call_once(|| {
        // SAFETY: the functions do only what may be done there, and are there as long as the library is. They fail only
        // without memory: then a child keeps the port open, and a capture is lost with the process.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    });
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    *listening = port;
    Ok(Opened { port, is_new: true })
}

/// Whoever captures gets what there is.
extern "C" fn exiting() {
    if is_of_this_process() {
        recorded::deliver_at_exit();
    }
}

/// In a child, which has only the thread that forked.
extern "C" fn forked() {
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
    CONNECTIONS.iter().for_each(Descriptor::close_in_child);
}

fn serve(runtime: &Runtime, listener: TcpListener) {
    runtime.block_on(async {
        // It fails without memory only: then nobody answers.
        let Ok(listener) = net::TcpListener::from_std(listener) else { return };
        let captures = Arc::new(Captures::default());
        let mut clients = Vec::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => welcome(stream, &captures, &mut clients).await,
                // There may be no more files to be opened: that passes.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
}

/// A client that is connected.
struct Client {
    standing: StandingCell,
    task: JoinHandle<()>,
}

/// Somebody has connected. If all places are taken, the oldest connection of the lowest standing is
/// closed: clients send no password, so those that hold connections must not keep out those that
/// come to capture.
async fn welcome(stream: net::TcpStream, captures: &Arc<Captures>, clients: &mut Vec<Client>) {
    clients.retain(|client| !client.task.is_finished());
    if clients.len() >= MOST_CONNECTIONS {
        // The first of those that are equal: the oldest.
        let lowest = (0..clients.len()).min_by_key(|place| clients[*place].standing.get());
        let Some(lowest) = lowest.filter(|it| clients[*it].standing.get() < Standing::Captures)
        else {
            return;
        };
        let client = clients.remove(lowest);
        client.task.abort();
        // Until it has given its place back.
        let _ = client.task.await;
    }
    if let Some(place) = Place::take(&stream) {
        // An answer is a few writes, of which none waits for another.
        let _ = stream.set_nodelay(true);
        let stream = PlacedStream { place: Some(place), stream };
        let standing = StandingCell::default();
        let task = tokio::spawn(connection::serve(stream, captures.clone(), standing.clone()));
        clients.push(Client { standing, task });
    }
}

/// A connection and its place.
struct PlacedStream {
    place: Option<Place>,
    stream: net::TcpStream,
}

impl Drop for PlacedStream {
    /// Before the connection is closed: its number may be that of another file from then on, which no child may close.
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

/// One of the connections that there may be.
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
