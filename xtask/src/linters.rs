//! Linters of text files: prose, spelling, and the workflows of GitHub.

use std::path::PathBuf;
use std::process::Command;

use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::Step;

/// Returns the steps of `cargo xtask check` that run them.
pub fn steps() -> [Step; 3] {
    [
        Step::cargo("prose", "--version").and_then(prose),
        Step::cargo("spelling", "--version").and_then(spelling),
        Step::cargo("workflows", "--version").and_then(workflows),
    ]
}

/// Measures comments, documents and names with `prose.py`, which also has the limits.
fn prose() -> Result<(), String> {
    let mut python = Command::new("python3");
    python.arg(workspace().join("xtask/prose.py")).arg(workspace()).args(["--list", "20"]);
    run(&mut python, "a measure of prose.py misses its limit")
}

/// Checks spelling by typos, with the words of `typos.toml`.
fn spelling() -> Result<(), String> {
    let mut typos = program("typos")?;
    run(
        typos.args(["--format", "brief"]),
        "found misspelt words: correct them, or add them to typos.toml",
    )
}

/// Compares the workflows with the schema of GitHub that check-jsonschema contains.
fn workflows() -> Result<(), String> {
    let folder = workspace().join(".github");
    let schemas = [
        ("vendor.github-workflows", folder.join("workflows/ci.yml")),
        ("vendor.dependabot", folder.join("dependabot.yml")),
    ];
    for (schema, file) in schemas {
        let mut checker = program("check-jsonschema")?;
        run(
            checker.args(["--builtin-schema", schema]).arg(file),
            "a workflow does not follow the schema of GitHub",
        )?;
    }
    Ok(())
}

fn program(name: &str) -> Result<Command, String> {
    let interpreter: PathBuf = Environment {
        name: "python-linters",
        requirements: workspace().join("xtask/requirements-linters.txt"),
        announcement: "linters of text, 20 MB to download",
    }
    .interpreter()?;
    let mut command = Command::new(interpreter.with_file_name(name));
    command.current_dir(workspace());
    Ok(command)
}

fn run(command: &mut Command, failure: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failure.to_owned()),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}
