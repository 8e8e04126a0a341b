//! `cargo xtask bench digits`: compares the cost of profiling per training step between frameworks.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::python;
use crate::libtorch::{Libtorch, Variables};
use crate::steps::{cargo, set_variables, target_directory};

/// All frameworks. burn takes minutes to build, so it is included only on request.
const FRAMEWORKS: [&str; 4] = ["candle", "tch", "python", "burn"];
const BY_DEFAULT: usize = 3;

/// Builds and installs everything first, then measures one framework after the other, and prints
/// one table. `arguments` are `--only NAME` and the options that are passed to all programs.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let (names, passed_on) = split(arguments)?;
    let programs: Vec<Program> =
        names.into_iter().map(Program::prepare).collect::<Result<_, _>>()?;
    if passed_on.iter().any(|argument| ["--help", "-h"].contains(argument)) {
        return programs.first().map_or(Ok(()), |program| program.call(&["--help".into()]));
    }
    let folder = target_directory().join("bench-digits");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut rows = Vec::new();
    for program in &programs {
        let file = folder.join(format!("{}.json", program.name));
        let mut arguments: Vec<OsString> = passed_on.iter().map(OsString::from).collect();
        arguments.extend(["--json".into(), file.clone().into()]);
        program.call(&arguments)?;
        println!();
        rows.push(Row::read(&file)?);
    }
    print!("{}", table(&rows));
    println!("as JSON: {}", folder.display());
    Ok(())
}

/// Returns the selected frameworks and the remaining arguments.
fn split<'a>(arguments: &[&'a str]) -> Result<(Vec<&'static str>, Vec<&'a str>), String> {
    let (mut names, mut others) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--only" => {
                let wanted = arguments.next().copied().unwrap_or_default();
                let name = FRAMEWORKS.into_iter().find(|name| *name == wanted);
                names.push(name.ok_or_else(|| {
                    format!("--only {wanted}: use one of {}", FRAMEWORKS.join(", "))
                })?);
            }
            "--json" => {
                return Err("cannot use --json here: the names of the files are printed at \
                                    the end"
                    .to_owned());
            }
            other => others.push(other),
        }
    }
    if names.is_empty() {
        names.extend(&FRAMEWORKS[..BY_DEFAULT]);
    }
    Ok((names, others))
}

/// One framework's program, ready to run.
struct Program {
    name: &'static str,
    /// Python's interpreter. The other programs are run by cargo.
    interpreter: Option<PathBuf>,
    variables: Variables,
}

impl Program {
    fn prepare(name: &'static str) -> Result<Self, String> {
        let mut program = Self { name, interpreter: None, variables: Variables::new() };
        match name {
            "python" => program.interpreter = Some(python::interpreter()?),
            "tch" => program.variables = Libtorch::of_workspace()?.variables(),
            _ => {}
        }
        // The programs for torch set the same limit themselves. The network is small, and threads
        // that wait for each other would add noise.
        program.variables.push(("RAYON_NUM_THREADS", Some("1".into())));
        if program.interpreter.is_none() {
            program.succeed(program.cargo("build"))?;
        }
        Ok(program)
    }

    fn cargo(&self, subcommand: &str) -> Command {
        let mut command = cargo();
        command.args([subcommand, "--release", "--package", &format!("{}-digits", self.name)]);
        command.args(["--bin", &format!("{}-overhead", self.name)]);
        set_variables(&mut command, &self.variables);
        command
    }

    fn call(&self, arguments: &[OsString]) -> Result<(), String> {
        let mut command = match &self.interpreter {
            Some(interpreter) => {
                let mut command = Command::new(interpreter);
                command.arg("-B").arg(python::folder().join("lightning_digits.py"));
                command
            }
            None => {
                let mut command = self.cargo("run");
                command.args(["--quiet", "--"]);
                command
            }
        };
        command.args(arguments);
        self.succeed(command)
    }

    fn succeed(&self, mut command: Command) -> Result<(), String> {
        let status = command.stdin(Stdio::null()).status();
        let status = status.map_err(|error| format!("bench digits, {}: {error}", self.name))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("bench digits, {}: {status}", self.name))
        }
    }
}

