//! Files that grow as long as their process runs.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use super::bounded_write::{BoundedFile, write_all};
use super::guarded::GuardedFile;
use super::temporary::TemporaryFile;
use super::{create_parent, durability, target};

/// A file that grows piece by piece and is readable at any time: also after its process was killed
/// it ends with a whole piece, unless that happens within a write.
#[derive(Debug)]
pub struct GrowingFile(Place);

#[derive(Debug)]
enum Place {
    /// A pipe or a device.
    InPlace(BoundedFile),
    File {
        file: GuardedFile,
        length: u64,
    },
}

impl GrowingFile {
    /// Begins a file with a first piece; its folders are created if need be. An older file of the
    /// name is replaced once that piece is on the disk.
    ///
    /// # Errors
    ///
    /// Those of the file system. The older file is then what it was.
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

    /// Adds a piece. Where it does not fit the file is cut back to the end of the piece before.
    ///
    /// # Errors
    ///
    /// Those of the file system, and if the program has closed the file's descriptor.
    pub fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Place::InPlace(file) => io::Write::write_all(file, piece),
            Place::File { file, length } => {
                let file = file.get()?;
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
    /// What the system reports only now: network file systems and quotas have had no room for the
    /// data.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0 {
            Place::InPlace(file) => durability::sync(file.file()),
            Place::File { file, .. } => durability::sync(file.get()?),
        }
    }
}

fn cut(mut file: &File, length: u64) {
    // Readers understand a last piece that is cut off, if this fails.
    let _ = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
}
