//! Tests of byte counts with real files, exact to the byte.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Barrier;

use super::*;
use crate::report::simple::IoStatistics;

fn io(rows: &[ActionStatistics], action: &str) -> IoStatistics {
    let row = row(rows, action);
    row.io.unwrap_or_else(|| panic!("no bytes in {row:?}"))
}

/// Returns the numbers of read and written bytes.
fn calls(rows: &[ActionStatistics], action: &str) -> (u64, u64) {
    let io = io(rows, action);
    (io.read_bytes, io.written_bytes)
}

fn write(path: &Path, bytes: usize) {
    File::create(path).and_then(|mut file| file.write_all(&vec![7; bytes])).expect("written");
}

fn read(path: &Path, bytes: usize) {
    let mut content = vec![0; bytes];
    File::open(path).and_then(|mut file| file.read_exact(&mut content)).expect("read");
}

#[test]
fn every_byte_is_counted_once_and_none_of_our_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let profiler = SimpleProfiler::new().measure_io();
    {
        let _first = profiler.profile("the_first_of_all_writes");
        write(&path, 100_001);
    }
    for _ in 0..3 {
        let _epoch = profiler.profile("epoch");
        for _ in 0..2 {
            let _batch = profiler.profile("batch");
            read(&path, 4_099);
            {
                let _log = profiler.profile("log");
                write(&directory.path().join("log"), 17);
            }
            let _nothing = profiler.profile("nothing");
        }
        read(&path, 1);
    }
    let report = profiler.snapshot();
    assert_eq!(calls(&report.actions, "the_first_of_all_writes"), (0, 100_001));
    assert_eq!(calls(&report.actions, "epoch"), (3 * (2 * 4_099 + 1), 6 * 17));
    assert_eq!(calls(&report.actions, "batch"), (6 * 4_099, 6 * 17));
    assert_eq!(calls(&report.actions, "log"), (0, 6 * 17));
    assert!(io(&report.actions, "nothing").is_zero());
    assert_eq!(report.header.notes, [""; 0]);
    assert_eq!(report.threads.len(), 1);
    assert_eq!(report.threads[0].actions, report.actions);
}

#[test]
fn recursion_counts_bytes_once() {
    fn recurse(profiler: &SimpleProfiler, path: &Path, depth: u32) {
        let _scope = profiler.profile("recursive");
        read(path, 10);
        if depth > 1 {
            recurse(profiler, path, depth - 1);
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    write(&path, 10);
    let profiler = SimpleProfiler::new().measure_io();
    // The recursion is deeper than the first chunk of frames of a stack.
    recurse(&profiler, &path, 200);
    assert_eq!(calls(&profiler.snapshot().actions, "recursive"), (2_000, 0));
}

#[test]
fn threads_have_their_own_bytes_and_leave_them_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    write(&path, 1_000);
    let profiler = SimpleProfiler::new().measure_io();
    let (profiler, path, barrier) = (&profiler, path.as_path(), &Barrier::new(4));
    std::thread::scope(|scope| {
        for worker in 1..=3 {
            let work = move || {
                barrier.wait();
                for _ in 0..100 {
                    let _scope = profiler.profile("load");
                    read(path, worker);
                }
            };
            let named = std::thread::Builder::new().name(format!("worker-{worker}"));
            named.spawn_scoped(scope, work).expect("a thread");
        }
        barrier.wait();
        for _ in 0..100 {
            let _scope = profiler.profile("load");
            read(path, 1_000);
        }
    });
    let report = profiler.snapshot();
    assert_eq!(calls(&report.actions, "load"), (100 * (1_000 + 1 + 2 + 3), 0));
    for worker in 1..=3 {
        let name = format!("worker-{worker}");
        let thread = report.threads.iter().find(|thread| thread.thread == name).expect("a thread");
        assert_eq!(calls(&thread.actions, "load"), (100 * worker, 0), "{name}");
    }
}

#[test]
fn two_profilers_do_not_count_each_others_readings() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    write(&path, 50);
    let (one, other) = (SimpleProfiler::new().measure_io(), SimpleProfiler::new().measure_io());
    for _ in 0..5 {
        let _one = one.profile("outer");
        let _other = other.profile("inner");
        read(&path, 50);
        drop(one.snapshot()); // measures what a scope costs, the first time
    }
    assert_eq!(calls(&one.snapshot().actions, "outer"), (250, 0));
    assert_eq!(calls(&other.snapshot().actions, "inner"), (250, 0));
}

