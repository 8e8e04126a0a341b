//! Makes a process listen without any code in the program itself.

use mlprof_core::output::say;
use mlprof_core::watcher::{Listening, can_listen};
use mlprof_core::{RunContext, build_settings};
use mlprof_events::environment::{Environment, Port, Switch};
use mlprof_events::error_chain::Chain;

/// Registers the listener before the profiling library needs it.
fn register() {
    let begin = || crate::start().map_err(|error| Chain(&error).to_string());
    can_listen(Listening { begin, end: crate::stop });
}

/// Opens the endpoints that the environment requests.
fn listen_if_asked() {
    // In the library of `mlprof run`, the run decides which copy of this crate listens, because the
    // program may contain another copy.
    if build_settings::is_apart() {
        return;
    }
    let environment = Environment::get();
    for problem in environment.problems.iter().filter(|it| it.starts_with("MLPROF_LIVE=")) {
        say(format_args!("mlprof: {problem}; live inspection is off"));
    }
    if environment.live == Some(Switch::On)
        && let Err(error) = crate::start()
    {
        say(format_args!("mlprof: live inspection is off: {error:?}"));
    }
    #[cfg(target_os = "linux")]
    crate::dynolog::start_if_asked();
    for door in &DOORS {
        door.open_if_asked(environment);
    }
    crate::otlp::start_if_asked();
}

/// Endpoint with a port that an environment variable sets.
struct Endpoint {
    variable: &'static str,
    port: fn(&Environment) -> Option<Port>,
    /// Text for messages about a closed endpoint.
    is_missing: &'static str,
    /// Feature that enables the endpoint.
    feature: &'static str,
    /// Function that opens the endpoint; `None` if its feature is disabled.
    open: Option<fn(Port)>,
}

/// Endpoints of TensorBoard and XProf, and of Prometheus.
const DOORS: [Endpoint; 2] = [
    Endpoint {
        variable: "MLPROF_CAPTURE_PORT",
        port: |environment| environment.capture_port,
        is_missing: "TensorBoard and XProf cannot capture this process",
        feature: "capture",
        #[cfg(all(unix, feature = "capture"))]
        open: Some(crate::capture::start),
        #[cfg(not(all(unix, feature = "capture")))]
        open: None,
    },
    Endpoint {
        variable: "MLPROF_METRICS_PORT",
        port: |environment| environment.metrics_port,
        is_missing: "metrics are not available",
        feature: "metrics",
        #[cfg(all(unix, feature = "metrics"))]
        open: Some(crate::metrics::start),
        #[cfg(not(all(unix, feature = "metrics")))]
        open: None,
    },
];

/// Returns the port for this process. Processes of one training on the same machine use consecutive
/// ports, beginning with the configured one.
fn of_local_rank(port: Port) -> Port {
    let local_rank = RunContext::from_environment().local_rank;
    let local_rank = u16::try_from(local_rank).unwrap_or(u16::MAX);
    if port.0 == 0 { port } else { Port(port.0.saturating_add(local_rank)) }
}

impl Endpoint {
    fn open_if_asked(&self, environment: &Environment) {
        let Self { variable, is_missing, feature, .. } = self;
        let of_port = |problem: &&String| {
            problem.strip_prefix(variable).is_some_and(|rest| rest.starts_with('='))
        };
        for problem in environment.problems.iter().filter(of_port) {
            say(format_args!("mlprof: {problem}; {is_missing}"));
        }
        match ((self.port)(environment), self.open) {
            (None, _) => {}
            (Some(port), Some(open)) => open(of_local_rank(port)),
            (Some(_), None) if cfg!(unix) => say(format_args!(
                "mlprof: {is_missing}, although {variable} is set: the program lacks support; turn on the \
                 feature `{feature}` of its mlprof plugin"
            )),
            (Some(_), None) => say(format_args!(
                "mlprof: {is_missing}, although {variable} is set: only Unix is supported"
            )),
        }
    }
}

// SAFETY: the function only stores two function pointers, so it needs no state that `main`
// initialises.
mlprof_events::before_main!(unsafe first register);

// SAFETY: the function reads the environment, takes locks, creates sockets and starts threads. The
// standard library and the allocator support all of this before `main`. The threads do not read the
// environment.
mlprof_events::before_main!(unsafe listen_if_asked);
