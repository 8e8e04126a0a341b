//! Reads traces as Parquet tables with DuckDB and Arrow.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{program, python};

use crate::training::{LAYERS, STEPS, record};

fn mlprof(arguments: &[&str]) -> String {
    let output = Command::new(program::build("mlprof", "mlprof")).args(arguments).output();
    let output = output.expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Writes the tables of two ranks into one folder and returns its path.
fn tables(folder: &Path) -> std::path::PathBuf {
    let tables = folder.join("tables");
    for rank in 0..2 {
        record(folder, rank);
    }
    for entry in folder.read_dir().expect("a folder").flatten() {
        let path = entry.path();
        if text(&path).ends_with(".pt.trace.json.gz") {
            mlprof(&["convert", text(&path), "--to", "parquet", "-o", text(&tables)]);
        }
    }
    tables
}

#[test]
fn duckdb_and_arrow_read_what_analyze_reads() {
    let script = r#"
import duckdb, glob, json, sys
import pyarrow.parquet as parquet
folder = sys.argv[1]
def table(name):
    return f"read_parquet('{folder}/{name}/*.parquet')"
def ask(question):
    return duckdb.sql(question).fetchall()
files = sorted(glob.glob(f"{folder}/*/*.parquet"))
types = {str(field.type) for file in files for field in parquet.read_schema(file)}
versions = {parquet.read_metadata(file).metadata[b"mlprof.schema"].decode() for file in files}
slices, steps, stages = table("slices"), table("steps"), table("stages")
print(json.dumps({
    "files": len(files),
    "types": sorted(types),
    "versions": sorted(versions),
    "ranks": ask(f"select rank, world_size from {table('ranks')} order by rank"),
    "categories": dict(ask(f"select category, count(*) from {slices} group by 1")),
    "steps": ask(f"select rank, step, dur from {steps} order by rank, step"),
    "stages": ask(f"select rank, step, cast(sum(dur) as bigint) from {stages} group by 1, 2 order by 1, 2"),
    "ops": ask(f"select cast(sum(n) as bigint), cast(sum(sum) as bigint) from {table('ops')}"),
    "all": ask(f"select count(*), cast(sum(dur) as bigint) from {slices}"),
    "unsorted": ask(f"select count(*) from (select ts - lag(ts) over (partition by rank order by file_row_number) as d from read_parquet('{folder}/slices/*.parquet', file_row_number = true)) where d < 0"),
    "kernels_of_ops": ask(f"""select count(*) from {table('flows')} f
        join {slices} a on a.rank = f.rank and a.id = f.slice_out
        join {slices} b on b.rank = f.rank and b.id = f.slice_in
        where f.category = 'ac2g' and a.category = 'cuda_runtime' and (b.category like 'gpu_mem%' or b.category = 'kernel')"""),
    "parents": ask(f"select count(*) from {slices} a join {slices} b on a.rank = b.rank and a.parent_id = b.id where a.ts < b.ts or a.ts + a.dur > b.ts + b.dur"),
}))"#;
    let folder = tempfile::tempdir().expect("a folder");
    let tables = tables(folder.path());
    let found = crate::readers::answer(&python::run_with_columns(script, &[&tables]));
    assert_eq!(found["files"], 36, "eighteen tables of two ranks");
    assert_eq!(found["types"], serde_json::json!(["double", "int64", "string"]));
    assert_eq!(found["versions"], serde_json::json!(["2"]));
    assert_eq!(found["ranks"], serde_json::json!([[0, 2], [1, 2]]));
    let layers = u64::from(LAYERS);
    let kernels = 2 * 2 * layers * STEPS;
    assert_eq!(found["categories"]["kernel"], kernels);
    assert_eq!(found["kernels_of_ops"][0][0], kernels + 2 * 2 * STEPS);
    assert_eq!(found["ops"], found["all"]);
    assert_eq!((&found["unsorted"][0][0], &found["parents"][0][0]), (&0.into(), &0.into()));
    assert_eq!(found["stages"], found["steps"], "stages add up to their steps");
    // The command reads the same values from the tables.
    let analyzed = |path: &Path| -> Vec<Value> {
        let json: Value =
            serde_json::from_str(&mlprof(&["analyze", text(path), "--json"])).expect("JSON");
        let mut traces = json["traces"].as_array().expect("traces").clone();
        traces.iter_mut().for_each(|trace| drop(trace.as_object_mut().map(|it| it.remove("file"))));
        traces
    };
    let of_tables = analyzed(&tables);
    assert_eq!(of_tables, analyzed(folder.path()));
    let steps = of_tables.iter().flat_map(|trace| trace["steps"].as_array().expect("steps"));
    let steps: Vec<_> = steps.map(|step| step["duration_ns"].clone()).collect();
    let there = found["steps"].as_array().expect("rows").iter();
    assert_eq!(there.map(|row| row[2].clone()).collect::<Vec<_>>(), steps);
}
