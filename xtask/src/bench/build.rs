//! `cargo xtask bench build`: measures the build time that a plugin adds to a cold release build of
//! its framework.
//!
//! It builds small programs outside the workspace, one after the other and each from scratch:
//!
//! - candle-nn alone
//! - candle-nn with `mlprof-candle`
//! - candle-nn with `mlprof-candle` without default features
//!
//! The measured value is the CPU time of cargo and all compilers. Wall-clock time would depend on
//! other programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::target_directory;

/// Names of the programs, and the features of the plugin; `None` without the plugin.
const PROGRAMS: [(&str, Option<&str>); 3] = [
    ("candle-nn alone", None),
    ("with mlprof-candle", Some("")),
    ("without default features", Some(", default-features = false")),
];

/// Builds each program `--rounds` times (default: once), in turn, and prints the medians.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let rounds = match arguments {
        [] => 1,
        ["--rounds", rounds] => rounds
            .parse()
            .ok()
            .filter(|rounds| *rounds > 0)
            .ok_or("invalid --rounds: use a number above 0")?,
        _ => return Err("usage: cargo xtask bench build [--rounds N]".to_owned()),
    };
    let folder = target_directory().join("build-cost");
    let result = measure(&folder, rounds);
    // The folder contains a gigabyte of build output that is no longer needed.
    let _ = fs::remove_dir_all(&folder);
    for line in table(&result?) {
        println!("{line}");
    }
    Ok(())
}

/// One program with its crates and the CPU seconds of each build.
struct Cost {
    crates: BTreeSet<String>,
    seconds: Vec<f64>,
}

fn measure(folder: &Path, rounds: usize) -> Result<Vec<Cost>, String> {
    let mut costs = Vec::new();
    for (number, (_, plugin)) in PROGRAMS.iter().enumerate() {
        let program = folder.join(format!("program-{number}"));
        write_program(&program, *plugin)
            .map_err(|error| format!("cannot write {}: {error}", program.display()))?;
        costs.push(Cost { crates: crates(&program)?, seconds: Vec::new() });
    }
    for round in 0..rounds {
        for (number, (name, _)) in PROGRAMS.iter().enumerate() {
            let program = folder.join(format!("program-{number}"));
            let seconds = build(&program)?;
            println!("round {}: {name}: {seconds:.1} s", round + 1);
            costs[number].seconds.push(seconds);
        }
    }
    Ok(costs)
}

/// Writes a program with its own workspace and the locked versions of this workspace.
fn write_program(folder: &Path, plugin: Option<&str>) -> std::io::Result<()> {
    let workspace = workspace();
    let plugin = plugin.map_or_else(String::new, |features| {
        let path = workspace.join("candle-plugin");
        format!("mlprof-candle = {{ path = {:?}{features} }}\n", path.display().to_string())
    });
    let manifest = format!(
        "[package]\nname = \"build-cost\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         candle-nn = {{ version = \"0.11\", default-features = false }}\n{plugin}\n[workspace]\n"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), "fn main() {}\n")?;
    fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Returns the names and versions of all crates in a program's build, including those for build
/// scripts and macros.
fn crates(program: &Path) -> Result<BTreeSet<String>, String> {
    let arguments = ["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let output = cargo_at(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let tree = String::from_utf8_lossy(&output.stdout);
    let name = |line: &str| line.split(" (").next().unwrap_or(line).to_owned();
    Ok(tree.lines().filter(|line| !line.is_empty()).map(name).collect())
}

/// Returns the CPU time of a build from scratch in seconds.
fn build(program: &Path) -> Result<f64, String> {
    let target = program.join("target");
    if target.exists() {
        fs::remove_dir_all(&target)
            .map_err(|error| format!("cannot remove {}: {error}", target.display()))?;
    }
    let cargo = cargo_at(program);
    // The shell measures the CPU time of its children, including their own children.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#""$0" build --release --quiet && times"#]).arg(cargo.get_program());
    shell.current_dir(program).env("CARGO_TARGET_DIR", &target);
    for variable in ["CARGO_INCREMENTAL", "RUSTFLAGS", "RUSTC_WRAPPER"] {
        shell.env_remove(variable);
    }
    let output = shell.output().map_err(|error| format!("cannot run sh: {error}"))?;
    let _ = fs::remove_dir_all(&target);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let times = String::from_utf8_lossy(&output.stdout);
    children(&times).ok_or_else(|| format!("cannot read the CPU time: the shell printed {times:?}"))
}

/// Returns the user and system seconds of the children, from the second line of the shell's `times`
/// output.
fn children(times: &str) -> Option<f64> {
    let seconds = |time: &str| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.replace(',', ".").parse::<f64>().ok()?)
    };
    times.lines().nth(1)?.split_whitespace().map(seconds).sum()
}

fn cargo_at(program: &Path) -> Command {
    let mut cargo = crate::steps::cargo();
    cargo.current_dir(program);
    cargo
}

fn table(costs: &[Cost]) -> Vec<String> {
    let Some(alone) = costs.first() else { return Vec::new() };
    let rows = PROGRAMS.iter().zip(costs).map(|((name, _), cost)| {
        let seconds = median(&cost.seconds);
        let more = 100.0 * (seconds / median(&alone.seconds) - 1.0);
        let crates = cost.crates.difference(&alone.crates).count();
        format!("{name:<28} {seconds:8.1} s   {more:+6.1} %   {crates:3} more crates")
    });
    rows.collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 if !sorted.is_empty() => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted.get(middle).copied().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_the_second_line_of_times() {
        assert_eq!(children("0m0.002s 0m0.001s\n3m10.250s 0m12.750s\n"), Some(203.0));
        assert_eq!(children("0m0,002s 0m0,001s\n0m1,500s 0m0,250s\n"), Some(1.75));
        assert_eq!(children("0m0.002s 0m0.001s\n"), None);
        assert_eq!(children("a\nb c\n"), None);
    }

    #[test]
    fn the_first_program_is_what_others_are_compared_with() {
        let cost = |crates: &[&str], seconds: &[f64]| Cost {
            crates: crates.iter().map(|name| (*name).to_owned()).collect(),
            seconds: seconds.to_vec(),
        };
        let costs = [cost(&["a"], &[10.0, 30.0, 20.0]), cost(&["a", "b", "c"], &[24.0, 22.0])];
        let table = table(&costs);
        assert!(table[0].contains("20.0 s     +0.0 %     0 more"), "{table:?}");
        assert!(table[1].contains("23.0 s    +15.0 %     2 more"), "{table:?}");
    }
}
