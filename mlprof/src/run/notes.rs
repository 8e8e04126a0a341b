//! Remarks of a run's many compiler processes, each printed once.

use std::io;
use std::path::Path;

use super::say;
use mlprof_instrument::Fingerprint;

/// The folder of remarks, in that of a run.
const NOTES: &str = "notes";

/// Prints a remark, unless a compiler of the same run has printed one on the same `subject`
/// already.
pub fn say_once(run: &Path, subject: &str, text: &str) {
    if is_new(run, subject).unwrap_or(true) {
        say(text);
    }
}

/// Keeps a subject, and returns whether it was not kept yet.
fn is_new(run: &Path, subject: &str) -> io::Result<bool> {
    let folder = run.join(NOTES);
    std::fs::create_dir_all(&folder)?;
    let name = Fingerprint::default().with(subject.as_bytes()).number();
    // Only one process can make the folder.
    match std::fs::create_dir(folder.join(format!("{name:016x}"))) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_new_once_per_run() {
        let runs = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        for run in &runs {
            let is_new =
                ["a", "b", "a"].map(|subject| is_new(run.path(), subject).expect("a folder"));
            assert_eq!(is_new, [true, true, false]);
        }
    }
}
