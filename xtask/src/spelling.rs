//! Spell check of code and documents with typos and the word list `typos.toml`.

use std::process::Command;

use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::Step;

/// Returns the step of `cargo xtask check` that runs typos.
pub fn step() -> Step {
    Step::cargo("spelling", "--version").and_then(check)
}

fn check() -> Result<(), String> {
    let environment = Environment {
        name: "python-spelling",
        requirements: workspace().join("xtask/requirements-spelling.txt"),
        announcement: "typos, 8 MB to download",
    };
    let interpreter = environment.interpreter()?;
    let mut typos = Command::new(interpreter.with_file_name("typos"));
    typos.args(["--format", "brief"]).current_dir(workspace());
    match typos.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("words are misspelt: correct them, or add them to typos.toml".to_owned()),
        Err(error) => Err(format!("cannot run typos: {error}")),
    }
}
