//! Checks the host name that a request was sent to.

use std::net::IpAddr;

use http::Request;
use http::header::HOST;
use http::uri::Authority;

/// Returns `true` if the request was sent to the loopback host of this machine. This check prevents
/// DNS rebinding. A web page can make its host name resolve to this machine, but its requests still
/// contain that name.
pub(super) fn is_loopback<T>(request: &Request<T>) -> bool {
    let said = request.headers().get(HOST);
    let said = said.map(|host| host.to_str().ok().and_then(|host| host.parse().ok()));
    match (request.uri().authority(), said) {
        (Some(authority), None) => names_loopback(authority),
        (None, Some(Some(host))) => names_loopback(&host),
        (Some(authority), Some(Some(host))) => names_loopback(authority) && names_loopback(&host),
        (None, None) | (_, Some(None)) => false,
    }
}

fn names_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let number = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let has_user = authority.as_str().contains('@');
    let is_own = number.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !has_user && (host.eq_ignore_ascii_case("localhost") || is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_are_believed() {
        let of = |name: &str| name.parse().is_ok_and(|authority| names_loopback(&authority));
        for name in ["localhost:6009", "LOCALHOST", "127.0.0.1:6009", "127.0.0.2", "[::1]:6009"] {
            assert!(of(name), "{name}");
        }
        for name in [
            "evil.example:6009",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:6009",
            "0.0.0.0:6009",
            "[::]:6009",
            "localhost@evil.example",
            "evil.example@localhost",
            "",
        ] {
            assert!(!of(name), "{name}");
        }
    }

    #[test]
    fn both_ways_to_say_it_must_agree() {
        let of = |uri: &str, host: Option<&str>| {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            is_loopback(&request.body(()).expect("a request"))
        };
        assert!(of("http://localhost:1/a", None) && of("/a", Some("127.0.0.1:1")));
        assert!(of("http://localhost:1/a", Some("localhost:1")));
        assert!(!of("/a", None), "who says nothing");
        assert!(!of("http://localhost:1/a", Some("evil.example")));
        assert!(!of("http://evil.example/a", Some("localhost")));
        assert!(!of("/a", Some("local host")));
    }
}
