//! One client: HTTP/2 over its connection, within bounds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::call::{self, PATIENCE};
use super::profile::Captures;

/// So long somebody may be connected without asking anything.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// So many requests one client may have under way.
const MOST_REQUESTS: u32 = 8;

/// What the headers of a request may have, in bytes.
const LONGEST_HEADERS: u32 = 16 << 10;

/// What is kept of an answer until it is taken, in bytes.
const MOST_KEPT: usize = 1 << 20;

/// What bytes come and go by.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Answers until the other side closes, breaks the rules, or is silent.
pub(super) async fn serve<S: Stream>(stream: S, captures: Arc<Captures>) {
    let mut settings = Builder::new();
    settings
        .max_concurrent_streams(MOST_REQUESTS)
        .max_header_list_size(LONGEST_HEADERS)
        .max_send_buffer_size(MOST_KEPT);
    let Ok(Ok(connection)) = timeout(PATIENCE, settings.handshake(stream)).await else { return };
    answer_all(connection, &captures).await;
}

async fn answer_all<S: Stream>(mut connection: Connection<S, Bytes>, captures: &Arc<Captures>) {
    // What is not answered when the connection ends is not answered any more.
    let mut calls = JoinSet::new();
    loop {
        match timeout(LONGEST_SILENCE, connection.accept()).await {
            Ok(Some(Ok((request, respond)))) => {
                while calls.try_join_next().is_some() {}
                calls.spawn(call::answer(request, respond, captures.clone()));
            }
            Ok(None | Some(Err(_))) => return,
            Err(_) => {
                while calls.try_join_next().is_some() {}
                if calls.is_empty() {
                    return;
                }
            }
        }
    }
}
