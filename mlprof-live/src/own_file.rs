//! A file that this process makes, makes again if it is removed, and removes at its end, but no
//! other process's.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use mlprof_events::forking::{Mutex, MutexGuard};

/// A file and the inode that it had when it was made: the same name may be another process's later.
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

    /// Remembers a file that this process has just made.
    pub(crate) fn set(&self, path: &Path) -> io::Result<()> {
        let found = path.symlink_metadata()?;
        let (device, inode) = (found.dev(), found.ino());
        *self.made() = Some(Identity { path: path.to_owned(), device, inode });
        Ok(())
    }

    /// The path, if a file was made.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.made().as_ref().map(|made| made.path.clone())
    }

    /// Returns whether the file is where it was made; true if none was.
    pub(crate) fn is_there(&self) -> bool {
        self.made().as_ref().is_none_or(Identity::is_there)
    }

    /// Removes the file, if it is still the one that was made, and forgets it.
    pub(crate) fn remove(&self) {
        if let Some(made) = self.made().take()
            && made.is_there()
        {
            // If somebody else has removed it meanwhile, it is gone as well.
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
