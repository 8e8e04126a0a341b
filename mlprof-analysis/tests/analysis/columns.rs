//! Round trips of traces through tables.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use mlprof_analysis::columns::{self, ColumnsError, SCHEMA_VERSION, TABLES, text_of_schema};
use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_analysis::rollups::Rollups;
use mlprof_analysis::trace::{FlowKind, Slice};
use mlprof_analysis::{Analysis, Trace};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::DataType;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;

use crate::synthetic::{MAIN, OTHER, action, arrow, op, slice, trace, with};

/// Returns a trace with all kinds of items: threads, streams, crossing slices, arrows, counters and
/// arguments.
fn everything() -> Trace {
    let mut events = crate::devices::events();
    let args = r#"{"Input Dims":[[2,3],[]],"Sequence number":17,"Called from":"outer;inner"}"#;
    let waits = r#"{"stream":7,"wait_on_stream":20,"wait_on_cuda_event_record_corr_id":3}"#;
    events.extend([
        with(MAIN, "cpu_op", "aten::mm", (1.0, 8.0), args),
        op("crosses", 5.0, 20.0),
        action("[module]Linear: a", 0.5, 9.0),
        slice(OTHER, "cpu_op", "MmBackward0", 95.0, 40.0),
        with((0, 7), "cuda_sync", "Stream Wait Event", (85.0, 1.0), waits),
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

/// Formats all rows of the sums, with names resolved to text.
fn rollup_texts(sums: &Rollups) -> Vec<String> {
    let mut texts: Vec<String> = sums.steps.iter().map(|step| format!("{step:?}")).collect();
    texts.extend(sums.stages.iter().map(|row| {
        format!("{} {} {} {}", row.step, row.order, sums.name(row.action), row.duration)
    }));
    texts.extend(sums.ops.iter().map(|row| {
        let times = (row.count, row.total, row.own, row.min, row.max);
        format!("{:?} {:?} {} {times:?}", row.step, row.category, sums.name(row.name))
    }));
    texts.extend(sums.modules.iter().map(|row| {
        let times = (row.calls, row.own, row.device);
        format!("{:?} {} {times:?}", row.step, sums.name(row.module))
    }));
    texts
}

/// Formats all slices with their details, with names resolved to text.
fn texts(trace: &Trace) -> Vec<String> {
    let text = |slice: &mlprof_analysis::trace::Slice| {
        let details = trace.details(slice).map(|it| {
            let text = |name| trace.names.text(name).to_owned();
            let of_device = (it.stream, it.event.stream, it.event.recorded_by);
            (it.sequence, text(it.shapes), it.bytes, it.flops, text(it.called_from), of_device)
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
fn written_data_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = everything();
    let after = written(&before, folder.path());
    assert_eq!(texts(&after), texts(&before));
    assert_eq!(after.flows, before.flows);
    assert!(!after.flows.is_empty());
    assert!(texts(&after).iter().any(|text| text.contains("(Some(7), Some(20), 3)")), "the event");
    assert_eq!(after.info, before.info.kept_in_tables());
    let counters = |trace: &Trace| {
        let of = trace.counters.iter();
        of.map(|it| (it.time, trace.names.text(it.name).to_owned(), it.value)).collect::<Vec<_>>()
    };
    assert_eq!(counters(&after), counters(&before));
    assert_eq!(counters(&after).len(), 1);
    // The analyses must be equal, too.
    assert_eq!(Analysis::of(&after), Analysis::of(&before));
    // The sums are readable without the slices.
    std::fs::remove_dir_all(folder.path().join("slices")).expect("it is there");
    assert!(columns::is_folder_of_rollups(folder.path()));
    let found = columns::find_rollups(folder.path()).expect("a folder");
    let sums = columns::read_rollups(&found[0]).expect("they can be read");
    let expected = Rollups::of(&before);
    assert_eq!(rollup_texts(&sums), rollup_texts(&expected));
    assert!(
        !sums.steps.is_empty()
            && !sums.modules.is_empty()
            && sums.info == before.info.kept_in_tables()
    );
    let again = columns::write(&before, folder.path()).expect("it can be written");
    // A test after the training also has a cycle 0.
    let mut of_test = everything();
    of_test.info.stage = Some("test".to_owned());
    let error = columns::write(&of_test, folder.path()).expect_err("it would take its place");
    assert!(error.to_string().contains("it already has tables of cycle "), "{error}");
    assert!(error.to_string().contains("cannot write tables of test to "), "{error}");
    for table in TABLES {
        let files = std::fs::read_dir(folder.path().join(table.name)).expect("a folder").flatten();
        let names: Vec<_> = files.map(|file| file.file_name()).collect();
        assert_eq!(names, ["1-0.parquet"], "{}", table.name);
    }
    // Tables of the first version had no module sums, so these are computed from slices.
    std::fs::remove_file(again.of(&columns::MODULES)).expect("it is there");
    let sums = columns::read_rollups(&again).expect("they can be read");
    assert_eq!(rollup_texts(&sums), rollup_texts(&expected));
}

/// Checks the round trip of a trace with all header fields.
#[test]
fn clocks_collectives_and_numbers_by_time_are_kept() {
    let args = r#"{"Collective name":"all_reduce_gradients","Seq":7}"#;
    let header = r#"{"distributedInfo":{"rank": 1, "world_size": 2},"hostname":"h","baseTimeNanoseconds":5,
        "mlprof":{"stage":"fit","cycle":0,"boot_id":"b","dropped_events":3,"clocks":[
        {"ts":0.001,"realtime_ns":11,"monotonic_ns":12,"error_ns":13},{"ts":9,"realtime_ns":21}]},"traceEvents":["#;
    let events = [
        slice(OTHER, "cpu_op", "first of another thread", 0.5, 1.0),
        action("[Strategy]x.training_step", 1.0, 50.0),
        op("aten::mm", 2.0, 8.0),
        with(MAIN, "user_annotation", "all_reduce_gradients", (20.0, 5.0), args),
        action("[Strategy]x.backward", 60.0, 9.0),
        slice(OTHER, "cpu_op", "MmBackward0", 61.0, 4.0),
        arrow(1, (MAIN, 2.0), (OTHER, 61.0)),
        r#"{"ph":"X","name":"no time"}"#.to_owned(),
    ];
    let json = format!("{header}{}]}}", events.join(","));
    let before = mlprof_analysis::kineto::read(json.as_bytes()).expect("a trace");
    assert_eq!(
        (before.info.clocks.len(), before.info.dropped, before.info.not_understood),
        (2, 3, 1)
    );
    let folder = tempfile::tempdir().expect("a folder");
    let after = written(&before, folder.path());
    assert_eq!(after.info, before.info.kept_in_tables());
    assert_eq!((texts(&after), &after.flows), (texts(&before), &before.flows));
    let collective = |trace: &Trace| {
        let is_it = |slice: &&Slice| trace.name(slice) == "all_reduce_gradients";
        let slice = trace.slices.iter().find(is_it).expect("it is there");
        trace.details(slice).and_then(|it| it.collective)
    };
    assert_eq!((collective(&before), collective(&after)), (Some(7), Some(7)));
    let facts = |trace: &Trace| RankFacts::of("x", trace);
    let of = |trace| Ranks::of(&[facts(trace)]).expect("one rank");
    assert_eq!(of(&after), of(&before));
}

/// Checks tables of the first version. It numbered slices differently, and it had no clock
/// readings, module sums and phases.
#[test]
fn tables_of_the_first_version_are_read() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis/tables_of_version_1");
    let found = columns::find(&old).expect("a folder");
    let [files] = &found[..] else { panic!("{found:?}") };
    let before = columns::read(files).expect("it can be read");
    assert_eq!((before.slices.len(), before.flows.len()), (159, 42));
    let is_launch = |flow: &mlprof_analysis::trace::Flow| {
        let category = |place: u32| before.slices[place as usize].category;
        flow.kind != FlowKind::Launch
            || (category(flow.from).is_runtime() && category(flow.to).is_on_device())
    };
    assert!(before.flows.iter().all(is_launch));
    let folder = tempfile::tempdir().expect("a folder");
    let after = written(&before, folder.path());
    assert_eq!((texts(&after), &after.flows), (texts(&before), &before.flows));
    let sums = columns::read_rollups(files).expect("they can be read");
    assert_eq!(rollup_texts(&sums), rollup_texts(&Rollups::of(&before)));
}

/// Checks argument rows in reverse order, so that the rows of different sets are in another order
/// than the slices.
#[test]
fn arguments_that_stand_apart_are_put_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = |sequence: u32, from: &str| {
        format!(r#"{{"Sequence number":{sequence},"Called from":"{from}","stream":{sequence}}}"#)
    };
    let events = [
        with(MAIN, "cpu_op", "a", (1.0, 1.0), &args(3, "outer;one")),
        with(MAIN, "cuda_sync", "b", (3.0, 1.0), &args(4, "outer;two")),
        op("without", 5.0, 1.0),
        with(MAIN, "cpu_op", "c", (7.0, 1.0), &args(5, "outer;three")),
    ];
    let before = trace(&events);
    let files = columns::write(&before, folder.path()).expect("written");
    let table = files.of(TABLES.iter().find(|table| table.name == "args").expect("it is there"));
    reverse(&table);
    let after = columns::read(&files).expect("it can be read");
    assert_eq!(texts(&after), texts(&before));
    assert!(texts(&after)[0].contains("outer;one"), "{:?}", texts(&after));
}

/// Rewrites a table of one row group with its rows in reverse order.
fn reverse(table: &Path) {
    fn column<T: DataType>(mut from: ColumnReaderImpl<T>, rows: usize, to: &mut ColumnWriter<'_>) {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        from.read_records(rows, Some(&mut levels), None, &mut values).expect("values");
        values.reverse();
        levels.reverse();
        let levels = (!levels.is_empty()).then_some(levels.as_slice());
        let typed = parquet::column::writer::get_typed_column_writer_mut::<T>(to);
        typed.write_batch(&values, levels, None).expect("memory");
    }
    rewrite(table, |reader, writer| {
        let (from, mut to) =
            (reader.get_row_group(0).expect("a group"), writer.next_row_group().expect("a group"));
        let rows = usize::try_from(from.metadata().num_rows()).expect("few");
        for place in 0..from.num_columns() {
            let mut into = to.next_column().expect("a column").expect("a column");
            match from.get_column_reader(place).expect("a column") {
                ColumnReader::Int64ColumnReader(from) => column(from, rows, into.untyped()),
                ColumnReader::DoubleColumnReader(from) => column(from, rows, into.untyped()),
                ColumnReader::ByteArrayColumnReader(from) => column(from, rows, into.untyped()),
                _ => panic!("no table has others"),
            }
            into.close().expect("memory");
        }
        to.close().expect("memory");
    });
}

/// Rewrites a table with the same schema and metadata. `write` writes its rows.
fn rewrite(
    table: &Path,
    write: impl FnOnce(&SerializedFileReader<File>, &mut SerializedFileWriter<&mut Vec<u8>>),
) {
    let reader = SerializedFileReader::new(File::open(table).expect("a file"));
    let reader = reader.expect("Parquet");
    let metadata = reader.metadata().file_metadata();
    let properties = WriterProperties::builder()
        .set_key_value_metadata(metadata.key_value_metadata().cloned())
        .build();
    let (schema, mut bytes) = (metadata.schema_descr().root_schema_ptr(), Vec::new());
    let writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties));
    let mut writer = writer.expect("a file");
    write(&reader, &mut writer);
    writer.close().expect("memory");
    std::fs::write(table, bytes).expect("written");
}

/// Checks that tables of another machine, another run or another stage are not overwritten.
#[test]
fn tables_of_something_else_are_not_written_over() {
    let of = |header: &str, start: f64| {
        let events = op("aten::mm", start, 1.0);
        let json = format!("{{{header}\"traceEvents\":[{events}]}}");
        mlprof_analysis::kineto::read(json.as_bytes()).expect("a trace")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let host = |name: &str| format!("\"hostname\":\"{name}\",");
    let first = of(&host("one"), 1.0);
    columns::write(&first, folder.path()).expect("nothing is there");
    columns::write(&first, folder.path()).expect("it is the same");
    for (other, expected) in [
        (
            of(&host("two"), 1.0),
            "it already has tables of cycle 0 of rank 0 of host one; choose another folder",
        ),
        (of("", 1.0), "cannot write tables without a host name to "),
        (
            of(&host("one"), 2.0),
            "it already has tables of cycle 0 of rank 0 of another run; choose another folder",
        ),
        (
            of(&format!("{}\"mlprof\":{{\"stage\":\"fit\"}},", host("one")), 1.0),
            "it already has tables of cycle 0 of rank 0 without a stage; choose another folder",
        ),
    ] {
        let error = columns::write(&other, folder.path()).expect_err("it would be lost");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let files = columns::find(folder.path()).expect("a folder");
    assert_eq!(texts(&columns::read(&files[0]).expect("tables")), texts(&first));
    let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let hidden = names.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "nothing unfinished is left");
    columns::remove(folder.path(), |rank| rank == 1).expect("nothing is there of it");
    assert_eq!(columns::find(folder.path()).expect("a folder").len(), 1);
    columns::remove(folder.path(), |rank| rank == 0).expect("it can be removed");
    assert!(columns::find(folder.path()).expect("a folder").is_empty());
}

/// Checks a fleet's folder, in which some files may be empty, truncated or of another version. The
/// reader must report each of them.
#[test]
fn tables_without_a_slice_and_of_several_versions_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = columns::write(&everything(), folder.path()).expect("it can be written");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis/tables_of_version_1");
    for table in TABLES {
        let there = old.join(table.name);
        for file in std::fs::read_dir(there).into_iter().flatten().flatten() {
            let to = folder.path().join(table.name).join("7-0.parquet");
            std::fs::copy(file.path(), to).expect("a copy");
        }
    }
    let found = columns::find(folder.path()).expect("a folder");
    assert_eq!(found.len(), 2);
    let counts: Vec<usize> = found
        .iter()
        .map(|files| columns::read(files).expect("both are read").slices.len())
        .collect();
    assert!(counts.contains(&159) && counts.contains(&everything().slices.len()), "{counts:?}");
    empty(&files.of(&columns::SLICES));
    let error = columns::read(&files).expect_err("no slice");
    assert!(matches!(error, ColumnsError::Empty { .. }), "{error}");
    assert!(error.to_string().starts_with("cannot use "), "{error}");
    std::fs::write(files.of(&columns::SLICES), b"").expect("written");
    let error = columns::read(&files).expect_err("an empty file");
    assert!(error.to_string().contains("it is not Parquet, or is incomplete: "), "{error}");
}

/// Removes all rows of a table.
fn empty(table: &Path) {
    rewrite(table, |_, _| {});
}

/// Checks that every table contains the rank and the cycle. Ids are unique only within a file, so
/// joins need both columns.
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
        "slices: events with a duration, ordered by start",
        "  parent_id         INT64?  id of the enclosing slice",
        "  value             DOUBLE  value of the counter",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
}

#[test]
fn other_files_are_not_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = columns::write(&everything(), folder.path()).expect("it can be written");
    let path = files.of(&columns::TABLES[0]);
    let whole = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("a file");
    let error = columns::read(&files).expect_err("half of it");
    assert!(matches!(error, ColumnsError::Broken { .. }), "{error}");
    assert!(
        error.to_string().contains("slices/1-0.parquet: it is not Parquet, or is incomplete: ")
    );
    std::fs::remove_file(&path).expect("it is there");
    assert!(matches!(columns::read(&files), Err(ColumnsError::Io { .. })));
    // This file has a later schema version.
    let key = whole.windows(13).position(|it| it == b"mlprof.schema").expect("the key");
    let mut later = whole;
    let version = key + 13 + later[key + 13..].iter().position(|it| *it == b'2').expect("2");
    later[version] = b'9';
    std::fs::write(&path, later).expect("a file");
    let error = columns::read(&files).expect_err("a later one");
    assert!(matches!(error, ColumnsError::Newer { found: 9, .. }), "{error}");
}
