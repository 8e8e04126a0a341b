//! Tests `mlprof diff` as a command.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{mlprof, path, text};

/// Trace of candle training steps on the digits data set, written by the Tensor profiler.
#[cfg(feature = "parquet")]
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/digits.pt.trace.json.gz");

/// Writes a trace with twelve steps. Each has an op of `op` microseconds and an action of 50
/// microseconds, with a small variation.
fn trace(folder: &Path, name: &str, op: u32) -> PathBuf {
    let mut events = Vec::new();
    let mut at = 0;
    for step in 0..12 {
        let (op, save) = (op + step % 3, 50 + step % 2);
        for (category, name, ts, dur) in [
            ("user_annotation", format!("ProfilerStep#{step}"), at, op + save),
            ("cpu_op", "conv2d".to_owned(), at, op),
            ("user_annotation", "save".to_owned(), at + op, save),
        ] {
            events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
            ));
        }
        at += op + save + 1;
    }
    let path = folder.join(name);
    let json = format!("{{\"traceEvents\":[{}],\"traceName\":\"x\"}}", events.join(",\n"));
    std::fs::write(&path, json).expect("a file");
    path
}

#[test]
fn a_slower_op_is_named_and_ends_the_command_with_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, same, slower] = [("a.json", 100), ("b.json", 101), ("c.json", 130)]
        .map(|(name, op)| trace(folder.path(), name, op));
    let output = mlprof(&["diff", path(&before), path(&same), "--fail-above", "5%"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let output = mlprof(&["diff", path(&before), path(&slower)]);
    assert_eq!(output.status.code(), Some(0), "nobody asked for more");
    let printed = text(&output.stdout);
    for line in [
        "Before and after: trace\n",
        "Before: 1 run of 12 steps, 1.82 ms, ",
        "Steps: the median of steps that have it",
        "Ops, host time: self values, the median of steps that have it",
        "101 us  131 us  +29.7 %",
        "Calls: number of steps that have it. Share: of the time of steps, on the side where it is larger.",
        "Note: One run of a side does not show the variation between runs",
    ] {
        let line = line.replace("us", "µs");
        assert!(printed.contains(&line), "{line:?} is missing in:\n{printed}");
    }
    let arguments = ["diff", path(&before), path(&slower), "--fail-above", "0.05", "--json"];
    let output = mlprof(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("regression: trace: Ops, host time: conv2d: slower, +29.7 % (at least +2")
            && said.contains(" %): 101 µs before, 131 µs after; "),
        "{said}"
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&json["parts"][0]["profiler"], &json["parts"][0]["before"]["steps"]),
        (&"trace".into(), &12.into())
    );
    let page = folder.path().join("page.html");
    let output = mlprof(&["diff", path(&before), path(&slower), "--html", path(&page)]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("conv2d"), "{html}");
    // The page must not overwrite an input trace.
    let output = mlprof(&["diff", path(&before), path(&slower), "--html", path(&before)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("choose another file with --html"), "{output:?}");
}

#[test]
fn incomparable_traces_print_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = trace(folder.path(), "a.json", 100);
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let report = file("report.json", "{\"profiler\":\"simple\"}");
    let empty = file("empty.json", "{\"traceEvents\":[]}");
    let few = r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"conv2d","pid":1,"tid":1,"ts":0,"dur":9}]}"#;
    let (few, other) = (file("few.json", few), file("other.json", &few.replace("conv2d", "other")));
    let nothing = tempfile::tempdir().expect("a folder");
    for (bad, reason) in [
        (
            report.as_path(),
            "this is not a trace: no JSON object with \"traceEvents\" and no list of events",
        ),
        (&empty, "the trace has no slices; record it again while the program works"),
        (&folder.path().join("missing.json"), "No such file or directory (os error 2)"),
        (nothing.path(), "cannot find a trace in "),
        (&few, "cannot judge any row, so --fail-above would always pass"),
        (&other, "they share no action, op or function"),
    ] {
        for sides in [[bad, &good], [&good, bad]] {
            let output = mlprof(&["diff", path(sides[0]), path(sides[1]), "--fail-above", "5%"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.starts_with("error: ") && said.contains(reason), "{reason:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[cfg(feature = "parquet")]
#[test]
fn tables_are_compared_with_json_and_without_slices() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = folder.path().join("tables");
    let output = mlprof(&["convert", DIGITS, "--to", "parquet", "-o", path(&tables)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for table in ["slices", "args", "flows"] {
        std::fs::remove_dir_all(tables.join(table)).expect("it is there");
    }
    let output = mlprof(&["diff", path(&tables), DIGITS, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let part = &json["parts"][0];
    assert_eq!(part["notes"][0], "The same run is on both sides.");
    let rows = part["tables"].as_array().expect("tables").iter();
    let rows: Vec<_> = rows.flat_map(|table| table["rows"].as_array().expect("rows")).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        assert_eq!(row["before"], row["after"], "{row}");
    }
    // A truncated table cannot be read.
    let ops = tables.join("ops/0-0.parquet");
    let ops = if ops.exists() { ops } else { tables.join("ops/0-1.parquet") };
    let whole = std::fs::read(&ops).expect("a file");
    std::fs::write(&ops, &whole[..whole.len() / 2]).expect("a file");
    let output = mlprof(&["diff", path(&tables), DIGITS]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(": it is not Parquet, or is incomplete: "), "{output:?}");
}
