//! Names under which cargo starts this program instead of its own tools.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files::{self, TemporaryFolder};

/// Tool that cargo starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Compiler wrapper. The first argument is the compiler, under any name.
    RustcWrapper,
    /// Documentation compiler, which also compiles and runs documentation examples.
    Rustdoc,
    /// Cargo itself, as scripts find it in `PATH`.
    Cargo,
}

impl Tool {
    const ALL: [Self; 3] = [Self::RustcWrapper, Self::Rustdoc, Self::Cargo];

    const fn name(self) -> &'static str {
        match self {
            Self::RustcWrapper => "mlprof-rustc-wrapper",
            Self::Rustdoc => "mlprof-rustdoc",
            Self::Cargo => "cargo",
        }
    }

    /// Returns the tool that this process replaces, based on the name it was started with.
    pub fn of_process(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?;
        Self::ALL.into_iter().find(|tool| name == tool.name())
    }

    /// Links this program into `folder` under the tool's name. The path is the same in each run, so
    /// cargo can reuse its cached compiler information.
    ///
    /// # Errors
    ///
    /// Returns an error if the link cannot be created.
    pub fn install(self, folder: &Path) -> io::Result<PathBuf> {
        let link = folder.join(self.name());
        let program = std::env::current_exe()?;
        if std::fs::read_link(&link).is_ok_and(|linked| linked == program) {
            return Ok(link);
        }
        // The link of another version is replaced atomically, so a running cargo always finds it.
        let temporary = TemporaryFolder::within(folder)?;
        let new = temporary.path().join(self.name());
        files::link_or_copy(&program, &new)?;
        std::fs::rename(new, &link)?;
        Ok(link)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_recognised_by_its_link_which_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        for tool in Tool::ALL {
            std::os::unix::fs::symlink("/nowhere", folder.path().join(tool.name()))
                .expect("a link");
            for _ in 0..2 {
                let link = tool.install(folder.path()).expect("installed");
                assert_eq!(std::fs::read_link(&link).ok(), std::env::current_exe().ok());
                assert_eq!(Tool::of_process(link.as_os_str()), Some(tool));
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), Tool::ALL.len());
        assert_eq!(Tool::of_process("/bin/mlprof".as_ref()), None);
    }
}
