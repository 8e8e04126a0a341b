//! Tests `mlprof report`.

use std::process::Stdio;

use mlprof_core::Report;
use mlprof_core::report::LineCountRestriction;
use mlprof_core::report::advanced::pstats;
use mlprof_core::report::simple::detailed;
use mlprof_core::report::simple::lightning;
use mlprof_core::report::simple::rows::{RowKey, Rows};
use mlprof_core::report::tensor::page as tensor_page;
use mlprof_core::report::tensor::{SortKey, TableOptions};

use crate::runs::{
    Folder, advanced, command, counted, mlprof, printed, refused, simple, tensor, tensor_by, text,
};

/// Returns the printed form of a report: its verdict, if there is one, and its tables.
fn below_its_verdict((report, tables): (&Report, String)) -> String {
    report.verdict().map_or_else(String::new, |verdict| verdict + "\n") + &tables
}

#[test]
fn reports_are_printed_as_their_profilers_did() {
    let folder = Folder::new();
    let all = LineCountRestriction::default();
    let reports = [simple(), counted(), advanced(), tensor(&folder).report];
    let tables = reports.each_ref().map(|report| match report {
        Report::Simple(report) if report.actions.iter().any(|row| row.cpu.is_some()) => {
            detailed::paint(report)
        }
        Report::Simple(report) => lightning::paint(report, true),
        Report::Advanced(report) => pstats::paint(report, all),
        Report::Tensor(report) => {
            let sort_by = Some(SortKey::SelfDeviceTimeTotal);
            let options = TableOptions { sort_by, row_limit: Some(20), ..TableOptions::default() };
            tensor_page::paint(report, &options)
        }
        other => panic!("{other:?}"),
    });
    let expected: Vec<_> = reports.iter().zip(tables).map(below_its_verdict).collect();
    for (report, expected) in reports.iter().zip(&expected) {
        let file = folder.report("report.json", report);
        assert_eq!(&printed(&["report", text(&file)]), expected);
    }
    // The examples write several reports as a list like this.
    let list = serde_json::to_string(&reports).expect("JSON");
    let file = folder.file("list.json", list);
    assert_eq!(printed(&["report", text(&file)]), expected.join("\n"));
}

#[test]
fn actions_are_sorted_and_chosen() {
    let folder = Folder::new();
    let Report::Simple(report) = simple() else { panic!("a Simple report") };
    let file = folder.report("run.json", &Report::Simple(report.clone()));
    let file = text(&file);
    let by_calls = Rows {
        sort_by: Some(RowKey::Calls),
        limit: LineCountRestriction::Lines(2),
        is_shown: Some(&|label| label.starts_with('s') || label.contains("for")),
    };
    let options = ["--sort", "calls", "--limit", "2", "--filter", "^s|for"];
    let arguments = [&["report", file][..], &options].concat();
    assert_eq!(printed(&arguments), lightning::paint_rows(&report, true, &by_calls));
    for (layout, expected) in [
        ("detailed", detailed::paint_rows(&report, &by_calls)),
        ("short", lightning::paint_rows(&report, false, &by_calls)),
    ] {
        assert_eq!(printed(&[&arguments[..], &["--layout", layout]].concat()), expected);
    }
    let half = printed(&["report", file, "--limit", "50%"]);
    let shown = (report.actions.len() as f64 * 0.5 + 0.5) as usize;
    assert!(half.contains(&format!("\n{shown} of {} actions are shown.\n", report.actions.len())));
}

#[test]
fn functions_are_sorted_and_chosen() {
    let folder = Folder::new();
    let file = folder.report("run.json", &advanced());
    let table = |options: &[&str]| {
        let printed =
            printed(&[&["report", text(&file), "--action", "training"], options].concat());
        assert_eq!(printed.matches("Profile stats for: ").count(), 1, "{printed}");
        printed
    };
    let by_calls = table(&["--sort", "ncalls,name", "--limit", "2"]);
    assert!(by_calls.contains("   Ordered by: call count, function name\n"), "{by_calls}");
    assert!(
        by_calls.contains("   List reduced from 3 to 2 due to restriction <2>\n"),
        "{by_calls}"
    );
    let first = by_calls.lines().position(|line| line.contains("ncalls  tottime"));
    let first = by_calls.lines().nth(first.expect("a head") + 1).expect("a row");
    assert!(first.trim_start().starts_with("9/3 ") && first.ends_with("(forward)"), "{first}");
    let relu = table(&["--filter", r"runs\.rs:\d+\(relu\)"]);
    let reduced = r"List reduced from 3 to 1 due to restriction <'runs\.rs:\d+\(relu\)'>";
    assert!(relu.contains(reduced) && !relu.contains("(forward)"), "{relu}");
    let error = refused(&["report", text(&file), "--action", "^nothing"]);
    // Actions are listed by duration, and their order varies on a busy machine.
    let (_, known) =
        error.split_once("no action matches \"^nothing\"; its actions are ").expect("known");
    let mut known: Vec<_> = known.trim().split(", ").collect();
    known.sort_unstable();
    assert_eq!(known, ["load/batch", "training_step"], "{error}");
}

