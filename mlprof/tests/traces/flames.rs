//! Tests flame graphs of traces with devices.

use std::path::Path;

use super::{mlprof, path, text};

/// Returns the events of a host thread and of two devices. Times are in microseconds.
fn trace(has_threads: bool) -> String {
    let mut events = Vec::new();
    let mut slice = |(pid, tid): (u32, u32), category: &str, name: &str, (ts, dur): (u32, u32)| {
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}}}"#
        ));
    };
    if has_threads {
        slice((100, 100), "cpu_op", "aten::mm", (0, 50));
    }
    slice((0, 7), "kernel", "gemm", (10, 30));
    slice((0, 7), "kernel", "gemm", (40, 30));
    // A kernel that overlaps another kernel of its stream is also counted.
    slice((0, 7), "kernel", "relu", (60, 30));
    slice((0, 9), "gpu_memcpy", "Memcpy HtoD", (10, 5));
    slice((1, 7), "kernel", "gemm", (10, 7));
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

const DEVICES: [&str; 4] = [
    "device 0;stream 7;gemm 60",
    "device 0;stream 7;relu 30",
    "device 0;stream 9;Memcpy HtoD 5",
    "device 1;stream 7;gemm 7",
];

fn folded(file: &Path, more: &[&str]) -> (Vec<String>, String) {
    let output = mlprof(&[&["convert", path(file), "--to", "folded", "-o", "-"], more].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    (text(&output.stdout).lines().map(str::to_owned).collect(), said)
}

#[test]
fn flame_graphs_have_devices_as_roots_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.json");
    std::fs::write(&file, trace(true)).expect("a file");
    let (lines, said) = folded(&file, &[]);
    assert_eq!(lines, ["aten::mm 50"]);
    assert!(
        said.contains("5 kernels, copies and fills of devices are omitted (--devices"),
        "{said}"
    );
    let (lines, said) = folded(&file, &["--devices"]);
    assert_eq!(lines[0], "aten::mm 50");
    assert_eq!(lines[1..], DEVICES);
    assert!(!said.contains("omitted"), "{said}");
    let (lines, _) = folded(&file, &["--devices", "--by-thread"]);
    assert_eq!(lines[..4], DEVICES);
    assert_eq!(lines[4], "thread 100;aten::mm 50");
    let svg = mlprof(&["convert", path(&file), "--to", "svg", "--devices", "-o", "-"]);
    let drawn = text(&svg.stdout);
    assert!(
        drawn.contains("Memcpy HtoD") && drawn.contains("host self time and device time"),
        "{drawn}"
    );
}

#[test]
fn a_trace_of_devices_alone_shows_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.json");
    std::fs::write(&file, trace(false)).expect("a file");
    let (lines, said) = folded(&file, &[]);
    assert_eq!(lines, DEVICES);
    assert!(!said.contains("omitted"), "{said}");
}
