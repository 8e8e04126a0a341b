//! Push target of the metrics, as configured in the environment.

/// Endpoint for all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Endpoint for metrics only.
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

/// Configured push target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushTarget {
    /// Environment variable that sets the target.
    pub(super) variable: &'static str,
    /// URL of the target.
    pub(super) url: String,
}

impl PushTarget {
    /// Returns the URL without secrets, for messages.
    pub(super) fn shown_url(&self) -> String {
        without_secrets(&self.url)
    }
}

/// Removes the user information before an `@`, the query and the fragment from a URL.
///
/// Passwords are also removed from invalid URLs, such as those without a scheme or with `@` or `/`
/// in the password.
pub(super) fn without_secrets(url: &str) -> String {
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, url),
    };
    let rest = rest.trim_start_matches('/');
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let rest = match (authority.rsplit_once('@'), rest.rsplit_once('@')) {
        (Some((_, host)), _) => format!("{host}{behind}"),
        // The text after the colon may be a password with a slash instead of a port. With a
        // question mark, either side may be secret: the password may contain it, or the query may
        // contain an `@`.
        (None, Some((before, _))) if authority.contains(':') && before.contains(['?', '#']) => {
            "…".to_owned()
        }
        (None, Some((_, host))) if authority.contains(':') => host.to_owned(),
        _ => rest.to_owned(),
    };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let hidden = if path.len() < rest.len() { "?…" } else { "" };
    match scheme {
        Some(scheme) => format!("{scheme}://{path}{hidden}"),
        None => format!("{path}{hidden}"),
    }
}

/// Returns the push target of the environment, or `None` if pushing is disabled or not configured.
pub(super) fn push_target(value: &dyn Fn(&str) -> Option<String>) -> Option<PushTarget> {
    let value = |name: &str| set(value, name);
    let is_off = value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let takes_otlp = value("OTEL_METRICS_EXPORTER")
        .is_none_or(|list| list.split(',').any(|exporter| exporter.trim() == "otlp"));
    if is_off || !takes_otlp {
        return None;
    }
    // This URL is used unchanged.
    if let Some(url) = value(METRICS_ENDPOINT) {
        return Some(PushTarget { variable: METRICS_ENDPOINT, url });
    }
    let base = value(ENDPOINT)?;
    let url = format!("{}/v1/metrics", base.strip_suffix('/').unwrap_or(&base));
    Some(PushTarget { variable: ENDPOINT, url })
}

/// Returns the trimmed value of a variable. An empty value counts as unset.
pub(super) fn set(value: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    value(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<(&'static str, String)> {
        let value = |name: &str| {
            variables.iter().find(|it| it.0 == name).map(|(_, value)| (*value).to_owned())
        };
        push_target(&value).map(|it| (it.variable, it.url))
    }

    #[test]
    fn the_environment_says_where_metrics_go() {
        let here = (ENDPOINT, "http://localhost:4318");
        let expected = Some((ENDPOINT, "http://localhost:4318/v1/metrics".to_owned()));
        assert_eq!(of(&[here]), expected);
        assert_eq!(of(&[(ENDPOINT, " http://localhost:4318/ ")]), expected);
        let within = of(&[(ENDPOINT, "https://a.example/otlp")]);
        assert_eq!(within.expect("asked").1, "https://a.example/otlp/v1/metrics");
        let own = of(&[here, (METRICS_ENDPOINT, "http://b.example/push")]);
        assert_eq!(own, Some((METRICS_ENDPOINT, "http://b.example/push".to_owned())));
        assert_eq!(of(&[here, (METRICS_ENDPOINT, "")]), expected, "what is empty is not set");
        let shown = |url: &str| PushTarget { variable: ENDPOINT, url: url.to_owned() }.shown_url();
        assert_eq!(shown("http://user:word@a.example/x@y"), "http://a.example/x@y");
        assert_eq!(shown("http://a.example/x@y"), "http://a.example/x@y");
    }

    #[test]
    fn no_form_of_a_password_is_shown() {
        for url in [
            "http://user:s3cret@host:4318/v1/metrics",
            "user:s3cret@host:4318/v1/metrics",
            "http://u:s3@cret@host:4318/v1/metrics",
            "http://user:s3cret/word@host:4318/v1/metrics",
            "http://user:s3cret?word@host:4318/v1/metrics",
            "http://user:s3cret#word@host:4318/v1/metrics",
            "user:pa://s3cret@host:4318/v1/metrics",
            "http:/user:s3cret@host:4318/v1/metrics",
            "//user:s3cret@host:4318/v1/metrics",
            "http://s3cret@host:4318/v1/metrics",
            "http://host:4318/v1/metrics?key=s3cret",
            "http://host:4318/v1/metrics#s3cret",
            "host:4318/v1/metrics?key=s3@cret",
        ] {
            let shown = without_secrets(url);
            assert!(!shown.contains("s3") && !shown.contains("cret"), "{url} is shown as {shown}");
        }
        let plain = "https://collector.example:4318/otlp/v1/metrics";
        assert_eq!(without_secrets(plain), plain);
        assert_eq!(without_secrets("user:word@host:4318/x"), "host:4318/x");
    }

    proptest::proptest! {
        #[test]
        fn credentials_in_urls_are_never_shown(
            scheme in "(https?://|)", user in "[a-z]{1,5}", more in "[/@:?#a-z]{0,6}",
        ) {
            let url = format!("{scheme}{user}:S3CRET{more}@host:4318/v1/metrics");
            proptest::prop_assert!(!without_secrets(&url).contains("S3CRET"), "{}", url);
        }
    }

    #[test]
    fn nothing_is_pushed_unasked() {
        let here = (ENDPOINT, "http://localhost:4318");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(ENDPOINT, "")]), None);
        assert_eq!(of(&[here, ("OTEL_SDK_DISABLED", "True")]), None);
        assert!(of(&[here, ("OTEL_SDK_DISABLED", "1")]).is_some(), "as the specification has it");
        for exporter in ["none", "prometheus", "console"] {
            assert_eq!(of(&[here, ("OTEL_METRICS_EXPORTER", exporter)]), None, "{exporter}");
        }
        assert!(of(&[here, ("OTEL_METRICS_EXPORTER", "console, otlp")]).is_some());
    }
}
