//! Tests `mlprof merge` as a command.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{mlprof, path, text};

/// Returns the trace of a rank with five steps. Loading data takes `data` microseconds, and the
/// other ranks wait for the slowest one. The rank's clock is `behind` microseconds behind that of
/// rank 0.
fn trace(rank: u32, host: &str, data: u32, behind: i64) -> String {
    let slice = |category: &str, name: &str, ts: i64, dur: u32, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":9,"tid":9,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    let mut events = vec![
        r#"{"ph":"M","name":"process_name","pid":9,"tid":0,"ts":0,"args":{"name":"digits"}}"#
            .to_owned(),
    ];
    for step in 0..5_u32 {
        let at = i64::from(step) * 1000 - behind + 100;
        let action = |name: &str, after: u32, dur: u32| {
            slice("user_annotation", name, at + i64::from(after), dur, "")
        };
        let collective = format!(r#""Collective name":"all_reduce_gradients","Seq":{step}"#);
        events.extend([
            action(&format!("ProfilerStep#{step}"), 0, 1000),
            action("train_dataloader_next", 0, data),
            action("training_step", data, 200),
            action("backward", data + 200, 300),
            slice(
                "user_annotation",
                "all_reduce_gradients",
                at + i64::from(data) + 500,
                450 - data,
                &collective,
            ),
            action("optimizer_step", 950, 50),
        ]);
    }
    format!(
        "{{\"distributedInfo\":{{\"rank\": {rank}, \"world_size\": 4}},\"hostname\":\"{host}\",\n\
         \"baseTimeNanoseconds\":1700000000000000000,\n\"traceEvents\":[\n{}\n],\"traceName\":\"x\"}}",
        events.join(",\n")
    )
}

/// Writes the traces of ranks 0 to 2. Rank 2 waits 400 µs for its data, and the others 50 µs. Rank
/// 3 has no trace.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let write = |(rank, data, behind): (u32, u32, i64)| {
        let file = folder.join(format!("r{rank}.pt.trace.json"));
        let host = format!("host-{}", rank / 2);
        std::fs::write(&file, trace(rank, &host, data, behind)).expect("a file");
        file
    };
    [(0, 50, 0), (1, 50, 70), (2, 400, -30)].map(write).into()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error} in {}", text(bytes)))
}

#[test]
fn ranks_are_put_on_one_time_line_and_the_slow_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    traces(folder.path());
    let out = folder.path().join("run.json");
    let merged = mlprof(&["merge", path(folder.path()), "-o", path(&out)]);
    let said = text(&merged.stdout);
    assert!(merged.status.success(), "{merged:?}");
    for expected in [
        "3 of 4 ranks",
        "The traces of rank 3 are missing.",
        "5 collectives",
        "Rank 2 is slow",
        "the most in waiting for data, 350 µs of a step",
    ] {
        assert!(said.contains(expected), "no {expected:?} in\n{said}");
    }
    let written = json(&std::fs::read(&out).expect("it is there"));
    let ends = |rank: i64| -> Vec<f64> {
        let events = written["traceEvents"].as_array().expect("a list").iter();
        let of_rank = events.filter(|event| {
            event["name"] == "all_reduce_gradients" && event["pid"].as_i64() == Some(rank * 1000)
        });
        let number = |event: &Value, field: &str| event[field].as_f64().expect("a number");
        of_rank.map(|event| number(event, "ts") + number(event, "dur")).collect()
    };
    assert_eq!(ends(0), [1050.0, 2050.0, 3050.0, 4050.0, 5050.0]);
    assert_eq!((ends(1), ends(2)), (ends(0), ends(0)));
    // `mlprof analyze` reports the same straggler.
    let analysed = mlprof(&["analyze", path(folder.path()), "--json"]);
    let analysed = json(&analysed.stdout);
    assert_eq!(analysed["ranks"]["stragglers"][0]["rank"], 2);
    assert_eq!(analysed["traces"].as_array().map(Vec::len), Some(3), "not the merged one");
}

