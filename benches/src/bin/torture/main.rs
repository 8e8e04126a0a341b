//! Stress tests of the core with many scopes, threads, panics, names and kills. Each scene runs in
//! a separate process, which must exit successfully with correct counts.
//!
//! Run it manually, or with a small `--scale` under a sanitizer or valgrind. A full run takes
//! minutes.

mod counting;
mod fuzz;
mod processes;

use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;

use benches::conditions::Conditions;
use benches::settings;

const USAGE: &str = "\
Stress test of the profilers: checks that no call is lost and that the process neither hangs nor ends.

Usage: torture [--scale X] [SCENE]...

  --scale X  fraction of each scene, such as 0.001 under valgrind [default: 1]
  SCENE      scenes to run [default: all]

Environment variables:

  MLPROF_TORTURE_UNDER  command that runs each scene, such as `valgrind --error-exitcode=9`
  MLPROF_TORTURE_CASE   case of the scene `fuzz` to repeat
";

/// Environment variable that selects the scene of a process.
const SCENE: &str = "MLPROF_TORTURE_SCENE";

/// The result of a scene: a summary, or an error message.
type Outcome = Result<String, String>;

/// A scene with its name, function and parameters.
struct Scene {
    name: &'static str,
    does: &'static str,
    play: fn(Scale) -> Outcome,
}

const SCENES: [Scene; 12] = [
    Scene { name: "scopes", does: "10⁸ scopes on one thread", play: counting::scopes },
    Scene {
        name: "threads",
        does: "5,000 threads that come and go, with reports meanwhile",
        play: counting::threads,
    },
    Scene { name: "panics", does: "10⁶ panics through open scopes", play: counting::panics },
    Scene { name: "recursion", does: "recursion of 10⁶", play: counting::recursion },
    Scene { name: "names", does: "10,000 names", play: counting::names },
    Scene { name: "callees", does: "10,000 callees of one parent", play: counting::callees },
    Scene { name: "depth", does: "3,000 nested actions", play: counting::depth },
    Scene { name: "forgotten", does: "20,000 forgotten guards", play: counting::forgotten },
    Scene { name: "fuzz", does: "random operations, compared with a model", play: fuzz::fuzz },
    Scene { name: "kills", does: "300 kills while files are written", play: processes::kills },
    Scene { name: "forks", does: "forks while others activate and report", play: processes::forks },
    Scene {
        name: "folder",
        does: "several processes write into one folder",
        play: processes::shared_folder,
    },
];

/// Fraction of each scene that is run.
#[derive(Debug, Clone, Copy)]
struct Scale(f64);

impl Scale {
    /// Returns this fraction of `all`, at least 1.
    fn of(self, all: u32) -> u32 {
        ((f64::from(all) * self.0) as u32).max(1)
    }
}

fn options() -> Result<Option<(Scale, Vec<String>)>, lexopt::Error> {
    use lexopt::prelude::*;

    let (mut scale, mut scenes) = (Scale(1.0), Vec::new());
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("scale") => scale = Scale(parser.value()?.parse()?),
            Long("help") | Short('h') => return Ok(None),
            Value(name) => {
                let name = name.string()?;
                if !SCENES.iter().any(|scene| scene.name == name) {
                    let known: Vec<_> = SCENES.iter().map(|scene| scene.name).collect();
                    return Err(format!("no scene {name:?}: {}", known.join(", ")).into());
                }
                scenes.push(name);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some((scale, scenes)))
}

fn main() -> ExitCode {
    let (scale, chosen) = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    if let Ok(name) = std::env::var(SCENE) {
        return play(&name, scale);
    }
    print!("{}", Conditions::here());
    let is_chosen = |scene: &&Scene| chosen.is_empty() || chosen.iter().any(|c| c == scene.name);
    let mut failed = Vec::new();
    for scene in SCENES.iter().filter(is_chosen) {
        println!("\n{}: {}", scene.name, scene.does);
        let start = Instant::now();
        let status = start_scene(scene.name, scale);
        let is_right = status.as_ref().is_ok_and(ExitStatus::success);
        println!(
            "  {} after {:.1} s",
            if is_right { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        if !is_right {
            println!("  {status:?}");
            failed.push(scene.name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nfailed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Runs a scene in a separate process.
fn start_scene(name: &str, scale: Scale) -> std::io::Result<ExitStatus> {
    let program = std::env::current_exe()?;
    let under = std::env::var("MLPROF_TORTURE_UNDER").unwrap_or_default();
    let mut words = under.split_whitespace();
    let mut command = match words.next() {
        Some(other) => {
            let mut command = Command::new(other);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env(SCENE, name).args(["--scale", &scale.0.to_string()]).status()
}

/// Runs the scene for which this process was started.
fn play(name: &str, scale: Scale) -> ExitCode {
    if let Some(part) = name.strip_prefix(processes::PART) {
        processes::play_part(part, scale);
        return ExitCode::SUCCESS;
    }
    let Some(scene) = SCENES.iter().find(|scene| scene.name == name) else {
        eprintln!("no scene {name:?}");
        return ExitCode::from(2);
    };
    match (scene.play)(scale) {
        Ok(said) => {
            println!("  {said}, {} MiB of memory at most", peak_mebibytes());
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!("  {wrong}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the peak memory of this process in MiB, or 0 if the system does not report it.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) / 1024
}
