//! Local server with the S3 protocol.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Environment variable with a Python interpreter that has such a server. `cargo xtask test sql`
/// sets it.
pub const PYTHON: &str = "MLPROF_TEST_STORE";

/// Credentials for the server.
pub const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")];

/// Server with the bucket `fleet`, which contains a folder below `traces/run 1`.
pub struct Server {
    process: Child,
    pub endpoint: String,
}

impl Server {
    /// Starts a server for the folder. `None` if the environment variable is not set.
    pub fn of(folder: &Path) -> Option<Self> {
        let python = PathBuf::from(std::env::var_os(PYTHON)?);
        let mut command = Command::new(python);
        command.args(["-c", include_str!("store.py")]).arg(folder).args(["fleet", "traces/run 1"]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let mut endpoint = String::new();
        let out = process.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut endpoint).expect("it says where");
        assert!(endpoint.starts_with("http://"), "{endpoint}");
        Some(Self { process, endpoint: endpoint.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
