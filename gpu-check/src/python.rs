//! Runs Python programs and parses their results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::options::Options;

/// Returns a Python whose PyTorch supports CUDA, or the reason why there is none.
pub fn with_torch(options: &Options) -> Result<PathBuf, String> {
    let python = options.python.clone().unwrap_or_else(|| PathBuf::from("python3"));
    let probe = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)";
    let mut command = Command::new(&python);
    command.args(["-c", probe]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(python),
        _ => Err("no Python whose PyTorch supports CUDA; give one with --python".to_owned()),
    }
}

/// Runs a script and parses the last line of its output as JSON.
pub fn ask(python: &Path, script: &str, arguments: &[&Path]) -> Result<Value, String> {
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output");
        return Err(format!("{} failed ({}): {last}", python.display(), output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .map_err(|error| format!("cannot parse Python's output {last:?}: {error}"))
}

/// Returns a number from a script's result.
pub fn number(answer: &Value, name: &str) -> Result<f64, String> {
    answer[name].as_f64().ok_or_else(|| format!("Python's output has no number {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_failures_are_named() {
        let python = Path::new("python3");
        let script =
            "import sys; print('first'); print('{\"a\": 1.5, \"b\": \"' + sys.argv[1] + '\"}')";
        let answer = ask(python, script, &[Path::new("x")]).expect("an answer");
        assert_eq!((number(&answer, "a"), answer["b"].as_str()), (Ok(1.5), Some("x")));
        assert!(number(&answer, "b").is_err() && number(&answer, "c").is_err());
        let error = ask(python, "raise ValueError('three')", &[]).expect_err("it fails");
        assert!(error.ends_with("ValueError: three"), "{error}");
        let error = ask(python, "print('no JSON')", &[]).expect_err("no JSON");
        assert!(error.starts_with("cannot parse Python's output \"no JSON\""), "{error}");
        assert!(ask(Path::new("no-such-python"), "", &[]).is_err());
    }
}