/// Table cells of one framework.
#[derive(Debug, PartialEq)]
struct Row([String; 9]);

const TITLES: [&str; 9] = [
    "framework",
    "clock",
    "step µs",
    "scopes",
    "ns each",
    "by account",
    "every other step (95 %)",
    "control (95 %)",
    "whole epochs (95 %)",
];

impl Row {
    fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        Self::of(&text).ok_or_else(|| format!("{}: figures are missing", file.display()))
    }

    fn of(text: &str) -> Option<Self> {
        let members: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| members[name].as_str().map(str::to_owned);
        let number = |name: &str| members[name].as_f64();
        let share = |name: &str| {
            let percent = |suffix: &str| number(&format!("{name}_{suffix}")).map(|n| n * 100.0);
            let median = percent("share")?;
            Some(match (percent("low"), percent("high")) {
                (Some(low), Some(high)) => format!("{median:+.3} % ({low:+.3} to {high:+.3})"),
                _ => format!("{median:+.3} % (too few rounds)"),
            })
        };
        Some(Self([
            text("framework")?,
            text("clock")?,
            format!("{:.0}", number("step_us")?),
            format!("{:.1}", number("scopes_per_step")?),
            format!("{:.1}", number("ns_per_scope")?),
            format!("{:.3} %", number("account_share")? * 100.0),
            share("neighbours")?,
            share("control")?,
            share("epochs_simple")?,
        ]))
    }
}

/// Returns the table with its titles. The first column is left-aligned, and the others are
/// right-aligned.
fn table(rows: &[Row]) -> String {
    let titles = TITLES.map(str::to_owned);
    let all: Vec<&[String; 9]> =
        [&titles].into_iter().chain(rows.iter().map(|Row(cells)| cells)).collect();
    let width = |column: usize| {
        all.iter().map(|cells| cells[column].chars().count()).max().unwrap_or_default()
    };
    let line = |cells: &[String; 9]| {
        let others = (1..cells.len()).map(|at| format!("  {:>1$}", cells[at], width(at)));
        format!("{:<1$}{2}\n", cells[0], width(0), others.collect::<String>())
    };
    all.iter().copied().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frameworks_are_chosen_and_the_rest_is_passed_on() {
        assert_eq!(split(&[]), Ok((vec!["candle", "tch", "python"], vec![])));
        let arguments = ["--only", "burn", "--rounds", "5", "--only", "tch"];
        assert_eq!(split(&arguments), Ok((vec!["burn", "tch"], vec!["--rounds", "5"])));
        let message = split(&["--only", "jax"]).expect_err("unknown");
        assert!(message.contains("jax") && message.contains("candle"), "{message}");
        assert!(split(&["--only"]).is_err() && split(&["--json", "a"]).is_err());
    }

    fn results(framework: &str, low: &str) -> String {
        let shares = ["neighbours", "control", "epochs_simple"].map(|name| {
            format!("\"{name}_share\": 0.0005,\n\"{name}_low\": {low},\n\"{name}_high\": 0.001,\n")
        });
        format!(
            "{{\n{}\"framework\": \"{framework}\",\n\"clock\": \"wall\",\n\"step_us\": 1234.5,\n\
             \"scopes_per_step\": 23,\n\"ns_per_scope\": 20.04,\n\"account_share\": 0.00037\n}}\n",
            shares.concat()
        )
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [("candle", "-0.0001"), ("a longer name", "null")]
            .map(|(name, low)| Row::of(&results(name, low)).expect("complete"));
        let table = table(&rows);
        let widths: Vec<_> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.len() == 3 && widths.iter().all(|width| *width == widths[0]), "{table}");
        let second: Vec<_> = table.lines().nth(1).expect("a row").split_whitespace().collect();
        let expected = "candle wall 1234 23.0 20.0 0.037 % +0.050 % (-0.010 to +0.100)";
        assert_eq!(second[..12].join(" "), expected);
        assert!(table.contains("a longer name") && table.contains("too few rounds"), "{table}");
    }

    #[test]
    fn a_missing_figure_is_no_row() {
        assert_eq!(Row::of(&results("candle", "0.1").replace("step_us", "other")), None);
        assert_eq!(Row::of("nonsense"), None);
    }
}
