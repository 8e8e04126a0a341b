//! Installs npm packages for scripts: those for bundling the page, and those for driving a browser
//! in the end-to-end tests, which include this file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Installs the packages of a folder's lock file, unless they are already installed.
pub fn install(folder: &Path) -> Result<(), String> {
    let explain = |error: io::Error| format!("{}: {error}", folder.display());
    let lock = fs::read(folder.join("package-lock.json")).map_err(explain)?;
    // This file is written last and therefore marks a complete installation.
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
