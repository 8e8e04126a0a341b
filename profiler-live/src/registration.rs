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
    capture_if_asked(environment);
}

/// Opens the door of TensorBoard and XProf if the environment says so.
fn capture_if_asked(environment: &Environment) {
    let of_port = |problem: &&String| problem.starts_with("MLPROF_CAPTURE_PORT=");
    for problem in environment.problems.iter().filter(of_port) {
        say(format_args!("mlprof: {problem}; TensorBoard and XProf cannot capture this process"));
    }
    #[cfg(all(unix, feature = "capture"))]
    crate::capture::start_if_asked();
    #[cfg(not(all(unix, feature = "capture")))]
    if environment.capture_port.is_some() {
        let how = if cfg!(unix) {
            "it was built without what listens there: turn on the feature `capture` of its mlprof plugin"
        } else {
            "that is there on Unix only"
        };
        say(format_args!(
            "mlprof: TensorBoard and XProf cannot capture this process, as MLPROF_CAPTURE_PORT asks: {how}"
        ));
    }
}

// SAFETY: it reads the environment, takes locks, makes a socket and starts a thread, which neither the standard library nor
// an allocator needs `main` for; that thread does not look at the environment.
profiler_events::before_main!(unsafe listen_if_asked);
