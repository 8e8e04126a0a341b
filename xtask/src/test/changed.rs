//! Changed files according to git.

use std::collections::BTreeSet;
use std::process::Command;

/// Returns the files that differ from a commit or branch, and the untracked files.
pub fn changed_files(since: &str) -> Result<Vec<String>, String> {
    let mut files: BTreeSet<String> = BTreeSet::new();
    for arguments in
        [&["diff", "--name-only", since, "--"][..], &["ls-files", "--others", "--exclude-standard"]]
    {
        let output = Command::new("git").args(arguments).output();
        let output =
            output.map_err(|error| format!("git cannot be asked what changed: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "git cannot say what changed since {since}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        files.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    }
    Ok(files.into_iter().collect())
}
