//! Tests the Advanced report and opens its files with Python.

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::Run;
use tests::python;

use crate::program;

const PSTATS: &str = r#"
import pstats, sys
stats = pstats.Stats(sys.argv[1])
by_name = {key[2]: value for key, value in stats.stats.items()}
root = by_name["run_training_batch"]
assert root[0] == root[1] == 20, root
layers = {name: value for name, value in by_name.items() if name.startswith("[module]")}
assert len(layers) >= 3, by_name.keys()
assert all(value[1] == 20 for value in layers.values()), layers
assert abs(stats.total_tt - root[3]) <= 1e-3 * root[3], (stats.total_tt, root)
"#;

#[test]
fn a_batch_is_taken_apart_down_to_its_layers() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&program(), directory.path());
    let arguments = ["--epochs", "1", "--batch-size", "64", "--profiler", "advanced"];
    let run = run.args(arguments).args(["--dump-stats", "--dirpath", "D"]).succeed();
    test_accuracy(&run.stdout);
    assert!(run.stdout.contains("Profile stats for: run_training_batch rank: 0\n"));
    let folder = directory.path().join("D");
    let names = file_names(&folder);
    assert!(names.iter().any(|name| name == "fit-run_training_batch.prof"), "{names:?}");
    python::run(PSTATS, &[&folder.join("fit-run_training_batch.prof")]);
}