#[test]
fn ops_are_sorted_and_counted() {
    let folder = Folder::new();
    let by_shapes = |profiler: mlprof_core::TensorProfiler| profiler.group_by_input_shapes(true);
    let Report::Tensor(report) = tensor_by(&folder, by_shapes).report else { panic!("ops") };
    let file = folder.report("ops.json", &Report::Tensor(report.clone()));
    let options = TableOptions {
        sort_by: Some(SortKey::Count),
        row_limit: Some(3),
        ..TableOptions::default()
    };
    let arguments = ["report", text(&file), "--sort", "count", "--limit", "3"];
    let table = tensor_page::paint(&report, &options);
    let expected = below_its_verdict((&Report::Tensor(report.clone()), table));
    assert_eq!(printed(&arguments), expected);
    for (key, same) in [("calls", "count"), ("mean", "cpu_time"), ("self", "self_cpu_time_total")] {
        let by = |key| printed(&["report", text(&file), "--sort", key, "--limit", "3"]);
        assert_eq!(by(key), by(same), "{key}");
    }
    for key in ["memory", "flops"] {
        assert!(printed(&["report", text(&file), "--sort", key]).contains("# of Calls"), "{key}");
    }
    assert_eq!(printed(&[&arguments[..], &["--group-by", "shapes"]].concat()), expected);
    assert!(expected.contains("[[4, 8]]"), "{expected}");
    let error = refused(&["report", text(&file), "--group-by", "module, stack 3"]);
    assert!(
        error.contains(
            "by name, stack 3, module: the report was recorded with the grouping name, shapes"
        ),
        "{error}"
    );
    assert!(error.contains("`group_by_stack_n`"), "how to get it: {error}");
}

#[test]
fn a_wrong_column_names_the_right_ones() {
    let folder = Folder::new();
    let ops = folder.report("ops.json", &tensor(&Folder::new()).report);
    let functions = folder.report("functions.json", &advanced());
    let actions = folder.report("actions.json", &simple());
    for (file, choice) in [
        (&ops, r#""self_cpu_time_total""#),
        (&functions, r#""tottime""#),
        (&actions, r#""self", "mean""#),
    ] {
        let error = refused(&["report", text(file), "--sort", "speed"]);
        assert!(
            error.contains("cannot sort ")
                && error.contains(r#"by "speed""#)
                && error.contains(choice),
            "{error}"
        );
    }
    for (file, option) in [
        (&ops, ["--filter", "x"]),
        (&ops, ["--layout", "short"]),
        (&functions, ["--layout", "short"]),
        (&functions, ["--group-by", "name"]),
        (&actions, ["--group-by", "name"]),
        (&actions, ["--action", "x"]),
    ] {
        let error = refused(&[&["report", text(file)], &option[..]].concat());
        assert!(error.contains(&format!("cannot use {} with a", option[0])), "{error}");
    }
}

#[test]
fn json_is_the_report_again() {
    let folder = Folder::new();
    for report in [counted(), advanced(), tensor(&folder).report] {
        let file = folder.report("report.json", &report);
        let json = printed(&["report", text(&file), "--json"]);
        assert_eq!(Report::from_json(&json).expect("a report"), report);
    }
}

#[test]
fn headings_are_bold_on_a_terminal_only() {
    let folder = Folder::new();
    let file = folder.report("run.json", &counted());
    assert!(!printed(&["report", text(&file)]).contains('\u{1b}'));
    let forced = command(&["report", text(&file)]).env("CLICOLOR_FORCE", "1").output();
    let forced = String::from_utf8(forced.expect("it runs").stdout).expect("text");
    assert!(forced.starts_with("\u{1b}[1mFIT Profiler Report\u{1b}[0m\n"), "{forced:?}");
    assert!(
        forced.contains("\u{1b}[1mCPU time, all threads, longest first\u{1b}[0m\n"),
        "{forced:?}"
    );
    let plain = forced.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, printed(&["report", text(&file)]));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new();
    let file = folder.report("run.json", &simple());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = command(&["report", text(&file)]).stdout(Stdio::from(writer)).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

#[test]
fn help_names_every_option_and_column() {
    let help = String::from_utf8(mlprof(&["report", "--help"]).stdout).expect("text");
    let options = ["--sort", "--limit", "--filter", "--action", "--group-by", "--layout", "--json"];
    let columns = RowKey::ALL.iter().map(|key| key.as_str());
    let columns = columns.chain(SortKey::ALL.iter().map(|key| key.as_str()));
    for word in options.into_iter().chain(columns) {
        assert!(help.contains(word), "{word} is missing in {help}");
    }
}

#[test]
fn reports_of_several_files_make_one_page() {
    let folder = Folder::new();
    let one = folder.report("simple.json", &simple());
    let both = serde_json::to_string(&[advanced(), tensor(&folder).report]).expect("JSON");
    let two = folder.file("others.json", both);
    let page = folder.path().join("out/page.html");
    let arguments = ["report", text(&one), text(&two), "--html", text(&page)];
    assert_eq!(printed(&arguments), "");
    let html = std::fs::read_to_string(&page).expect("a page");
    for (index, kind) in ["Simple", "Advanced", "Tensor"].into_iter().enumerate() {
        let (_, title) = html.split_once(&format!("id=r{index}><h2>")).expect("a section");
        let (title, _) = title.split_once("</h2>").expect("a title");
        assert!(title.contains(kind), "{title}");
    }
    // Printed reports follow each other.
    let tables = printed(&["report", text(&one), text(&two)]);
    let alone = [printed(&["report", text(&one)]), printed(&["report", text(&two)])];
    assert_eq!(tables, alone.join("\n"));

    let error = refused(&["report", text(&one), "--html", text(&one)]);
    assert!(
        error.contains("it is one of the input files; choose another file with --html"),
        "{error}"
    );
    assert!(refused(&["report", text(&one), "--html", "x", "--sort", "calls"]).contains("--sort"));
    let half = folder.file("half.json", "{\"profiler\": \"simple\", ");
    let before = std::fs::read(&page).expect("a page");
    let error = refused(&["report", text(&one), text(&half), "--html", text(&page)]);
    assert!(error.contains("half.json as JSON"), "{error}");
    assert_eq!(std::fs::read(&page).expect("still there"), before);
    let error = refused(&["report", "--html", "x"]);
    assert!(error.contains("FILE"), "{error}");
}
