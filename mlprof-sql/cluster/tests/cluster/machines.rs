//! A scheduler and executors, each in a process of its own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Returns a port without a listener.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

type Variables = [(&'static str, String)];

/// Child process that is killed when this value is dropped.
struct Machine(Child);

impl Machine {
    /// Starts a process that does not outlive this thread.
    fn start(program: &str, arguments: &[&str], variables: Option<&Variables>) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]).args(arguments).stdin(Stdio::null());
        command.envs(variables.unwrap_or(&[]).iter().cloned());
        Self(command.spawn().expect("the program was built"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler with its executors.
pub struct Cluster {
    address: String,
    executors: Vec<(Machine, TempDir)>,
    _scheduler: Machine,
}

impl Cluster {
    /// Starts a cluster with this number of executors and waits until they have registered.
    pub fn start(executors: usize, variables: Option<&Variables>) -> Self {
        let port = free_port();
        let place = format!("127.0.0.1:{port}");
        let arguments = ["--bind", &place, "--executor-timeout", "5"];
        let scheduler =
            Machine::start(env!("CARGO_BIN_EXE_mlprof-sql-scheduler"), &arguments, variables);
        listens(port);
        let executors = (0..executors).map(|_| {
            let folder = tempfile::tempdir().expect("a folder");
            let own = free_port();
            let (bind, second) = (format!("127.0.0.1:{own}"), free_port().to_string());
            let mut arguments = vec!["--scheduler", &place, "--bind", &bind, "--host", "127.0.0.1"];
            arguments.extend(["--port-for-scheduler", &second, "--cores", "1", "--heartbeat", "1"]);
            arguments.extend(["--work-directory", folder.path().to_str().expect("text")]);
            let program = env!("CARGO_BIN_EXE_mlprof-sql-executor");
            let machine = Machine::start(program, &arguments, variables);
            listens(own);
            (machine, folder)
        });
        let executors = executors.collect();
        Self { address: format!("df://127.0.0.1:{port}"), executors, _scheduler: scheduler }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns `true` if an executor has written results.
    pub fn has_work(&self, executor: usize) -> bool {
        let mut folders = vec![self.executors[executor].1.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(_) => return true,
                    Err(_) => {}
                }
            }
        }
        false
    }

    /// Kills an executor and removes its files, as if the machine were switched off.
    pub fn kill(&mut self, executor: usize) {
        let (machine, folder) = &mut self.executors[executor];
        machine.0.kill().expect("it runs");
        machine.0.wait().expect("it ends");
        std::fs::remove_dir_all(folder.path()).expect("its folder");
    }
}

/// Waits until a process listens on the port.
fn listens(port: u16) {
    crate::until(&format!("who listens at {port}"), || {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}
