//! Virtual environments of Python, made once and kept between runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libtorch::{cache, workspace};
use crate::system;

/// An environment with what a file of requirements names, and nothing else.
pub struct Environment {
    /// The folder's name in the cache.
    pub name: &'static str,
    /// The file of requirements, complete: none is looked for that it does not name.
    pub requirements: PathBuf,
    /// What is said when it is made: what is installed, how large it is.
    pub announcement: &'static str,
}

impl Environment {
    /// Engines that answer SQL of tables, and what writes these.
    pub fn sql_engines() -> Self {
        Self {
            name: "python-engines",
            requirements: workspace().join("mlprof-sql/tests/sql/requirements.txt"),
            announcement: "DuckDB and DataFusion, 110 MB to download",
        }
    }

    /// Its interpreter. What is missing is installed; a run that was broken off goes on.
    pub fn interpreter(&self) -> Result<PathBuf, String> {
        let requirements = &self.requirements;
        let wanted = fs::read(requirements).map_err(|error| explain(requirements, &error))?;
        let environment = cache()?.join(self.name);
        let interpreter = environment.join("bin/python");
        // Written last.
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
        // Its temporary files are as large as the wheels: the usual place may be too small for them.
        pip.arg("--requirement").arg(requirements).env("TMPDIR", &environment);
        run(&mut pip)?;
        fs::write(&installed, wanted).map_err(|error| explain(&installed, &error))?;
        Ok(interpreter)
    }
}

fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Runs a command; what it says goes to standard error.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed ({status})")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}
