//! `cargo xtask docs`: the guide as a book, by mdBook.

use std::path::PathBuf;
use std::process::Command;

use crate::libtorch::workspace;
use crate::steps::{Step, run_all, target_directory};
use crate::test::command;

/// Version of mdBook, which `cargo install` builds once. Its licence is MPL-2.0; mlprof links
/// nothing of it.
const VERSION: &str = "0.5.4";

/// Builds the book and opens it in a browser.
pub fn open() -> Result<(), String> {
    run_all(&[step()])?;
    let page = book().join("index.html");
    println!("{}", page.display());
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // A machine without a browser has the path, which was printed.
    let _ = Command::new(opener).arg(page).status();
    Ok(())
}

/// Writes the pages that are made of the code: help texts of the command.
pub fn write() -> Result<(), String> {
    let step = command("help texts").env("MLPROF_TEST_WRITES_HELP", "1");
    let arguments = ["--test", "report_and_convert", "help::"];
    run_all(&[arguments.into_iter().fold(step, Step::argument)])
}

/// Returns the step of `cargo xtask check` that builds the book.
pub fn step() -> Step {
    Step::cargo("the guide as a book", "--version").and_then(build)
}

fn book() -> PathBuf {
    target_directory().join("book")
}

fn build() -> Result<(), String> {
    let program = program()?;
    let mut mdbook = Command::new(&program);
    mdbook.arg("build").arg(workspace().join("docs")).arg("--dest-dir").arg(book());
    match mdbook.output() {
        Ok(output) if output.status.success() => {
            let log = String::from_utf8_lossy(&output.stderr);
            let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
            if warnings.is_empty() { Ok(()) } else { Err(warnings.join("\n")) }
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cannot run {}: {error}", program.display())),
    }
}

/// Installs mdBook below the target folder where it is missing, and returns its path.
fn program() -> Result<PathBuf, String> {
    let root = target_directory().join("mdbook").join(VERSION);
    let program = root.join("bin").join(format!("mdbook{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        println!("building mdBook {VERSION} once, which takes minutes");
        let arguments = format!(
            "install mdbook --version {VERSION} --locked --quiet --no-default-features --features search --root"
        );
        let install = Step::cargo("mdBook", &arguments).argument(&root);
        run_all(&[install.argument("--target-dir").argument(root.join("target"))])?;
        // Only the program is kept.
        let _ = std::fs::remove_dir_all(root.join("target"));
    }
    Ok(program)
}
