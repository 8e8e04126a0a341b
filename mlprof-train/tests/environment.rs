//! The environment can select a profiler for a trainer that has none.

#[allow(dead_code, reason = "another test needs the rest")]
#[path = "loop/toy.rs"]
mod toy;

use std::process::Command;

use toy::{Triple, inputs, trainer};

const CHILD: &str = "MLPROF_TEST_CHILD";

// The trainer runs in a child process, because a test must not change its own process's
// environment.
#[test]
fn a_trainer_without_a_profiler_is_measured() {
    if std::env::var_os(CHILD).is_some() {
        let outcome = trainer().fit(&mut Triple::default(), &inputs(4), None).expect("it trains");
        assert_eq!(outcome.steps, 12);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().expect("its own path"));
        command.arg("--nocapture").env(CHILD, "1").envs(variables.iter().copied());
        let output = command.current_dir(folder.path()).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(!run(&[]).contains("mlprof"));
    let said =
        run(&[("MLPROF_PROFILER", "simple"), ("MLPROF_DIRPATH", "."), ("MLPROF_FILENAME", "said")]);
    assert_eq!(said.matches("MLPROF_PROFILER=simple").count(), 1, "{said}");
    let report = std::fs::read_to_string(folder.path().join("fit-said.txt")).expect("a report");
    assert!(report.contains("[Strategy]SingleDeviceStrategy.training_step"), "{report}");
    assert!(report.contains("run_training_epoch"), "{report}");
}
