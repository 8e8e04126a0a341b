//! Creates a CPU-only libtorch from PyPI's torch wheel, once, in the user's cache folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io, process};

use super::version::{self, Release};
use crate::system;

const UNPACK: &str = include_str!("unpack.py");

/// Python version of the downloaded wheels, independent of the installed Python. The checksums are
/// known for this version, and using the libraries needs no Python.
const PYTHON: &str = "3.11";

/// Returns the folder of this libtorch, and creates it if needed. Of two concurrent processes, the
/// second one waits for the first.
pub fn directory(release: &Release) -> Result<PathBuf, String> {
    let cache = cache()?;
    let directory = cache.join(format!("libtorch-{}", release.libtorch));
    if is_complete(&directory, release) {
        return Ok(directory);
    }
    is_supported(release)?;
    system::PYTHON.require()?;
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let _lock = lock(&cache, release)?;
    if !is_complete(&directory, release) {
        make(&cache, &directory, release)?;
    }
    Ok(directory)
}

/// Returns the folder for downloaded files that are kept.
pub fn cache() -> Result<PathBuf, String> {
    cache_directory(|name| env::var_os(name))
}

/// Returns `MLPROF_CACHE`, or otherwise the folder `mlprof` in the user's cache folder.
fn cache_directory(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = folder("MLPROF_CACHE") {
        return std::path::absolute(&own).map_err(|error| format!("MLPROF_CACHE: {error}"));
    }
    // The XDG specification requires relative paths to be ignored.
    let xdg = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| folder("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("mlprof")).ok_or_else(|| {
        "cannot find a folder for libtorch, because neither HOME nor XDG_CACHE_HOME is set: set \
         MLPROF_CACHE to a folder"
            .to_owned()
    })
}

/// Returns `true` if the folder is complete. The folder is renamed into place when it is complete;
/// the check also detects files that were deleted later.
fn is_complete(directory: &Path, release: &Release) -> bool {
    let stamp = fs::read_to_string(directory.join("build-version")).unwrap_or_default();
    let needed = ["lib/libtorch_cpu.so", "lib/libc10.so", "lib/libtorch.so", "include/torch"];
    version::without_build(&stamp) == Some(release.libtorch)
        && needed.iter().all(|part| directory.join(part).exists())
}

fn is_supported(release: &Release) -> Result<(), String> {
    let libtorch = release.libtorch;
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Err(format!(
            "cannot build libtorch on this system, only on Linux with glibc: install \
             torch=={libtorch} with pip and set LIBTORCH_USE_PYTORCH=1, or set LIBTORCH to a \
             libtorch {libtorch}"
        ));
    }
    match env::consts::ARCH {
        "x86_64" => Ok(()),
        "aarch64" => {
            eprintln!(
                "building libtorch is untested on aarch64: if it fails, set LIBTORCH to a \
                       libtorch {libtorch}"
            );
            Ok(())
        }
        other => {
            Err(format!("PyPI has no torch for {other}: set LIBTORCH to a libtorch {libtorch}"))
        }
    }
}

/// Takes the lock, which is held until the file is closed, at the latest by the end of the process.
fn lock(cache: &Path, release: &Release) -> Result<File, String> {
    let path = cache.join(format!("libtorch-{}.lock", release.libtorch));
    let explain = |error: io::Error| {
        format!(
            "cannot use the folder {}: {error}; set MLPROF_CACHE to another folder",
            path.display()
        )
    };
    let file = File::create(&path).map_err(explain)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that builds libtorch {}", release.libtorch);
            file.lock().map_err(explain)?;
        }
        Err(TryLockError::Error(error)) => return Err(explain(error)),
    }
    Ok(file)
}

/// Creates the folder. The caller must hold the lock.
fn make(cache: &Path, directory: &Path, release: &Release) -> Result<(), String> {
    let libtorch = release.libtorch;
    let prefix = format!("libtorch-{libtorch}.partial-");
    remove_leftovers(cache, &prefix);
    let partial = Partial(cache.join(format!("{prefix}{}", process::id())));
    let explain = |error: io::Error| format!("cannot make {}: {error}", directory.display());
    fs::create_dir(&partial.0).map_err(explain)?;
    eprintln!(
        "building a CPU-only libtorch {libtorch} from PyPI's torch in {}: up to 0.9 GB to \
         download, 0.5 GB of disk",
        directory.display()
    );
    let python = virtual_environment(&partial.0)?;
    download(&python, &partial.0, release)?;
    let made = partial.0.join("libtorch");
    run(Command::new(&python).args(["-c", UNPACK]).arg(partial.0.join("wheels")).arg(&made))?;
    stub(&made.join("lib"))?;
    fs::write(made.join("build-version"), format!("{libtorch}+cpu\n")).map_err(explain)?;
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(explain)?;
    }
    fs::rename(&made, directory).map_err(explain)?;
    drop(partial);
    // A child of a killed process may have continued for some time and created more files.
    remove_leftovers(cache, &prefix);
    Ok(())
}