#[test]
fn healthy_ranks_name_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = traces(folder.path());
    let merged = mlprof(&["merge", path(&files[0]), path(&files[1]), "--json"]);
    assert!(merged.status.success(), "{merged:?}");
    let ranks = json(&merged.stdout);
    assert_eq!(ranks["stragglers"], Value::Array(Vec::new()));
    assert_eq!(ranks["missing"], serde_json::json!([2, 3]));
    assert_eq!(ranks["files"][1]["offset"]["nanoseconds"], 70_000);
    let exposed = ranks["exposed"].as_array().expect("a list").iter();
    let sum: i64 = exposed.map(|part| part["exposed_ns"].as_i64().expect("a number")).sum();
    assert_eq!((sum, &ranks["length_ns"]), (5_000_000, &5_000_000.into()));
}

/// Python's own `tarfile` must be able to read the archive.
#[test]
fn an_archive_names_a_machine_for_each_rank() {
    const SCRIPT: &str = r#"
import json, sys, tarfile
with tarfile.open(sys.argv[1]) as archive:
    names = archive.getnames()
    manifest = json.load(archive.extractfile(names[0]))["perfetto_manifest"]
    assert names[0] == "perfetto_manifest.json" and manifest["version"] == 1, names
    assert [file["path"] for file in manifest["files"]] == names[1:], (manifest, names)
    for file in manifest["files"]:
        trace = json.load(archive.extractfile(file["path"]))
        ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["name"] == "all_reduce_gradients"]
        print(file["machine"]["name"], ends[0])
"#;
    let folder = tempfile::tempdir().expect("a folder");
    traces(folder.path());
    let out = folder.path().join("run.tar");
    let merged = mlprof(&["merge", path(folder.path()), "--output", path(&out)]);
    assert!(merged.status.success(), "{merged:?}");
    let read = Command::new("python3").args(["-c", SCRIPT, path(&out)]).output();
    let read = read.expect("python3 is there");
    assert!(read.status.success(), "{}", text(&read.stderr));
    let lines = text(&read.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        ["rank 0 on host-0 1050.0", "rank 1 on host-0 1050.0", "rank 2 on host-1 1050.0"]
    );
}

