//! `cargo xtask test sql`, `cluster` and `spark`: SQL over traces, and whether other engines give the same answers.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::{Step, target_directory};
use crate::system::JAVA;

/// Names a Python that has the engines to the tests.
const PYTHON: &str = "MLPROF_TEST_ENGINES";
/// Names a Python that has a server that speaks S3's protocol.
const STORE: &str = "MLPROF_TEST_STORE";
const NAMES: &str = "MLPROF_TEST_ENGINE_NAMES";

/// Tests, the same questions to other engines, and tables that lie in S3.
pub fn steps() -> Vec<Step> {
    let step = step("SQL over traces");
    let engines = Environment::sql_engines();
    let environments = [(PYTHON, engines, "beside other engines"), (STORE, store(), "in S3")];
    vec![step.variables(&interpreters(environments)).beside()]
}

/// The same by a cluster of Ballista: a scheduler and executors that are processes of their own, of which one is killed on
/// the way. Its crates are built for this alone.
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

/// Names the interpreters of environments to tests, which leave out those that cannot be made.
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

/// The same on Spark, by itself, with two executors that are processes of their own, and with one of these killed on the way.
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

/// Tests, and lints in the same build: to check DataFusion's crates besides would take as long again.
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
