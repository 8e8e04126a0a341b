//! Tests of trace files: their places, and their state after errors.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mlprof_core::tensor::{Schedule, trace_handler};
use mlprof_core::{Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

use crate::parsed::Trace;
use crate::recorded::{op, read};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = fs::File::open(path).expect("the trace");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    text
}

fn train(profiler: &TensorProfiler, run: &RunContext, steps: u64) {
    profiler.setup(Stage::Fit, run);
    for _ in 0..steps {
        op(profiler, "aten::mm", || {});
        profiler.step();
    }
}

#[test]
fn a_trace_is_written_beside_the_report_at_the_end_of_every_cycle() {
    let directory = directory();
    let schedule = Schedule::new().wait(0).warmup(0).active(2).repeat(0);
    let profiler = TensorProfiler::new()
        .schedule(schedule)
        .dirpath(directory.path().join("made"))
        .filename("run");
    let run = RunContext::default().with_rank(3, 4);
    train(&profiler, &run, 4);
    // Two cycles are over and can be read, independent of the third.
    let before = files(&directory.path().join("made"));
    assert_eq!(before.len(), 2, "{before:?}");
    profiler.teardown(None);
    let names = files(&directory.path().join("made"));
    for (cycle, name) in names.iter().take(2).enumerate() {
        let number = name.strip_prefix("fit-run-3.").expect("stage, name and rank");
        let number = number.strip_suffix(".pt.trace.json.gz").expect("what TensorBoard looks for");
        assert_eq!((number.len(), number.parse::<u64>().is_ok()), (19, true), "{number}");
        let trace = Trace::of(&unpacked(&directory.path().join("made").join(name)));
        assert_eq!(trace.all["mlprof"]["cycle"], cycle);
    }
}

/// Environment variable with which the following test starts itself.
const KILLED: &str = "MLPROF_TEST_KILLED_IN_DIRECTORY";

#[test]
fn a_process_that_is_killed_leaves_the_cycles_that_are_over() {
    let schedule = Schedule::new().wait(0).warmup(0).active(2).repeat(0);
    if let Some(directory) = std::env::var_os(KILLED) {
        let profiler = TensorProfiler::new().schedule(schedule);
        let profiler = profiler.dirpath(directory).filename("run");
        train(&profiler, &RunContext::default(), 5);
        std::process::abort(); // in the middle of the third cycle
    }
    let directory = directory();
    let own = std::env::current_exe().expect("a test knows its own path");
    let output = std::process::Command::new(own)
        .args(["--exact", "files::a_process_that_is_killed_leaves_the_cycles_that_are_over"])
        .env(KILLED, directory.path())
        .output()
        .expect("this program");
    assert!(!output.status.success(), "it was killed");
    let names = files(directory.path());
    assert_eq!(names.len(), 2, "{names:?}");
    for (cycle, name) in names.iter().enumerate() {
        let trace = Trace::of(&unpacked(&directory.path().join(name)));
        assert_eq!(trace.all["mlprof"]["cycle"], cycle);
        assert_eq!(trace.slices().len(), 4, "two steps with an op each");
    }
}

#[test]
fn the_trainers_directory_serves_too_and_none_means_no_trace() {
    let directory = directory();
    let everything = Schedule::new().wait(0).warmup(0).active(1).repeat(1);
    let profiler = || TensorProfiler::new().schedule(everything);
    train(&profiler(), &RunContext::default().with_log_dir(directory.path()), 1);
    let names = files(directory.path());
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with("fit.") && names[0].ends_with(".pt.trace.json.gz"), "{names:?}");
    let off = profiler().export_trace(false).dirpath(directory.path());
    train(&off, &RunContext::default(), 1);
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn a_handler_replaces_the_file_and_one_is_ready_made() {
    let (own, traces) = (directory(), directory());
    let everything = Schedule::new().wait(0).warmup(0).active(1).repeat(2);
    for (worker, compressed) in [(Some("a/b"), true), (None, false)] {
        let profiler = TensorProfiler::new()
            .schedule(everything)
            .dirpath(own.path())
            .on_trace_ready(trace_handler(traces.path().join("log"), worker, compressed));
        train(&profiler, &RunContext::default(), 2);
    }
    assert_eq!(files(own.path()), Vec::<String>::new());
    let names = files(&traces.path().join("log"));
    let named = names.iter().filter(|name| name.starts_with("a_b.") && name.ends_with(".json.gz"));
    assert_eq!(named.count(), 2);
    let process = format!("_{}.", std::process::id());
    let unnamed =
        names.iter().filter(|name| name.contains(&process) && name.ends_with(".pt.trace.json"));
    assert_eq!((unnamed.count(), names.len()), (2, 4), "{names:?}");
}