#[test]
fn traces_that_cannot_be_merged_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = traces(folder.path());
    let error = |arguments: &[&str], expected: &str| {
        let ended = mlprof(arguments);
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        let said = text(&ended.stderr);
        assert!(said.contains(expected), "no {expected:?} in {said}");
        text(&ended.stdout)
    };
    let again = folder.path().join("again.json");
    std::fs::copy(&files[0], &again).expect("a copy");
    error(&["merge", path(&files[0]), path(&again)], "both have the same cycle of rank 0");
    error(&["merge", path(&files[0]), "-o", "out.txt"], "must end in .json, .json.gz or .tar");
    let nothing = folder.path().join("nothing.json");
    std::fs::write(&nothing, "{}").expect("a file");
    error(&["merge", path(&nothing)], "cannot read any of the traces");
    // The other traces are still merged, and also the readable part of the truncated one.
    let whole = std::fs::read_to_string(&files[1]).expect("it is there");
    std::fs::write(&files[1], &whole[..whole.len() / 2]).expect("a file");
    let (first, second) = (path(&files[0]), path(&files[1]));
    let said = error(&["merge", first, second, path(&nothing)], "nothing.json");
    assert!(
        said.contains("2 of 4 ranks") && said.contains("r1.pt.trace.json is missing: "),
        "{said}"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn tables_of_ranks_say_what_their_traces_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = traces(folder.path());
    let tables = folder.path().join("tables");
    for file in &files {
        let output = mlprof(&["convert", path(file), "--to", "parquet", "-o", path(&tables)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let ranks = |traces: &[&str]| {
        let merged = mlprof(&[&["merge", "--json"], traces].concat());
        assert!(merged.status.success(), "{merged:?}");
        let mut ranks = json(&merged.stdout);
        for file in ranks["files"].as_array_mut().expect("a list") {
            file.as_object_mut().expect("a file").remove("file");
        }
        ranks
    };
    let files: Vec<_> = files.iter().map(|file| path(file)).collect();
    let of_traces = ranks(&files);
    assert_eq!(ranks(&[path(&tables)]), of_traces);
    assert_eq!(of_traces["files"][1]["offset"]["nanoseconds"], 70_000, "by collectives");
}

/// Tables have the same problems as JSON: two traces of one rank, unrelated clocks, and a truncated
/// file.
#[cfg(feature = "parquet")]
#[test]
fn faulty_tables_are_reported_and_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = traces(folder.path());
    // Without a common collective, the clocks cannot be related.
    for file in &files {
        let whole = std::fs::read_to_string(file).expect("it is there");
        std::fs::write(file, whole.replace("Collective name", "Other name")).expect("written");
    }
    let tables = folder.path().join("tables");
    let convert = |file: &Path, tables: &Path| {
        mlprof(&["convert", path(file), "--to", "parquet", "-o", path(tables)])
    };
    for file in &files {
        let output = convert(file, &tables);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let merged = mlprof(&["merge", path(&tables)]);
    assert!(merged.status.success(), "{merged:?}");
    let said = text(&merged.stdout);
    assert!(said.contains("wall clocks, possibly unsynchronised"), "{said}");
    assert!(said.contains("Rank 2 is slow"), "that needs no clocks: {said}");
    // Another machine also calls itself rank 0.
    let other = folder.path().join("other.json");
    std::fs::write(&other, trace(0, "host-9", 50, 0)).expect("written");
    let refused = convert(&other, &tables);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(
        said.contains(
            "it already has tables of cycle 0 of rank 0 of host host-0; choose another folder"
        ),
        "{said}"
    );
    let elsewhere = folder.path().join("elsewhere");
    assert!(convert(&other, &elsewhere).status.success());
    let merged = mlprof(&["merge", path(&tables), path(&elsewhere)]);
    assert_eq!(merged.status.code(), Some(2), "{merged:?}");
    assert!(text(&merged.stderr).contains("both have the same cycle of rank 0"), "{merged:?}");
    // The file is truncated to half of its size.
    let slices = tables.join("slices/1-0.parquet");
    let whole = std::fs::read(&slices).expect("it is there");
    std::fs::write(&slices, &whole[..whole.len() / 2]).expect("written");
    for command in ["merge", "analyze"] {
        let output = mlprof(&[command, path(&tables)]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("slices/1-0.parquet: it is not Parquet, or is incomplete: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(text(&output.stdout).contains("Rank 2 is slow"), "{command}: {output:?}");
    }
}

/// Converts each trace of a folder of tables to Perfetto's binary format.
#[cfg(feature = "parquet")]
#[test]
fn tables_become_perfettos_format_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = traces(folder.path());
    let tables = folder.path().join("run.parquet");
    for file in &files {
        mlprof(&["convert", path(file), "--to", "parquet", "-o", path(&tables)]);
    }
    let output = mlprof(&["convert", path(&tables), "--to", "pftrace"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (rank, file) in files.iter().enumerate() {
        let of_tables = std::fs::read(folder.path().join(format!("run-{rank}-0.pftrace")));
        let own = folder.path().join(format!("{rank}.pftrace"));
        mlprof(&["convert", path(file), "--to", "pftrace", "-o", path(&own)]);
        let own = std::fs::read(own).expect("it is written");
        // Internal ids of names differ, but they are not visible in the output because each track
        // numbers its names anew.
        assert_eq!(of_tables.expect("it is written").len(), own.len(), "rank {rank}");
    }
    let refused = mlprof(&["convert", path(&tables), "--to", "folded"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("cannot convert a folder of tables to folded"), "{said}");
}
