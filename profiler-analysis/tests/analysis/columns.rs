//! Traces as tables: what is written is read back.

use std::path::Path;

use profiler_analysis::columns::{self, ColumnsError, SCHEMA_VERSION, TABLES, text_of_schema};
use profiler_analysis::{Analysis, Trace};

use crate::made::{MAIN, OTHER, action, arrow, op, slice, trace, with};

/// Of everything something: threads, streams, what crosses others, arrows, counters, arguments.
fn everything() -> Trace {
    let mut events = crate::devices::events();
    let args = r#"{"Input Dims":[[2,3],[]],"Sequence number":17,"Called from":"outer;inner"}"#;
    events.extend([
        with(MAIN, "cpu_op", "aten::mm", (1.0, 8.0), args),
        op("crosses", 5.0, 20.0),
        action("[module]Linear: a", 0.5, 9.0),
        slice(OTHER, "cpu_op", "MmBackward0", 95.0, 40.0),
        arrow(1, (MAIN, 1.0), (OTHER, 95.0)),
        r#"{"ph":"C","name":"memory","pid":0,"ts":3,"args":{"value":5.25}}"#.to_owned(),
        r#"{"ph":"X","cat":"Trace","name":"span","pid":"Spans","tid":"all","ts":0,"dur":9}"#
            .to_owned(),
        r#"{"ph":"M","name":"thread_name","pid":100,"tid":100,"ts":0,"args":{"name":"main"}}"#
            .to_owned(),
        r#"{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":0,"args":{"labels":"GPU 0"}}"#
            .to_owned(),
    ]);
    trace(&events)
}

fn written(trace: &Trace, folder: &Path) -> Trace {
    columns::write(trace, folder).expect("it can be written");
    assert!(columns::is_folder_of_tables(folder));
    let found = columns::find(folder).expect("a folder");
    let [files] = &found[..] else { panic!("{found:?}") };
    columns::read(files).expect("it can be read")
}

/// Everything of a slice, with texts.
fn texts(trace: &Trace) -> Vec<String> {
    let text = |slice: &profiler_analysis::trace::Slice| {
        let details = trace.details(slice).map(|it| {
            let text = |name| trace.names.text(name).to_owned();
            (it.sequence, text(it.shapes), it.bytes, it.flops, text(it.called_from), it.stream)
        });
        let (name, track) = (trace.name(slice), trace.track_name(slice.track as usize));
        let times = (slice.start, slice.duration, slice.self_duration, slice.depth);
        format!(
            "{name} {track} {times:?} {:?} {:?} {} {details:?}",
            slice.category,
            slice.parent(),
            slice.correlation
        )
    };
    trace.slices.iter().map(text).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = everything();
    let after = written(&before, folder.path());
    assert_eq!(texts(&after), texts(&before));
    assert_eq!(after.flows, before.flows);
    assert!(!after.flows.is_empty());
    assert_eq!(after.info, before.info);
    let counters = |trace: &Trace| {
        let of = trace.counters.iter();
        of.map(|it| (it.time, trace.names.text(it.name).to_owned(), it.value)).collect::<Vec<_>>()
    };
    assert_eq!(counters(&after), counters(&before));
    assert_eq!(counters(&after).len(), 1);
    // And so are all answers.
    assert_eq!(Analysis::of(&after), Analysis::of(&before));
    for table in TABLES {
        let files = std::fs::read_dir(folder.path().join(table.name)).expect("a folder").flatten();
        let names: Vec<_> = files.map(|file| file.file_name()).collect();
        assert_eq!(names, ["1-0.parquet"], "{}", table.name);
    }
}

/// Numbers begin anew in every file: what belongs together has the same rank and cycle, in every table.
#[test]
fn every_table_says_rank_and_cycle() {
    for table in TABLES {
        let names: Vec<_> = table.columns.iter().take(2).map(|column| column.name).collect();
        assert_eq!(names, ["rank", "cycle"], "{}", table.name);
    }
}

#[test]
fn many_rows_are_read_back_group_by_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let events: Vec<String> =
        (0..300_000_u32).map(|at| op(&format!("op {}", at % 7), f64::from(at), 0.5)).collect();
    let before = trace(&events);
    let after = written(&before, folder.path());
    assert!(texts(&after) == texts(&before), "something is lost");
    let size = std::fs::metadata(folder.path().join("slices/1-0.parquet")).expect("a file").len();
    assert!(size <= 5 * 300_000, "{size} bytes");
}

#[test]
fn the_schema_says_what_is_in_files() {
    let text = text_of_schema();
    assert!(text.starts_with(&format!("Traces as Parquet, version {SCHEMA_VERSION}.")));
    for line in [
        "slices: everything that has a duration, by its beginning",
        "  parent_id         INT64?  the slice directly around it",
        "  value             DOUBLE  how much",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
}

#[test]
fn what_is_no_table_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = columns::write(&everything(), folder.path()).expect("it can be written");
    let path = files.of(&columns::TABLES[0]);
    let whole = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("a file");
    let error = columns::read(&files).expect_err("half of it");
    assert!(matches!(error, ColumnsError::Broken { .. }), "{error}");
    assert!(error.to_string().contains("slices/1-0.parquet is not Parquet, or not all of it: "));
    std::fs::remove_file(&path).expect("it is there");
    assert!(matches!(columns::read(&files), Err(ColumnsError::Io { .. })));
    // A later version's.
    let key = whole.windows(13).position(|it| it == b"mlprof.schema").expect("the key");
    let mut later = whole;
    let version = key + 13 + later[key + 13..].iter().position(|it| *it == b'1').expect("1");
    later[version] = b'9';
    std::fs::write(&path, later).expect("a file");
    let error = columns::read(&files).expect_err("a later one");
    assert!(matches!(error, ColumnsError::Newer { found: 9, .. }), "{error}");
}
