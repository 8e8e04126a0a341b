//! TensorBoard's and XProf's door: their CAPTURE PROFILE button asks a `tensorflow.ProfilerService`, which this is, by
//! gRPC over HTTP/2 without encryption.
//!
//! | asked | answered |
//! |---|---|
//! | `Profile` | once the time is over, the trace of that time as XProf reads it, as a file for whoever asked to write |
//! | `Terminate` | ends the capture of that session with what it has |
//! | `Monitor` | how long steps took |
//! | `StartContinuousProfiling`, `StopContinuousProfiling`, `GetSnapshot` | that there is no such thing here |
//!
//! * `listener` is the port, and the thread that everything but recordings happens on; `connection` one client, `call`
//!   one request. `grpc` is how messages and errors are wrapped, `host` who a client may believe to talk to.
//! * `messages` are the messages, `profile` a capture, `space` its trace, `monitor` the times of steps.
//!
//! The button can send no token, so whoever may connect to a port of this machine may capture: a local user of it, too.
//! That is why it is off unless asked for, on the loopback address only, and takes nothing from the wire but times,
//! levels and a session's name. What can be asked for, and how much at once, is bounded.
//!
//! Formats: `tensorflow/tsl/profiler/protobuf/profiler_service.proto` and `profiler_options.proto`.

mod call;
mod connection;
mod grpc;
mod host;
mod listener;
mod messages;
mod monitor;
mod profile;
mod space;

use mlprof_core::output::say;
use mlprof_events::environment::Port;
use mlprof_events::uncounted;

use crate::{Error, shared};

/// Has the process answer TensorBoard's and XProf's CAPTURE PROFILE from here on, to its end, at `127.0.0.1:{port}`; 0
/// chooses a port that is free. Which one it is comes back, and is said on standard error. The same as
/// `MLPROF_CAPTURE_PORT={port}` in the program's environment.
///
/// Trainings that begin from here on are known. If it answers already nothing changes: the port is the one that it has.
/// A forked child has no port, unless it calls this itself.
///
/// *Whoever may connect to a port of this machine may capture*, as the button can send no password.
///
/// *Cost*: a thread that sleeps, and what [this crate](crate) says of listening; while it captures, what the Tensor
/// profiler costs, and afterwards some microseconds of a thread of ours and some hundred bytes of memory for each event.
///
/// # Errors
///
/// If the port is taken, or no thread can be started.
pub fn capture(port: u16) -> Result<u16, Error> {
    uncounted(|| {
        mlprof_events::forking::watch();
        let opened = listener::listen(port).map_err(|error| Error::Port { port, source: error })?;
        if opened.is_new {
            shared::door_is_open(|| {});
            let port = opened.port;
            say(format_args!(
                "mlprof: TensorBoard and XProf can capture this process at 127.0.0.1:{port}"
            ));
        }
        Ok(opened.port)
    })
}

/// Opens the door.
pub(crate) fn start(port: Port) {
    if let Err(error) = capture(port.0) {
        say(format_args!("mlprof: TensorBoard and XProf cannot capture this process: {error:?}"));
    }
}
