//! Endpoint for dynolog, a daemon that requests traces from all trainings of a machine. In PyTorch,
//! libkineto answers these requests.
//!
//! With `KINETO_USE_DAEMON` in its environment, a process polls the daemon every five seconds for a
//! recording request, as libkineto does. It writes the trace to the path that `dyno gputrace`
//! prints. Without a daemon, the process only keeps polling.
//!
//! * `message` defines the datagrams, `endpoint` the sockets, and `config` parses the daemon's
//!   requests.
//! * `client` is the polling thread, and `trace` performs a recording and writes its file.
//!
//! libtorch also contains such a client. It is only started by Python, or by a program that calls
//! `torch::global_kineto_init`.

mod client;
mod config;
mod endpoint;
mod message;
mod trace;

use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use mlprof_core::output::say;
use mlprof_events::environment::variable;
use mlprof_events::files::read_text;
use mlprof_events::uncounted;

use crate::shared::door_is_open;
use client::Client;

/// Environment variable that enables polling, with any value, as in libkineto.
const USE_DAEMON: &str = "KINETO_USE_DAEMON";

/// Default polling interval in seconds, as in libkineto.
const INTERVAL: u64 = 5;
/// Maximum polling interval in seconds. The daemon forgets a process that has not polled for a
/// minute.
const LONGEST_INTERVAL: u64 = 60;
/// Maximum size in bytes of libkineto's config file.
const LONGEST_CONFIG: u64 = 1 << 20;

/// Settings from the environment and libkineto's config file, read when the process starts.
/// Background threads do not read the environment.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

#[derive(Debug)]
struct Settings {
    /// Folder of socket files; `None` for abstract names.
    sockets: Option<PathBuf>,
    /// Folders in which traces may be written, including their subfolders.
    traces: Vec<PathBuf>,
    /// Job number.
    job: i64,
    interval: Duration,
}

impl Settings {
    fn of_environment() -> Self {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let traces = match value("KINETO_ONDEMAND_TRACE_DIR") {
            Some(folder) => vec![folder.into()],
            None => folders_for_temporary_files(),
        };
        let job = value("SLURM_JOB_ID").and_then(|job| job.to_str()?.parse().ok());
        let file = value("KINETO_CONFIG").map_or("/etc/libkineto.conf".into(), PathBuf::from);
        let interval = interval_of(&read_text(&file, LONGEST_CONFIG).unwrap_or_default());
        Self {
            sockets: value("KINETO_IPC_SOCKET_DIR").map(PathBuf::from),
            traces,
            job: job.unwrap_or_default(),
            interval,
        }
    }
}

/// Returns the temporary folders of libkineto and of this system.
fn folders_for_temporary_files() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/tmp")];
    let own = std::env::temp_dir();
    if own.is_absolute() && !own.starts_with("/tmp") {
        folders.push(own);
    }
    folders
}

/// Returns the polling interval in libkineto's config file.
fn interval_of(file: &str) -> Duration {
    let named = file.lines().rev().find_map(|line| {
        let (key, value) = line.split('#').next()?.split_once('=')?;
        (key.trim() == "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS")
            .then(|| value.trim().parse().ok())?
    });
    Duration::from_secs(named.unwrap_or(INTERVAL).clamp(1, LONGEST_INTERVAL))
}

/// Starts polling if the environment requests it.
pub(crate) fn start_if_asked() {
    if variable(USE_DAEMON).is_some() {
        start();
    }
}

fn start() {
    uncounted(|| {
        mlprof_events::forking::watch();
        let settings = SETTINGS.get_or_init(Settings::of_environment);
        if let Err(error) = Client::start(settings) {
            say(format_args!(
                "mlprof: {USE_DAEMON} is set, but mlprof cannot poll dynolog's daemon: {error}"
            ));
            return;
        }
        static OPEN: Once = Once::new();
        OPEN.call_once(|| door_is_open(start_after_fork));
    });
}

/// Starts polling in a forked child, which is a separate process for the daemon.
fn start_after_fork() {
    if !client::is_of_this_process() {
        start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libkinetos_file_says_how_often_the_daemon_is_asked() {
        let seconds = |file: &str| interval_of(file).as_secs();
        assert_eq!(seconds(""), 5);
        assert_eq!(seconds("ACTIVITIES_ENABLED=true\n"), 5);
        assert_eq!(seconds("A=1\n ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS = 2 # quick\nB"), 2);
        assert_eq!(seconds("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=0"), 1);
        assert_eq!(seconds("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=soon"), 5);
        assert_eq!(seconds("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1000"), 60);
    }
}