#[test]
fn a_file_replaces_an_older_one_only_when_it_is_whole() {
    let directory = directory();
    let path = directory.path().join("trace.json");
    fs::write(&path, "old").expect("a file");
    let (there, end) = read(|profiler| op(profiler, "one", || {}), {
        let path = path.clone();
        move |cycle| {
            /// Writer that reads the file at the path while the trace is written.
            struct Looks<'path>(&'path Path, Vec<String>);
            impl Write for Looks<'_> {
                fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                    self.1.push(fs::read_to_string(self.0)?);
                    Ok(bytes.len())
                }
                fn flush(&mut self) -> io::Result<()> {
                    Ok(())
                }
            }
            let mut looks = Looks(&path, Vec::new());
            mlprof_core::trace::kineto::write(cycle, "x", &mut looks).expect("memory");
            cycle.export_chrome_trace(&path).expect("a file");
            (looks.1, fs::read_to_string(&path).expect("the trace"))
        }
    });
    assert!(!there.is_empty() && there.iter().all(|text| text == "old"));
    Trace::of(&end);
    assert_eq!(files(directory.path()), ["trace.json"], "nothing else is left");
}

/// Simulates a disk that is full after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let fits = bytes.len().min(self.0);
        self.0 -= fits;
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let errors = read(
        |profiler| (0..5000).for_each(|_| op(profiler, "one", || {})),
        |cycle| {
            [0, 1, 70_000, 200_000].map(|room| {
                let written = mlprof_core::trace::kineto::write(cycle, "x", Full(room));
                written.map_err(|error| error.kind())
            })
        },
    );
    assert_eq!(errors, [Err(io::ErrorKind::StorageFull); 4]);
}

#[cfg(target_os = "linux")]
#[test]
fn dev_full_is_told_and_stays_what_it_is() {
    use std::os::unix::fs::FileTypeExt;

    use mlprof_core::trace::flame::FlameMetric;

    let errors = read(
        |profiler| op(profiler, "one", || {}),
        |cycle| {
            [
                cycle.export_chrome_trace("/dev/full"),
                cycle.export_stacks("/dev/full", FlameMetric::Calls),
                cycle.memory_timeline().export_json("/dev/full"),
                cycle.memory_timeline().export_html("/dev/full"),
            ]
            .map(|written| written.map_err(|error| error.raw_os_error()))
        },
    );
    assert_eq!(errors, [Err(Some(28)); 4], "no space is left on the device");
    let kind = fs::metadata("/dev/full").expect("it is there").file_type();
    assert!(kind.is_char_device());
}

#[test]
fn failed_writes_do_not_stop_the_run() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").expect("a file");
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler =
        TensorProfiler::new().schedule(schedule).flame(true).memory_timeline(true).dirpath(&file);
    train(&profiler, &RunContext::default(), 3);
    profiler.teardown(None);
    assert_eq!(fs::read_to_string(&file).expect("still there"), "not a directory");
}

#[test]
fn a_handler_that_panics_loses_its_trace_and_nothing_else() {
    let seen = Arc::new(Mutex::new(0));
    let count = seen.clone();
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().schedule(schedule).on_trace_ready(move |_| {
        *count.lock().expect("dropped before the panic") += 1;
        panic!("on purpose");
    });
    train(&profiler, &RunContext::default(), 3);
    assert_eq!(*seen.lock().expect("not poisoned"), 3);
}

#[test]
fn flame_graphs_and_the_memory_timeline_stand_beside_the_trace() {
    use mlprof_core::hook::{MemoryChange, MemoryDevice};
    let directory = directory();
    let profiler = TensorProfiler::new()
        .without_schedule()
        .flame(true)
        .memory_timeline(true)
        .memory_snapshot(true)
        .dirpath(directory.path())
        .filename("run");
    profiler.setup(Stage::Test, &RunContext::default());
    op(&profiler, "one", || {
        let device = MemoryDevice::Cpu;
        let (total_allocated, total_reserved) = (0, 0);
        let (address, bytes) = (64, 1000);
        profiler.observe(&Observation::Memory(&MemoryChange {
            address,
            bytes,
            total_allocated,
            total_reserved,
            device,
        }));
        crate::recorded::spin(50);
    });
    profiler.teardown(None);
    let names = files(directory.path());
    let stem = names[0].split('.').take(2).collect::<Vec<_>>().join(".");
    let mut expected: Vec<PathBuf> = ["calls", "self_cpu_time", "allocated_bytes"]
        .iter()
        .flat_map(|metric| {
            let folded = format!("{stem}.{metric}.folded");
            let svg = format!("{stem}.{metric}.svg");
            if cfg!(feature = "flame") { vec![folded, svg] } else { vec![folded] }
        })
        .chain(
            ["memory.json", "memory.html", "memory.pickle", "pt.trace.json.gz"]
                .map(|end| format!("{stem}.{end}")),
        )
        .map(PathBuf::from)
        .collect();
    expected.sort();
    assert_eq!(names.iter().map(PathBuf::from).collect::<Vec<_>>(), expected);
    assert!(stem.starts_with("test-run."));
}
