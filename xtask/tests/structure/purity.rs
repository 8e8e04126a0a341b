//! Checks that reports and traces depend only on their inputs. They must not read a clock or
//! process-wide state.

use std::path::Path;

/// Calls that would read such state.
const LOOKS: [&str; 8] = [
    "Instant::now(",
    "SystemTime::now(",
    "Utc::now(",
    "Rate::now(",
    "Clock::new(",
    "clock::ticks(",
    "mlprof_events::descriptions(",
    "mlprof_events::platform(",
];

/// Returns `true` if the files of this folder must only format their inputs. Exceptions are
/// `output/`, which writes files and takes time, and `profile/`, which holds the profiler's data
/// while a stage runs.
pub fn is_pure(file: &Path) -> bool {
    let is_in = |folder: &str| file.starts_with(folder);
    let paints = is_in("mlprof-report/src") && !is_in("mlprof-report/src/output")
        || is_in("mlprof-trace/src") && !is_in("mlprof-trace/src/profile")
        || is_in("mlprof-analysis/src");
    paints && file.extension().is_some_and(|ending| ending == "rs") && !file.ends_with("tests.rs")
}

/// Returns the places in a file that read such state, without its tests.
pub fn looks(text: &str) -> Vec<String> {
    let own = text.lines().take_while(|line| {
        !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test")
    });
    let code = (1..).zip(own).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = code.filter(|(_, line)| LOOKS.iter().any(|look| line.contains(look)));
    found.map(|(number, line)| format!("line {number}: {}", line.trim())).collect()
}

#[test]
fn a_look_at_a_clock_is_found_and_not_in_tests() {
    let text = "fn a() {}\n// Instant::now()\nlet x = Rate::now();\n#[cfg(test)]\nInstant::now()\n";
    assert_eq!(looks(text), ["line 3: let x = Rate::now();"]);
    assert!(is_pure(Path::new("mlprof-trace/src/flame/a.rs")));
    assert!(!is_pure(Path::new("mlprof-trace/src/profile/a.rs")));
    assert!(!is_pure(Path::new("mlprof-report/src/output/a.rs")));
}
