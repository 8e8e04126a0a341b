//! Location and interpreter of the digits programs for Lightning.

use std::path::PathBuf;

use crate::libtorch::workspace;
use crate::python::Environment;

/// Returns the folder with the programs and their requirements.
pub fn folder() -> PathBuf {
    workspace().join("benches/python")
}

/// Returns an interpreter with PyTorch and Lightning.
pub fn interpreter() -> Result<PathBuf, String> {
    let environment = Environment {
        name: "python-digits",
        requirements: folder().join("requirements.txt"),
        announcement: "PyTorch and Lightning, 3 GB to download, 6 GB of disk; --only candle \
                       --only tch omits them",
    };
    environment.interpreter()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::system;

    #[test]
    fn the_arithmetic_in_python_is_right() {
        system::PYTHON.require().expect("the tests need Python");
        let mut tests = Command::new("python3");
        tests.args(["-B", "-m", "unittest", "-v", "test_pairs", "test_analysis"]);
        let output = tests.current_dir(folder()).output().expect("there is a Python");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && report.contains("Ran 8 tests"), "{report}");
    }
}
