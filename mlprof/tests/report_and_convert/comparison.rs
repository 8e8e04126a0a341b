//! Tests `mlprof report FILE… --against FILE…`.

use std::path::PathBuf;

use mlprof_core::Report;
use mlprof_core::report::simple::{DurationStatisticsParts, MedianLimits};

use crate::runs::{Folder, advanced, mlprof, printed, refused, simple, tensor, text};

/// Returns the report of a run with `calls` forward passes, each of which took `milliseconds`.
fn forward(milliseconds: f64, calls: u64) -> Report {
    let Report::Simple(mut report) = simple() else { panic!("a Simple report") };
    let seconds = milliseconds * 1e-3;
    let row = report.actions.iter_mut().find(|row| row.action == "forward").expect("a row");
    row.calls = calls;
    row.total_seconds = calls as f64 * seconds;
    row.rest = Some(
        DurationStatisticsParts {
            min_seconds: seconds,
            mean_seconds: seconds,
            p50_seconds: seconds,
            p50_limits: (calls > 8).then_some(MedianLimits {
                low_seconds: 0.99 * seconds,
                high_seconds: 1.01 * seconds,
            }),
            p95_seconds: seconds,
            max_seconds: seconds,
        }
        .build(),
    );
    report.header.wall_seconds = 1.0;
    // The other rows were timed by the real clock, so they vary between runs.
    report.actions.retain(|row| row.action == "forward");
    Report::Simple(report)
}

struct Sides {
    folder: Folder,
    before: PathBuf,
    slower: PathBuf,
}

fn sides() -> Sides {
    let folder = Folder::new();
    let before = folder.report("before.json", &forward(1.0, 100));
    let slower = folder.report("slower.json", &forward(1.2, 100));
    Sides { folder, before, slower }
}

#[test]
fn regressions_are_printed_with_their_names() {
    let Sides { before, slower, folder: _folder } = sides();
    let told = printed(&["report", text(&slower), "--against", text(&before)]);
    assert!(told.starts_with("Before and after: Simple, fit\nBefore: 1 run"), "{told}");
    let row = told.lines().find(|line| line.ends_with("forward")).expect("a row");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[..6], ["1.00", "ms", "1.20", "ms", "+20.0", "%"], "{told}");
    assert!(row.contains("slower"), "{told}");
    let back = printed(&["report", text(&before), "--against", text(&slower)]);
    assert!(back.contains("-16.7 %") && back.contains("faster"), "{back}");
}

#[test]
fn the_exit_status_says_whether_something_got_worse() {
    let Sides { folder, before, slower } = sides();
    let ends = |after: &PathBuf, threshold: &str| {
        let arguments =
            ["report", text(after), "--against", text(&before), "--fail-above", threshold];
        let output = mlprof(&arguments);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Before and after"), "{said}");
        (output.status.code(), said)
    };
    let start = "regression: Simple, fit: Actions: forward: slower, +20.0 % (at least +1";
    let end = " %): 1.00 ms before, 1.20 ms after; 12.00 % of the run\n";
    for threshold in ["5%", "0.05"] {
        let (status, said) = ends(&slower, threshold);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.starts_with(start) && said.ends_with(end), "{said}");
    }
    assert_eq!(ends(&slower, "19%"), (Some(0), String::new()), "20 % more, but not surely 19 %");
    assert_eq!(ends(&slower, "25%"), (Some(0), String::new()));
    assert_eq!(ends(&before, "0%"), (Some(0), String::new()));
    // The command must fail if nothing can be judged, because exit code 0 would mean that nothing
    // got worse.
    let few = folder.report("few.json", &forward(1.2, 5));
    let (status, said) = ends(&few, "5%");
    assert!(status == Some(2) && said.contains("cannot judge any row"), "{status:?} {said}");
    // Without a threshold, the command only prints the comparison.
    assert!(mlprof(&["report", text(&slower), "--against", text(&before)]).status.success());
}

