//! HTTP client that pushes metrics to the collector.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use ureq::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderMap, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use super::settings::Settings;

const PROTOBUF: &str = "application/x-protobuf";

/// Maximum number of bytes to read from an answer.
const LONGEST_ANSWER: u64 = 64 << 10;
/// Maximum number of characters to print from a collector's message.
const LONGEST_SHOWN: usize = 200;

/// Result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Taken,
    /// The collector rejected a part of the metrics, with this message.
    Partly(String),
    /// Permanent failure with its reason; a retry would not help.
    Refused(String),
    /// Temporary failure with its reason, and the delay that the collector requests.
    Later(String, Option<Duration>),
}

/// Error body of a collector: `google.rpc.Status`, limited to the used field.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

pub(super) struct Collector {
    agent: Agent,
}

impl Collector {
    /// Creates a client without connecting. Must be called where reading the environment is safe,
    /// because it may configure a proxy.
    pub(super) fn new(settings: &Settings) -> Self {
        let patience = Some(settings.patience);
        // Each phase has its own timeout. With a global one, ureq would resolve names in a thread
        // that mlprof does not control.
        let config = Agent::config_builder()
            .timeout_connect(patience)
            .timeout_send_request(patience)
            .timeout_send_body(patience)
            .timeout_recv_response(patience)
            .timeout_recv_body(patience)
            .http_status_as_error(false)
            .max_redirects(0)
            // Connections are not reused. A forked child therefore inherits none, and none is found
            // closed after a minute.
            .max_idle_connections(0)
            .user_agent(concat!("mlprof/", env!("CARGO_PKG_VERSION")));
        let config = if is_own(&settings.url) { config.proxy(None) } else { config };
        #[cfg(feature = "otlp-tls")]
        let config = config.tls_config(settings.tls.clone());
        Self { agent: config.build().into() }
    }

    /// Sends a message and waits for the answer.
    pub(super) fn push(&self, settings: &Settings, mut message: Vec<u8>) -> Outcome {
        let mut request = self.agent.post(&settings.url).header(CONTENT_TYPE, PROTOBUF);
        if settings.is_compressed {
            message = match compressed(&message) {
                Ok(compressed) => compressed,
                Err(error) => return Outcome::Refused(error.to_string()),
            };
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        for (name, value) in &settings.headers {
            request = request.header(name, value);
        }
        match request.send(&message[..]) {
            Ok(answer) => understand(answer),
            // ureq's message would contain the URL, which may include a password.
            Err(ureq::Error::BadUri(_)) => Outcome::Refused("the URL is not valid".to_owned()),
            Err(error) => Outcome::Later(error.to_string(), None),
        }
    }
}

/// Returns `true` if the URL refers to this machine, for which proxy settings do not apply.
fn is_own(url: &str) -> bool {
    let Ok(uri) = Uri::try_from(url) else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
}

fn compressed(message: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(message)?;
    encoder.finish()
}

fn understand(mut answer: Response<Body>) -> Outcome {
    let status = answer.status();
    let after = retry_after(answer.headers());
    let is_protobuf = is_protobuf(answer.headers());
    let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
    if status.is_success() {
        return match body {
            Ok(body) if is_protobuf => partly(&body),
            Ok(_) => Outcome::Taken,
            Err(error) => Outcome::Later(format!("its reply is incomplete: {error}"), None),
        };
    }
    let said = body.unwrap_or_default();
    let said = match Status::decode(&said[..]) {
        Ok(status) if is_protobuf => status.message,
        _ => String::from_utf8_lossy(&said).into_owned(),
    };
    let why = format!("it replies {status}: {}", shorten_message(&said));
    let why = why.trim_end_matches(": ").to_owned();
    if may_be_taken_later(status) { Outcome::Later(why, after) } else { Outcome::Refused(why) }
}

/// Returns `true` for the status codes that the specification defines as retryable.
fn may_be_taken_later(status: StatusCode) -> bool {
    [429, 502, 503, 504].contains(&status.as_u16())
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

fn partly(body: &[u8]) -> Outcome {
    let answer = ExportMetricsServiceResponse::decode(body);
    let partial = match answer {
        Ok(answer) => answer.partial_success.unwrap_or_default(),
        Err(error) => {
            return Outcome::Refused(format!("its reply is not an OTLP message: {error}"));
        }
    };
    let (rejected, said) = (partial.rejected_data_points, shorten_message(&partial.error_message));
    match (rejected, said.is_empty()) {
        (0, true) => Outcome::Taken,
        (0, false) => Outcome::Partly(format!("accepted the metrics with a warning: {said}")),
        _ => Outcome::Partly(format!("rejected {rejected} of the values: {said}")),
    }
}

/// Returns the requested delay if it is given in seconds. A date is ignored, because the growing
/// wait between attempts is sufficient.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Shortens a collector's message and puts it on one line.
fn shorten_message(said: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    let line: String = said.trim().chars().take(LONGEST_SHOWN).map(plain).collect();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_asked_without_a_proxy() {
        let own = [
            "http://localhost:4318/x",
            "http://127.0.0.1/x",
            "http://127.1.2.3",
            "https://[::1]:1/x",
        ];
        assert!(own.into_iter().all(is_own));
        assert!(!["http://localhost.example/x", "http://10.0.0.1/x", "no"].into_iter().any(is_own));
    }

    #[test]
    fn messages_of_collectors_become_one_short_line() {
        assert_eq!(shorten_message(" a\u{1b}[2J\nb\n "), "a [2J b");
        assert_eq!(shorten_message(&"x".repeat(10_000)).len(), LONGEST_SHOWN);
    }

    #[test]
    fn a_partial_success_is_told() {
        let answer = |rejected_data_points, error_message: &str| {
            use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;
            let error_message = error_message.to_owned();
            let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
            let answer = ExportMetricsServiceResponse { partial_success: Some(partial) };
            partly(&answer.encode_to_vec())
        };
        assert_eq!(partly(&[]), Outcome::Taken);
        assert_eq!(answer(0, ""), Outcome::Taken);
        let Outcome::Partly(said) = answer(3, "too old") else { panic!("it says so") };
        assert_eq!(said, "rejected 3 of the values: too old");
        assert!(matches!(answer(0, "slow down"), Outcome::Partly(_)));
        assert!(matches!(partly(b"<html>"), Outcome::Refused(_)));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_is_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = (partly(&bytes), Status::decode(&bytes[..]), shorten_message(&String::from_utf8_lossy(&bytes)));
        }
    }
}
