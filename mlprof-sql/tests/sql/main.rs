//! Tests of SQL over traces: the command-line program, and comparisons with `mlprof analyze` and
//! with other engines.

mod answers;
mod edge_cases;
mod engines;
mod program;
mod rank_file;
mod rank_tables;
mod rows;
mod server;
mod store;
mod windows;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rows::Row;
use serde_json::Value;

fn program(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlprof-sql"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Returns the result rows of a query.
fn asked(folder: &Path, query: &str) -> Vec<Row> {
    let output = program(&[path(folder), query, "--format", "json"]);
    assert!(output.status.success(), "{query}: {}", text(&output.stderr));
    rows_of(&output.stdout)
}

fn rows_of(json: &[u8]) -> Vec<Row> {
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error} in {}", text(json)))
}

fn integer(row: &Row, column: &str) -> i64 {
    row.get(column).and_then(Value::as_i64).unwrap_or_else(|| panic!("{column} in {row:?}"))
}

fn word<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_else(|| panic!("{column} in {row:?}"))
}
