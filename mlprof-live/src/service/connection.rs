//! Handles the requests of one connection.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mlprof_events::live::{
    Answer, LONGEST_INTERVAL, LONGEST_REQUEST, Peer, Question, Request, VERSION, read_line,
    write_line,
};

use super::peer::has_gone;
use super::timed::Timed;
use super::{answers, recorded};
use crate::answer_budget::ReservedBytes;
use crate::requester::Requester;
use crate::shared;
use crate::watcher::{Following, Watcher};

/// Timeout for receiving a complete request, and for sending a complete answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which a waiting process checks that the client is still connected.
const LOOK: Duration = Duration::from_millis(100);

/// Minimum interval between the states sent to a following client, in milliseconds.
const SHORTEST_INTERVAL: u64 = 50;

/// Answers requests until the client disconnects or stops reading.
pub(super) fn serve(stream: &UnixStream, peer: Peer) {
    let Some(watcher) = shared::watcher() else { return };
    let timed = Timed::new(stream, PATIENCE);
    let stream = &timed;
    let mut reader = BufReader::new(stream);
    loop {
        stream.allow(PATIENCE);
        let line = match read_line(&mut reader, LONGEST_REQUEST) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _ = write_line(stream, &Answer::Error { message: error.to_string() });
                return;
            }
            Err(_) => return,
        };
        stream.allow(PATIENCE);
        let answered = match understand(&line) {
            Ok(request) => {
                let answer = AssertUnwindSafe(|| answer(watcher, stream, peer, request));
                catch_unwind(answer).unwrap_or_else(|_| {
                    let message = "mlprof panicked while it prepared the reply".to_owned();
                    write_line(stream, &Answer::Error { message })
                })
            }
            Err(message) => write_line(stream, &Answer::Error { message }),
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Parses a request. Returns an error message if it is invalid.
fn understand(line: &[u8]) -> Result<Request, String> {
    let version = serde_json::from_slice::<serde_json::Value>(line)
        .map_err(|error| format!("the request is not JSON: {error}"))?;
    match version["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "the request has protocol version {version}, but this process supports version {VERSION}; use \
                 the same mlprof version for both"
            ));
        }
        None => return Err(format!("the request lacks \"version\": {VERSION}")),
    }
    let question = serde_json::from_slice::<Question>(line);
    question.map(|it| it.request).map_err(|error| format!("the request is unknown: {error}"))
}

fn answer(
    watcher: &Arc<Watcher>,
    mut stream: &Timed<'_>,
    peer: Peer,
    request: Request,
) -> io::Result<()> {
    match request {
        Request::State => write_line(stream, &Answer::State(answers::state(watcher))),
        Request::Follow { interval_milliseconds, actions } => {
            let interval = interval_milliseconds.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
            let following = actions.then(|| watcher.follow_actions());
            while !has_gone(stream.stream()) {
                let mut state = answers::state(watcher);
                state.activity = following.as_ref().map(Following::activity);
                stream.allow(PATIENCE);
                write_line(stream, &Answer::State(state))?;
                wait(stream.stream(), Duration::from_millis(interval));
            }
            Err(io::ErrorKind::BrokenPipe.into())
        }
        Request::Report => write_line(stream, &answers::report()),
        Request::Dump { stacks } => write_line(stream, &Answer::Dump(answers::dump(stacks))),
        Request::Record(wishes) => {
            let _under_way = recorded::UnderWay::begin();
            let requester = Requester::Command { process: peer.process };
            let delivery = recorded::record(watcher, stream, requester, wishes)?;
            let delivery = delivery.and_then(|it| Ok((ReservedBytes::begin(it.bytes())?, it)));
            match delivery {
                Ok((_kept, delivery)) => {
                    stream.allow(ReservedBytes::patience(delivery.bytes()));
                    write_line(stream, &Answer::Recorded(delivery.recorded))?;
                    stream.write_all(&delivery.trace)?;
                    stream.write_all(delivery.samples.unwrap_or_default().as_bytes())
                }
                Err(message) => {
                    stream.allow(PATIENCE);
                    write_line(stream, &Answer::Error { message })
                }
            }
        }
        Request::Cancel => {
            write_line(stream, &Answer::Cancelled { recording: watcher.cancel_any() })
        }
        _ => write_line(
            stream,
            &Answer::Error { message: "the request is not supported".to_owned() },
        ),
    }
}

/// Waits for the interval, or until the client disconnects.
fn wait(stream: &UnixStream, interval: Duration) {
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || has_gone(stream) {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_connections_are_not_awaited() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let began = Instant::now();
        wait(&here, Duration::from_millis(150));
        assert!(began.elapsed() >= Duration::from_millis(150));
        drop(there);
        let (began, interval) = (Instant::now(), Duration::from_secs(60));
        wait(&here, interval);
        assert!(began.elapsed() < interval, "it has waited for one who has gone");
    }

    #[test]
    fn unknown_requests_get_a_readable_error() {
        let error = |line: &str| understand(line.as_bytes()).expect_err("no request");
        assert!(error("state").starts_with("the request is not JSON: "));
        assert_eq!(error("{}"), "the request lacks \"version\": 1");
        assert!(error(r#"{"version": 2, "request": "state"}"#).contains("supports version 1"));
        assert!(error(r#"{"version": 1, "request": "stat"}"#).contains("unknown variant `stat`"));
        let state = understand(br#"{"version": 1, "request": "state", "later": true}"#);
        assert_eq!(state, Ok(Request::State), "fields of later versions are ignored");
    }
}
