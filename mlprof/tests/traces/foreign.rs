//! Tests files of other tools and damaged files: their rank and cycle, the output and the exit
//! code.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{mlprof, path, text};

/// Returns a trace with two steps. The first is number `step` and begins at `at` microseconds.
/// `fields` are additional fields at the start of the JSON.
fn trace(fields: &str, step: u32, at: u32) -> String {
    let slice = |category: &str, name: &str, ts: u32, dur: u32| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":100,"tid":100,"ts":{ts},"dur":{dur}}}"#
        )
    };
    let events: Vec<String> = (0..2)
        .flat_map(|number| {
            let at = at + number * 100;
            [
                slice("user_annotation", &format!("ProfilerStep#{}", step + number), at, 100),
                slice("cpu_op", "aten::mm", at + 10, 30),
            ]
        })
        .collect();
    format!("{{{fields}\"traceEvents\":[\n{}\n]}}", events.join(",\n"))
}

fn rank(rank: &str) -> String {
    format!("\"distributedInfo\":{{\"rank\":{rank},\"world_size\":2}},")
}

fn file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, content).expect("a file");
    path
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error} in {}", text(bytes)))
}

/// PyTorch writes one file per cycle, and does not number them.
#[test]
fn files_of_one_rank_are_its_cycles() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, process) in [("0", 400), ("1", 401)] {
        for (step, at) in [(1, 1_000), (11, 10_000)] {
            let name = format!("node1_{process}.17000000{step:02}.pt.trace.json");
            file(folder.path(), &name, &trace(&rank(number), step, at));
        }
    }
    let analysed = mlprof(&["analyze", "--json", path(folder.path())]);
    assert!(analysed.status.success(), "{analysed:?}");
    let printed = json(&analysed.stdout);
    assert_eq!(printed["traces"].as_array().map(Vec::len), Some(4));
    assert_eq!(printed["ranks"]["common_steps"], 4);
    let merged = mlprof(&["merge", "--json", path(folder.path())]);
    assert!(merged.status.success(), "{merged:?}");
    assert_eq!(json(&merged.stdout)["files"].as_array().map(Vec::len), Some(4));
}

/// A validation between two files of one stage and cycle must not hide that they are two files.
#[test]
fn files_of_the_same_steps_are_no_cycles() {
    let folder = tempfile::tempdir().expect("a folder");
    let stage =
        |stage: &str| format!("{}\"mlprof\":{{\"stage\":\"{stage}\",\"cycle\":0}},", rank("0"));
    let files = [("a", "fit"), ("b", "validate"), ("c", "fit")].map(|(name, of)| {
        file(folder.path(), &format!("{name}.pt.trace.json"), &trace(&stage(of), 1, 1_000))
    });
    let other = file(folder.path(), "d.pt.trace.json", &trace(&rank("1"), 1, 1_000));
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
        let [first, second, third] = order.map(|place| path(&files[place]));
        let merged = mlprof(&["merge", first, second, third, path(&other)]);
        assert_eq!(merged.status.code(), Some(2), "{merged:?}");
        assert!(text(&merged.stderr).contains("both have the same cycle of rank 0"), "{merged:?}");
    }
    // Traces that cannot be combined are still analysed one by one, and the output is one JSON
    // document.
    let analysed = mlprof(&["analyze", "--json", path(folder.path())]);
    assert_eq!(analysed.status.code(), Some(2), "{analysed:?}");
    let printed = json(&analysed.stdout);
    assert_eq!(printed["traces"].as_array().map(Vec::len), Some(4));
    assert_eq!(printed["ranks"], Value::Null);
}

