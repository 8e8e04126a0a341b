//! Support for tests with one process per scene: the program starts itself once per scene. It has
//! no test harness. As in a harness, arguments choose scenes by a part of their names, and `--skip`
//! excludes some.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Environment variable with the scene that a process plays.
const SCENE: &str = "MLPROF_TEST_SCENE";

/// Maximum duration of a scene. A longer one counts as hanging.
const LONGEST: Duration = Duration::from_secs(300);

/// Plays the scene if this process was started for one. Returns `false` in the process that starts
/// the others.
pub fn plays(play: impl Fn(&str)) -> bool {
    let scene = std::env::var(SCENE);
    if let Ok(scene) = &scene {
        play(scene);
    }
    scene.is_ok()
}

/// Starts a process for each of the chosen `scenes`. `prepare` sets its environment, and `check`
/// examines its results.
pub fn run<'scene>(
    test: &str,
    scenes: impl IntoIterator<Item = &'scene str>,
    prepare: impl Fn(&str, &mut Command),
    check: impl Fn(&str),
) {
    let chosen = Chosen::by(std::env::args().skip(1));
    let mut failed = Vec::new();
    for scene in scenes.into_iter().filter(|scene| chosen.has(scene)) {
        let mut command = this_program();
        command.env(SCENE, scene);
        prepare(scene, &mut command);
        let played = play(&mut command);
        let is_right = played.as_ref().is_ok_and(ExitStatus::success);
        println!("{test}: {scene}: {}", if is_right { "ok" } else { "FAILED" });
        match is_right {
            true => check(scene),
            false => failed.push(format!("{scene}: {played:?}")),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Scenes chosen by the arguments, which are parts of their names.
#[derive(Default)]
struct Chosen {
    named: Vec<String>,
    /// Arguments after `--skip`.
    skipped: Vec<String>,
}

impl Chosen {
    fn by(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut chosen = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--skip" => chosen.skipped.extend(arguments.next()),
                option if option.starts_with('-') => {}
                _ => chosen.named.push(argument),
            }
        }
        chosen
    }

    fn has(&self, scene: &str) -> bool {
        let is_among = |names: &[String]| names.iter().any(|part| scene.contains(part.as_str()));
        (self.named.is_empty() || is_among(&self.named)) && !is_among(&self.skipped)
    }
}

/// Returns a command for this program. If `MLPROF_TEST_UNDER` is set, it wraps the program with
/// another one and its options, such as `valgrind --error-exitcode=9`.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("the path of this program");
    let under = std::env::var("MLPROF_TEST_UNDER").unwrap_or_default();
    let mut words = under.split_whitespace();
    match words.next() {
        Some(other) => {
            let mut command = Command::new(other);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Runs a scene to its end, and kills it if it hangs.
fn play(scene: &mut Command) -> std::io::Result<ExitStatus> {
    let mut scene = scene.spawn()?;
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        if let Some(status) = scene.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    scene.kill()?;
    scene.wait()?;
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "it hung"))
}

/// Compiles a C library from a file of this package's tests.
pub fn compile(source: &str, folder: &Path, library: &str) -> PathBuf {
    compile_with(&[], source, folder, library)
}

/// Compiles a C library with additional compiler options.
pub fn compile_with(options: &[&str], source: &str, folder: &Path, library: &str) -> PathBuf {
    let library = folder.join(library);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    command.args(["-g", "-O1", "-shared", "-fPIC", "-pthread"]).args(options);
    command.arg("-o").arg(&library).arg(&source);
    assert!(command.status().expect("a compiler for C").success(), "{}", source.display());
    library
}
