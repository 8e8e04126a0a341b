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
}

// SAFETY: it reads the environment, takes locks, makes a socket and starts a thread, which neither the standard library nor
// an allocator needs `main` for; that thread does not look at the environment.
profiler_events::before_main!(unsafe listen_if_asked);
