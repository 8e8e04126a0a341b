//! Packages of npm that scripts need: those of the page's bundle here, and those that drive the browser in
//! the end-to-end tests, which include this file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Installs what the lock file in a folder names, if that is not there.
pub fn install(folder: &Path) -> Result<(), String> {
    let explain = |error: io::Error| format!("{}: {error}", folder.display());
    let lock = fs::read(folder.join("package-lock.json")).map_err(explain)?;
    // Written last.
    let installed = folder.join("installed-packages.json");
    if fs::read(&installed).is_ok_and(|there| there == lock) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder);
    let output = npm.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run npm: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{npm:?} failed ({}):\n{said}", output.status));
    }
    fs::write(&installed, lock).map_err(explain)
}
