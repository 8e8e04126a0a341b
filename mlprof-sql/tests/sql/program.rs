//! Tests of the command-line program.

use std::fs;

use serde_json::Value;

use crate::rank_tables::ranks;
use crate::{asked, integer, path, program, rows_of, text};

const QUERY: &str = "select rank, count(*) as steps, max(dur) / 1e9 as longest from steps group by rank order by rank";

#[test]
fn answers_are_written_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 2, 6, (1, 5_000));
    let tables = path(folder.path());
    let table = text(&program(&[tables, QUERY]).stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 6 && lines[1].starts_with("| rank | steps | longest "), "{table}");
    let csv = text(&program(&[tables, QUERY, "--format", "csv"]).stdout);
    assert!(csv.starts_with("rank,steps,longest\n0,12,0.0"), "{csv}");
    let json = asked(folder.path(), QUERY);
    assert_eq!((json.len(), integer(&json[1], "rank"), integer(&json[1], "steps")), (2, 1, 12));
    // An empty result is also valid.
    let nothing = "select rank, dur from steps where dur < 0";
    assert!(asked(folder.path(), nothing).is_empty());
    assert_eq!(text(&program(&[tables, nothing, "--format", "csv"]).stdout), "rank,dur\n");
    assert!(text(&program(&[tables, nothing]).stdout).contains("| rank | dur |"));
    // The extension of the file selects the format, and a Parquet result can be queried again.
    let out = folder.path().join("answers/part");
    fs::create_dir_all(&out).expect("a folder");
    for (name, expected) in [("a.txt", &table), ("a.csv", &csv)] {
        let file = out.join(name);
        let output = program(&[tables, QUERY, "-o", path(&file)]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), *expected);
    }
    let file = out.join("a.parquet");
    let output = program(&[tables, QUERY, "-o", path(&file)]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(&fs::read(&file).expect("a file")[..4], b"PAR1");
    let names: Vec<_> = fs::read_dir(&out).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 3, "nothing is left over: {names:?}");
}

#[test]
fn sql_comes_from_files_and_questions_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 2, 6, (1, 5_000));
    let file = folder.path().join("own.sql");
    fs::write(&file, "-- steps\nselect count(*) as n from steps").expect("a file");
    let output = program(&[path(folder.path()), path(&file), "--format", "json"]);
    assert_eq!(integer(&rows_of(&output.stdout)[0], "n"), 24);
    let listed = text(&program(&["--questions"]).stdout);
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).expect("a folder");
    let mut count = 0;
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().replace(".sql", "");
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(&name));
        let line = line.unwrap_or_else(|| panic!("{name} is not listed in {listed}"));
        let sql = fs::read_to_string(file.path()).expect("a file");
        let first = sql.lines().next().unwrap_or_default();
        assert!(first.starts_with("-- ") && line.ends_with(&first[3..]), "{first} {line}");
        assert_eq!(text(&program(&["--questions", &name]).stdout), sql);
        count += 1;
    }
    assert_eq!(count, listed.lines().count());
}

/// Checks that a query with a memory limit sorts on disk and gives the same result.
#[test]
fn memory_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 2, 40, (1, 5_000));
    let tables = path(folder.path());
    let unbounded = program(&[tables, "straggler"]);
    let bounded = program(&[tables, "straggler", "--memory", "64"]);
    assert!(bounded.status.success(), "{bounded:?}");
    assert_eq!(text(&bounded.stdout), text(&unbounded.stdout));
    let refused = program(&[tables, "straggler", "--memory", "0"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

fn refused(arguments: &[&str], expected: &str) {
    let output = program(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains(expected), "no {expected:?} in {said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn failed_queries_print_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = path(folder.path());
    refused(&[tables, "straggler"], "it has no trace tables");
    refused(&["/does/not/exist", "straggler"], "cannot read /does/not/exist: No such file");
    ranks(folder.path(), 2, 6, (1, 5_000));
    refused(
        &[tables, "stragler"],
        "cannot find the question stragler; available questions: recorded, straggler, ",
    );
    refused(&[tables, "select * from slice"], "cannot find the table slice in ");
    refused(
        &[tables, "select * from slice"],
        "; available tables: args, clocks, counters, flows, modules, ops, pauses, phases, ",
    );
    refused(&[tables, "select nam from slices"], "nam");
    refused(&[tables, "selct 1 + 1 "], "selct");
    refused(&[tables, "does-not-exist.sql"], "cannot read does-not-exist.sql: ");
    refused(&[tables, "straggler", "--format", "parquet"], "--output FILE");
    refused(&[tables, "straggler", "-o", "a.xlsx"], "a.xlsx: use the extension ");
    refused(
        &[tables, "straggler", "-o", "/does/not/exist/a.csv"],
        "cannot write /does/not/exist/a.csv",
    );
}

#[test]
fn readable_tables_are_queried() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 3, 6, (1, 5_000));
    let file = |name: &str| folder.path().join("steps").join(name);
    let count = |expected: i64, said: &[&str]| {
        let query = "select count(*) as n from steps";
        let output = program(&[path(folder.path()), query, "--format", "json"]);
        assert_eq!(output.status.code(), Some(i32::from(!said.is_empty())), "{output:?}");
        assert_eq!(integer(&rows_of(&output.stdout)[0], "n"), expected);
        let notes = text(&output.stderr);
        assert_eq!(notes.lines().count(), said.len(), "{notes}");
        for expected in said {
            assert!(notes.contains(expected), "no {expected:?} in {notes}");
        }
    };
    count(36, &[]);
    // A killed rank can leave a truncated or an empty file.
    let whole = fs::read(file("0-0.parquet")).expect("a file");
    fs::write(file("0-0.parquet"), &whole[..whole.len() / 2]).expect("a file");
    count(30, &["steps/0-0.parquet: it is not Parquet, or is incomplete: "]);
    fs::write(file("2-1.parquet"), b"").expect("a file");
    count(24, &["steps/0-0.parquet: ", "steps/2-1.parquet: "]);
    // This file has a later schema version.
    let key = whole.windows(13).position(|it| it == b"mlprof.schema").expect("the key");
    let digit = |byte: &u8| byte.is_ascii_digit();
    let mut later = whole.clone();
    let version = key + 13 + later[key + 13..].iter().position(digit).expect("a version");
    later[version] = b'9';
    fs::write(file("0-0.parquet"), &later).expect("a file");
    fs::write(file("2-1.parquet"), &whole).expect("a file");
    count(30, &["steps/0-0.parquet: a newer mlprof wrote it with schema version 9"]);
    // All files are unreadable.
    for name in ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"] {
        fs::write(file(&format!("{name}.parquet")), b"PAR1").expect("a file");
    }
    let output = program(&[path(folder.path()), "select 1 from steps"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read the table steps in "), "{output:?}");
}

/// Checks a trace without steps, devices and counters.
#[test]
fn questions_that_nothing_answers_have_no_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let json =
        r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}"#;
    let trace = mlprof_analysis::kineto::read(json.as_bytes()).expect("a trace");
    mlprof_analysis::columns::write(&trace, folder.path()).expect("tables");
    for question in mlprof_sql::questions::ALL {
        let found = asked(folder.path(), question.name);
        let has_rows = ["recorded", "ops"].contains(&question.name);
        assert_eq!(found.len(), usize::from(has_rows), "{}: {found:?}", question.name);
    }
    let exact = asked(folder.path(), "select cast(9007199254740993 as bigint) as big");
    assert_eq!(exact[0]["big"], Value::from(9_007_199_254_740_993_i64), "no digit is lost");
}
