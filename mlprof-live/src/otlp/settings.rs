//! Reads the push settings from OpenTelemetry's environment variables.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::config::{PushTarget, set};

/// Default interval and timeout of the specification, in milliseconds.
const INTERVAL: u64 = 60_000;
const PATIENCE: u64 = 10_000;

/// Maximum size of a certificate or key file in bytes.
#[cfg(feature = "otlp-tls")]
const LONGEST_FILE: u64 = 16 << 20;

/// Supported OTLP protocol.
const PROTOCOL: &str = "http/protobuf";

/// Push settings, and the problems found while reading them.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) url: String,
    /// URL without secrets, for messages.
    pub(super) shown_url: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Enables gzip compression.
    pub(super) is_compressed: bool,
    /// Timeout of each phase: connecting, sending, and receiving the answer.
    pub(super) patience: Duration,
    pub(super) interval: Duration,
    /// `true` for exponential histograms, `false` for histograms with explicit buckets.
    pub(super) is_exponential: bool,
    /// TLS configuration.
    #[cfg(feature = "otlp-tls")]
    pub(super) tls: ureq::tls::TlsConfig,
    /// Resource attributes set by the user.
    pub(super) resource: Vec<(String, String)>,
    /// Settings that are ignored or replaced, with the reason.
    pub(super) problems: Vec<String>,
}

