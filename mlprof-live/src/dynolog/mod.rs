//! dynolog's door: a daemon that asks all trainings of a machine for traces, which libkineto obeys in PyTorch.
//!
//! With `KINETO_USE_DAEMON` in its environment a process asks the daemon every five seconds whether something is to be
//! recorded, as libkineto does, and writes the trace where `dyno gputrace` says that it will be. Without a daemon nothing
//! happens but that it asks on.
//!
//! * `message` is what the two tell each other, to the byte, and `endpoint` the sockets. `config` is what the daemon wants.
//! * `client` is the thread that asks, `trace` a recording and its file.
//!
//! libtorch has such a client, too, which only Python starts, or a program that calls `torch::global_kineto_init`.

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

/// Has the process ask a daemon if it is there; set to anything, as for libkineto.
const USE_DAEMON: &str = "KINETO_USE_DAEMON";

/// How often the daemon is asked, in seconds, as by libkineto.
const INTERVAL: u64 = 5;
/// A daemon forgets who has not asked for a minute.
const LONGEST_INTERVAL: u64 = 60;
/// Bytes of libkineto's file that are read, at most.
const LONGEST_CONFIG: u64 = 1 << 20;

/// What the environment and libkineto's file said when the process began: threads of ours do not look at them.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

#[derive(Debug)]
struct Settings {
    /// Where sockets are files; else they have abstract names.
    sockets: Option<PathBuf>,
    /// Below these traces may be.
    traces: Vec<PathBuf>,
    /// The job's number.
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

/// libkineto's, and this system's.
fn folders_for_temporary_files() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/tmp")];
    let own = std::env::temp_dir();
    if own.is_absolute() && !own.starts_with("/tmp") {
        folders.push(own);
    }
    folders
}

/// How often libkineto's own file has the daemon asked.
fn interval_of(file: &str) -> Duration {
    let named = file.lines().rev().find_map(|line| {
        let (key, value) = line.split('#').next()?.split_once('=')?;
        (key.trim() == "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS")
            .then(|| value.trim().parse().ok())?
    });
    Duration::from_secs(named.unwrap_or(INTERVAL).clamp(1, LONGEST_INTERVAL))
}

/// Has the process ask the daemon if the environment says so.
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
                "mlprof: {USE_DAEMON} is set, but dynolog's daemon cannot be asked: {error}"
            ));
            return;
        }
        static OPEN: Once = Once::new();
        OPEN.call_once(|| door_is_open(start_after_fork));
    });
}

/// A forked child is a process of its own for the daemon.
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