#[test]
fn several_runs_of_each_side_are_taken() {
    let folder = Folder::new();
    let file = |name: &str, milliseconds: f64, calls: u64| {
        let path = folder.report(name, &forward(milliseconds, calls));
        text(&path).to_owned()
    };
    let before = [file("b1", 1.0, 5), file("b2", 1.1, 5), file("b3", 1.05, 5)];
    let after = [file("a1", 2.0, 5), file("a2", 2.1, 5), file("a3", 2.05, 5)];
    let mut arguments = vec!["report"];
    arguments.extend(after.iter().map(String::as_str));
    arguments.push("--against");
    arguments.extend(before.iter().map(String::as_str));
    arguments.extend(["--fail-above", "50%"]);
    let output = mlprof(&arguments);
    let (told, said) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.code() == Some(1) && said.contains("1.05 ms before, 2.05 ms after"),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&told).contains("Before: 3 runs"));
}

#[test]
fn it_is_json_and_a_page_too() {
    let Sides { folder, before, slower } = sides();
    let json = printed(&["report", text(&slower), "--against", text(&before), "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let tables = value["parts"][0]["tables"].as_array().expect("tables");
    let actions = tables.iter().find(|table| table["subject"] == "actions").expect("actions");
    let row = &actions["rows"][0];
    assert_eq!((&row["name"], &row["verdict"]), (&"forward".into(), &"worse".into()));
    // Calls of a run without steps may depend on each other, so the limits are wider than the
    // call-to-call variation of 1 %.
    let low = row["before"]["limits"]["low"].as_f64().expect("a number");
    assert!(low > 0.00090 && low < 0.00098, "of one run within 2 % at the best: {low}");
    let page = folder.path().join("page.html");
    let arguments = ["report", text(&slower), "--against", text(&before), "--html", text(&page)];
    assert_eq!(printed(&arguments), "");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("<th scope=row>forward<td><b>slower</b><td"), "{html}");
    let over = ["report", text(&slower), "--against", text(&before), "--html", text(&before)];
    assert!(refused(&over).contains("before.json: it is one of the input files"));
}

/// Compares recorded reports of each kind with themselves.
#[test]
fn each_kind_is_compared_with_its_own() {
    let folder = Folder::new();
    let recorded = tensor(&folder).report;
    for (report, expected) in [
        (simple(), "\nActions: the median of calls"),
        (advanced(), "\nFunctions: self values, the mean of calls"),
        (recorded, "\nOps, host time: self values"),
    ] {
        let file = folder.report("run.json", &report);
        let told = printed(&["report", text(&file), "--against", text(&file)]);
        assert!(
            told.contains(expected) && told.contains("The same run is on both sides"),
            "{told}"
        );
        assert!(!told.contains("slower ") && !told.contains("faster "), "{told}");
    }
}

#[test]
fn incomparable_reports_print_one_sentence() {
    let Sides { folder, before, slower } = sides();
    let other = folder.report("advanced.json", &advanced());
    let json = forward(1.0, 100).to_json().expect("JSON");
    let half = folder.file("half.json", &json[..json.len() / 2]);
    let newer = json.replace("\"schema_version\": 1", "\"schema_version\": 2");
    let newer = folder.file("newer.json", newer);
    let program = json.replace("\"forward\"", "\"bake\"");
    let program = folder.file("program.json", program);
    let kinds = "cannot compare the reports: after has Simple, fit, before has Advanced";
    for (against, expected) in [
        (&other, kinds),
        (&half, "half.json as JSON: EOF"),
        (&newer, "newer.json: it has schema version 2, and this mlprof supports"),
        (
            &program,
            "they share no action, op or function; check that they come from the same program",
        ),
        (&folder.path().join("missing.json"), "cannot read "),
    ] {
        let said = refused(&["report", text(&slower), "--against", text(against)]);
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
    let against = ["--against", text(&before)];
    for (arguments, expected) in [
        (&["--fail-above", "5"][..], "expected a percentage such as 5%"),
        (&["--fail-above", "-5%"], "unexpected argument '-5'"),
        (&["--fail-above=-5%"], "expected a percentage such as 5%"),
        (&["--sort", "total"], "cannot be used with"),
        (&["--findings"], "cannot be used with"),
    ] {
        let said = refused(&[&["report", text(&slower)], &against[..], arguments].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let alone = mlprof(&["report", text(&slower), "--fail-above", "5%"]);
    assert_eq!(alone.status.code(), Some(2), "there is nothing to fail against");
}
