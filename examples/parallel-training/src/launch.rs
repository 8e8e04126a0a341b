//! Starts the processes of a run on this machine, as `torchrun` does for Python programs.

use std::fmt::Write;
use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use mlprof_core::interrupt;

/// Polling interval for ended processes.
const PAUSE: Duration = Duration::from_millis(20);

/// An error of a run with several processes.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A process could not be started. The earlier processes were ended.
    #[error("cannot start rank {rank}: {source}")]
    Start {
        /// Rank of the process.
        rank: u32,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No free port was found for the meeting.
    #[error("cannot find a free port on 127.0.0.1: {0}")]
    Port(io::Error),
    /// Some processes failed.
    #[error("{0}")]
    Failed(String),
}

mlprof_core::debug_as_display!(LaunchError);

/// Starts this program `processes` times with the same arguments, and waits for all of them.
///
/// Each process receives its position in `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, and the address of
/// rank 0 in `MASTER_ADDR` and `MASTER_PORT`. The processes share the cores: each gets an equal
/// number in `RAYON_NUM_THREADS`, unless that variable is already set. If one process fails, the
/// others have `grace` to exit.
///
/// # Errors
///
/// Returns the failed ranks and their exit reasons.
pub fn launch(processes: u32, grace: Duration) -> Result<(), LaunchError> {
    // Ctrl-C also reaches the ranks. They report and exit, and this process waits for them.
    let _watch = interrupt::watch();
    let port = free_port().map_err(LaunchError::Port)?;
    let mut running = Running(Vec::new());
    for rank in 0..processes {
        let child = start(rank, processes, port);
        let child = child.map_err(|source| LaunchError::Start { rank, source })?;
        running.0.push((rank, child));
    }
    let ended = running.wait(grace);
    let mut failures = String::new();
    for Ended { rank, how, was_killed } in ended {
        let separator = if failures.is_empty() { "" } else { "; " };
        // Writing to a string cannot fail.
        let _ = match how {
            _ if was_killed => write!(
                failures,
                "{separator}rank {rank} was killed, because it did not end within {grace:?} after \
                 another rank failed"
            ),
            Ok(status) if status.success() => Ok(()),
            Ok(status) => write!(failures, "{separator}rank {rank} failed ({status})"),
            Err(error) => write!(failures, "{separator}rank {rank}: {error}"),
        };
    }
    if failures.is_empty() { Ok(()) } else { Err(LaunchError::Failed(failures)) }
}

/// Returns a port that was free a moment ago. Another program may take it before rank 0 does, and
/// rank 0 then reports this.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn start(rank: u32, processes: u32, port: u16) -> io::Result<Child> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", processes.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.to_string());
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        command.env("RAYON_NUM_THREADS", (cores / processes as usize).max(1).to_string());
    }
    command.spawn()
}

/// Started processes. Those that are still running when this is dropped are killed.
struct Running(Vec<(u32, Child)>);

/// The exit of a rank.
struct Ended {
    rank: u32,
    how: io::Result<ExitStatus>,
    was_killed: bool,
}

impl Running {
    /// Waits until all processes have exited and returns them in exit order.
    fn wait(&mut self, grace: Duration) -> Vec<Ended> {
        let mut ended = Vec::new();
        let mut deadline: Option<Instant> = None;
        while !self.0.is_empty() {
            self.0.retain_mut(|(rank, child)| {
                let is_late = deadline.is_some_and(|deadline| Instant::now() > deadline);
                let how = match child.try_wait() {
                    Ok(None) if is_late => child.kill().and_then(|()| child.wait()),
                    Ok(None) => return true,
                    Ok(Some(status)) => {
                        ended.push(Ended { rank: *rank, how: Ok(status), was_killed: false });
                        return false;
                    }
                    Err(error) => Err(error),
                };
                ended.push(Ended { rank: *rank, how, was_killed: is_late });
                false
            });
            let failed = |end: &Ended| !matches!(&end.how, Ok(status) if status.success());
            if deadline.is_none() && ended.iter().any(failed) {
                deadline = Some(Instant::now() + grace);
            }
            std::thread::sleep(PAUSE);
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // An error is ignored, because a process that has already exited cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn running(scripts: &[&str]) -> Running {
        let shell = |script: &&str| Command::new("sh").args(["-c", script]).spawn();
        let children = scripts.iter().map(shell).map(|child| child.expect("there is a shell"));
        Running((0..).zip(children).collect())
    }

    fn summary(ended: &[Ended]) -> Vec<(u32, Option<i32>, bool)> {
        let code = |end: &Ended| end.how.as_ref().ok().and_then(ExitStatus::code);
        let mut summary: Vec<_> =
            ended.iter().map(|end| (end.rank, code(end), end.was_killed)).collect();
        summary.sort_unstable();
        summary
    }

    #[test]
    fn all_are_waited_for() {
        let ended = running(&["sleep 0.2", "exit 0"]).wait(Duration::ZERO);
        assert_eq!(summary(&ended), [(0, Some(0), false), (1, Some(0), false)]);
    }

    #[test]
    fn a_failed_rank_differs_from_ranks_that_end_later() {
        let ended = running(&["sleep 0.3; exit 1", "exit 3"]).wait(Duration::from_secs(10));
        assert_eq!(summary(&ended), [(0, Some(1), false), (1, Some(3), false)]);
        assert_eq!(ended[0].rank, 1, "the first to end comes first");
    }

    #[test]
    fn one_that_does_not_end_after_a_failure_is_killed() {
        let started = Instant::now();
        let ended = running(&["exec sleep 60", "exit 3"]).wait(Duration::from_millis(200));
        assert_eq!(summary(&ended), [(0, None, true), (1, Some(3), false)]);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn nothing_is_left_behind() {
        let mut running = running(&["exec sleep 60"]);
        let id = running.0[0].1.id();
        assert!(running.0[0].1.try_wait().expect("asked").is_none());
        drop(running);
        let asked = Command::new("sh").args(["-c", &format!("kill -0 {id} 2> /dev/null")]).status();
        assert!(!asked.expect("there is a shell").success(), "it has ended");
    }
}
