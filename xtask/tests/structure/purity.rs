//! Reports and traces are made of what they are handed: they look at no clock, and at nothing that the
//! process as a whole knows.

use std::path::Path;

/// What would be a look at something that was not handed in.
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

/// Whether files of this folder only paint. `output/` writes files, which takes time, and `profile/` is
/// what the profiler keeps while a stage runs.
pub fn is_pure(file: &Path) -> bool {
    let is_in = |folder: &str| file.starts_with(folder);
    let paints = is_in("mlprof-report/src") && !is_in("mlprof-report/src/output")
        || is_in("mlprof-trace/src") && !is_in("mlprof-trace/src/profile")
        || is_in("mlprof-analysis/src");
    paints && file.extension().is_some_and(|ending| ending == "rs") && !file.ends_with("tests.rs")
}

/// Where a file looks at something, its tests aside.
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