/// Environment reader that collects problems.
struct Reader<'value> {
    value: &'value dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// Returns the name and value of a variable, if it is set.
    fn of(&self, name: &str) -> Option<(String, String)> {
        set(self.value, name).map(|value| (name.to_owned(), value))
    }

    /// Returns an exporter variable. The variable for metrics overrides the one for all signals.
    fn of_exporter(&self, name: &str) -> Option<(String, String)> {
        let of_metrics = self.of(&format!("OTEL_EXPORTER_OTLP_METRICS_{name}"));
        of_metrics.or_else(|| self.of(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    fn milliseconds(&mut self, said: Option<(String, String)>, otherwise: u64) -> Duration {
        let read = said.map(|(name, text)| match text.parse() {
            Ok(number @ 1..) => number,
            _ => {
                let problem = format!(
                    "{name}={text} is not a number of milliseconds; mlprof uses {otherwise}"
                );
                self.problems.push(problem);
                otherwise
            }
        });
        Duration::from_millis(read.unwrap_or(otherwise))
    }

    /// Returns `true` if the variable has the second of two words. The first word is the default.
    fn is_second(&mut self, said: Option<(String, String)>, words: [&str; 2]) -> bool {
        let Some((name, text)) = said else { return false };
        let place = words.iter().position(|word| text.eq_ignore_ascii_case(word));
        if place.is_none() {
            let [first, second] = words;
            let problem =
                format!("{name}={text} is neither {first} nor {second}; mlprof uses {first}");
            self.problems.push(problem);
        }
        place == Some(1)
    }

    /// Parses `a=b,c=d`, in which values may be percent-encoded. Problems omit the values, which
    /// may be secrets.
    fn pairs(&mut self, said: Option<(String, String)>) -> Vec<(String, String)> {
        let Some((name, text)) = said else { return Vec::new() };
        let mut pairs = Vec::new();
        for (index, entry) in text.split(',').enumerate().filter(|(_, it)| !it.trim().is_empty()) {
            match entry.split_once('=').filter(|(key, _)| !key.trim().is_empty()) {
                Some((key, value)) => {
                    let value = percent_decode_str(value.trim()).decode_utf8_lossy();
                    pairs.push((key.trim().to_owned(), value.into_owned()));
                }
                None => self
                    .problems
                    .push(format!("{name}: entry {} does not have the form key=value", index + 1)),
            }
        }
        pairs
    }

    fn headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let said = self.of_exporter("HEADERS");
        let variable = said.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
        let mut headers = Vec::new();
        for (key, value) in self.pairs(said) {
            match (HeaderName::try_from(&key), HeaderValue::try_from(&value)) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                (Ok(name), Err(_)) => {
                    self.problems.push(format!(
                        "{variable}: {name} has an invalid value for an HTTP header"
                    ));
                }
                // The key is not printed, because it may be a part of the value, as in
                // `authorization: Bearer secret=`.
                (Err(_), _) => {
                    self.problems
                        .push(format!("{variable}: a key is not a valid HTTP header name"));
                }
            }
        }
        headers
    }

    #[cfg(feature = "otlp-tls")]
    fn file(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some((variable, path)) = self.of_exporter(name) else { return Ok(None) };
        let read = mlprof_events::files::read(path.as_ref(), LONGEST_FILE);
        read.map(Some).map_err(|error| format!("cannot read {variable}={path}: {error}"))
    }

    /// Returns the service name and the other resource attributes.
    fn resource(&mut self) -> Vec<(String, String)> {
        let said = self.of("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = self.pairs(said);
        if let Some((_, name)) = self.of("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        resource
    }
}

impl Settings {
    /// Reads the settings from the environment.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings do not allow pushing.
    pub(super) fn read(
        asked: &PushTarget,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut reader = Reader { value, problems: Vec::new() };
        check(&asked.url)?;
        if let Some((name, protocol)) = reader.of_exporter("PROTOCOL")
            && protocol != PROTOCOL
        {
            return Err(format!(
                "{name}={protocol} is not supported; set it to {PROTOCOL}, which collectors accept at port 4318"
            ));
        }
        if let Some((name, preference)) =
            reader.of("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
            && !preference.eq_ignore_ascii_case("cumulative")
        {
            reader
                .problems
                .push(format!("{name}={preference} is not supported; counts stay cumulative"));
        }
        let timeout = reader.of_exporter("TIMEOUT");
        let interval = reader.of("OTEL_METRIC_EXPORT_INTERVAL");
        let compression = reader.of_exporter("COMPRESSION");
        let histogram = reader.of("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION");
        let forms = ["explicit_bucket_histogram", "base2_exponential_bucket_histogram"];
        Ok(Self {
            url: asked.url.clone(),
            shown_url: asked.shown_url(),
            headers: reader.headers(),
            is_compressed: reader.is_second(compression, ["none", "gzip"]),
            patience: reader.milliseconds(timeout, PATIENCE),
            interval: reader.milliseconds(interval, INTERVAL),
            is_exponential: reader.is_second(histogram, forms),
            #[cfg(feature = "otlp-tls")]
            tls: super::certificates::read(|name| reader.file(name))?,
            resource: reader.resource(),
            problems: reader.problems,
        })
    }
}

/// Checks that metrics can be pushed to the URL. The error omits the URL, which may contain a
/// password.
fn check(url: &str) -> Result<(), String> {
    let uri = Uri::try_from(url).map_err(|error| format!("the URL is not valid: {error}"))?;
    match uri.scheme_str() {
        _ if uri.host().is_none_or(str::is_empty) => Err("the URL has no host".to_owned()),
        Some("http") => Ok(()),
        Some("https") if cfg!(feature = "otlp-tls") => Ok(()),
        Some("https") => {
            Err("the program lacks https support; turn on the feature `otlp-tls` of the mlprof plugin as well".to_owned())
        }
        _ => Err("the URL begins with neither http:// nor https://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, variables: &[(&str, &str)]) -> Result<Settings, String> {
        let value = |name: &str| {
            variables.iter().find(|it| it.0 == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::read(&PushTarget { variable: "V", url: url.to_owned() }, &value)
    }

    fn here(variables: &[(&str, &str)]) -> Settings {
        read("http://localhost:4318/v1/metrics", variables).expect("it can be")
    }

    #[test]
    fn unset_values_have_the_defaults_of_the_specification() {
        let settings = here(&[]);
        assert_eq!(settings.interval, Duration::from_secs(60));
        assert_eq!(settings.patience, Duration::from_secs(10));
        assert!(!settings.is_compressed && !settings.is_exponential);
        assert!(settings.headers.is_empty() && settings.resource.is_empty());
        assert!(settings.problems.is_empty(), "{:?}", settings.problems);
    }

    #[test]
    fn metrics_variables_override_general_ones() {
        let settings = here(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=Bearer%20x%3D, X-Scope = t "),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "100"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "BASE2_exponential_bucket_histogram",
            ),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "digits"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"),
        ]);
        let headers: Vec<_> =
            settings.headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(
            headers,
            [
                ("authorization", &HeaderValue::from_static("Bearer x=")),
                ("x-scope", &HeaderValue::from_static("t"))
            ]
        );
        assert_eq!((settings.patience.as_millis(), settings.interval.as_millis()), (250, 500));
        assert!(settings.is_compressed && settings.is_exponential && settings.problems.is_empty());
        let expected = [("team", "a,b"), ("service.name", "digits")];
        assert_eq!(
            settings.resource,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn invalid_values_are_reported_without_secrets() {
        let settings = here(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret,key=hid\nden,b=2"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ]);
        assert_eq!(settings.headers.len(), 1);
        let problems = settings.problems.join("\n");
        for part in [
            "HEADERS: entry 1 does not have the form key=value",
            "key has an invalid value",
            "INTERVAL=0 is not a number",
            "zstd",
            "delta",
        ] {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        assert!(!problems.contains("secret") && !problems.contains("hid"), "{problems}");
        let colon = [("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer hidden=")];
        assert_eq!(
            here(&colon).problems,
            ["OTEL_EXPORTER_OTLP_HEADERS: a key is not a valid HTTP header name"]
        );
        let error = read("grpc://localhost:4317", &[]).expect_err("another protocol");
        assert!(error.contains("neither http:// nor https://"), "{error}");
        let grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        let error = read("http://localhost:4317/v1/metrics", &grpc).expect_err("another protocol");
        assert!(error.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported"), "{error}");
        for url in ["localhost:4318/v1/metrics", "http:///v1/metrics", "not a url", ""] {
            read(url, &[]).expect_err(url);
        }
    }

    #[cfg(feature = "otlp-tls")]
    #[test]
    fn a_certificate_that_is_not_there_is_said() {
        let file = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")];
        let error = read("https://localhost:4318", &file).expect_err("no file");
        let expected = "cannot read OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca.pem: ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[cfg(not(feature = "otlp-tls"))]
    #[test]
    fn https_needs_its_feature() {
        let error = read("https://localhost:4318", &[]).expect_err("no TLS");
        assert!(error.contains("the feature `otlp-tls`"), "{error}");
    }
}
