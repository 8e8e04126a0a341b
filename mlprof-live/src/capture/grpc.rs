//! Framing of gRPC messages and errors in HTTP/2:
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::fmt::Write;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use prost::Message;

use crate::answer_budget::MOST_KEPT;

/// Size in bytes of the message prefix: a compression flag and the length.
const PREFIX: usize = 5;

/// Maximum size of a message in bytes, equal to the limit for pending answers. Clients could count
/// up to `i32::MAX`.
pub(super) const LONGEST_MESSAGE: usize = MOST_KEPT as usize;

/// gRPC status code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
}

/// gRPC error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    /// Error message as a sentence.
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the trailers or headers that report this error.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = status(self.code as u8);
        // The encoded text contains only printable ASCII, so it is a valid header value.
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.message)) {
            headers.insert("grpc-message", message);
        }
        headers
    }
}

/// Returns the trailers after a successful message.
pub(super) fn ok() -> HeaderMap {
    status(0)
}

fn status(code: u8) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", HeaderValue::from(u16::from(code)));
    headers
}

/// Percent-encodes all bytes except printable ASCII characters.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Decodes the only message of a request.
pub(super) fn message<M: Message + Default>(body: &[u8]) -> Result<M, Status> {
    let fault = |what: &str| Err(Status::new(Code::InvalidArgument, what));
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX>() else {
        return fault("the request has no message");
    };
    let [compressed, length @ ..] = prefix;
    if *compressed != 0 {
        let what = "cannot read a compressed request; send it uncompressed";
        return Err(Status::new(Code::Unimplemented, what));
    }
    if u32::from_be_bytes(*length) as usize != message.len() {
        return fault("the length of the request differs from its length prefix");
    }
    M::decode(message).or_else(|error| fault(&format!("cannot parse the request: {error}")))
}

/// Encodes a message with its prefix.
pub(super) fn framed(message: &impl Message) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    if length > LONGEST_MESSAGE {
        let what = format!(
            "cannot send a reply of {length} bytes: the limit is {LONGEST_MESSAGE}; capture a shorter time"
        );
        return Err(Status::new(Code::ResourceExhausted, what));
    }
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32); // fits: the length was checked above
    message.encode(&mut bytes).map_err(|error| Status::new(Code::Internal, error.to_string()))?;
    Ok(bytes.freeze())
}

/// Returns the client's timeout, if the headers contain one.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The protocol allows at most eight digits.
    let count: u32 = count.parse().ok().filter(|_| count.len() <= 8)?;
    let seconds = |seconds: u64| Some(Duration::from_secs(seconds * u64::from(count)));
    match unit {
        "H" => seconds(3600),
        "M" => seconds(60),
        "S" => seconds(1),
        "m" => Some(Duration::from_millis(count.into())),
        "u" => Some(Duration::from_micros(count.into())),
        "n" => Some(Duration::from_nanos(count.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::messages::{MonitorRequest, ProfileRequest, TerminateRequest};
    use super::*;

    fn request() -> TerminateRequest {
        TerminateRequest { session_id: "2026_11_21".to_owned() }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let bytes = framed(&request()).expect("short");
        assert_eq!(bytes[..PREFIX], [0, 0, 0, 0, 12]);
        assert_eq!(message(&bytes), Ok(request()));
        let empty = message::<TerminateRequest>(&[0; PREFIX]).expect("nothing is set");
        assert_eq!(empty.session_id, "");
    }

    #[test]
    fn invalid_messages_have_a_readable_error() {
        let fault = |body: &[u8]| message::<TerminateRequest>(body).expect_err("no message");
        assert_eq!(fault(&[]).message, "the request has no message");
        assert_eq!(fault(&[0, 0, 0, 0]).code, Code::InvalidArgument);
        assert_eq!(fault(&[1, 0, 0, 0, 0]).code, Code::Unimplemented);
        let mut bytes = framed(&request()).expect("short").to_vec();
        bytes.push(0);
        assert_eq!(
            fault(&bytes).message,
            "the length of the request differs from its length prefix"
        );
        bytes.truncate(8);
        assert_eq!(fault(&bytes).code, Code::InvalidArgument);
        let not_text = fault(&[0, 0, 0, 0, 3, 0x0a, 1, 0xff]);
        assert!(not_text.message.starts_with("cannot parse the request: "), "{not_text:?}");
    }

    #[test]
    fn errors_are_plain_characters() {
        let status = Status::new(Code::NotFound, "100 % of “it”\n");
        let headers = status.headers();
        assert_eq!(headers["grpc-status"], "5");
        assert_eq!(headers["grpc-message"], "100 %25 of %E2%80%9Cit%E2%80%9D%0A");
        assert_eq!(ok()["grpc-status"], "0");
    }

    #[test]
    fn clients_say_how_long_they_wait() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_static(text));
            timeout(&headers)
        };
        assert_eq!(of("60S"), Some(Duration::from_secs(60)));
        assert_eq!((of("59994m"), of("2H")), (Some(Duration::from_millis(59_994)), of("120M")));
        assert_eq!((of("3u"), of("3n")), (Some(Duration::from_micros(3)), of("3n")));
        for nonsense in ["", "S", "5", "-5S", "5s", "123456789S", "1.5S"] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = vec![0];
            framed.extend((body.len() as u32).to_be_bytes());
            framed.extend(&body);
            for bytes in [&body, &framed] {
                let _ = message::<ProfileRequest>(bytes);
                let _ = message::<MonitorRequest>(bytes);
                let _ = message::<TerminateRequest>(bytes);
            }
        }

        #[test]
        fn any_text_is_a_header(text in any::<String>()) {
            let headers = Status::new(Code::Internal, text.clone()).headers();
            let said = headers["grpc-message"].to_str().expect("plain").to_owned();
            let mut bytes = Vec::new();
            let mut rest = said.as_str();
            while let Some((before, after)) = rest.split_once('%') {
                bytes.extend(before.bytes());
                bytes.push(u8::from_str_radix(&after[..2], 16).expect("two digits"));
                rest = &after[2..];
            }
            bytes.extend(rest.bytes());
            prop_assert_eq!(String::from_utf8(bytes), Ok(text));
        }
    }
}
