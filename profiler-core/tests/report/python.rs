//! Python as the reference implementation.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Starts `python3 -c script arguments…` with pipes for input and output.
pub fn start(script: &str, arguments: &[&str]) -> Child {
    Command::new("python3")
        .args(["-X", "utf8", "-c", script])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("these tests compare with Python: `python3` must be installed")
}

/// Runs a script to its end and returns its output.
pub fn run(script: &str, arguments: &[&str]) -> String {
    let child = start(script, arguments);
    let output = child.wait_with_output().expect("python3 runs");
    assert!(output.status.success(), "python3 failed: {}", output.status);
    String::from_utf8(output.stdout).expect("Python prints UTF-8")
}

/// Writes `content` to a temporary file for Python. The file lives as long as the value.
pub fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(content).expect("space for a temporary file");
    file
}

/// Returns the path as an argument.
pub fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("temporary paths are text")
}
