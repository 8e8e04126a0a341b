//! Starts the compiler that cargo would have called.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use super::argument_file;

/// Programs that cargo would have called: the user's wrappers and the compiler itself.
pub struct Compiler {
    programs: Vec<OsString>,
    /// Set when cargo passed the arguments in a file.
    by_file: bool,
    /// Folder for argument files, which is removed at the end of the run.
    folder: PathBuf,
}

impl Compiler {
    /// Creates the compiler command. `named` contains the programs that cargo names, and
    /// `arguments` follow them.
    ///
    /// # Errors
    ///
    /// Returns an error if the working directory is unknown.
    pub fn new(
        wrapper: Option<&Path>,
        named: Vec<OsString>,
        arguments: &[OsString],
        folder: PathBuf,
    ) -> io::Result<Self> {
        let wrapper = wrapper.map(|path| path.as_os_str().to_owned());
        let programs = wrapper.into_iter().chain(named).map(|program| in_any_folder(&program));
        let by_file = arguments.iter().any(|argument| argument_file::is_file(argument));
        Ok(Self { programs: programs.collect::<io::Result<_>>()?, by_file, folder })
    }

    /// Returns the compiler itself, without wrappers.
    pub fn program(&self) -> &OsStr {
        self.programs.last().map(OsString::as_os_str).unwrap_or_default()
    }

    /// Starts the compiler. Arguments are passed in a file if cargo did so, or if the command line
    /// would be too long.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started.
    pub fn start(
        &self,
        arguments: &[OsString],
        prepare: impl Fn(&mut Command),
    ) -> io::Result<Child> {
        let start = |arguments: &[OsString]| {
            let (program, rest) = self.programs.split_first().ok_or(io::ErrorKind::NotFound)?;
            let mut command = Command::new(program);
            command.args(rest).args(arguments);
            prepare(&mut command);
            command.spawn()
        };
        if !self.by_file {
            match start(arguments) {
                Err(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => {}
                started => return started,
            }
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.join(format!("arguments-{}-{number}", std::process::id()));
        start(&[argument_file::write(arguments, &file)?])
    }
}

/// Makes a relative program path absolute, because the compiler runs in another working directory.
/// A bare name stays unchanged.
fn in_any_folder(program: &OsStr) -> io::Result<OsString> {
    let path = Path::new(program);
    let is_below = path.is_relative() && path.components().count() > 1;
    if is_below {
        std::path::absolute(path).map(PathBuf::into_os_string)
    } else {
        Ok(program.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_too_many_for_the_system_arrive_in_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = folder.path().join("seen");
        let script = "for it in \"$@\"; do case $it in @*) cat \"${it#@}\" ;; *) echo \"$it\" ;; esac; done > \"$0\"";
        let named = ["/bin/sh".into(), "-c".into(), script.into(), seen.clone().into_os_string()];
        let run = |arguments: &[OsString], from: &[OsString]| {
            let compiler = Compiler::new(None, named.to_vec(), from, folder.path().to_owned());
            let mut child =
                compiler.expect("a compiler").start(arguments, |_| {}).expect("started");
            assert!(child.wait().expect("it ends").success());
            std::fs::read_to_string(&seen)
                .expect("arguments")
                .lines()
                .map(OsString::from)
                .collect::<Vec<_>>()
        };
        let files = || std::fs::read_dir(folder.path()).expect("a folder").count() - 1;
        let few = ["-C".into(), "link-arg=a b".into()];
        assert_eq!((run(&few, &few), files()), (few.to_vec(), 0));
        assert_eq!((run(&few, &["@file".into()]), files()), (few.to_vec(), 1));
        // A single argument may have at most 128 KiB, and all arguments together at most a quarter
        // of the stack.
        let many = vec![OsString::from("a".repeat(100_000)); 100];
        assert_eq!((run(&many, &many), files()), (many, 2));
    }
}
