//! How a process comes to listen without a line in the program.

use profiler_core::output::say;
use profiler_events::environment::{Environment, Switch};

/// Has the process listen if the environment says so.
extern "C" fn listen_if_asked() {
    let environment = Environment::get();
    for problem in environment.problems.iter().filter(|it| it.starts_with("MLPROF_LIVE=")) {
        say(format_args!("mlprof: {problem}; nobody can look in while it runs"));
    }
    if environment.live == Some(Switch::On)
        && let Err(error) = crate::start()
    {
        say(format_args!("mlprof: nobody can look in while it runs: {error}"));
    }
    #[cfg(target_os = "linux")]
    crate::dynolog::start_if_asked();
    metrics_if_asked(environment);
}

/// Opens Prometheus' door if the environment says so.
fn metrics_if_asked(environment: &Environment) {
    let of_port = |problem: &&String| problem.starts_with("MLPROF_METRICS_PORT=");
    for problem in environment.problems.iter().filter(of_port) {
        say(format_args!("mlprof: {problem}; there are no metrics"));
    }
    #[cfg(all(unix, feature = "metrics"))]
    crate::metrics::start_if_asked();
    #[cfg(not(all(unix, feature = "metrics")))]
    if environment.metrics_port.is_some() {
        let how = if cfg!(unix) {
            "the program was built without them: turn on the feature `metrics` of its mlprof plugin"
        } else {
            "they are there on Unix only"
        };
        say(format_args!("mlprof: there are no metrics, as MLPROF_METRICS_PORT asks: {how}"));
    }
}

// SAFETY: it reads the environment, takes locks, makes a socket and starts a thread, which neither the standard library nor
// an allocator needs `main` for; that thread does not look at the environment.
profiler_events::before_main!(unsafe listen_if_asked);
