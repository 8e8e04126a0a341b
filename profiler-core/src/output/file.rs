//! Writing to disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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
    write_whole(path, |file| file.write_all(content))
}

/// Has `write` write a file that a reader finds only when it is whole; see [`WholeFile`].
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut WholeFile) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    write(&mut file)?;
    file.finish()
}

/// A file that has its name only when it is whole: until [`finish`](Self::finish) a reader finds
/// what was there before, also if this process is killed. Dropped before, it was never there.
///
/// A device or a pipe has no such moment; it is written as one goes.
#[derive(Debug)]
pub(crate) struct WholeFile {
    file: File,
    path: PathBuf,
    /// Where it is until then; `None` if it is written in place.
    temporary: Option<Temporary>,
}

impl WholeFile {
    /// Begins a file; its directories are made if need be.
    fn create(path: &Path) -> io::Result<Self> {
        create_parent(path)?;
        let path = path.to_owned();
        if fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Self { file, path, temporary: None });
        }
        let temporary = Temporary::beside(&path);
        let file = File::create(&temporary.0)?;
        Ok(Self { file, path, temporary: Some(temporary) })
    }

    /// Gives the file its name, in place of an older one.
    fn finish(self) -> io::Result<()> {
        let Self { mut file, path, temporary } = self;
        file.flush()?;
        // Not every system renames a file that is open.
        drop(file);
        temporary.map_or(Ok(()), |temporary| temporary.rename(&path))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The path of a file that is gone when this is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    /// Beside the target: a rename works only within one file system. The name is short, as the
    /// target's may be as long as names can be.
    fn beside(path: &Path) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        Self(path.with_file_name(format!(".profiler-{}-{number}.tmp", std::process::id())))
    }

    fn rename(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It is not there any more if it was renamed; else nothing can be done if that fails.
        let _ = fs::remove_file(&self.0);
    }
}

fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::create_dir_all(parent),
        _ => Ok(()),
    }
}
