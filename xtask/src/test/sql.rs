//! `cargo xtask test sql`, `cluster` and `spark`: tests SQL over traces and compares the results
//! with other engines.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::{Step, target_directory};
use crate::system::JAVA;

/// Environment variable with the path of a Python that has the SQL engines.
const PYTHON: &str = "MLPROF_TEST_ENGINES";
/// Environment variable with the path of a Python that has an S3-compatible server.
const STORE: &str = "MLPROF_TEST_STORE";
const NAMES: &str = "MLPROF_TEST_ENGINE_NAMES";

/// Returns the steps for the tests, for the same queries in other engines, and for tables in S3.
pub fn steps() -> Vec<Step> {
    let step = step("SQL over traces");
    let engines = Environment::sql_engines();
    let environments = [(PYTHON, engines, "beside other engines"), (STORE, store(), "in S3")];
    vec![step.variables(&interpreters(environments)).beside()]
}

/// Returns the same tests on a Ballista cluster. Scheduler and executors are separate processes,
/// and one executor is killed during a query. Its crates are built only for this part.
pub fn cluster() -> Vec<Step> {
    let step =
        step("SQL over traces, by a cluster").argument("--package").argument("mlprof-sql-cluster");
    vec![step.variables(&interpreters([(STORE, store(), "by a cluster in S3")]))]
}

fn store() -> Environment {
    Environment {
        name: "python-store",
        requirements: folder().join("tests/sql/requirements-store.txt"),
        announcement: "moto, a server that speaks S3's protocol, 30 MB to download",
    }
}

/// Returns variables with the environments' interpreters. Tests skip environments that cannot be
/// created.
fn interpreters<const N: usize>(
    environments: [(&'static str, Environment, &str); N],
) -> Vec<(&'static str, Option<OsString>)> {
    let mut variables = Vec::new();
    for (variable, environment, what) in environments {
        match environment.interpreter() {
            Ok(python) => variables.push((variable, Some(python.into()))),
            Err(reason) => println!("SQL over traces {what}: skipped: {reason}"),
        }
    }
    variables
}

/// Returns the same tests on Spark: in one process, with two executor processes, and with one of
/// these killed during a query.
pub fn spark() -> Vec<Step> {
    let python = JAVA.require().and_then(|()| {
        let environment = Environment {
            name: "python-spark",
            requirements: folder().join("tests/sql/requirements-spark.txt"),
            announcement: "Spark, 490 MB to download",
        };
        environment.interpreter()
    });
    match python {
        Ok(python) => {
            let step = step("SQL over traces, by Spark")
                .env(NAMES, "spark spark-cluster spark-killed")
                .variables(&vec![(PYTHON, Some(python.into()))]);
            vec![step.argument("--test").argument("sql").argument("engines").must_run_tests()]
        }
        Err(reason) => {
            println!("SQL over traces, by Spark: skipped: {reason}");
            Vec::new()
        }
    }
}

/// Returns a step with tests and lints in the same build. A separate check of DataFusion's crates
/// would double the time.
fn step(name: &'static str) -> Step {
    Step::cargo(name, "test --profile quick --manifest-path")
        .argument(folder().join("Cargo.toml"))
        .argument("--target-dir")
        .argument(target_directory())
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-Dwarnings")
}

fn folder() -> PathBuf {
    workspace().join("mlprof-sql")
}
