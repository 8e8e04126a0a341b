//! Locates a libtorch that the user selects with `LIBTORCH` or `LIBTORCH_USE_PYTORCH`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::version::{self, Release};

/// Source of libtorch.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// The folder in `LIBTORCH`.
    Directory(PathBuf),
    /// The PyTorch of the Python in the search path. Selected if `LIBTORCH_USE_PYTORCH` is set to
    /// any value.
    Python,
    /// A libtorch that xtask creates, because none is selected.
    Make,
}

/// Returns the source that the environment selects.
pub fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Choice {
    match variable("LIBTORCH") {
        Some(directory) if !directory.is_empty() => Choice::Directory(directory.into()),
        _ if variable("LIBTORCH_USE_PYTORCH").is_some() => Choice::Python,
        _ => Choice::Make,
    }
}

/// A folder selected by the user, with the locations of its parts. torch-sys accepts other parent
/// folders of `include` and `lib` in `LIBTORCH_INCLUDE` and `LIBTORCH_LIB`.
pub struct Directory {
    /// Absolute path of the folder, because build scripts run in other folders.
    pub root: PathBuf,
    include: PathBuf,
    /// The folder of the libraries.
    pub library: PathBuf,
}

impl Directory {
    /// Creates the value from the three environment variables.
    pub fn new(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let part = |name: &str, folder: &str| {
            let parent = variable(name).map_or_else(|| root.clone(), PathBuf::from);
            parent.join(folder)
        };
        let include = part("LIBTORCH_INCLUDE", "include");
        let library = part("LIBTORCH_LIB", "lib");
        Self { root, include, library }
    }

    /// Returns an error if the folder is unusable.
    pub fn check(&self, release: &Release, any_version: bool) -> Result<(), String> {
        let root = self.root.display();
        let Release { tch, libtorch, .. } = release;
        let remedy = format!(
            "set LIBTORCH to a libtorch {libtorch}, or unset it, and xtask builds one from PyPI's \
             torch"
        );
        if !self.root.is_dir() {
            return Err(format!(
                "cannot use LIBTORCH={root}: it is not a folder. tch {tch} needs libtorch \
                 {libtorch}: {remedy}"
            ));
        }
        let header = self.include.join("torch");
        for needed in [&self.library, &header] {
            if !needed.is_dir() {
                let needed = needed.display();
                return Err(format!(
                    "cannot use LIBTORCH={root}: it contains no libtorch, because {needed} is \
                     missing. tch {tch} needs libtorch {libtorch}: {remedy}"
                ));
            }
        }
        match self.version() {
            Some(version) if version != *libtorch && !any_version => {
                let found = format!("LIBTORCH ({root}) is libtorch");
                Err(version::mismatch(&found, &version, release, &remedy))
            }
            Some(_) => Ok(()),
            None => {
                eprintln!(
                    "warning: cannot determine the version of LIBTORCH ({root}); xtask \
                           assumes {libtorch}"
                );
                Ok(())
            }
        }
    }

    fn version(&self) -> Option<String> {
        let stamp = fs::read_to_string(self.root.join("build-version")).ok();
        stamp.as_deref().and_then(version::without_build).map(str::to_owned).or_else(|| {
            let headers = ["headeronly/version.h", "csrc/api/include/torch/version.h"];
            headers.iter().find_map(|header| {
                let header = self.include.join("torch").join(header);
                version::of_header(&fs::read_to_string(header).ok()?)
            })
        })
    }
}

/// Returns the library folder of the PyTorch that torch-sys would find.
pub fn python_library(release: &Release, any_version: bool) -> Result<PathBuf, String> {
    // torch-sys's build script makes the same choice.
    let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
    let script = "import torch, os; print(torch.__version__); \
                  print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";
    let output = Command::new(python).args(["-c", script]).output();
    let answer = output.ok().filter(|output| output.status.success());
    let answer = answer.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    python_answer(python, answer.as_deref(), release, any_version)
}

