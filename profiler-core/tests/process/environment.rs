//! Tests of environment variables that override the program's settings: `MLPROF_PROFILER` and
//! related ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use mlprof_core::spliced::{AdvancedSettings, RUN_VARIABLE, RunSettings};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    IntoProfiler, Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage,
    TensorProfiler, profile,
};

use crate::checks::{command, output};

/// Environment variable with the profiler that the program itself selects.
const SAYS: &str = "MLPROF_TEST_SAYS";

/// Runs a fit and a test.
pub fn stages() {
    let says = std::env::var(SAYS).expect("a name");
    for stage in [Stage::Fit, Stage::Test] {
        let session =
            Session::begin(says.as_str(), stage, &RunContext::default()).expect("a profiler");
        drop(profile!("training_step"));
        drop(session);
    }
}

/// Runs steps of a Tensor profiler that the program created.
pub fn steps() {
    let profiler = Arc::new(TensorProfiler::new().schedule(Schedule::new()));
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    for _step in 0..4 {
        drop(profile!("training_step"));
        session.profiler().step();
    }
    let report = profiler.snapshot();
    let recorded: Vec<_> =
        report.cycles.iter().map(|cycle| (cycle.first_step, cycle.steps)).collect();
    println!("{:?} {recorded:?}", report.schedule.map(|schedule| schedule.to_string()));
}

/// Passes on one profiler of the program and uses it more than once.
pub fn passed_on() {
    let own: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    let converted = own.clone().into_profiler().expect("a profiler");
    assert!(Arc::ptr_eq(&own, &converted), "converting does not read the environment");
    let begin = |own: &Arc<dyn Profiler>| {
        Session::begin(own.clone(), Stage::Fit, &RunContext::default()).expect("a profiler")
    };
    let session = begin(&own);
    let chosen = session.profiler().clone();
    assert!(!Arc::ptr_eq(&own, &chosen), "the environment's own");
    drop(profile!("training_step"));
    assert!(chosen.summary().contains("training_step"));
    assert!(!own.summary().contains("training_step"), "it is not the one that measures");
    drop(session);
    for again in [&own, &chosen] {
        assert!(Arc::ptr_eq(begin(again).profiler(), &chosen));
    }
    let several = ["simple", "advanced"].into_profiler().expect("two");
    assert_eq!(several.parts().len(), 2);
    assert!(begin(&several).profiler().parts().is_empty(), "one takes the place of several");
    // A profiler that the program activates itself is not replaced.
    let activated = mlprof_core::activate(own.clone());
    drop(profile!("by_hand"));
    drop(activated);
    assert!(own.summary().contains("by_hand"));
    drop(own.profile("by_hand"));
}

fn played(scene: &str, says: &str, variables: &[(&str, &str)], folder: &Path) -> Output {
    let mut command: Command = command(scene);
    command.env(SAYS, says).envs(variables.iter().copied()).current_dir(folder);
    output(command)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
}

const FROM: &str = "mlprof: the environment overrides the program's settings: ";

