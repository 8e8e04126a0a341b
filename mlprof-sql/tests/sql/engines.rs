//! Tests that other engines give the same results for the same files and the same SQL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rank_tables::ranks;
use crate::rows::{Row, compared};
use crate::{asked, path, text};

/// Environment variable with a Python interpreter that has the engines. `cargo xtask test sql` sets
/// it.
const PYTHON: &str = "MLPROF_TEST_ENGINES";
/// Environment variable with the engines to compare. The default is those that the test environment
/// has.
const ENGINES: &str = "MLPROF_TEST_ENGINE_NAMES";
/// Environment variable with tables of a real run to compare as well.
const TABLES: &str = "MLPROF_TEST_TABLES";

fn answers_of(python: &Path, engine: &str, folder: &Path) -> BTreeMap<String, Vec<Row>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(sources.join("tests/sql/engines.py")).arg(engine).arg(folder);
    let output = command.arg(sources.join("sql")).output().expect("Python starts");
    assert!(output.status.success(), "{engine}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("answers as JSON")
}

fn compare(python: &Path, engine: &str, folder: &Path) -> usize {
    let answers = answers_of(python, engine, folder);
    let mut count = 0;
    for question in mlprof_sql::questions::ALL {
        let ours = asked(folder, question.name);
        count += compared(&ours, &answers[question.name], &format!("{engine}, {}", question.name));
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
