//! The library that programs built under `mlprof run` are linked with, carried by the command.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_report::output::write_file;

use mlprof_instrument::Fingerprint;

/// Empty where [`run`](crate::run::run) is not for.
static LIBRARY: &[u8] = include_bytes!(env!("MLPROF_RUNTIME_LIBRARY"));

/// Puts the library into `folder`, if it is not there yet; where it is. Each version has a name of
/// its own, so that programs built with another one keep theirs.
///
/// # Errors
///
/// Those of the file system.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let hash = Fingerprint::default().with(LIBRARY).number();
    let path = folder.join(format!("libmlprof_runtime-{hash:016x}.so"));
    let is_there = std::fs::metadata(&path).is_ok_and(|there| there.len() == LIBRARY.len() as u64);
    if !is_there {
        // Whole or not at all, also when two of us do it at once.
        write_file(&path, |file| file.write_all(LIBRARY))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_library_is_whole_and_installed_once() {
        assert!(LIBRARY.starts_with(b"\x7fELF"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = install(folder.path()).expect("installed");
        assert_eq!(std::fs::read(&path).expect("there"), LIBRARY);
        std::fs::write(&path, b"cut").expect("written");
        assert_eq!(install(folder.path()).expect("installed"), path);
        assert_eq!(std::fs::read(&path).expect("there"), LIBRARY, "a broken one is replaced");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