pub fn check() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let count = |output: &Output, what: &str| text(&output.stdout).matches(what).count();

    let silent = played("environment", "simple", &[], folder);
    assert_eq!((count(&silent, "FIT Profiler Report"), silent.stderr.len()), (1, 0), "{silent:?}");

    // The variable selects a profiler if the program selects none or another one. There is one
    // report per stage and one message.
    for says in ["none", "advanced", "tensor"] {
        let simple = played("environment", says, &[("MLPROF_PROFILER", "Simple")], folder);
        let reports = ["FIT", "TEST"].map(|stage| format!("{stage} Profiler Report"));
        assert_eq!(reports.map(|report| count(&simple, &report)), [1, 1], "{simple:?}");
        assert_eq!(count(&simple, "Num calls"), 2, "{simple:?}");
        assert_eq!(text(&simple.stderr), format!("{FROM}MLPROF_PROFILER=Simple\n"));
    }

    // The variable can disable measuring.
    let off = played("environment", "simple", &[("MLPROF_PROFILER", "none")], folder);
    assert_eq!(text(&off.stdout), "");
    assert_eq!(text(&off.stderr), format!("{FROM}MLPROF_PROFILER=none\n"));

    // Invalid values are reported, and the program's own settings apply.
    let wrong = [("MLPROF_PROFILER", "simple+smiple"), ("MLPROF_SCHEDULE", "activ=2")];
    let own = played("environment", "simple", &wrong, folder);
    assert_eq!(count(&own, "Num calls"), 2, "{own:?}");
    let said: Vec<&str> = text(&own.stderr).lines().collect();
    let [schedule, profiler] = said.as_slice() else { panic!("{said:?}") };
    assert!(schedule.starts_with("mlprof: MLPROF_SCHEDULE=activ=2: cannot parse \"activ\""));
    let expected = "mlprof: MLPROF_PROFILER: cannot find a profiler named \"smiple\" (in \
                    \"simple+smiple\"): use one of \"simple\", ";
    assert!(profiler.starts_with(expected), "{profiler}");
    assert!(
        said.iter().all(|line| line.ends_with("; the program's own setting applies")),
        "{said:?}"
    );
    assert_eq!(names(folder), BTreeSet::new());

    // The variables set the files of several profilers, and of a profiler that the program
    // selected.
    let files = [("MLPROF_DIRPATH", "logs"), ("MLPROF_FILENAME", "run")];
    let several = [&files[..], &[("MLPROF_PROFILER", "simple + advanced")]].concat();
    let several = played("environment", "none", &several, folder);
    assert_eq!(text(&several.stdout), "");
    let said = "MLPROF_PROFILER=simple + advanced MLPROF_DIRPATH=logs MLPROF_FILENAME=run\n";
    assert!(text(&several.stderr).starts_with(&format!("{FROM}{said}")), "{several:?}");
    let expected = ["fit-run-advanced.txt", "fit-run-simple.txt", "test-run-advanced.txt"];
    let expected = expected.into_iter().chain(["test-run-simple.txt"]).map(str::to_owned);
    assert_eq!(names(&folder.join("logs")), expected.collect());
    let own = played("environment", "simple", &files, folder);
    assert_eq!(text(&own.stdout), "");
    assert_eq!(text(&own.stderr), format!("{FROM}MLPROF_DIRPATH=logs MLPROF_FILENAME=run\n"));
    assert!(names(&folder.join("logs")).contains("fit-run.txt"));

    // The variable overrides the schedule of a profiler that the program created.
    let said = [("MLPROF_SCHEDULE", "wait=2,warmup=0,active=1,repeat=1")];
    let steps = played("environment steps", "", &said, folder);
    let schedule = "wait=2,warmup=0,active=1,repeat=1,skip_first=0,skip_first_wait=0";
    let first_line = text(&steps.stdout).lines().next();
    assert_eq!(first_line, Some(&*format!("Some({schedule:?}) [(2, 1)]")), "{steps:?}");
    assert!(text(&steps.stderr).starts_with(&format!("{FROM}MLPROF_SCHEDULE={schedule}\n")));

    played("environment passed on", "", &[("MLPROF_PROFILER", "simple")], folder);

    beside_a_run(folder);
}

/// Checks that `mlprof run` also measures as configured and writes its own files.
fn beside_a_run(folder: &Path) {
    let run = folder.join("run.json");
    let settings = RunSettings {
        directory: folder.join("results"),
        advanced: Some(AdvancedSettings::default()),
        ..RunSettings::default()
    };
    settings.write(&run).expect("written");
    let run = run.to_str().expect("text");
    let said = [
        (RUN_VARIABLE, run),
        ("MLPROF_PROFILER", "simple"),
        ("MLPROF_DIRPATH", "beside"),
        ("MLPROF_FILENAME", "own"),
    ];
    let both = played("environment of a run", "advanced", &said, folder);
    let expected = ["fit-own.txt", "test-own.txt"].map(str::to_owned);
    assert_eq!(names(&folder.join("beside")), BTreeSet::from(expected), "{both:?}");
    let report = |stage: &str| {
        let text = std::fs::read_to_string(folder.join(format!("beside/{stage}-own.txt")));
        text.expect("a report").matches("Num calls").count()
    };
    assert_eq!((report("fit"), report("test")), (1, 1));
    let results = names(&folder.join("results"));
    assert!(!results.is_empty(), "{both:?}");
    assert!(results.iter().all(|name| name.contains("-functions.")), "{results:?}");
}
