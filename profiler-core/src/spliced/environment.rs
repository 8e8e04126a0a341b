//! The environment variables of a process of a run.

use std::ffi::OsStr;

use crate::output;
use mlprof_events::run::RunSettings;

/// What `mlprof run` told cargo is not meant for the program.
pub(super) fn restore(settings: &RunSettings) {
    let mut left: Vec<&str> = Vec::new();
    for (name, value) in &settings.environment {
        let now = std::env::var_os(name);
        if now == *value {
            continue; // another copy of this crate was here before
        }
        // A library that the program is linked with may have started threads when it was loaded. A
        // variable that is there can be changed all the same; one that is not makes C's library
        // move its list, under the eyes of a reader.
        if now.is_none() && threads() != Some(1) {
            left.push(name);
            continue;
        }
        // SAFETY: either no other thread is there that could read the environment; or the variable
        // is, and C's library stores one pointer for it, or moves pointers down within the list,
        // and frees neither texts nor list, so another thread reads texts that stay.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
    if !left.is_empty() {
        output::say(format_args!(
            "mlprof: cannot give the program back what {} was before the build: a library has started threads before `main`",
            left.join(", ")
        ));
    }
}

/// The threads of this process, where the system says how many there are.
fn threads() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    Some(tasks.flatten().count())
}

/// Whether this process is a build script, or a compiler that has loaded a procedural macro: it was
/// started while the program was built, not by the user.
pub(super) fn is_part_of_a_build() -> bool {
    let is_build_script =
        ["HOST", "NUM_JOBS", "OPT_LEVEL"].iter().all(|name| std::env::var_os(name).is_some());
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    is_build_script || ["rustc", "rustdoc", "clippy-driver"].contains(&program)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The test harness has other threads, as a program has whose libraries have started some.
    #[test]
    fn with_other_threads_no_variable_is_added() {
        assert!(threads().is_some_and(|threads| threads > 1));
        let name = "MLPROF_TEST_ADDED".to_owned();
        let environment = BTreeMap::from([(name.clone(), Some("value".into()))]);
        restore(&RunSettings { environment, ..RunSettings::default() });
        assert!(std::env::var_os(name).is_none());
    }
}