/// Removes the partial folders of killed processes. No other process is creating one, because the
/// caller holds the lock.
fn remove_leftovers(cache: &Path, prefix: &str) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A temporary folder that is removed when dropped. It remains only if the process is killed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a virtual environment, because some distributions package pip separately or protect the
/// system's Python.
fn virtual_environment(partial: &Path) -> Result<PathBuf, String> {
    let folder = partial.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    Ok(folder.join("bin/python"))
}

fn download(python: &Path, partial: &Path, release: &Release) -> Result<(), String> {
    let requirements = partial.join("requirements.txt");
    fs::write(&requirements, release.requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--require-hashes", "--no-deps", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .args(["--implementation", "cp", "--python-version", PYTHON]);
    // pip accepts only the given platform tags and does not include older ones.
    for glibc in (17..=28).rev() {
        pip.arg("--platform").arg(format!("manylinux_2_{glibc}_{}", env::consts::ARCH));
    }
    pip.arg("--requirement").arg(requirements).arg("--dest").arg(partial.join("wheels"));
    // pip's temporary files are as large as the wheels and may not fit into the default folder.
    pip.env("TMPDIR", partial);
    run(&mut pip).map_err(|message| {
        let libtorch = release.libtorch;
        format!("{message}; without a network, set LIBTORCH to a libtorch {libtorch}")
    })
}

/// Creates an empty `libtorch.so`, which torch-sys links. The wheel's own file would load
/// libtorch_cuda.so.
fn stub(library: &Path) -> Result<(), String> {
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-Wl,-soname,libtorch.so", "-x", "c", "/dev/null", "-o"]);
    run(compiler.arg(library.join("libtorch.so")))
}

/// Runs a command with its output on standard error.
fn run(command: &mut Command) -> Result<(), String> {
    let name = |command: &Command| -> String {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Vec<_> = words.take(4).map(OsStr::to_string_lossy).collect();
        words.join(" ").lines().next().unwrap_or_default().to_owned()
    };
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} … failed ({status})", name(command))),
        Err(error) => Err(format!("cannot run {} …: {error}", name(command))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::super::version::RELEASES;
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_wants_it() {
        let cache = |pairs: &[(&str, &str)]| {
            cache_directory(|name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let all = [("MLPROF_CACHE", "/own"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/a")];
        assert_eq!(cache(&all), Ok("/own".into()));
        assert_eq!(cache(&all[1..]), Ok("/xdg/mlprof".into()));
        assert_eq!(cache(&all[2..]), Ok("/home/a/.cache/mlprof".into()));
        let relative = [("MLPROF_CACHE", ""), ("XDG_CACHE_HOME", "xdg"), ("HOME", "/home/a")];
        assert_eq!(cache(&relative), Ok("/home/a/.cache/mlprof".into()));
        assert!(cache(&[]).expect_err("no home").contains("MLPROF_CACHE"));
    }

    #[test]
    fn only_a_whole_libtorch_of_this_version_is_used_again() {
        let scratch = Scratch::new("install-complete");
        let root = scratch.path();
        assert!(!is_complete(root, &RELEASES[0]));
        fs::create_dir_all(root.join("lib")).expect("a folder");
        fs::create_dir_all(root.join("include/torch")).expect("a folder");
        fs::write(root.join("build-version"), "2.9.0+cpu\n").expect("a file");
        for library in ["libtorch_cpu.so", "libc10.so"] {
            fs::write(root.join("lib").join(library), "").expect("a file");
            assert!(!is_complete(root, &RELEASES[0]));
        }
        stub(&root.join("lib")).expect("there is a linker");
        assert!(is_complete(root, &RELEASES[0]));
        assert!(!is_complete(root, &RELEASES[1]));
    }

    #[test]
    fn leftovers_of_this_version_go_and_nothing_else() {
        let scratch = Scratch::new("install-leftovers");
        let folders = ["libtorch-2.9.0", "libtorch-2.9.0.partial-1", "libtorch-2.10.0.partial-2"];
        for folder in folders {
            fs::create_dir_all(scratch.path().join(folder).join("wheels")).expect("a folder");
        }
        remove_leftovers(scratch.path(), "libtorch-2.9.0.partial-");
        let left = folders.map(|folder| scratch.path().join(folder).exists());
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn a_second_one_waits_for_the_lock() {
        let scratch = Scratch::new("install-lock");
        let first = lock(scratch.path(), &RELEASES[0]).expect("free");
        let other = lock(scratch.path(), &RELEASES[1]).expect("another version, another lock");
        drop(other);
        std::thread::scope(|threads| {
            let second = threads.spawn(|| lock(scratch.path(), &RELEASES[0]).map(drop));
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(!second.is_finished());
            drop(first);
            assert_eq!(second.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn a_command_that_fails_is_named_in_short() {
        let message = run(Command::new("sh").args(["-c", "exit 3\n# more"])).expect_err("fails");
        assert_eq!(message, "sh -c exit 3 … failed (exit status: 3)");
        let message = run(&mut Command::new("no-such-program")).expect_err("not there");
        assert!(message.starts_with("cannot run no-such-program …: "), "{message}");
    }
}
