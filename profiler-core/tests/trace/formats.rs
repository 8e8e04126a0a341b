//! Compares traces in other formats byte for byte with the output of `mlprof convert` for the JSON
//! trace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use flate2::read::GzDecoder;
use mlprof_analysis::{kineto, perfetto, xplane};
use mlprof_core::hook::OpStart;
use mlprof_core::tensor::TraceFormat::{self, Json, Pftrace, Xplane};
use mlprof_core::tensor::{Cycle, Schedule};
use mlprof_core::{Action, Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

use crate::recorded::{action, kernel, op, run};

/// Records every second of four steps.
fn record(folder: &Path, formats: impl IntoIterator<Item = TraceFormat>) -> TensorProfiler {
    let schedule = Schedule::new().wait(1).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().schedule(schedule);
    let profiler = profiler.profile_memory(true).dirpath(folder).filename("run");
    let profiler = profiler.trace_formats(formats);
    train(&profiler);
    profiler
}

fn train(profiler: &TensorProfiler) {
    profiler.setup(Stage::Fit, &RunContext::default());
    for step in 0..4 {
        let begin = Instant::now();
        action(profiler, "training_step", || {
            op(profiler, "aten::relu", || {});
            let mm = OpStart { sequence: step + 1, ..OpStart::new(Action::op("aten::mm")) };
            run(profiler, &mm, || {});
        });
        profiler.observe(&Observation::DeviceEvent(&kernel("gemm", step + 1, begin, 5, 20)));
        profiler.step();
    }
    profiler.teardown(Some(Stage::Fit));
}

/// Returns the files of a folder, by stem and extension.
fn files(folder: &Path) -> BTreeMap<(String, String), Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let (stage_and_name, rest) = name.split_once('.').expect("an ending");
        let (time, ending) = rest.split_once('.').expect("a time");
        ((format!("{stage_and_name}.{time}"), ending.to_owned()), fs::read(&path).expect("a file"))
    };
    entries.map(file).collect()
}

#[test]
fn each_cycle_is_written_in_each_format_as_its_trace_is_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), [Json, Xplane, Pftrace]);
    let found = files(folder.path());
    let traces: Vec<_> =
        found.iter().filter(|((_, ending), _)| ending == "pt.trace.json.gz").collect();
    assert_eq!((traces.len(), found.len()), (2, 6), "{:?}", found.keys());
    for ((stem, _), json) in traces {
        let of = |ending: &str| &found[&(stem.clone(), ending.to_owned())];
        let trace = kineto::read(GzDecoder::new(&json[..])).expect("a trace");
        let mut pftrace = Vec::new();
        perfetto::write(&trace, &mut pftrace).expect("written");
        assert!(of("pftrace") == &pftrace, "{stem}.pftrace differs");
        let trace = kineto::read_for_xprof(GzDecoder::new(&json[..])).expect("a trace");
        let mut space = Vec::new();
        xplane::write(&trace, &mut space).expect("written");
        assert!(of("xplane.pb") == &space, "{stem}.xplane.pb differs");
        assert!(pftrace.len() > 100 && space.len() > 100, "there is something in them");
    }
}

#[test]
fn only_requested_files_are_written_and_failures_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), [Pftrace]);
    let endings = |folder: &Path| -> Vec<String> {
        files(folder).into_keys().map(|(_, ending)| ending).collect()
    };
    assert_eq!(endings(folder.path()), ["pftrace", "pftrace"]);

    let handler = |_: &Cycle| {};
    let taken = tempfile::tempdir().expect("a folder");
    let profiler = TensorProfiler::new().dirpath(taken.path()).filename("run");
    let profiler = profiler.on_trace_ready(handler).trace_formats([Pftrace]);
    train(&profiler);
    assert_eq!(endings(taken.path()), [""; 0], "whoever takes traces writes them");

    // The target folder is a file here.
    let blocked = tempfile::tempdir().expect("a folder");
    File::create(blocked.path().join("file")).expect("made");
    let profiler = record(&blocked.path().join("file"), [Xplane]);
    let notes = profiler.report().expect("a report").header().notes.join("\n");
    assert!(notes.contains("cannot write ") && notes.contains(".xplane.pb: "), "{notes}");
}
