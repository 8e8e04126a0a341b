//! Tests that all device queries cover the same window as `mlprof analyze`.

use std::path::Path;

use mlprof_analysis::{Analysis, Trace};

use crate::rank_file::File;
use crate::{asked, integer, path, program, text, word};

/// Adds device work before, in, between and after steps, and in recording pauses. Times are in
/// microseconds.
fn work(file: &mut File) {
    let launches = [(5, 10), (30, 35), (55, 55), (95, 103), (170, 175), (230, 480), (420, 430)];
    for (number, (call, kernel)) in (1..).zip(launches) {
        let args = format!(r#""correlation":{number}"#);
        file.slice((100, 100), "cuda_runtime", "cudaLaunchKernel", (call, 2), &args);
        file.slice((0, 7), "kernel", "gemm", (kernel, 18), &args);
    }
    for reduced in [(0, 30), (38, 40), (90, 80), (180, 10), (390, 40)] {
        file.slice((0, 9), "kernel", "ncclDevKernel_AllReduce_Sum_f32", reduced, "");
    }
    for (copied, bytes) in [((2, 3), 500), ((52, 20), 4_000), ((60, 20), 1_000), ((75, 3), 0)] {
        let args = if bytes > 0 { format!(r#""bytes":{bytes}"#) } else { String::new() };
        file.slice((0, 11), "gpu_memcpy", "Memcpy HtoD", copied, &args);
    }
    file.slice((0, 11), "gpu_memcpy", "Memcpy DtoH", (400, 50), r#""bytes":7000"#);
    // A second device works only before the first step.
    file.slice((1, 7), "kernel", "gemm", (1, 4), "");
}

fn compare(folder: &Path, trace: &Trace) {
    let answers = Analysis::of(trace);
    let device = |row: &crate::Row| {
        let number = integer(row, "device");
        answers.devices.iter().find(|it| it.device == number).expect("the device")
    };
    let rows = asked(folder, "devices");
    assert_eq!(rows.len(), answers.devices.len(), "{rows:?}");
    for row in &rows {
        let times = &device(row).times;
        let found = [
            "window_ns",
            "compute_ns",
            "exposed_communication_ns",
            "exposed_memory_ns",
            "idle_before_ns",
            "idle_between_ns",
            "idle_after_ns",
        ];
        let found = found.map(|column| integer(row, column));
        let expected = [
            times.window_ns,
            times.compute_ns,
            times.exposed_communication_ns,
            times.exposed_memory_ns,
            times.idle_before_ns,
            times.idle_between_ns,
            times.idle_after_ns,
        ];
        assert_eq!(found, expected, "{row:?}");
    }
    let rows = asked(folder, "overlap");
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let numbers = ["device", "total_ns", "hidden_ns"].map(|column| integer(row, column));
            (word(row, "kind").to_owned(), numbers)
        })
        .collect();
    let expected: Vec<_> = answers
        .devices
        .iter()
        .flat_map(|it| it.overlap.iter().map(|one| (it.device, one)))
        .map(|(number, one)| {
            (format!("{:?}", one.kind).to_lowercase(), [number, one.total_ns, one.hidden_ns])
        })
        .collect();
    assert_eq!(found, expected);
    let rows = asked(folder, "launches");
    let with_calls = answers.devices.iter().filter(|it| it.launches.calls > 0).count();
    assert_eq!(rows.len(), with_calls);
    for row in &rows {
        let launches = &device(row).launches;
        let columns = ["calls", "launched", "delay_median_ns", "delay_max_ns", "long_delays"];
        let expected = [
            launches.calls as i64,
            launches.launched as i64,
            launches.delay_median_ns,
            launches.delay_max_ns,
            launches.long_delays as i64,
        ];
        assert_eq!(columns.map(|column| integer(row, column)), expected, "{row:?}");
    }
    let rows = asked(folder, "copies");
    let found = rows.iter().map(|row| {
        let numbers = ["copies", "unknown", "busy_ns"].map(|column| integer(row, column));
        let bytes = row.get("bytes").and_then(serde_json::Value::as_u64);
        let rate = row.get("gb_per_s").and_then(serde_json::Value::as_f64);
        (word(row, "name").to_owned(), numbers, bytes, rate)
    });
    let expected = answers.devices.iter().flat_map(|it| &it.copies).map(|copies| {
        let numbers = [copies.count as i64, copies.unknown as i64, copies.busy_ns];
        (copies.name.clone(), numbers, copies.bytes, copies.mean_gb_per_s)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn all_questions_have_the_window_of_analyze() {
    let pauses = r#"{"ts":45.0,"until":50.0},{"ts":150.0,"until":160.0}"#;
    for (steps, pauses) in [
        // The first step has two parts. One gap between steps is a pause, and another one is not.
        (
            &[(0, (20, 25)), (0, (50, 50)), (1, (110, 40)), (2, (160, 80)), (3, (260, 140))][..],
            pauses,
        ),
        // The pause between the parts of step 4 is not listed.
        (&[(4, (20, 25)), (4, (80, 50)), (5, (200, 40))], ""),
        (&[(7, (300, 120))], ""),
        // The device is idle in these steps.
        (&[(8, (600, 50)), (9, (660, 50))], ""),
        // Without steps, the window is the whole trace.
        (&[], pauses),
        (&[], ""),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = File::of(0, 0);
        file.pauses = pauses;
        for (number, times) in steps {
            file.step(*number, *times);
        }
        work(&mut file);
        compare(folder.path(), &file.write(folder.path()));
    }
}

/// Checks batches of an inference server, which are steps but do not limit the window.
#[test]
fn batches_are_not_the_window() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::of(0, 0);
    file.action("execute_context_1(888)_generation_0(0)", (50, 20));
    file.action("execute_context_0(0)_generation_1(1)", (100, 20));
    work(&mut file);
    let trace = file.write(folder.path());
    assert_eq!(asked(folder.path(), "select step from steps").len(), 2);
    compare(folder.path(), &trace);
}

#[test]
fn peaks_of_memory_are_in_the_part_of_the_step_that_they_are_in() {
    for (at, step) in [(30, Some(5)), (70, None), (120, Some(5)), (200, None), (260, Some(6))] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = File::of(0, 0);
        file.step(5, (20, 20)).step(5, (100, 60)).step(6, (250, 50));
        for (ts, value) in [(10, 1), (at, 9), (290, 2)] {
            file.events.push(format!(
                r#"{{"ph":"C","name":"memory","pid":100,"ts":{ts},"args":{{"value":{value}}}}}"#
            ));
        }
        file.write(folder.path());
        let rows = asked(folder.path(), "memory");
        assert_eq!(rows.len(), 1, "{rows:?}");
        let found = rows[0].get("step").and_then(serde_json::Value::as_u64);
        assert_eq!((integer(&rows[0], "ts"), found), (at * 1_000, step));
    }
}

/// Checks kernels of one name in two groups of ranks with different speeds.
#[test]
fn groups_of_ranks_are_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..4_u32 {
        let mut file = File::of(rank, 0);
        file.world_size = 4;
        file.step(1, (0, 1_000));
        let group = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        // The group of ranks 0 and 1 reduces ten times as much data. The last rank of each group is
        // late.
        let duration = if rank < 2 { 500 } else { 50 } - rank % 2 * 10;
        let args = format!(
            r#""Collective name":"allreduce","Process Group Ranks":"{group}","Group size":2,"In msg nelems":9,"dtype":"Float""#
        );
        file.slice((0, 7), "kernel", "ncclDevKernel_AllReduce_Sum_f32", (10, duration), &args);
        // Each rank leaves a broadcast as soon as it has its data.
        let args = args.replace("allreduce", "broadcast");
        file.slice((0, 7), "kernel", "ncclDevKernel_Broadcast_f32", (700, 10 + rank), &args);
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "collectives");
    let columns = ["rank", "times", "waiting_ns", "times_last"];
    let found = rows.iter().map(|row| columns.map(|column| integer(row, column)));
    let expected = [[1, 1, 0, 1], [3, 1, 0, 1], [0, 1, 10_000, 0], [2, 1, 10_000, 0]];
    assert_eq!(found.collect::<Vec<_>>(), expected, "{rows:?}");
    assert!(word(&rows[0], "name").contains("[0, 1]"), "{rows:?}");
}

/// Checks hosts that run ahead of their devices. The first kernel of step 2 runs while rank 0 is in
/// step 2 and rank 1 is in step 3.
#[test]
fn kernels_belong_to_the_step_that_launched_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2_u32 {
        let mut file = File::of(rank, 0);
        file.world_size = 2;
        for step in 0..3_u32 {
            file.step(step.into(), (1_000 * step, 900));
            let args = format!(r#""correlation":{}"#, step + 1);
            let call = (1_000 * step + 10, 5);
            file.slice((100, 100), "cuda_runtime", "cudaLaunchKernel", call, &args);
            let begun = 1_000 * (step + rank) + 100;
            let kernel = (begun, 50 + 10 * rank);
            file.slice((0, 7), "kernel", "ncclDevKernel_AllReduce_Sum_f32", kernel, &args);
        }
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "collectives");
    let found = rows.iter().map(|row| ["rank", "times"].map(|column| integer(row, column)));
    assert_eq!(found.collect::<Vec<_>>(), [[0, 3], [1, 3]], "{rows:?}");
}

#[test]
fn tables_of_an_earlier_version_must_be_converted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::of(0, 0);
    file.step(1, (0, 100)).kernel("gemm", (10, 50));
    file.write(folder.path());
    // These files resemble those of an earlier version, without the column and the table.
    let old = tempfile::tempdir().expect("a folder");
    for table in ["slices", "tracks", "ranks", "ops"] {
        let made = old.path().join(table);
        std::fs::create_dir_all(&made).expect("a folder");
        let from = folder.path().join(table).join("0-0.parquet");
        let mut bytes = std::fs::read(from).expect("a file");
        // The column is renamed everywhere in the file to a name of the same length.
        for place in 0..bytes.len() - 4 {
            if &bytes[place..place + 4] == b"work" {
                bytes[place..place + 4].copy_from_slice(b"wark");
            }
        }
        std::fs::write(made.join("0-0.parquet"), bytes).expect("a file");
    }
    let again = "convert the traces again with `mlprof convert TRACE --to parquet";
    for (query, lacking) in [
        ("kernels", "the column work"),
        ("select work, count(*) as n from slices group by work", "the column work"),
        ("devices", "the column work"),
        ("copies", "the table windows"),
        ("memory", "the table step_parts"),
    ] {
        if query == "memory" {
            std::fs::create_dir_all(old.path().join("counters")).expect("a folder");
            std::fs::create_dir_all(old.path().join("processes")).expect("a folder");
            for table in ["counters", "processes"] {
                let name = format!("{table}/0-0.parquet");
                std::fs::copy(folder.path().join(&name), old.path().join(&name)).expect("a file");
            }
        }
        let output = program(&[path(old.path()), query]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{query}: {said}");
        assert_eq!(said.lines().count(), 1, "{query}: {said}");
        assert!(said.contains(lacking) && said.contains(again), "{query}: {said}");
    }
    // Other queries do not need the missing column or table.
    assert_eq!(asked(old.path(), "select count(*) as n from slices").len(), 1);
    // If files of both versions exist, those of the earlier version are skipped with a note.
    for table in ["slices", "ops"] {
        let name = format!("{table}/0-0.parquet");
        let to = folder.path().join(format!("{table}/1-0.parquet"));
        std::fs::copy(old.path().join(&name), to).expect("a file");
    }
    for query in ["kernels", "select s.rank from slices s join windows w on s.rank = w.rank"] {
        let output = program(&[path(folder.path()), query, "--format", "json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{query}: {said}");
        assert!(said.contains("1-0.parquet: an earlier mlprof wrote it"), "{said}");
    }
}
