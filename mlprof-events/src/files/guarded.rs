//! Files that stay open for a long time while the program may close their descriptors.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;

/// An open file that is used and closed only while its descriptor still refers to it.
///
/// Programs that become daemons close all descriptors, and the next file that they open gets the
/// same number. Writing to that descriptor or closing it would damage the program.
#[derive(Debug)]
pub(super) struct GuardedFile {
    file: ManuallyDrop<File>,
    #[cfg(unix)]
    identity: (u64, u64),
}

impl GuardedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            identity: identity(&file)?,
            file: ManuallyDrop::new(file),
        })
    }

    /// Returns the open file.
    ///
    /// # Errors
    ///
    /// Fails if the program has closed the file's descriptor.
    pub(super) fn get(&self) -> io::Result<&File> {
        if self.is_open() {
            return Ok(&self.file);
        }
        Err(io::Error::other("the program closed the profiler's file"))
    }

    #[cfg(unix)]
    fn is_open(&self) -> bool {
        identity(&self.file).is_ok_and(|identity| identity == self.identity)
    }

    #[cfg(not(unix))]
    fn is_open(&self) -> bool {
        true
    }
}

/// Returns the device and inode numbers of the file that a descriptor refers to.
#[cfg(unix)]
fn identity(file: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    file.metadata().map(|there| (there.dev(), there.ino()))
}

impl Drop for GuardedFile {
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: `file` is initialised, only this line drops it, and it is not used
            // afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_that_the_program_has_reused_is_neither_used_nor_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let create = |name: &str| File::create(folder.path().join(name)).expect("made");
        let guarded = GuardedFile::new(create("ours")).expect("open");
        assert!(guarded.get().is_ok());
        let (theirs, number) = (create("theirs"), guarded.file.as_raw_fd());
        // SAFETY: both descriptors are open. `theirs` keeps its own descriptor.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        let error = guarded.get().expect_err("it is the program's").to_string();
        assert_eq!(error, "the program closed the profiler's file");
        drop(guarded);
        // SAFETY: the call takes a number and only reads the flags of a descriptor.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "it is still open");
        // SAFETY: the number is that of the copy made above, which is closed only here.
        unsafe { libc::close(number) };
    }
}
