//! `cargo xtask libtorch`: locates or creates the libtorch for tch.

mod install;
mod locate;
#[cfg(test)]
pub mod scratch;
pub mod version;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

pub use install::cache;
use locate::{Choice, Directory};
use version::Release;

/// The variable with the dynamic linker's first search path.
const LIBRARY_PATH: &str =
    if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

/// A libtorch with the required version.
#[derive(Debug)]
pub struct Libtorch {
    /// Description of its source.
    origin: String,
    /// Value for `LIBTORCH`; `None` if `LIBTORCH_USE_PYTORCH` selects the libtorch.
    root: Option<PathBuf>,
    library: PathBuf,
    /// Variables that must be unset, because torch-sys would prefer them.
    unset: &'static [&'static str],
}

/// Environment variables of a command. Those without a value are removed.
pub type Variables = Vec<(&'static str, Option<OsString>)>;

impl Libtorch {
    /// Returns the libtorch for the tch version in the workspace's Cargo.lock.
    pub fn of_workspace() -> Result<Self, String> {
        Self::find(locked_release()?)
    }

    /// Returns the user's libtorch if its version matches, or otherwise a newly created one.
    pub fn named_or_made(release: &Release) -> Result<Self, String> {
        Self::named(release).ok().flatten().map_or_else(|| Self::made(release), Ok)
    }

    /// Returns the user's libtorch, which must be valid, or creates one if the user selected none.
    fn find(release: &Release) -> Result<Self, String> {
        Self::named(release)?.map_or_else(|| Self::made(release), Ok)
    }

    fn named(release: &Release) -> Result<Option<Self>, String> {
        let variable = |name: &str| env::var_os(name);
        // torch-sys's build script evaluates the same variable.
        let any_version = variable("LIBTORCH_BYPASS_VERSION_CHECK").is_some();
        match locate::choose(variable) {
            Choice::Directory(root) => {
                let directory = Directory::new(&root, variable);
                directory.check(release, any_version)?;
                Ok(Some(Self {
                    origin: format!("LIBTORCH={}", directory.root.display()),
                    root: Some(directory.root),
                    library: directory.library,
                    // torch-sys would prefer Python's libtorch.
                    unset: &["LIBTORCH_USE_PYTORCH"],
                }))
            }
            Choice::Python => {
                let library = locate::python_library(release, any_version)?;
                let origin = format!("LIBTORCH_USE_PYTORCH, found in {}", library.display());
                Ok(Some(Self { origin, root: None, library, unset: &["LIBTORCH"] }))
            }
            Choice::Make => Ok(None),
        }
    }

    fn made(release: &Release) -> Result<Self, String> {
        let root = install::directory(release)?;
        Ok(Self {
            origin: format!("{}, built from PyPI's torch", root.display()),
            library: root.join("lib"),
            root: Some(root),
            unset: &["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB"],
        })
    }

    /// Returns the environment variables with which cargo builds and runs programs that use tch.
    pub fn variables(&self) -> Variables {
        self.variables_before(env::var_os(LIBRARY_PATH))
    }

    fn variables_before(&self, library_path: Option<OsString>) -> Variables {
        let mut path = self.library.clone().into_os_string();
        if let Some(others) = library_path.filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        let mut variables: Variables = self.unset.iter().map(|name| (*name, None)).collect();
        variables.extend(self.root.iter().map(|root| ("LIBTORCH", Some(root.into()))));
        variables.push((LIBRARY_PATH, Some(path)));
        variables
    }

    /// Returns the variables as lines for a shell's `eval`. The shell's own library path is
    /// extended, not the one that cargo set for this program.
    fn shell_lines(&self, is_set: impl Fn(&str) -> bool) -> String {
        let unset = self.unset.iter().filter(|name| is_set(name));
        let mut lines: String = unset.map(|name| format!("unset {name}\n")).collect();
        if let Some(root) = &self.root {
            lines.push_str(&format!("export LIBTORCH={}\n", quoted(root)));
        }
        let library = quoted(&self.library);
        lines.push_str(&format!(
            "export {LIBRARY_PATH}={library}\"${{{LIBRARY_PATH}:+:${LIBRARY_PATH}}}\"\n"
        ));
        lines
    }
}

/// Prints the environment for building and running programs that use tch with plain cargo, for the
/// version in Cargo.lock or for `tch`.
pub fn print(tch: Option<&str>) -> Result<(), String> {
    let release = tch.map_or_else(locked_release, version::of_tch)?;
    let libtorch = Libtorch::find(release)?;
    let Release { tch, libtorch: version, .. } = release;
    eprintln!("for tch {tch}, which needs libtorch {version}: {}", libtorch.origin);
    print!("{}", libtorch.shell_lines(|name| env::var_os(name).is_some()));
    Ok(())
}

/// Returns the folder of the workspace.
pub fn workspace() -> &'static Path {
    static WORKSPACE: LazyLock<PathBuf> = LazyLock::new(|| {
        // The value is read at run time, because two clones may share a target directory and
        // therefore this program.
        let own =
            env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&own).parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
    });
    &WORKSPACE
}

fn locked_release() -> Result<&'static Release, String> {
    // Cargo has created the file when it built this program.
    let path = workspace().join("Cargo.lock");
    let lock = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    version::locked(&lock)
}

/// Quotes a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn libtorch(root: Option<&str>, library: &str) -> Libtorch {
        Libtorch {
            origin: String::new(),
            root: root.map(PathBuf::from),
            library: library.into(),
            unset: &["LIBTORCH_USE_PYTORCH"],
        }
    }

    #[test]
    fn its_libraries_come_first_and_others_stay() {
        let variables =
            |path: &str| libtorch(Some("/t"), "/t/lib").variables_before(Some(path.into()));
        let expected = |path: &str| -> Variables {
            vec![
                ("LIBTORCH_USE_PYTORCH", None),
                ("LIBTORCH", Some("/t".into())),
                (LIBRARY_PATH, Some(path.into())),
            ]
        };
        assert_eq!(variables("/a:/b"), expected("/t/lib:/a:/b"));
        // An empty entry would stand for the current folder.
        assert_eq!(variables(""), expected("/t/lib"));
        let python = libtorch(None, "/p/lib").variables_before(None);
        assert_eq!(python[1..], [(LIBRARY_PATH, Some("/p/lib".into()))]);
    }

    #[test]
    fn a_shell_understands_the_lines() {
        let lines = libtorch(Some("/it's $HOME"), "/it's $HOME/lib").shell_lines(|_| true);
        let script = format!(
            "{lines}printf '%s|%s|%s' \"$LIBTORCH\" \"${LIBRARY_PATH}\" \
             \"${{LIBTORCH_USE_PYTORCH-none}}\""
        );
        let say = |old: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).env(LIBRARY_PATH, old).env("LIBTORCH_USE_PYTORCH", "1");
            String::from_utf8(shell.output().expect("a shell").stdout).expect("text")
        };
        assert_eq!(say("/a"), "/it's $HOME|/it's $HOME/lib:/a|none");
        assert_eq!(say(""), "/it's $HOME|/it's $HOME/lib|none");
        let nothing_set = libtorch(None, "/p/lib").shell_lines(|_| false);
        assert_eq!(nothing_set.lines().count(), 1, "{nothing_set}");
    }
}
