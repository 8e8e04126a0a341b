//! Python virtual environments that are created once and reused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libtorch::{cache, workspace};
use crate::system;

/// An environment with exactly the packages of a requirements file.
pub struct Environment {
    /// Folder name in the cache.
    pub name: &'static str,
    /// Requirements file. It must be complete, because no further dependencies are resolved.
    pub requirements: PathBuf,
    /// Message that is printed at the creation of the environment, with its contents and size.
    pub announcement: &'static str,
}

impl Environment {
    /// Returns the environment with SQL engines for tables, and with the libraries that write the
    /// tables.
    pub fn sql_engines() -> Self {
        Self {
            name: "python-engines",
            requirements: workspace().join("mlprof-sql/tests/sql/requirements.txt"),
            announcement: "DuckDB and DataFusion, 110 MB to download",
        }
    }

    /// Returns the environment's interpreter and installs missing packages. An interrupted
    /// installation is continued.
    pub fn interpreter(&self) -> Result<PathBuf, String> {
        let requirements = &self.requirements;
        let wanted = fs::read(requirements).map_err(|error| explain(requirements, &error))?;
        let environment = cache()?.join(self.name);
        let interpreter = environment.join("bin/python");
        // This file is written last and therefore marks a complete installation.
        let installed = environment.join("installed-requirements.txt");
        if interpreter.exists() && fs::read(&installed).is_ok_and(|old| old == wanted) {
            return Ok(interpreter);
        }
        system::PYTHON.require()?;
        eprintln!("installing in {}: {}", environment.display(), self.announcement);
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(&interpreter);
        let options = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check"];
        pip.args(["-m", "pip", "install"]).args(options);
        // pip's temporary files are as large as the wheels and may not fit into the default folder.
        pip.arg("--requirement").arg(requirements).env("TMPDIR", &environment);
        run(&mut pip)?;
        fs::write(&installed, wanted).map_err(|error| explain(&installed, &error))?;
        Ok(interpreter)
    }
}

fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Runs a command with its output on standard error.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed ({status})")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}
