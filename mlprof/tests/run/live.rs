//! Tests `mlprof run --live` with a program that does not use mlprof itself.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use mlprof_events::live::ProcessState;
use tempfile::TempDir;

use super::interrupted::eventually;
use super::shop::{Finished, MLPROF, TestProject, arguments};

/// Rule file in which the end of each call of `work` is the end of a training step.
const STEPS: &str = r#"
framework = "endings"

[[crate]]
name = "endings"

[[crate.rule]]
kind = "step"
functions = ["endings::work"]
name = "optimizer_step"
"#;

/// A program that runs until it receives a signal.
struct Running {
    project: TestProject,
    runtime: TempDir,
    mlprof: Child,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(options: &str, live: Option<&str>) -> Self {
        let (project, runtime) =
            (TestProject::copy_of("endings"), tempfile::tempdir().expect("a folder"));
        std::fs::write(project.path("steps.toml"), STEPS).expect("written");
        let mut command = project.command(MLPROF, &arguments(options, "cargo run -- on"));
        command.envs(live.map(|live| ("MLPROF_LIVE", live)));
        command.env("XDG_RUNTIME_DIR", runtime.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut mlprof = command.spawn().expect("it runs");
        let mut lines = BufReader::new(mlprof.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line == "waiting")));
        Self { project, runtime, mlprof, _lines: lines }
    }

    fn ask(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new(MLPROF);
        command.args(arguments).current_dir(self.project.path(""));
        command.env("XDG_RUNTIME_DIR", self.runtime.path()).output().expect("it runs").into()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let finished = self.ask(arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?}: {finished:?}");
        finished.stdout
    }

    /// Returns the state of the only listening process.
    fn state(&self) -> ProcessState {
        let listed = self.succeed(&["ps", "--json"]);
        let all: Vec<ProcessState> = serde_json::from_str(&listed).expect("states");
        let [state] = &all[..] else { panic!("one process: {all:?}") };
        assert_eq!(state.program, "endings");
        state.clone()
    }

    fn end(mut self) {
        let sent = self.project.run("kill", &["-INT", &self.mlprof.id().to_string()]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        assert!(!self.mlprof.wait().expect("it ends").success());
        assert_eq!(self.succeed(&["ps", "--json"]), "[]\n");
    }
}

#[test]
fn a_program_without_steps_is_looked_into() {
    let running = Running::start("--live --functions endings::leaf", None);
    let state = running.state();
    assert_eq!(
        (&state.profilers[..], &state.trainings[..]),
        (&["advanced".to_owned()][..], &[][..])
    );
    let process = state.process.to_string();
    let steps = running.ask(&["record", &process]);
    assert_eq!(steps.code, Some(2), "{steps:?}");
    let why = "cannot record steps: nothing reports this program's steps";
    assert!(steps.stderr.contains(why) && steps.stderr.contains("--ops candle"), "{steps:?}");

    let trace = running.succeed(&["record", &process, "--seconds", "1", "-o", "traces"]);
    let folded = ["convert", trace.trim_end(), "--to", "folded", "-o", "-"];
    assert!(running.succeed(&folded).contains("endings::leaf"));
    let report = running.succeed(&["report", &process]);
    assert!(report.contains("endings::leaf"), "{report}");
    running.end();
}

#[test]
fn hooks_tell_of_steps_and_the_environment_has_it_listen() {
    let running = Running::start("--ops ./steps.toml", Some("1"));
    eventually("steps are counted", || {
        running.state().trainings.first().is_some_and(|training| training.steps > 3)
    });
    let process = running.state().process.to_string();
    let trace = running.succeed(&["record", &process, "--steps", "2", "-o", "traces"]);
    let folded = ["convert", trace.trim_end(), "--to", "folded", "-o", "-"];
    assert!(running.succeed(&folded).contains("optimizer_step"));
    running.end();
}

#[test]
fn with_nothing_else_it_listens_and_what_is_forbidden_is_said() {
    let running = Running::start("--live", None);
    assert_eq!(running.state().profilers, [""; 0]);
    running.end();

    let project = TestProject::copy_of("endings");
    let mut command = project.command(MLPROF, &arguments("--live", "cargo run"));
    let forbidden: Finished = command.env("MLPROF_LIVE", "0").output().expect("it runs").into();
    assert_eq!(forbidden.code, Some(2), "{forbidden:?}");
    assert!(forbidden.stderr.contains("cannot use --live: MLPROF_LIVE=0"));
    assert!(!Path::new(&project.path("target")).exists(), "nothing was built");
}
