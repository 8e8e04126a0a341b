//! How a process comes to listen without a line in the program.

use mlprof_core::output::say;
use mlprof_core::watcher::{Listening, can_listen};
use mlprof_core::{RunContext, build_settings};
use mlprof_events::environment::{Environment, Port, Switch};
use mlprof_events::error_chain::Chain;

/// Before anything asks for it.
fn register() {
    let begin = || crate::start().map_err(|error| Chain(&error).to_string());
    can_listen(Listening { begin, end: crate::stop });
}

/// Has the process listen if the environment says so.
fn listen_if_asked() {
    // In the library of `mlprof run`: who listens is what the run says, for the program may have a copy of its own.
    if build_settings::is_apart() {
        return;
    }
    let environment = Environment::get();
    for problem in environment.problems.iter().filter(|it| it.starts_with("MLPROF_LIVE=")) {
        say(format_args!("mlprof: {problem}; nobody can look in while it runs"));
    }
    if environment.live == Some(Switch::On)
        && let Err(error) = crate::start()
    {
        say(format_args!("mlprof: nobody can look in while it runs: {error:?}"));
    }
    #[cfg(target_os = "linux")]
    crate::dynolog::start_if_asked();
    for door in &DOORS {
        door.open_if_asked(environment);
    }
    crate::otlp::start_if_asked();
}

/// A door at a port that a variable of the environment names.
struct Door {
    variable: &'static str,
    port: fn(&Environment) -> Option<Port>,
    /// What there is not while it is closed.
    is_missing: &'static str,
    /// The feature that it is there with.
    feature: &'static str,
    /// Opens it, if this process was built with it.
    open: Option<fn(Port)>,
}

/// TensorBoard's and XProf's, and Prometheus'.
const DOORS: [Door; 2] = [
    Door {
        variable: "MLPROF_CAPTURE_PORT",
        port: |environment| environment.capture_port,
        is_missing: "TensorBoard and XProf cannot capture this process",
        feature: "capture",
        #[cfg(all(unix, feature = "capture"))]
        open: Some(crate::capture::start),
        #[cfg(not(all(unix, feature = "capture")))]
        open: None,
    },
    Door {
        variable: "MLPROF_METRICS_PORT",
        port: |environment| environment.metrics_port,
        is_missing: "there are no metrics",
        feature: "metrics",
        #[cfg(all(unix, feature = "metrics"))]
        open: Some(crate::metrics::start),
        #[cfg(not(all(unix, feature = "metrics")))]
        open: None,
    },
];

/// Processes of one machine that train together have a port each: those that follow on the one that is named.
fn of_local_rank(port: Port) -> Port {
    let local_rank = RunContext::from_environment().local_rank;
    let local_rank = u16::try_from(local_rank).unwrap_or(u16::MAX);
    if port.0 == 0 { port } else { Port(port.0.saturating_add(local_rank)) }
}

impl Door {
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
                "mlprof: {is_missing}, as {variable} asks: the program was built without that; turn on the feature `{feature}` of \
                 its mlprof plugin"
            )),
            (Some(_), None) => say(format_args!(
                "mlprof: {is_missing}, as {variable} asks: that is there on Unix only"
            )),
        }
    }
}

// SAFETY: it stores two addresses.
mlprof_events::before_main!(unsafe first register);

// SAFETY: it reads the environment, takes locks, makes a socket and starts a thread, which neither the standard library nor
// an allocator needs `main` for; that thread does not look at the environment.
mlprof_events::before_main!(unsafe listen_if_asked);
