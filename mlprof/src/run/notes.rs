//! Messages from the compiler processes of a run, each printed only once.

use std::io;
use std::path::Path;

use super::say;
use mlprof_instrument::Fingerprint;

/// Name of the folder that stores the printed subjects, inside the folder of a run.
const NOTES: &str = "notes";

/// Prints a message, unless another compiler process of the run has already printed one on the same
/// `subject`.
pub fn say_once(run: &Path, subject: &str, text: &str) {
    if is_new(run, subject).unwrap_or(true) {
        say(text);
    }
}

/// Records a subject and returns `true` if it was not recorded before.
fn is_new(run: &Path, subject: &str) -> io::Result<bool> {
    let folder = run.join(NOTES);
    std::fs::create_dir_all(&folder)?;
    let name = Fingerprint::default().with(subject.as_bytes()).number();
    // Creating a folder is atomic, so only one process succeeds.
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