fn python_answer(
    python: &str,
    answer: Option<&str>,
    release: &Release,
    any_version: bool,
) -> Result<PathBuf, String> {
    let Release { tch, libtorch, .. } = release;
    let remedy = format!(
        "install torch=={libtorch} there with pip, or unset LIBTORCH_USE_PYTORCH, and xtask \
         builds a libtorch from PyPI's torch"
    );
    let mut lines = answer.unwrap_or_default().lines();
    let (Some(version), Some(library)) = (lines.next(), lines.next()) else {
        return Err(format!(
            "cannot use LIBTORCH_USE_PYTORCH: `{python}` cannot import torch. tch {tch} needs \
             PyTorch {libtorch}: {remedy}"
        ));
    };
    let version = version::without_build(version).unwrap_or(version);
    if version != *libtorch && !any_version {
        let found = format!("LIBTORCH_USE_PYTORCH is set and `{python}` has PyTorch");
        return Err(version::mismatch(&found, version, release, &remedy));
    }
    Ok(PathBuf::from(library))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::super::version::RELEASES;
    use super::*;

    fn variables<'a>(
        pairs: &'a [(&'a str, &'a str)],
    ) -> impl Fn(&str) -> Option<OsString> + use<'a> {
        |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn libtorch_goes_before_python_and_python_before_making() {
        let choose = |pairs| choose(variables(pairs));
        let both = [("LIBTORCH", "/opt/t"), ("LIBTORCH_USE_PYTORCH", "1")];
        assert_eq!(choose(&both), Choice::Directory("/opt/t".into()));
        assert_eq!(choose(&both[1..]), Choice::Python);
        // torch-sys checks only if the variable is set, not its value.
        assert_eq!(choose(&[("LIBTORCH_USE_PYTORCH", "")]), Choice::Python);
        assert_eq!(choose(&[("LIBTORCH", "")]), Choice::Make);
        assert_eq!(choose(&[]), Choice::Make);
    }

    fn libtorch(scratch: &Scratch, file: &str, content: &str) -> Directory {
        let root = scratch.path();
        fs::create_dir_all(root.join("lib")).expect("a folder");
        let file = root.join(file);
        fs::create_dir_all(root.join("include/torch")).expect("a folder");
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
        fs::write(file, content).expect("a file");
        Directory::new(root, variables(&[]))
    }

    const HEADER: &str = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n\
        #define TORCH_VERSION_PATCH 1\n";

    #[test]
    fn the_right_version_passes_and_a_wrong_one_is_named() {
        let scratch = Scratch::new("locate-version");
        let right = libtorch(&scratch, "build-version", "2.9.0+cpu\n");
        assert_eq!(right.check(&RELEASES[0], false), Ok(()));
        let message = right.check(&RELEASES[3], false).expect_err("another is needed");
        assert!(message.contains("is libtorch 2.9.0, but tch 0.26.0 needs 2.13.0: "), "{message}");
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(right.check(&RELEASES[3], true), Ok(()));
    }

    #[test]
    fn without_a_build_version_the_headers_tell() {
        for header in ["headeronly/version.h", "csrc/api/include/torch/version.h"] {
            let scratch = Scratch::new("locate-header");
            let old = libtorch(&scratch, &format!("include/torch/{header}"), HEADER);
            let message = old.check(&RELEASES[0], false).expect_err("too old");
            assert!(message.contains("is libtorch 2.4.1, but tch 0.22.0 needs 2.9.0"), "{message}");
        }
        let scratch = Scratch::new("locate-nothing");
        let unknown = libtorch(&scratch, "include/torch/nothing.h", "");
        assert_eq!(unknown.check(&RELEASES[0], false), Ok(()));
    }

    #[test]
    fn a_folder_that_is_missing_or_holds_no_libtorch_is_named() {
        let scratch = Scratch::new("locate-empty");
        let check = |path: &Path, pairs| {
            let directory = Directory::new(path, variables(pairs));
            directory.check(&RELEASES[0], false).expect_err("there is nothing")
        };
        let message = check(&scratch.path().join("gone"), &[]);
        assert!(message.contains("gone: it is not a folder. tch 0.22.0 needs"), "{message}");
        let message = check(scratch.path(), &[]);
        assert!(message.contains("lib is missing. tch 0.22.0 needs libtorch 2.9.0"), "{message}");
        fs::create_dir(scratch.path().join("lib")).expect("a folder");
        assert!(check(scratch.path(), &[]).contains("include/torch is missing"));
        assert!(check(scratch.path(), &[("LIBTORCH_LIB", "/no")]).contains("/no/lib is missing"));
    }

    #[test]
    fn a_relative_folder_is_made_absolute() {
        let directory = Directory::new(Path::new("libtorch"), variables(&[]));
        assert!(directory.root.is_absolute());
        assert!(directory.library.ends_with("libtorch/lib"), "{:?}", directory.library);
    }

    #[test]
    fn pythons_answer_is_checked_too() {
        let ask = |answer, any| python_answer("python3", answer, &RELEASES[0], any);
        assert_eq!(ask(Some("2.9.0+cu128\n/p/lib\n"), false), Ok(PathBuf::from("/p/lib")));
        let message = ask(Some("2.4.0\n/p/lib\n"), false).expect_err("too old");
        assert!(message.contains("PyTorch 2.4.0, but tch 0.22.0 needs 2.9.0: "), "{message}");
        assert_eq!(ask(Some("2.4.0\n/p/lib\n"), true), Ok(PathBuf::from("/p/lib")));
        assert!(ask(None, false).expect_err("no torch").contains("cannot import torch"));
    }
}
