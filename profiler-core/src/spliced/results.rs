//! File names of a process's results.

use std::path::PathBuf;

use crate::output::shortened;
use crate::report::internals::ClaimedName;
use crate::{Output, Stage};
use mlprof_events::run::RunSettings;

/// Maximum length of the program name in result names, in bytes.
const LONGEST_PROGRAM: usize = 150;

/// Claims the name that this process's files begin with, after the stage: the program name and the
/// process id. A suffix is added if files of that name exist or another container's process is
/// writing them.
pub(super) fn claim_name(settings: &RunSettings) -> ClaimedName {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("program"));
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    // The parts after the name, such as the kind, must not be cut off.
    let program = shortened(&program, LONGEST_PROGRAM);
    let name = format!("{program}-{}", mlprof_events::process_id());
    ClaimedName::within(&settings.directory, &name, is_result)
}

/// Returns `true` if a file is a result of the process with this name.
fn is_result(file: &str, name: &str) -> bool {
    let stages = [Stage::Fit, Stage::Validate, Stage::Test, Stage::Predict, Stage::SanityCheck];
    let stage =
        stages.iter().find_map(|stage| file.strip_prefix(stage.as_str())?.strip_prefix('-'));
    [Some(file), stage].into_iter().flatten().any(|file| {
        let what = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        what.is_some_and(|what| KINDS.iter().any(|kind| what.starts_with(kind)))
    })
}

/// Kinds of results.
const KINDS: [&str; 6] = ["ops", "numerics", "functions", "memory", "lines", "samples"];

/// Returns an output that writes to `{directory}/[{stage}-]{program}-{process}-{what}.…`.
pub(super) fn output_of(settings: &RunSettings, name: &str, what: &str) -> Output {
    Output::new()
        .ignore_environment()
        .dirpath(&settings.directory)
        .filename(format!("{name}-{what}"))
        .json(true)
        .always_print(settings.prints)
        .print_to_stderr(true)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_by_their_names() {
        for file in ["app-7-ops.json", "fit-app-7-functions.txt", "app-7-ops-0.trace.json.gz"] {
            assert!(is_result(file, "app-7"), "{file}");
        }
        for file in ["my-app-7-ops.json", "app-7-2-ops.json", "app-71-ops.json", "app-7.json"] {
            assert!(!is_result(file, "app-7"), "{file}");
        }
        assert!(is_result("app-7-2-ops.json", "app-7-2"));
    }
}
