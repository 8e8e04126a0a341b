//! Files that grow while their process runs.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use super::bounded_write::{BoundedFile, write_all};
use super::guarded::GuardedFile;
use super::temporary::TemporaryFile;
use super::{create_parent, durability, target};

/// A file that grows piece by piece and is readable at any time. If the process is killed, the file
/// ends with a complete piece, unless that happens during a write.
#[derive(Debug)]
pub struct GrowingFile(Place);

#[derive(Debug)]
enum Place {
    /// A pipe or a device, which is written in place.
    InPlace(BoundedFile),
    File {
        file: GuardedFile,
        length: u64,
    },
}

impl GrowingFile {
    /// Begins a file with a first piece and creates missing folders. An older file with the same
    /// name is replaced after that piece is on the disk.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system. In that case the older file is unchanged.
    pub fn create(path: &Path, first: &[u8]) -> io::Result<Self> {
        create_parent(path)?;
        if let Some(file) = target::open_in_place(path)? {
            let mut made = Self(Place::InPlace(file));
            made.append(first)?;
            return Ok(made);
        }
        let temporary = TemporaryFile::beside(path)?;
        write_all(&temporary.file, first)?;
        let file = GuardedFile::new(temporary.keep(path)?)?;
        Ok(Self(Place::File { file, length: first.len() as u64 }))
    }

    /// Appends a piece. If it does not fit, the file is truncated to the end of the previous piece.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system. Also fails if the file was removed meanwhile or the
    /// program has closed its descriptor.
    pub fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Place::InPlace(file) => io::Write::write_all(file, piece),
            Place::File { file, length } => {
                let file = file.get()?;
                check_name(file)?;
                if let Err(error) = write_all(file, piece) {
                    cut(file, *length);
                    return Err(error);
                }
                *length += piece.len() as u64;
                Ok(())
            }
        }
    }

    /// Flushes the file to the disk.
    ///
    /// # Errors
    ///
    /// Returns errors that the system reports only at this point: network file systems and quotas
    /// may lack space for the data.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0 {
            Place::InPlace(file) => durability::sync(file.file()),
            Place::File { file, .. } => durability::sync(file.get()?),
        }
    }
}

/// Returns an error if the file was removed, because data written to it would be lost when the
/// process ends.
fn check_name(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) == 0 {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed during the run"));
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

fn cut(mut file: &File, length: u64) {
    // A failure is ignored, because readers accept a truncated last piece.
    let _ = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_is_not_written_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results/record");
        let mut file = GrowingFile::create(&path, b"one\n").expect("made");
        file.append(b"two\n").expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"one\ntwo\n");
        std::fs::remove_dir_all(path.parent().expect("a folder")).expect("removed");
        let error = file.append(b"three\n").expect_err("it is gone").to_string();
        assert_eq!(error, "the file was removed during the run");
    }
}
