//! The command line.

use crate::checks::CHECKS;
use crate::options::Options;

/// The requested action.
pub enum Request {
    /// Print the usage.
    Help,
    /// Run checks.
    Checks(Options),
}

/// Returns the usage text.
pub fn usage() -> String {
    let names: String =
        CHECKS.iter().map(|check| format!("  {:<12}{}\n", check.name, check.about)).collect();
    format!(
        "\
Checks what mlprof says of an NVIDIA GPU, and ends with one table. Exit status: 1 if a check failed,
2 if there is no GPU here.

Usage: gpu-check [options]

  --only NAME             run this check; may be given several times
  --python PATH           a Python whose PyTorch uses CUDA, to compare with torch's profiler
                          [python3]
  --trace-reader PATH     a Python with HolisticTraceAnalysis; `cargo xtask gpu-check` makes one
  --save-fixtures FOLDER  keep the trace and the table of burn's steps there
  --probe                 check nothing; the exit status says whether there is a GPU
  --help                  this text

Checks:
{names}"
    )
}

/// Parses the program's arguments.
pub fn parse() -> Result<Asked, lexopt::Error> {
    read(lexopt::Parser::from_env())
}

fn read(mut parser: lexopt::Parser) -> Result<Asked, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => {
                let name = parser.value()?.string()?;
                if CHECKS.iter().all(|check| check.name != name) {
                    return Err(format!("there is no check {name}").into());
                }
                options.only.push(name);
            }
            Long("python") => options.python = Some(parser.value()?.into()),
            Long("trace-reader") => options.trace_reader = Some(parser.value()?.into()),
            Long("save-fixtures") => options.fixtures = Some(parser.value()?.into()),
            Long("probe") => options.only_looks = true,
            Long("help") | Short('h') => return Ok(Asked::Help),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Asked::Checks(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        match read(lexopt::Parser::from_args(arguments)) {
            Ok(Asked::Checks(options)) => Ok(options),
            Ok(Asked::Help) => Err("help".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn checks_are_chosen_by_name() {
        let all = options(&[]).expect("nothing is needed");
        assert!(CHECKS.iter().all(|check| all.wants(check.name)));
        let some = options(&["--only", "trace", "--only=many"]).expect("two checks");
        let wanted: Vec<_> =
            CHECKS.iter().map(|check| check.name).filter(|name| some.wants(name)).collect();
        assert_eq!(wanted, ["many", "trace"]);
        assert_eq!(options(&["--only", "everything"]), Err("there is no check everything".into()));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(options(&["--all"]), Err("invalid option '--all'".to_owned()));
        assert_eq!(options(&["--probe", "--help"]), Err("help".to_owned()));
        assert!(options(&["--probe"]).expect("known").only_looks);
        let kept = options(&["--save-fixtures", "a"]).expect("known");
        assert_eq!(kept.fixtures, Some("a".into()));
    }

    #[test]
    fn the_usage_names_all_checks() {
        assert!(CHECKS.iter().all(|check| usage().contains(check.name)));
    }
}
