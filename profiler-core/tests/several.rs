//! Tests with several profilers of one stage. Each report must appear once, in its own files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mlprof_core::{
    AdvancedProfiler, IntoProfiler, MultiProfiler, Output, Profiler, ProfilerExt, Report,
    RunContext, Session, SimpleProfiler, Stage, TensorProfiler, profile,
};

/// Runs one stage with one action.
fn train(profiler: impl IntoProfiler, run: &RunContext) {
    let session = Session::begin(profiler, Stage::Fit, run).expect("a profiler");
    drop(profile!("training_step"));
    drop(session);
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file"));
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("read")).into();
    entries.map(|it| (it.file_name().to_string_lossy().into_owned(), read(&it.path()))).collect()
}

// There is only one test, because active profilers belong to the whole process.
#[test]
fn each_report_comes_once_in_files_of_its_own() {
    one_name_becomes_one_file_each();
    names_that_differ_stay();
    two_of_a_kind_are_numbered();
    a_profiler_given_twice_receives_events_once();
}

fn one_name_becomes_one_file_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = || Output::new().dirpath(folder.path()).filename("run").json(true);
    let simple = SimpleProfiler::new().output_to(output());
    let advanced = AdvancedProfiler::new().output_to(output()).dump_stats(true);
    let tensor = TensorProfiler::new().output_to(output()).without_schedule();
    let several = (simple, advanced, tensor).into_profiler().expect("three profilers");
    let one_process = RunContext::default();
    train(several.clone(), &one_process);
    let written = files(folder.path());
    let texts = ["fit-run-simple.txt", "fit-run-advanced.txt", "fit-run-tensor.txt"];
    for (name, others) in texts.map(|name| (name, texts.iter().filter(move |it| **it != name))) {
        assert_eq!(written[name].matches("FIT Profiler Report").count(), 1, "{name}");
        assert_eq!(
            written[name].matches("Num calls").count(),
            usize::from(name.contains("simple"))
        );
        others.for_each(|other| assert_ne!(written[name], written[*other]));
    }
    for (name, kind) in [("simple", "simple"), ("advanced", "advanced"), ("tensor", "tensor")] {
        let json = &written[&format!("fit-run-{name}.json")];
        let report = Report::from_json(json).expect("a report");
        let is_right = match report {
            Report::Simple(_) => kind == "simple",
            Report::Advanced(_) => kind == "advanced",
            Report::Tensor(_) => kind == "tensor",
            _ => false,
        };
        assert!(is_right, "{name}: {json}");
    }
    assert!(written.contains_key("fit-run-advanced-training_step.prof"), "{:?}", written.keys());
    assert!(!written.keys().any(|name| name.starts_with("fit-run.")), "{:?}", written.keys());

    // Ranks come after the profiler's name.
    train(several, &RunContext::default().with_rank(1, 2));
    let ranked = files(folder.path());
    assert!(ranked.contains_key("fit-run-simple-1.txt"), "{:?}", ranked.keys());
    assert!(ranked.contains_key("fit-run-advanced-1.json"), "{:?}", ranked.keys());
}

fn names_that_differ_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let simple = SimpleProfiler::new().dirpath(folder.path()).filename("a");
    let advanced = AdvancedProfiler::new().dirpath(folder.path()).filename("b");
    train((simple, advanced), &RunContext::default());
    let written = files(folder.path());
    assert_eq!(written.keys().collect::<Vec<_>>(), ["fit-a.txt", "fit-b.txt"]);
}

fn two_of_a_kind_are_numbered() {
    let folder = tempfile::tempdir().expect("a folder");
    let simple = || SimpleProfiler::new().dirpath(folder.path()).filename("run");
    train([simple(), simple()], &RunContext::default());
    let written = files(folder.path());
    assert_eq!(written.keys().collect::<Vec<_>>(), ["fit-run-simple-2.txt", "fit-run-simple.txt"]);
}

fn a_profiler_given_twice_receives_events_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let simple: Arc<dyn Profiler> =
        Arc::new(SimpleProfiler::new().dirpath(folder.path()).filename("run"));
    let inner: Arc<dyn Profiler> =
        Arc::new(MultiProfiler::new([simple.clone(), "none".into_profiler().expect("a name")]));
    let nested = MultiProfiler::new([simple.clone(), inner]);
    assert_eq!(nested.parts().len(), 2, "the simple one and the one that measures nothing");
    train(nested, &RunContext::default());
    let written = files(folder.path());
    assert_eq!(written.keys().collect::<Vec<_>>(), ["fit-run.txt"], "nobody else has that name");
    assert_eq!(written["fit-run.txt"].matches("FIT Profiler Report").count(), 1);
    drop(simple.profile("later"));
    assert!(simple.summary().contains("later"));
}
