//! OpenTelemetry push: sends metrics of the training to a collector configured in the environment.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` in the environment
//! enables it. The other variables of OpenTelemetry's specification are also supported. The pushed
//! metrics are those of the Prometheus endpoint, with the same names. Sums and histograms are
//! cumulative over the whole process, so a lost push loses no counts.
//!
//! * `config` reads the push target from the environment; `settings` reads the other options.
//! * `resource` describes the process, and `message` encodes the metrics.
//! * `collector` is the HTTP client, `certificates` its TLS configuration, and `pusher` the thread
//!   that pushes periodically and once more at the end.
//!
//! The messages come from the crate opentelemetry-proto. OpenTelemetry's SDK and its exporter do
//! not accept existing histograms, so each duration would have to be recorded twice.
//!
//! *Source*: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>,
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>,
//! <https://opentelemetry.io/docs/specs/otlp/>.

#[cfg(all(unix, feature = "otlp-tls"))]
mod certificates;
#[cfg(all(unix, feature = "otlp"))]
mod collector;
mod config;
#[cfg(all(unix, feature = "otlp"))]
mod message;
#[cfg(all(unix, feature = "otlp"))]
mod pusher;
#[cfg(all(unix, feature = "otlp"))]
mod resource;
#[cfg(all(unix, feature = "otlp"))]
mod settings;

use mlprof_core::output::say;
use mlprof_events::environment::variable;

use config::PushTarget;

/// Starts pushing metrics if the environment requests it.
pub(crate) fn start_if_asked() {
    let value = |name: &str| variable(name).map(|it| it.to_string_lossy().into_owned());
    if let Some(target) = config::push_target(&value)
        && let Err(why) = start(&target, &value)
    {
        let (url, variable) = (target.shown_url(), target.variable);
        say(format_args!(
            "mlprof: cannot push metrics to {url}, although {variable} is set: {why}"
        ));
    }
}

#[cfg(all(unix, feature = "otlp"))]
fn start(target: &PushTarget, value: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let settings = settings::Settings::read(target, value)?;
    for problem in &settings.problems {
        say(format_args!("mlprof: {problem}"));
    }
    let (url, seconds) = (settings.shown_url.clone(), settings.interval.as_secs_f64());
    mlprof_events::uncounted(|| pusher::start(settings))?;
    say(format_args!("mlprof: pushing metrics to {url} every {seconds} s"));
    Ok(())
}

#[cfg(all(unix, not(feature = "otlp")))]
fn start(_: &PushTarget, _: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let why = "the program lacks support; turn on the feature `otlp` of its mlprof plugin, or set \
               OTEL_METRICS_EXPORTER=none to silence this message";
    Err(why.to_owned())
}

#[cfg(not(unix))]
fn start(_: &PushTarget, _: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    Err("only Unix is supported".to_owned())
}
