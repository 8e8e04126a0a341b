//! Tests the Advanced report and reads its `.prof` files with Python's tools.

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::python;

use crate::short_run;

#[test]
fn every_action_has_a_table() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "advanced"]).succeed();
    assert!(run.stdout.contains("FIT Profiler Report"), "{}", run.stdout);
    let mut actions = vec!["run_training_epoch", "run_training_batch", "Optimizer.step"];
    if cfg!(target_os = "linux") {
        actions.push("process_startup");
    }
    for action in actions {
        let title = format!("Profile stats for: {action} rank: 0\n");
        assert!(run.stdout.contains(&title), "no {title:?} in:\n{}", run.stdout);
    }
    let columns = "ncalls  tottime  percall  cumtime  percall filename:lineno(function)";
    assert!(run.stdout.contains(columns));
    test_accuracy(&run.stdout);
}

const PSTATS: &str = r#"
import pstats, sys
for path in sys.argv[1:]:
    stats = pstats.Stats(path)
    assert stats.total_calls >= stats.prim_calls > 0, path
    for function, (primitive, calls, own, cumulative, callers) in stats.stats.items():
        assert calls >= primitive > 0, (path, function)
        assert -1e-9 <= own <= cumulative + 1e-9, (path, function)
        for caller, (_, of_caller, _, _) in callers.items():
            assert caller in stats.stats, (path, function, caller)
        if callers:
            assert sum(c[1] for c in callers.values()) <= calls, (path, function)

def only(stats, name):
    found = [(key, value) for key, value in stats.items() if key[2] == name]
    assert len(found) == 1, (name, found)
    return found[0]

batch = pstats.Stats([path for path in sys.argv[1:] if path.endswith("-run_training_batch.prof")][0])
root, (primitive, calls, own, cumulative, callers) = only(batch.stats, "run_training_batch")
assert primitive == calls > 1, (primitive, calls)
assert abs(batch.total_tt - cumulative) <= 1e-3 * cumulative, (batch.total_tt, cumulative)
_, optimizer = only(batch.stats, "Optimizer.step")
assert optimizer[1] == calls, (optimizer, calls)
assert optimizer[4][root][1] == calls, optimizer
functions = [key for key in batch.stats if key[0].endswith(".rs") and key[1] > 0]
assert functions, "functions of the model, with file and line"
print(calls)
"#;

#[test]
fn prof_files_open_in_pstats_and_snakeviz() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path())
        .args(["--profiler", "advanced", "--dump-stats", "--dirpath", "D"])
        .succeed();
    test_accuracy(&run.stdout);
    let folder = directory.path().join("D");
    let paths: Vec<_> = file_names(&folder)
        .into_iter()
        .filter(|name| name.starts_with("fit-") && name.ends_with(".prof"))
        .map(|name| folder.join(name))
        .collect();
    assert!(paths.len() > 5, "a file per action: {paths:?}");
    let paths: Vec<_> = paths.iter().map(|path| path.as_path()).collect();
    python::run(PSTATS, &paths);

    let batch = paths.iter().find(|path| path.ends_with("fit-run_training_batch.prof"));
    let page = python::run_with_snakeviz(
        "import pstats, sys\n\
         from snakeviz.stats import table_rows, json_stats\n\
         stats = pstats.Stats(sys.argv[1])\n\
         print(len(table_rows(stats)))\n\
         print(json_stats(stats))",
        &[batch.expect("one of run_training_batch")],
    );
    assert!(page.contains("Optimizer.step"), "{page}");
}
