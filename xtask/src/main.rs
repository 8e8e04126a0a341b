//! `cargo xtask …`: what a person or CI runs. No dependencies, so that it builds in a second.

mod bench;
mod check;
mod python;
mod steps;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

  test                  run every test there is; a first run builds burn, which takes minutes
  check                 formatting, lints and documentation
  bench scopes [...]    what one scope costs, beside peers (--json FILE, --check, --help)
  bench memory [...]    what the profilers keep in memory after many calls
  bench <name> --lto    the same, built with link-time optimisation
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test"] => test::run(),
        ["check"] => check::run(),
        ["bench", name, rest @ ..] if bench::PROGRAMS.contains(name) => bench::run(name, rest),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\nerror: {message}");
            ExitCode::FAILURE
        }
    }
}
