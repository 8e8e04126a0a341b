//! OpenTelemetry's door: metrics of the training, pushed to a collector that the environment names.
//!
//! It is there with `OTEL_EXPORTER_OTLP_ENDPOINT`, or `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, in the environment, and reads the
//! other variables that OpenTelemetry's specification has for it. What is pushed is what Prometheus' door shows, by the same
//! names: sums and histograms of the whole process, which never go back, so that a push that is lost loses no count.
//!
//! * `asked` is whether the environment wants metrics, and where; `settings` is how.
//! * `resource` is what is said of the process, `message` how metrics are written.
//! * `collector` is the way to whoever takes them, `certificates` whom to trust on it, `pusher` the thread that pushes, now and then and once more at the end.
//!
//! The messages are those of the crate opentelemetry-proto. OpenTelemetry's SDK and its exporter count for themselves: they
//! take no histogram that somebody has counted already, so each duration would be recorded twice.
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

use config::Asked;

/// Has metrics pushed if the environment says so.
pub(crate) fn start_if_asked() {
    let value = |name: &str| variable(name).map(|it| it.to_string_lossy().into_owned());
    if let Some(asked) = config::asked(&value)
        && let Err(why) = start(&asked, &value)
    {
        let (url, variable) = (asked.shown_url(), asked.variable);
        say(format_args!("mlprof: no metrics are pushed to {url}, as {variable} asks: {why}"));
    }
}

#[cfg(all(unix, feature = "otlp"))]
fn start(asked: &Asked, value: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let settings = settings::Settings::read(asked, value)?;
    for problem in &settings.problems {
        say(format_args!("mlprof: {problem}"));
    }
    let (url, seconds) = (settings.shown_url.clone(), settings.interval.as_secs_f64());
    mlprof_events::uncounted(|| pusher::start(settings))?;
    say(format_args!("mlprof: metrics are pushed to {url} every {seconds} s"));
    Ok(())
}

#[cfg(all(unix, not(feature = "otlp")))]
fn start(_: &Asked, _: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let why = "the program was built without that; turn on the feature `otlp` of its mlprof plugin \
               (OTEL_METRICS_EXPORTER=none says that none are wanted)";
    Err(why.to_owned())
}

#[cfg(not(unix))]
fn start(_: &Asked, _: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    Err("that is there on Unix only".to_owned())
}
