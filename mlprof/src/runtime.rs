//! Runtime library for programs built under `mlprof run`. The command contains its bytes.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_report::output::write_file;

use mlprof_instrument::Fingerprint;

/// Bytes of the library. They are empty on platforms without [`run`](crate::run::run).
static LIBRARY: &[u8] = include_bytes!(env!("MLPROF_RUNTIME_LIBRARY"));

/// Writes the library into `folder` if it is missing, and returns its path. Each version has its
/// own file name, so existing programs keep their version.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let hash = Fingerprint::default().with(LIBRARY).number();
    let path = folder.join(format!("libmlprof_runtime-{hash:016x}.so"));
    let is_there = std::fs::metadata(&path).is_ok_and(|there| there.len() == LIBRARY.len() as u64);
    if !is_there {
        // The file is replaced atomically, so two runs can install it at the same time.
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
