//! File that this process creates, restores if it is removed, and removes at its end. Files of
//! other processes are never removed.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use mlprof_events::forking::{Mutex, MutexGuard};

/// File and its inode at creation. The same name may later belong to another process.
pub(crate) struct OwnFile(Mutex<Option<Identity>>);

struct Identity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl OwnFile {
    pub(crate) const fn none() -> Self {
        Self(Mutex::new(None))
    }

    fn made(&self) -> MutexGuard<'_, Option<Identity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the identity of a file that this process has just created.
    pub(crate) fn set(&self, path: &Path) -> io::Result<()> {
        let found = path.symlink_metadata()?;
        let (device, inode) = (found.dev(), found.ino());
        *self.made() = Some(Identity { path: path.to_owned(), device, inode });
        Ok(())
    }

    /// Returns the path, if a file was created.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.made().as_ref().map(|made| made.path.clone())
    }

    /// Returns `true` if the file is still in place, or if none was created.
    pub(crate) fn is_there(&self) -> bool {
        self.made().as_ref().is_none_or(Identity::is_there)
    }

    /// Removes the file if it is still the one that was created, and clears its identity.
    pub(crate) fn remove(&self) {
        if let Some(made) = self.made().take()
            && made.is_there()
        {
            // A failure is ignored, because another process may have removed the file in the
            // meantime.
            let _ = std::fs::remove_file(&made.path);
        }
    }
}

impl Identity {
    fn is_there(&self) -> bool {
        let is_it = |found: Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        self.path.symlink_metadata().is_ok_and(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_was_made_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1.token");
        let own = OwnFile::none();
        assert!(own.is_there() && own.path().is_none());
        own.remove();
        std::fs::write(&path, "own").expect("written");
        own.set(&path).expect("it is there");
        assert!(own.is_there());
        let others = folder.path().join("other");
        std::fs::write(&others, "another process's").expect("written");
        std::fs::rename(&others, &path).expect("renamed");
        assert!(!own.is_there());
        own.remove();
        assert!(path.exists(), "it is another process's");
        own.set(&path).expect("it is there");
        own.remove();
        assert!(!path.exists() && own.path().is_none());
    }
}
