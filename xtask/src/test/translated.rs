//! Runs tests for another platform: a cross-compiler builds them, and an emulator runs them. Both
//! are installed if permitted. Otherwise, a message states that the step is skipped.

use crate::nightly;
use crate::steps::{Step, target_directory};
use crate::system::Requirement;

/// A platform with the tools for its tests.
pub struct Platform {
    pub title: &'static str,
    pub target: &'static str,
    /// Folder of the build output inside the host's build folder.
    pub folder: &'static str,
    pub tools: [Requirement; 2],
    /// Cargo's variable for the linker, and the linker.
    pub linker: (&'static str, &'static str),
    pub runner: (&'static str, fn() -> &'static str),
    /// Arguments of `cargo test`.
    pub tests: &'static str,
    /// Excluded tests with reasons. Each entry is a part of the test name.
    pub left_out: &'static [(&'static str, &'static str)],
    /// Packages or targets that are not built, with reasons.
    pub not_built: &'static [(&'static str, &'static str)],
}

impl Platform {
    /// Returns the steps. If a tool is missing, prints the reason and returns none.
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

    /// Returns the test step. The standard library is compiled from source, so that nothing is
    /// downloaded.
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

    /// Appends all Rust sources of a folder to `source`.
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
    fn omitted_tests_exist() {
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
