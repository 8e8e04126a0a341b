//! Compares tables byte for byte with those that torch printed for the same numbers.

use std::fs;
use std::path::{Path, PathBuf};

use mlprof_core::hook::{DType, TensorShape};
use mlprof_core::report::tensor::{KeyAverages, KeyAveragesParts, SortKey, TableOptions};
use serde_json::Value;

use crate::rows::row;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tensor")
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn seconds(value: &Value, field: &str) -> f64 {
    number(value, field) as f64 * 1e-9
}

/// Converts nested lists of sizes to inputs.
fn shape(value: &Value) -> TensorShape {
    let items = value.as_array().expect("a list");
    if items.iter().any(Value::is_array) {
        return TensorShape::List(items.iter().map(shape).collect());
    }
    let sizes = items.iter().map(|size| size.as_i64().expect("a size")).collect();
    TensorShape::Tensor(DType::Float32, sizes)
}

fn averages(golden: &Value) -> KeyAverages {
    let rows = golden["rows"].as_array().expect("rows").iter().map(|value| {
        let mut row = row(value["name"].as_str().expect("a name"));
        row.calls = number(value, "calls") as u64;
        row.self_cpu_seconds = seconds(value, "self_cpu_ns");
        row.cpu_seconds = seconds(value, "cpu_ns");
        row.self_device_seconds = seconds(value, "self_device_ns");
        row.device_seconds = seconds(value, "device_ns");
        row.cpu_memory_bytes = number(value, "cpu_memory");
        row.self_cpu_memory_bytes = number(value, "self_cpu_memory");
        row.device_memory_bytes = number(value, "device_memory");
        row.self_device_memory_bytes = number(value, "self_device_memory");
        row.flops = number(value, "flops") as u64;
        row.is_on_device = flag(value, "on_device");
        row.is_top_level = flag(value, "top_level");
        let shapes = value.get("shapes").and_then(Value::as_array);
        row.input_shapes = shapes.map(|shapes| shapes.iter().map(shape).collect());
        let stack = value.get("stack").and_then(Value::as_array).cloned().unwrap_or_default();
        row.stack = stack.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        row
    });
    KeyAveragesParts {
        device_name: "CUDA".to_owned(),
        has_memory: flag(golden, "memory"),
        rows: rows.collect(),
        ..KeyAverages::default().into()
    }
    .build()
}

fn options(golden: &Value) -> TableOptions {
    let given = &golden["options"];
    let mut options = TableOptions { flops_per_second: false, ..TableOptions::default() };
    let width = |field: &str, default| match given.get(field) {
        Some(value) => value.as_u64().map(|width| width as usize),
        None => default,
    };
    options.max_name_column_width = width("max_name_column_width", options.max_name_column_width);
    options.max_src_column_width = width("max_src_column_width", options.max_src_column_width);
    if let Some(limit) = given.get("row_limit").and_then(Value::as_i64) {
        options.row_limit = usize::try_from(limit).ok();
    }
    let key = given.get("sort_by").and_then(Value::as_str);
    options.sort_by = key.map(|key| key.parse::<SortKey>().expect("a key of torch's"));
    options.header = given.get("header").and_then(Value::as_str).map(str::to_owned);
    options.top_level_events_only = flag(given, "top_level_events_only");
    options
}

#[test]
fn every_golden_table_comes_out_byte_for_byte() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).expect("the golden files") {
        let input = entry.expect("an entry").path();
        let name = input.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("table_") || !name.ends_with(".json") {
            continue;
        }
        let json = fs::read_to_string(&input).expect("a golden input");
        let mut golden: Value = serde_json::from_str(&json).expect("a golden input");
        if !name.contains("flops") {
            // These tables were printed without operations.
            for row in golden["rows"].as_array_mut().expect("rows") {
                row["flops"] = 0.into();
            }
        }
        let expected = fs::read_to_string(input.with_extension("txt")).expect("its table");
        let table = averages(&golden).table(&options(&golden));
        assert_eq!(table, expected, "{name}\n{table}\n{expected}");
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} golden tables");
}

#[test]
fn flops_and_places_stand_below_their_own_titles_and_rates_beside_them() {
    let mut row = row("aten::mm");
    row.calls = 1;
    row.cpu_seconds = 0.001;
    row.flops = 5_000_000;
    row.moved_bytes = Some(2 << 20);
    row.stack = vec!["src/model.rs(1): forward".to_owned()];
    let averages = KeyAveragesParts { rows: vec![row], ..KeyAverages::default().into() }.build();
    let table = averages.table(&TableOptions::default());
    let lines: Vec<_> = table.lines().collect();
    let (titles, cells) = (lines[1], lines[3]);
    for (title, cell) in [
        ("Source Location", "src/model.rs(1): forward"),
        ("Total MFLOPs", "5.000"),
        ("GFLOP/s", "5.000"),
        ("Bytes", "2.00 MB"),
        ("GB/s", "2.097"),
        ("FLOP/byte", "2.384"),
    ] {
        let at = titles.find(title).unwrap_or_else(|| panic!("{title} in\n{table}"));
        let end = at + title.len();
        match title {
            "Source Location" => assert!(cells[at..].starts_with(cell), "{table}"),
            _ => assert!(cells[..end].ends_with(cell), "{title}: {table}"),
        }
    }
}

#[test]
fn an_unknown_key_lists_those_that_there_are() {
    let error = "cpu_tiem".parse::<SortKey>().expect_err("a typo");
    let text = error.to_string();
    assert!(text.contains("\"cpu_tiem\"") && text.contains("\"self_cpu_time_total\""), "{text}");
    assert_eq!("self_cuda_time_total".parse(), Ok(SortKey::SelfDeviceTimeTotal));
    for key in SortKey::ALL {
        assert_eq!(key.as_str().parse(), Ok(key));
    }
}

#[test]
fn without_rows_there_is_no_table() {
    assert_eq!(KeyAverages::default().table(&TableOptions::default()), "");
}

#[test]
fn names_stay_on_one_line() {
    let mut row = row("evil\nname\t\u{1b}[31m");
    row.calls = 1;
    let averages = KeyAveragesParts { rows: vec![row], ..KeyAverages::default().into() }.build();
    let table = averages.table(&TableOptions::default());
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(!table.contains('\u{1b}') && !table.contains('\t'), "{table}");
}
