//! `cargo xtask bench fleet`: measures queries over the traces of a hundred ranks.

use std::process::Command;

use super::python;
use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::{cargo, target_directory};

/// Builds the commands as for installation, and runs the measuring program with `arguments`.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut mlprof = cargo();
    mlprof.args(["build", "--release", "-p", "mlprof", "--features", "parquet"]);
    let mut sql = cargo();
    sql.args(["build", "--release", "--manifest-path"]);
    sql.arg(workspace().join("mlprof-sql/Cargo.toml"));
    sql.arg("--target-dir").arg(target_directory());
    for build in [mlprof, sql] {
        super::succeed(build)?;
    }
    let program = |name: &str| target_directory().join("release").join(name);
    let mut measure = Command::new(Environment::sql_engines().interpreter()?);
    measure.arg("-B").arg(python::folder().join("fleet.py"));
    measure.arg("--mlprof").arg(program("mlprof")).arg("--sql").arg(program("mlprof-sql"));
    measure.args(arguments);
    super::succeed(measure)
}