#[test]
fn ranks_come_from_the_command_line_the_file_or_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let ranks = |arguments: &[&str]| {
        let merged = mlprof(&[&["merge", "--json"], arguments].concat());
        assert!(merged.status.success(), "{merged:?}");
        let files = json(&merged.stdout)["files"].clone();
        let files = files.as_array().expect("a list").iter();
        files.map(|file| file["rank"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    let silent = |name: &str| file(folder.path(), name, &trace("", 1, 1_000));
    let [a, b] = ["a.json", "b.json"].map(silent);
    let refused = mlprof(&["merge", path(&a), path(&b)]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("cannot determine the ranks of "), "{refused:?}");
    let (first, second) = (format!("5={}", path(&a)), format!("2={}", path(&b)));
    assert_eq!(ranks(&[&first, &second]), [2, 5]);
    let named = ["trace_rank-3.json", "rank_7/trace.json"].map(silent);
    assert_eq!(ranks(&[path(&named[0]), path(&named[1])]), [3, 7]);
    let stated = ["\"0\"", "\"1\""].map(|of| {
        file(
            folder.path(),
            &format!("stated/rank9{}.json", of.trim_matches('"')),
            &trace(&rank(of), 1, 1),
        )
    });
    assert_eq!(ranks(&[path(&stated[0]), path(&stated[1])]), [0, 1]);
}

#[test]
fn the_status_tells_that_most_of_a_file_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = trace("", 1, 1_000);
    let with_lost = |count: usize| {
        let lost = "{\"ph\":\"X\",\"name\":\"no time\"},\n".repeat(count);
        whole.replacen("[\n", &format!("[\n{lost}"), 1)
    };
    let few = file(folder.path(), "few.json", &with_lost(4));
    let most = file(folder.path(), "most.json", &with_lost(5));
    let status = |arguments: &[&str]| {
        let ended = mlprof(arguments);
        (ended.status.code(), text(&ended.stderr), ended.stdout)
    };
    let (code, said, printed) = status(&["analyze", "--json", path(&few)]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let notes = &json(&printed)["traces"][0]["notes"];
    assert_eq!(*notes, serde_json::json!(["4 events were left out: no time"]));
    for command in ["analyze", "merge"] {
        let (code, said, printed) = status(&[command, "--json", path(&most)]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("5 of 9 events are lost"), "{said}");
        json(&printed);
    }
    let (code, said, _) = status(&["diff", path(&few), path(&most)]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("5 of 9 events are lost"), "{said}");
    let (code, said, _) = status(&["diff", path(&few), path(&few)]);
    assert_eq!(code, Some(0), "{said}");
}

/// Writes two traces into a folder, of which 4 of 8 and 5 of 9 events are lost.
fn few_and_most_lost(folder: &Path) -> [PathBuf; 2] {
    let whole = trace("", 1, 1_000);
    [("few.json", 4), ("most.json", 5)].map(|(name, count)| {
        let lost = "{\"ph\":\"X\",\"name\":\"no time\"},\n".repeat(count);
        file(folder, name, &whole.replacen("[\n", &format!("[\n{lost}"), 1))
    })
}

fn assert_ends(arguments: &[&str], expected: i32) {
    let ended = mlprof(arguments);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(expected), "{arguments:?}: {said}");
    let is_said = said.contains("5 of 9 events are lost");
    assert_eq!(is_said, expected == 2, "{arguments:?}: {said}");
}

#[test]
fn conversions_end_with_2_if_most_of_a_trace_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let [few, most] = few_and_most_lost(folder.path());
    for format in ["chrome", "folded", "svg", "speedscope", "json", "pftrace", "xplane"] {
        for (trace, expected) in [(&few, 0), (&most, 2)] {
            let out = folder.path().join(format!("{expected}.{format}"));
            assert_ends(&["convert", path(trace), "--to", format, "-o", path(&out)], expected);
            assert!(out.exists(), "{format}: events that were read are converted");
        }
    }
}

#[cfg(feature = "parquet")]
#[test]
fn tables_know_how_much_was_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    for (trace, expected) in few_and_most_lost(folder.path()).iter().zip([0, 2]) {
        let out = |name: &str| folder.path().join(format!("{name}-{expected}"));
        let (tables, again) = (out("tables"), out("again"));
        let tables = path(&tables);
        // The conversion runs twice, as if the tables were created again.
        for _ in 0..2 {
            assert_ends(&["convert", path(trace), "--to", "parquet", "-o", tables], expected);
        }
        assert_ends(&["analyze", "--json", tables], expected);
        assert_ends(&["merge", "--json", tables], expected);
        assert_ends(&["diff", tables, tables], expected);
        assert_ends(&["convert", tables, "--to", "pftrace", "-o", path(&again)], expected);
    }
}

#[test]
fn other_formats_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = file(folder.path(), "report.json", "SQLite format 3\0");
    let refused = mlprof(&["analyze", "--json", path(&database)]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("SQLite database") && said.lines().count() == 1, "{said}");
    assert_eq!(json(&refused.stdout), serde_json::json!({"traces": []}));
}
