//! What is asked over one connection.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use profiler_events::live::{
    Answer, LONGEST_REQUEST, Question, Request, VERSION, read_line, write_line,
};

use super::peer::has_gone;
use super::{answers, recorded};
use crate::shared;
use crate::watcher::{Following, Watcher};

/// Who neither asks nor reads for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// From one answer to the next of those who follow, at least.
const SHORTEST_INTERVAL: u64 = 50;

/// From here on nobody waits for ever at this connection.
pub(super) fn set_patience(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Answers until the other side closes, or does not read.
pub(super) fn serve(stream: &UnixStream) {
    let Some(watcher) = shared::watcher() else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let line = match read_line(&mut reader, LONGEST_REQUEST) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _ = write_line(stream, &Answer::Error { message: error.to_string() });
                return;
            }
            Err(_) => return,
        };
        let answered = match understand(&line) {
            Ok(request) => {
                let answer = AssertUnwindSafe(|| answer(watcher, stream, request));
                catch_unwind(answer).unwrap_or_else(|_| {
                    let message = "mlprof itself panicked while it made the answer".to_owned();
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

/// What a line asks for, or what is wrong with it.
fn understand(line: &[u8]) -> Result<Request, String> {
    let version = serde_json::from_slice::<serde_json::Value>(line)
        .map_err(|error| format!("the request is no JSON: {error}"))?;
    match version["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "the request is of version {version} of the protocol, and this process knows version {VERSION}"
            ));
        }
        None => return Err(format!("the request does not say \"version\": {VERSION}")),
    }
    let question = serde_json::from_slice::<Question>(line);
    question.map(|it| it.request).map_err(|error| format!("the request is not known: {error}"))
}

fn answer(watcher: &Arc<Watcher>, stream: &UnixStream, request: Request) -> io::Result<()> {
    match request {
        Request::State => write_line(stream, &Answer::State(answers::state(watcher))),
        Request::Follow { interval_milliseconds, actions } => {
            let interval = Duration::from_millis(interval_milliseconds.max(SHORTEST_INTERVAL));
            let following = actions.then(|| watcher.follow_actions());
            while !has_gone(stream) {
                let mut state = answers::state(watcher);
                state.activity = following.as_ref().map(Following::activity);
                write_line(stream, &Answer::State(state))?;
                std::thread::sleep(interval);
            }
            Err(io::ErrorKind::BrokenPipe.into())
        }
        Request::Report => write_line(stream, &answers::report()),
        Request::Dump { stacks } => write_line(stream, &Answer::Dump(answers::dump(stacks))),
        Request::Record(wishes) => {
            let _under_way = recorded::UnderWay::begin();
            match recorded::record(watcher, stream, wishes)? {
                Ok(delivery) => {
                    write_line(stream, &Answer::Recorded(delivery.recorded))?;
                    let mut stream = stream;
                    stream.write_all(&delivery.trace)?;
                    stream.write_all(delivery.samples.unwrap_or_default().as_bytes())
                }
                Err(message) => write_line(stream, &Answer::Error { message }),
            }
        }
        _ => write_line(stream, &Answer::Error { message: "that cannot be asked".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_understood_is_answered_by_a_sentence() {
        let error = |line: &str| understand(line.as_bytes()).expect_err("no request");
        assert!(error("state").starts_with("the request is no JSON: "));
        assert_eq!(error("{}"), "the request does not say \"version\": 1");
        assert!(error(r#"{"version": 2, "request": "state"}"#).contains("knows version 1"));
        assert!(error(r#"{"version": 1, "request": "stat"}"#).contains("unknown variant `stat`"));
        let state = understand(br#"{"version": 1, "request": "state", "later": true}"#);
        assert_eq!(state, Ok(Request::State), "fields of later versions are ignored");
    }
}
