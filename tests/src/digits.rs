//! Output that all examples on the digits have in common.

use std::path::Path;

/// Returns the percentage in the last line, `test accuracy: 97.2 %`.
pub fn test_accuracy(stdout: &str) -> f64 {
    let last = stdout.lines().last().unwrap_or_default();
    let number = last.strip_prefix("test accuracy: ").and_then(|rest| rest.strip_suffix(" %"));
    let number = number.unwrap_or_else(|| panic!("the last line is {last:?}"));
    let (_, decimals) = number.split_once('.').expect("one decimal");
    assert_eq!(decimals.len(), 1, "{last:?}");
    number.parse().unwrap_or_else(|_| panic!("no number in {last:?}"))
}

/// Returns the names of the files in a directory, sorted.
pub fn file_names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a readable directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
