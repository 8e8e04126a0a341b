//! Tests that `mlprof run` measures in addition to profilers that the program activates itself.

use std::path::Path;

use super::shop::{Finished, MLPROF, TestProject, arguments};

#[test]
fn the_run_measures_beside_whatever_is_activated() {
    let (project, runtime) =
        (TestProject::with_core("own_profiler"), tempfile::tempdir().expect("a folder"));
    let words = arguments("--live --functions own_profiler::net::*", "cargo run --release");
    let mut command = project.command(MLPROF, &words);
    command.env("XDG_RUNTIME_DIR", runtime.path());
    // The build folder is kept between runs, because the program has many dependencies.
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("own_profiler"));
    let run: Finished = command.output().expect("it runs").into();
    assert_eq!(run.code, Some(0), "{run:?}");
    for line in [
        "early 1",
        "outer 20 inner 100",
        "ranges 100000",
        // The seven calls of the main thread belong to neither training.
        "(2000000, true) (4000000, true)",
    ] {
        assert!(run.stdout.lines().any(|said| said == line), "{line}: {run:?}");
    }
    let (one_training, other_training) = (2 * 1_000_000, 2 * 2_000_000);
    let calls = 1 + 20 + 100 + 1_000 + 10_000 + 100_000 + one_training + other_training + 7;
    assert_eq!(project.calls().get("own_profiler::net::forward"), Some(&calls), "{run:?}");
    // The program's own copy of mlprof measures, but it was built without live support. The runtime
    // library's copy must not leave a socket.
    let why = "live inspection is off: the program was built without live monitoring";
    assert_eq!(run.stderr.matches(why).count(), 1, "{run:?}");
    let folder = runtime.path().join("mlprof");
    assert_eq!(std::fs::read_dir(folder).map_or(0, |sockets| sockets.count()), 0);
    assert!(!run.stdout.contains("in no report: more than one profiler"), "{run:?}");
}
