//! Whether metrics are to be pushed, and where.

/// Where all signals go.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where metrics go.
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

/// That they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// What says so.
    pub(super) variable: &'static str,
    /// Where they go.
    pub(super) url: String,
}

impl Asked {
    /// Where they go, without a password.
    pub(super) fn shown_url(&self) -> String {
        let parts = self.url.split_once("://");
        match parts.and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
            Some((scheme, (user, rest))) if !user.contains('/') => format!("{scheme}://{rest}"),
            _ => self.url.clone(),
        }
    }
}

/// What the environment says; `None` where it wants none pushed.
pub(super) fn asked(value: &dyn Fn(&str) -> Option<String>) -> Option<Asked> {
    let value = |name: &str| set(value, name);
    let is_off = value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let takes_otlp = value("OTEL_METRICS_EXPORTER")
        .is_none_or(|list| list.split(',').any(|exporter| exporter.trim() == "otlp"));
    if is_off || !takes_otlp {
        return None;
    }
    // As it is.
    if let Some(url) = value(METRICS_ENDPOINT) {
        return Some(Asked { variable: METRICS_ENDPOINT, url });
    }
    let base = value(ENDPOINT)?;
    let url = format!("{}/v1/metrics", base.strip_suffix('/').unwrap_or(&base));
    Some(Asked { variable: ENDPOINT, url })
}

/// What a variable says; what is empty is not set.
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
        asked(&value).map(|it| (it.variable, it.url))
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
        let shown = |url: &str| Asked { variable: ENDPOINT, url: url.to_owned() }.shown_url();
        assert_eq!(shown("http://user:word@a.example/x@y"), "http://a.example/x@y");
        assert_eq!(shown("http://a.example/x@y"), "http://a.example/x@y");
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
