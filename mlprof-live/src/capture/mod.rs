//! Endpoint for TensorBoard and XProf. Their CAPTURE PROFILE button calls a
//! `tensorflow.ProfilerService`, which this module implements with gRPC over unencrypted HTTP/2.
//!
//! | request | response |
//! |---|---|
//! | `Profile` | the trace of the requested time in XProf's format, after that time, as a file for the client to write |
//! | `Terminate` | ends the capture of that session early, with the data recorded so far |
//! | `Monitor` | step times |
//! | `StartContinuousProfiling`, `StopContinuousProfiling`, `GetSnapshot` | an error: not implemented |
//!
//! * `listener` owns the port and the thread that handles everything except recordings.
//!   `connection` serves one client and `call` one request. `grpc` frames messages and errors, and
//!   `host` checks the host name of requests.
//! * `messages` defines the messages, `profile` runs a capture, `space` converts its trace, and
//!   `monitor` reports step times.
//!
//! The button cannot send a token, so any local user who can connect to the port may start a
//! capture. The endpoint is therefore off by default and listens only on the loopback address. From
//! requests it reads only times, levels and a session name. The number and size of concurrent
//! requests are limited.
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

/// Starts to answer TensorBoard's and XProf's CAPTURE PROFILE at `127.0.0.1:{port}`, until the
/// process ends. Port 0 selects a free port. The port is returned and also printed on standard
/// error. `MLPROF_CAPTURE_PORT={port}` in the program's environment has the same effect.
///
/// Trainings that begin after this call can be captured. If the process already listens, nothing
/// changes and the existing port is returned. A forked child has no port unless it calls this
/// function itself.
///
/// *Any local user who can connect to the port may start a capture*, because the button cannot send
/// a password.
///
/// *Cost*: a sleeping thread, and the cost of listening described in [this crate](crate). During a
/// capture, the cost of the Tensor profiler is added. Afterwards, a background thread needs some
/// microseconds and some hundred bytes of memory per event.
///
/// # Errors
///
/// Returns an error if the port is taken, or if no thread can be started.
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

/// Starts the endpoint, and prints a message if that fails.
pub(crate) fn start(port: Port) {
    if let Err(error) = capture(port.0) {
        say(format_args!("mlprof: TensorBoard and XProf cannot capture this process: {error:?}"));
    }
}
