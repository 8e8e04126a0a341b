//! Writing to disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Adds `text` to the end of the file, which is made with its directories if need be. In one
/// write, so that processes that share a file do not mix their lines.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    create_parent(path)?;
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Makes the file hold exactly `content`: a reader finds either what it held before or all of
/// `content`, even if this process is killed in between.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static REPLACEMENTS: AtomicU64 = AtomicU64::new(0);
    create_parent(path)?;
    let number = REPLACEMENTS.fetch_add(1, Ordering::Relaxed);
    // Beside the target: a rename works only within one file system. The name is short, as the
    // target's may be as long as names can be.
    let temporary = path.with_file_name(format!(".profiler-{}-{number}.tmp", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Nothing more can be done if that fails too.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::create_dir_all(parent),
        _ => Ok(()),
    }
}
