//! Other engines give the same answers, from the same files and the same SQL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::made::ranks;
use crate::{Row, asked, path, text};

/// An interpreter of Python that has the engines: `cargo xtask test sql` names one.
const PYTHON: &str = "MLPROF_TEST_ENGINES";
/// Which engines to compare, by default those that the part's environment has.
const ENGINES: &str = "MLPROF_TEST_ENGINE_NAMES";
/// Tables of a real run to compare as well.
const TABLES: &str = "MLPROF_TEST_TABLES";

fn answers_of(python: &Path, engine: &str, folder: &Path) -> BTreeMap<String, Vec<Row>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(sources.join("tests/sql/engines.py")).arg(engine).arg(folder);
    let output = command.arg(sources.join("sql")).output().expect("Python starts");
    assert!(output.status.success(), "{engine}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("answers as JSON")
}

/// Sums of real numbers differ by the order in which they are added up.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        _ => one == other,
    }
}

fn compare(python: &Path, engine: &str, folder: &Path) -> usize {
    let answers = answers_of(python, engine, folder);
    let mut count = 0;
    for question in mlprof_sql::questions::ALL {
        // A column without a value is left out of JSON here.
        let ours = asked(folder, question.name);
        let theirs = &answers[question.name];
        assert_eq!(ours.len(), theirs.len(), "{engine}, {}: {theirs:?}", question.name);
        for (row, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            for (column, value) in theirs {
                let own = ours.get(column).unwrap_or(&Value::Null);
                assert!(
                    is_same(own, value),
                    "{}, row {row}, {column}: {own} here, {value} by {engine}",
                    question.name
                );
                count += 1;
            }
            assert!(ours.keys().all(|column| theirs.contains_key(column)), "{ours:?}");
        }
    }
    count
}

#[test]
fn engines_give_the_same_answers() {
    let Some(python) = std::env::var_os(PYTHON).map(PathBuf::from) else {
        eprintln!(
            "skipped: {PYTHON} names no Python that has the engines; `cargo xtask test sql` makes one"
        );
        return;
    };
    let engines = std::env::var(ENGINES).unwrap_or_else(|_| "duckdb datafusion".to_owned());
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 5, 12, (1, 5_000));
    for engine in engines.split_whitespace() {
        let count = compare(&python, engine, folder.path());
        assert!(count > 1_000, "{count} values");
        println!("{engine}: {count} values of generated ranks are the same");
        if let Some(tables) = std::env::var_os(TABLES).map(PathBuf::from) {
            let count = compare(&python, engine, &tables);
            println!("{engine}: {count} values of {} are the same", path(&tables));
        }
    }
}
