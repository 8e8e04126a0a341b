//! Environment variables of a process of a run.

use std::ffi::OsStr;

use crate::output;
use mlprof_events::run::RunSettings;

/// Restores the environment variables that `mlprof run` changed for cargo only.
pub(super) fn restore(settings: &RunSettings) {
    let mut left: Vec<&str> = Vec::new();
    for (name, value) in &settings.environment {
        let now = std::env::var_os(name);
        if now == *value {
            continue; // another copy of this crate has already restored it
        }
        // A linked library may have started threads when it was loaded. An existing variable can
        // still be changed. A new one makes the C library move its list, which another thread may
        // be reading.
        if now.is_none() && threads() != Some(1) {
            left.push(name);
            continue;
        }
        // SAFETY: other threads must not read the environment while it moves. There are two cases:
        //
        // - No other thread exists.
        // - The variable exists. The C library then stores one pointer or moves pointers down
        //   within the list, and frees neither strings nor the list. Concurrent readers see strings
        //   that stay valid.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
    if !left.is_empty() {
        output::say(format_args!(
            "mlprof: cannot restore the value of {} from before the build: a library has started \
             threads before `main`",
            left.join(", ")
        ));
    }
}

/// Returns the number of threads of this process, if the system provides it.
fn threads() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    Some(tasks.flatten().count())
}

/// Returns `true` if this process is a build script, or a compiler that has loaded a procedural
/// macro. Such a process was started by the build and not by the user.
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

    /// Uses the test harness's threads to represent a program with libraries that have started
    /// threads.
    #[test]
    fn with_other_threads_no_variable_is_added() {
        assert!(threads().is_some_and(|threads| threads > 1));
        let name = "MLPROF_TEST_ADDED".to_owned();
        let environment = BTreeMap::from([(name.clone(), Some("value".into()))]);
        restore(&RunSettings { environment, ..RunSettings::default() });
        assert!(std::env::var_os(name).is_none());
    }
}
