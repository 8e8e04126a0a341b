//! A temporary folder for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// The folder, which is removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a new empty folder.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("mlprof-xtask-{name}-{}-{count}", process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