#[test]
fn stages_and_the_sanity_check_have_bytes_of_their_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    write(&path, 100);
    let profiler = SimpleProfiler::new().measure_io();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    {
        let _sanity = profiler.profile("run_sanity_check");
        profiler.setup(Stage::SanityCheck, &run);
        let step = profiler.profile("validation_step");
        read(&path, 3);
        drop(step);
        profiler.teardown(Some(Stage::SanityCheck));
    }
    let step = profiler.profile("validation_step");
    read(&path, 100);
    drop(step);
    let fit = profiler.snapshot();
    assert_eq!(calls(&fit.actions, "run_sanity_check"), (3, 0));
    for row in fit.actions.iter().filter(|row| row.action == "validation_step") {
        let expected = if row.sub_stage.is_some() { 3 } else { 100 };
        assert_eq!(row.io.map(|io| io.read_bytes), Some(expected), "{row:?}");
    }
    profiler.teardown(Some(Stage::Fit));
    profiler.setup(Stage::Test, &run);
    drop(profiler.profile("validation_step"));
    let test = profiler.snapshot();
    assert_eq!(test.actions.len(), 1);
    assert!(io(&test.actions, "validation_step").is_zero(), "a new stage starts from zero");
}

#[test]
fn bytes_written_to_a_disk_are_counted() {
    // The build folder is seldom in memory, unlike the folder for temporary files.
    let program = std::env::current_exe().expect("a test knows its own path");
    let built = program.parent().expect("a test lies in a folder");
    let directory = tempfile::tempdir_in(built).expect("a directory");
    let profiler = SimpleProfiler::new().measure_io();
    let scope = profiler.profile("checkpoint");
    write(&directory.path().join("weights"), 1 << 20);
    drop(scope);
    let io = io(&profiler.snapshot().actions, "checkpoint");
    assert_eq!(io.written_bytes, 1 << 20);
    // The system counts whole pages. It counts 0 bytes for a file system in memory or on a network.
    assert!(io.storage_written_bytes == 0 || io.storage_written_bytes >= 1 << 20, "{io:?}");
}

#[test]
fn bytes_through_a_memory_map_are_no_reads() {
    use std::os::fd::AsRawFd;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    write(&path, 1 << 16);
    let file = File::open(&path).expect("the file");
    let profiler = SimpleProfiler::new().measure_io();
    let scope = profiler.profile("mapped");
    // SAFETY: the mapping is new and private, the file does not change, and the slice ends at the
    // mapping's length.
    let sum: u64 = unsafe {
        let (length, descriptor) = (1 << 16, file.as_raw_fd());
        let address = std::ptr::null_mut();
        let map = libc::mmap(address, length, libc::PROT_READ, libc::MAP_PRIVATE, descriptor, 0);
        assert_ne!(map, libc::MAP_FAILED);
        let bytes = std::slice::from_raw_parts(map.cast::<u8>().cast_const(), length);
        let sum = bytes.iter().map(|byte| u64::from(*byte)).sum();
        libc::munmap(map, length);
        sum
    };
    drop(scope);
    assert_eq!(sum, 7 << 16, "all of it was read");
    assert_eq!(calls(&profiler.snapshot().actions, "mapped"), (0, 0));
}

#[test]
fn the_report_shows_bytes_in_the_detailed_layout() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let profiler = SimpleProfiler::new().measure_io();
    let scope = profiler.profile("save_checkpoint");
    write(&path, 1_536);
    drop(scope);
    drop(profiler.profile("idle"));
    let text = profiler.summary();
    let table =
        &text[text.find("\nBytes read and written, most bytes first\n").expect("a table")..];
    let row = table.lines().find(|line| line.ends_with("  save_checkpoint")).expect("a row");
    assert!(row.trim_start().starts_with("0 B  1.50 KiB"), "{text}");
    assert!(!table.contains("idle"), "{text}");
    assert!(!SimpleProfiler::new().detailed().summary().contains("Bytes"));
    assert!(fs::exists(&path).expect("readable"));
}

#[test]
fn stopping_what_was_not_started_is_an_error_and_loses_nothing() {
    let profiler = SimpleProfiler::new().measure_io();
    assert!(profiler.stop("never".into()).is_err());
    profiler.start("real".into());
    profiler.stop("real".into()).expect("is open");
    assert!(profiler.stop("real".into()).is_err());
    assert!(io(&profiler.snapshot().actions, "real").is_zero());
}
