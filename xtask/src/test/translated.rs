//! Tests for a platform that this machine is not: compiled by another compiler, run by a translator. Both
//! are installed where we may; where one is missing, the step says that it is skipped.

use crate::nightly;
use crate::steps::{Step, target_directory};
use crate::system::Requirement;

/// A platform, and what it takes to run tests for it.
pub struct Platform {
    pub title: &'static str,
    pub target: &'static str,
    /// The folder of its build output, inside of this machine's.
    pub folder: &'static str,
    pub tools: [Requirement; 2],
    /// Cargo's variable, and the program.
    pub linker: (&'static str, &'static str),
    pub runner: (&'static str, fn() -> &'static str),
    /// What `cargo test` is asked for.
    pub tests: &'static str,
    /// Tests that are left out, and why: those whose names contain this.
    pub left_out: &'static [(&'static str, &'static str)],
    /// What is not built, and why.
    pub not_built: &'static [(&'static str, &'static str)],
}

impl Platform {
    /// The steps; none, and a line that says why, where something is missing.
    pub fn steps(&self) -> Vec<Step> {
        if let Err(reason) = self.prepare() {
            println!("{}: skipped: {reason}", self.title);
            return Vec::new();
        }
        for (test, reason) in self.left_out.iter().chain(self.not_built) {
            println!("left out of {}: {test}: {reason}", self.title);
        }
        vec![self.step()]
    }

    fn prepare(&self) -> Result<(), String> {
        if !nightly::has_source() {
            return Err("no nightly with rust-src".to_owned());
        }
        self.tools.iter().try_for_each(Requirement::require)
    }

    /// The standard library is compiled from its source, so that nothing is downloaded.
    fn step(&self) -> Step {
        let Self { target, folder, tests, .. } = self;
        let arguments = format!("run nightly cargo test -Zbuild-std --target {target} {tests}");
        let step = Step::rustup(self.title, &arguments)
            .env("CARGO_TARGET_DIR", &target_directory().join(folder).to_string_lossy())
            .env(self.linker.0, self.linker.1)
            .env(self.runner.0, (self.runner.1)())
            .argument("--");
        let skip = |step: Step, name: &str| step.argument("--skip").argument(name);
        self.left_out.iter().fold(step, |step, (name, _)| skip(step, name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{aarch64, windows};
    use crate::libtorch::workspace;

    /// All Rust of a folder.
    fn source_of(folder: &Path, source: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                source_of(&path, source);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                source.push_str(&fs::read_to_string(path).expect("text"));
            }
        }
    }

    #[test]
    fn what_is_left_out_is_there() {
        for platform in [aarch64::platform(), windows::platform()] {
            let mut source = String::new();
            let packages = platform.tests.split_whitespace();
            for package in packages.filter(|word| word.starts_with("mlprof-")) {
                let folder = if package == "mlprof-core" { "profiler-core" } else { package };
                source_of(&workspace().join(folder), &mut source);
            }
            for (test, _) in platform.left_out {
                let name = test.rsplit("::").next().expect("a name");
                let is_there = ["fn", "mod"].iter().any(|item| {
                    [format!("{item} {name}("), format!("{item} {name};")]
                        .iter()
                        .any(|it| source.contains(it.as_str()))
                });
                assert!(is_there, "{}: there is no test {test}", platform.title);
            }
        }
    }
}
