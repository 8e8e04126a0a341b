//! Parses and authorises an HTTP request for metrics.

use super::token::Token;

/// Maximum size of a request's head in bytes.
pub(super) const LONGEST: usize = 8 << 10;

/// Requested format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Protobuf,
}

/// Error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: &'static str,
    pub(super) why: &'static str,
}

const fn refusal(status: &'static str, why: &'static str) -> Refusal {
    Refusal { status, why }
}

pub(super) const BAD: Refusal = refusal("400 Bad Request", "the request is not an HTTP/1 request");
pub(super) const TOO_LONG: Refusal =
    refusal("431 Request Header Fields Too Large", "the request is longer than 8192 bytes");
pub(super) const BUSY: Refusal =
    refusal("503 Service Unavailable", "too many clients are connected; try again later");
const METHOD: Refusal = refusal("405 Method Not Allowed", "the method is not allowed; use GET");
const ELSEWHERE: Refusal = refusal("404 Not Found", "the path does not exist; use /metrics");
const HOST: Refusal =
    refusal("421 Misdirected Request", "the Host header must name 127.0.0.1, localhost or [::1]");
const TOKEN: Refusal = refusal(
    "401 Unauthorized",
    "the token is missing or wrong; send the header Authorization: Bearer with the token from the file that \
     the process printed",
);

/// Parses a request. Returns `None` until its head is complete.
pub(super) fn read(head: &[u8], token: &Token) -> Option<Result<Form, Refusal>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => Some(understand(&request, token)),
        Ok(httparse::Status::Partial) if head.len() < LONGEST => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Some(Err(TOO_LONG)),
        Err(_) => Some(Err(BAD)),
    }
}

fn understand(request: &httparse::Request<'_, '_>, token: &Token) -> Result<Form, Refusal> {
    let header = |name: &str| {
        let mut all = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        let first = all.next().map(|header| header.value);
        (first, all.next().is_some())
    };
    match header("host") {
        // A web page could reach this port through its own host name (DNS rebinding), so the host
        // is checked.
        (Some(host), false) if is_own(host) => {}
        _ => return Err(HOST),
    }
    match header("authorization") {
        (given, false) if token.allows(given) => {}
        _ => return Err(TOKEN),
    }
    if request.method != Some("GET") {
        return Err(METHOD);
    }
    let path = request.path.unwrap_or_default();
    if path.split('?').next() != Some("/metrics") {
        return Err(ELSEWHERE);
    }
    let accept = String::from_utf8_lossy(header("accept").0.unwrap_or_default());
    Ok(if wants_protobuf(&accept) { Form::Protobuf } else { Form::Text })
}

fn is_own(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Returns `true` if the client prefers protobuf to text.
fn wants_protobuf(accept: &str) -> bool {
    let liking = |kinds: &[&str]| {
        let all = accept.split(',').map(|one| one.split(';').map(str::trim).collect::<Vec<_>>());
        let liked = all.filter(|parts| kinds.contains(&parts[0]));
        let liking = liked.map(|parts| {
            let said = parts.iter().find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
            said.unwrap_or(1.0)
        });
        liking.fold(0.0, f64::max)
    };
    let is_delimited = accept.contains("proto=io.prometheus.client.MetricFamily")
        && accept.contains("encoding=delimited");
    is_delimited && liking(&["application/vnd.google.protobuf"]) > liking(&["text/plain"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prometheus' header when it accepts native histograms.
    const ACCEPT: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                          application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    fn ask(head: &str) -> Result<Form, Refusal> {
        read(head.as_bytes(), &Token::of("secret")).expect("a whole one")
    }

    fn with(line: &str, more: &str) -> Result<Form, Refusal> {
        ask(&format!(
            "{line}\r\nHost: localhost:9464\r\nAuthorization: Bearer secret\r\n{more}\r\n"
        ))
    }

    #[test]
    fn metrics_are_had_in_the_form_that_is_liked_most() {
        assert_eq!(with("GET /metrics HTTP/1.1", ""), Ok(Form::Text));
        assert_eq!(with("GET /metrics?x=1 HTTP/1.0", "Accept: */*\r\n"), Ok(Form::Text));
        assert_eq!(
            with("GET /metrics HTTP/1.1", &format!("Accept: {ACCEPT}\r\n")),
            Ok(Form::Protobuf)
        );
        let text_first = ACCEPT.replace("delimited,", "delimited;q=0.4,");
        assert_eq!(
            with("GET /metrics HTTP/1.1", &format!("Accept: {text_first}\r\n")),
            Ok(Form::Text)
        );
    }

    #[test]
    fn unauthorized_requests_are_rejected() {
        let get = "GET /metrics HTTP/1.1\r\n";
        let host = "Host: 127.0.0.1\r\n";
        assert_eq!(ask(&format!("{get}{host}\r\n")), Err(TOKEN));
        assert_eq!(ask(&format!("{get}{host}Authorization: Bearer secre\r\n\r\n")), Err(TOKEN));
        assert_eq!(ask(&format!("{get}{host}Authorization: Basic secret\r\n\r\n")), Err(TOKEN));
        let token = "Authorization: Bearer secret\r\n";
        assert_eq!(ask(&format!("{get}{token}\r\n")), Err(HOST));
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost@evil", "", "[::2]"] {
            assert_eq!(ask(&format!("{get}Host: {host}\r\n{token}\r\n")), Err(HOST), "{host}");
        }
        assert_eq!(ask(&format!("{get}{host}Host: evil.example\r\n{token}\r\n")), Err(HOST));
        assert_eq!(ask(&format!("{get}Host: [::1]:9464\r\n{token}\r\n")), Ok(Form::Text));
        assert_eq!(with("POST /metrics HTTP/1.1", ""), Err(METHOD));
        assert_eq!(with("GET / HTTP/1.1", ""), Err(ELSEWHERE));
    }

    #[test]
    fn requests_are_bounded_and_nonsense_is_refused() {
        let token = Token::of("secret");
        assert_eq!(read(b"GET /metrics HT", &token), None);
        assert_eq!(read(b"\x16\x03\x01\x02", &token), Some(Err(BAD)));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(LONGEST));
        assert_eq!(read(long.as_bytes(), &token), Some(Err(TOO_LONG)));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(65));
        assert_eq!(read(many.as_bytes(), &token), Some(Err(TOO_LONG)));
    }

    proptest::proptest! {
        #[test]
        fn nothing_but_the_token_lets_in(
            place in 0_usize..100,
            removed in 0_usize..20,
            put in proptest::collection::vec(proptest::num::u8::ANY, 0..20),
        ) {
            let mut bytes = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n".to_vec();
            let place = place.min(bytes.len());
            let end = (place + removed).min(bytes.len());
            bytes.splice(place..end, put);
            if let Some(Ok(_)) = read(&bytes, &Token::of("secret")) {
                let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
                proptest::prop_assert!(head.contains("bearer secret") && head.contains("localhost"));
            }
        }

        #[test]
        fn no_request_is_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let answer = read(&bytes, &Token::of("secret"));
            proptest::prop_assert!(!matches!(answer, Some(Ok(_))));
        }
    }
}
