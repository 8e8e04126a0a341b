//! Serves one client with HTTP/2, within fixed limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::call::{self, CallCounts, PATIENCE};
use super::profile::Captures;

/// Maximum time that a client may stay connected without a valid request.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Interval at which the connection is checked again while requests are active.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent requests per client.
const MOST_REQUESTS: u32 = 8;

/// Maximum size of a request's headers in bytes.
const LONGEST_HEADERS: u32 = 16 << 10;

/// Maximum number of answer bytes in the send buffer.
const MOST_KEPT: usize = 1 << 20;

/// Bidirectional byte stream of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Priority of a client, based on its behaviour so far. When all connection slots are taken, the
/// oldest connection with the lowest standing is closed for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Standing {
    /// The HTTP/2 handshake is not complete.
    Connected,
    /// The client has not sent a valid request.
    Silent,
    /// The client has sent a valid request.
    Client,
    /// The client has an active capture. Only one client at a time has this standing, so another
    /// connection can always be closed.
    Captures,
}

/// Shared standing of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct StandingCell {
    reached: Arc<AtomicU8>,
    calls: Arc<CallCounts>,
}

impl StandingCell {
    pub(super) fn get(&self) -> Standing {
        match self.reached.load(Ordering::SeqCst) {
            _ if self.calls.captures.load(Ordering::SeqCst) > 0 => Standing::Captures,
            0 => Standing::Connected,
            1 => Standing::Silent,
            _ => Standing::Client,
        }
    }

    fn raise(&self, to: Standing) {
        self.reached.fetch_max(to as u8, Ordering::SeqCst);
    }

    fn is_answered(&self) -> bool {
        self.calls.answered.load(Ordering::SeqCst) > 0
    }
}

/// Serves a client until it disconnects, violates the protocol, or stays idle for too long.
pub(super) async fn serve<S: Stream>(stream: S, captures: Arc<Captures>, standing: StandingCell) {
    let mut settings = Builder::new();
    settings
        .max_concurrent_streams(MOST_REQUESTS)
        .max_header_list_size(LONGEST_HEADERS)
        .max_send_buffer_size(MOST_KEPT);
    let Ok(Ok(connection)) = timeout(PATIENCE, settings.handshake(stream)).await else { return };
    standing.raise(Standing::Silent);
    answer_all(connection, &captures, &standing).await;
}

async fn answer_all<S: Stream>(
    mut connection: Connection<S, Bytes>,
    captures: &Arc<Captures>,
    standing: &StandingCell,
) {
    // When the connection ends, unfinished calls are aborted.
    let mut calls = JoinSet::new();
    let mut until = Instant::now() + LONGEST_SILENCE;
    loop {
        let accepted = timeout_at(until, connection.accept()).await;
        while let Some(ended) = calls.try_join_next() {
            if ended.unwrap_or(false) {
                until = Instant::now() + LONGEST_SILENCE;
            }
        }
        match accepted {
            Ok(Some(Ok((request, respond)))) => {
                let (captures, standing) = (captures.clone(), standing.clone());
                calls.spawn(async move {
                    let counts = standing.calls.clone();
                    let is_valid = call::answer(request, respond, captures, counts).await;
                    // The standing rises at once. Otherwise a client that rarely sends requests
                    // would lose its slot to clients that never send any.
                    if is_valid {
                        standing.raise(Standing::Client);
                    }
                    is_valid
                });
            }
            Ok(None | Some(Err(_))) => return,
            // Active calls have their own deadline. Invalid requests do not extend the idle time.
            Err(_) if standing.is_answered() => until = Instant::now() + LONGEST_WAIT,
            Err(_) if Instant::now() >= until => return,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_closed_before_captures() {
        let standing = StandingCell::default();
        assert_eq!(standing.get(), Standing::Connected);
        standing.raise(Standing::Client);
        standing.raise(Standing::Silent);
        assert_eq!(standing.get(), Standing::Client, "it does not fall");
        standing.calls.captures.store(1, Ordering::SeqCst);
        assert_eq!(standing.get(), Standing::Captures);
        assert!(Standing::Connected < Standing::Silent && Standing::Client < Standing::Captures);
    }
}
