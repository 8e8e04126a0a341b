//! One client: HTTP/2 over its connection, within bounds.

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

/// So long a client may be connected without asking for anything that is answered here.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// So long later is looked again whether the requests of a client that are under way are over.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// So many requests one client may have under way.
const MOST_REQUESTS: u32 = 8;

/// What the headers of a request may have, in bytes.
const LONGEST_HEADERS: u32 = 16 << 10;

/// What is kept of an answer until it is taken, in bytes.
const MOST_KEPT: usize = 1 << 20;

/// What bytes come and go by.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// How much a client has shown that it is one. While all places are taken, the oldest connection of
/// the lowest standing makes room for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Standing {
    /// It has yet to speak HTTP/2.
    Connected,
    /// It has asked for nothing that is answered here.
    Silent,
    /// It has asked for something.
    Client,
    /// It captures: one client does at a time, so that there is always another one to make room.
    Captures,
}

/// The standing of a connection, as it changes.
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

/// Answers until the other side closes, breaks the rules, or asks for nothing.
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
    // What is not answered when the connection ends is not answered any more.
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
                    // At once: a client that asks rarely would lose its place to those that never
                    // do.
                    if is_valid {
                        standing.raise(Standing::Client);
                    }
                    is_valid
                });
            }
            Ok(None | Some(Err(_))) => return,
            // Calls that are answered have a deadline of their own. Others do not count.
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
    fn whoever_captures_stays_and_whoever_says_nothing_goes_first() {
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
