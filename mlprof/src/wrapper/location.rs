//! Where a crate is built, and for whom.

use std::path::{Path, PathBuf};

use super::invocation::Invocation;

/// Whether a folder is below `target`, by whatever links it is named.
pub fn is_within(folder: &Path, target: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    folder.starts_with(target) || real(folder).starts_with(real(target))
}

/// The final artifact below the folder of build output, if users start it.
pub fn program(invocation: &Invocation, target: &Path) -> Option<PathBuf> {
    let name = std::env::var_os("CARGO_BIN_NAME")?;
    let is_started = invocation.is_program() && !invocation.is_test();
    let folder = invocation.out_dir().filter(|_| is_started)?;
    Some(profile_folder(&folder)?.strip_prefix(target).ok()?.join(name))
}

/// The folder of a profile, such as `target/release`, of the folder that rustc writes to: that is
/// `deps` or `examples` in it, in cargo's newer layout `build/{package}/{hash}/out`.
pub fn profile_folder(out_dir: &Path) -> Option<&Path> {
    let is_within = |folder: &&Path| {
        folder
            .file_name()
            .is_some_and(|name| ["deps", "examples", "build"].iter().any(|it| name == *it))
    };
    out_dir.ancestors().find(is_within)?.parent()
}

/// Whether a build script has called the compiler, or cargo: what it makes is for the build, or for
/// other machines. Of these variables cargo sets all for build scripts, and none of its own for
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
