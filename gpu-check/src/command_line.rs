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
Check mlprof's measurements on an NVIDIA GPU and print a table of the results.
Exit status: 0 if all checks passed, 1 if a check failed, 2 without a GPU.

Usage: gpu-check [OPTIONS]

  --only NAME             run only this check; repeat it for several
  --python PATH           Python whose PyTorch supports CUDA, to compare with torch.profiler
                          [default: python3]
  --trace-reader PATH     Python with HolisticTraceAnalysis; `cargo xtask gpu-check` provides one
  --save-fixtures FOLDER  save the trace and the table of burn's steps in FOLDER
  --probe                 run no check; the exit status is 0 with a GPU and 2 without
  --help                  print this help

Checks:
{names}"
    )
}

/// Parses the program's arguments.
pub fn parse() -> Result<Request, lexopt::Error> {
    read(lexopt::Parser::from_env())
}

fn read(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => {
                let name = parser.value()?.string()?;
                if CHECKS.iter().all(|check| check.name != name) {
                    return Err(format!("unknown check {name}; see --help for the checks").into());
                }
                options.only.push(name);
            }
            Long("python") => options.python = Some(parser.value()?.into()),
            Long("trace-reader") => options.trace_reader = Some(parser.value()?.into()),
            Long("save-fixtures") => options.fixtures = Some(parser.value()?.into()),
            Long("probe") => options.only_looks = true,
            Long("help") | Short('h') => return Ok(Request::Help),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Request::Checks(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        match read(lexopt::Parser::from_args(arguments)) {
            Ok(Request::Checks(options)) => Ok(options),
            Ok(Request::Help) => Err("help".to_owned()),
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
        let unknown = "unknown check everything; see --help for the checks".to_owned();
        assert_eq!(options(&["--only", "everything"]), Err(unknown));
    }

    #[test]
    fn unknown_options_are_errors() {
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
