//! Checks that one report shows the same numbers on the console, in the file and as JSON, even
//! while other threads continue to record.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mlprof_core::allocation::{AllocationProfiler, TrackingAllocator};
use mlprof_core::report::advanced::pstats;
use mlprof_core::report::simple::detailed;
use mlprof_core::report::simple::lightning;
use mlprof_core::report::{LineCountRestriction, memory};
use mlprof_core::{
    Action, ActionKind, AdvancedProfiler, Output, Profiler, ProfilerExt, Report, SimpleProfiler,
};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// Environment variable with the folder in which the child process delivers its reports.
const FOLDER: &str = "MLPROF_TEST_FOLDER";

/// A profiler, and a function that renders its text from the written JSON.
struct Form {
    name: &'static str,
    profiler: fn(Output) -> Arc<dyn Profiler>,
    paint: fn(&Report) -> String,
}

const FORMS: [Form; 5] = [
    Form {
        name: "simple",
        profiler: |output| Arc::new(SimpleProfiler::new().output_to(output)),
        paint: |report| match report {
            Report::Simple(report) => lightning::paint(report, true),
            _ => String::new(),
        },
    },
    Form {
        name: "detailed",
        profiler: |output| Arc::new(SimpleProfiler::new().detailed().output_to(output)),
        paint: |report| match report {
            Report::Simple(report) => detailed::paint(report),
            _ => String::new(),
        },
    },
    Form {
        name: "cpu",
        profiler: |output| Arc::new(SimpleProfiler::new().output_to(output).measure_cpu()),
        paint: |report| match report {
            Report::Simple(report) => detailed::paint(report),
            _ => String::new(),
        },
    },
    Form {
        name: "advanced",
        profiler: |output| Arc::new(AdvancedProfiler::new().output_to(output)),
        paint: |report| match report {
            Report::Advanced(report) => pstats::paint(report, LineCountRestriction::default()),
            _ => String::new(),
        },
    },
    Form {
        name: "memory",
        profiler: |output| Arc::new(AllocationProfiler::new().output_to(output)),
        paint: |report| match report {
            Report::Memory(report) => memory::paint(report),
            _ => String::new(),
        },
    },
];

/// Delivers a report of each profiler while two threads continue to record.
fn deliver_all(folder: &Path) {
    for form in &FORMS {
        // The console shows one line per finding, while the file has a paragraph.
        let output = Output::new().dirpath(folder).filename(form.name).json(true);
        let output = output.always_print(true).findings(false);
        let profiler = (form.profiler)(output);
        let is_over = AtomicBool::new(false);
        let (action, function) =
            (Action::new("batch"), Action::of_kind(ActionKind::Function, "load", None));
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let _batch = profiler.profile(action);
                        let _load = profiler.profile(function);
                        drop(std::hint::black_box(Box::new(1_u64)));
                    }
                });
            }
            while profiler.summary().matches("batch").count() == 0 {
                thread::yield_now();
            }
            profiler.describe();
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn text_file_and_json_say_the_same_while_threads_go_on() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return deliver_all(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let played = Command::new(program)
        .args(["--exact", "text_file_and_json_say_the_same_while_threads_go_on", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .expect("starts itself");
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    let console = String::from_utf8_lossy(&played.stdout);
    for form in &FORMS {
        let read = |extension| {
            let path = folder.path().join(format!("{}.{extension}", form.name));
            std::fs::read_to_string(path).expect("was delivered")
        };
        let (text, json) = (read("txt"), read("json"));
        let report = Report::from_json(&json).expect("a report");
        assert!(text.contains("batch") && text.lines().count() > 3, "{}: {text}", form.name);
        assert!(console.contains(&text), "{}: the console shows another one", form.name);
        assert_eq!((form.paint)(&report), text, "{}", form.name);
    }
}

/// A third-party profiler that measures anew at each query.
#[derive(Default)]
struct Counter(std::sync::atomic::AtomicU64);

impl Profiler for Counter {
    fn start(&self, _action: Action) {}

    fn stop(&self, _action: Action) -> Result<(), mlprof_core::NeverStarted> {
        Ok(())
    }

    fn summary(&self) -> String {
        format!("measured {} times\n", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[test]
fn a_report_in_all_its_forms_is_one_measurement() {
    let simple = SimpleProfiler::new();
    drop(simple.profile("batch"));
    let rendered = simple.render();
    let Some(Report::Simple(report)) = rendered.report() else { panic!("{rendered:?}") };
    assert_eq!(lightning::paint(report, true), rendered.text());
    let counter = Counter::default();
    assert_eq!(counter.render().text(), "measured 1 times\n");
    assert!(counter.render().report().is_none());
}
