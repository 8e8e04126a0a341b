//! Determines where a crate is built, and whether it is built for the user.

use std::path::{Path, PathBuf};

use super::invocation::Invocation;

/// Returns `true` if a folder is below `target`, after symbolic links are resolved.
pub fn is_within(folder: &Path, target: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    folder.starts_with(target) || real(folder).starts_with(real(target))
}

/// Returns the path of the final artifact below the build folder, if it is a program that users
/// start.
pub fn program(invocation: &Invocation, target: &Path) -> Option<PathBuf> {
    let name = std::env::var_os("CARGO_BIN_NAME")?;
    let is_started = invocation.is_program() && !invocation.is_test();
    let folder = invocation.out_dir().filter(|_| is_started)?;
    Some(profile_folder(&folder)?.strip_prefix(target).ok()?.join(name))
}

/// Returns the profile's folder, such as `target/release`, for the folder that rustc writes to.
/// That folder is `deps` or `examples`, or `build/{package}/{hash}/out` in cargo's newer layout.
pub fn profile_folder(out_dir: &Path) -> Option<&Path> {
    let is_within = |folder: &&Path| {
        folder
            .file_name()
            .is_some_and(|name| ["deps", "examples", "build"].iter().any(|it| name == *it))
    };
    out_dir.ancestors().find(is_within)?.parent()
}

/// Returns `true` if a build script called the compiler or cargo. Such output is for the build
/// itself, or for other machines. Cargo sets all of these variables for build scripts, but not for
/// compilers.
pub fn is_in_build_script() -> bool {
    let all = ["HOST", "TARGET", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "OUT_DIR", "RUSTC", "RUSTDOC"];
    all.iter().all(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_layouts() {
        for below in ["deps", "examples", "build/app/0a/out"] {
            let folder = Path::new("/t/x86_64-unknown-linux-gnu/release").join(below);
            let profile = Path::new("/t/x86_64-unknown-linux-gnu/release");
            assert_eq!(profile_folder(&folder), Some(profile), "{below}");
        }
        assert_eq!(profile_folder(Path::new("/t")), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_folder_too() {
        let all = tempfile::tempdir().expect("a folder");
        let (target, link) = (all.path().join("target"), all.path().join("link"));
        std::fs::create_dir_all(target.join("release")).expect("made");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(is_within(&link.join("release"), &target));
        assert!(!is_within(all.path(), &target));
    }
}
