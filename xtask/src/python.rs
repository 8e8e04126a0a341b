//! Python, which the tests use as the reader of what mlprof writes, and which fetches libtorch.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

const PROBE: &str = "import sys, venv, ensurepip; assert sys.version_info >= (3, 9)";

/// Makes sure that there is a Python that can make virtual environments. On Debian and its
/// relatives it is installed if we may.
pub fn require() -> Result<(), String> {
    if is_present() {
        return Ok(());
    }
    if Path::new("/etc/debian_version").exists() && is_root() {
        eprintln!("python3 with venv is missing: installing it");
        apt_get(&["update"])?;
        apt_get(&["install", "--yes", "--no-install-recommends", "python3", "python3-venv"])?;
    }
    if is_present() {
        return Ok(());
    }
    Err("python3 is missing (3.9 or later, with its venv module): the tests read what mlprof writes \
         with it, and libtorch is fetched with it. On Debian or Ubuntu: apt-get install python3 python3-venv"
        .to_owned())
}

fn is_present() -> bool {
    let mut probe = Command::new("python3");
    probe.args(["-c", PROBE]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    // Standard output belongs to what was asked for.
    command.stdout(io::stderr());
    let status = command.status().map_err(|error| format!("cannot run apt-get: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("apt-get {} failed ({status})", arguments.join(" ")))
    }
}
