//! Maps versions of tch to versions of libtorch, and detects the version in a folder.

/// A minor version of tch and its libtorch.
#[derive(Debug)]
pub struct Release {
    /// The latest patch version of tch, such as 0.22.0.
    pub tch: &'static str,
    /// The libtorch that torch-sys's build script requires (its `TORCH_VERSION`).
    pub libtorch: &'static str,
    /// The wheels with this libtorch, as pip requirements with checksums.
    pub requirements: &'static str,
}

/// All minor versions of tch that mlprof-tch supports, in ascending order. Version 0.25 was not
/// published.
pub const RELEASES: [Release; 4] = [
    Release {
        tch: "0.22.0",
        libtorch: "2.9.0",
        requirements: include_str!("requirements/2.9.0.txt"),
    },
    Release {
        tch: "0.23.0",
        libtorch: "2.10.0",
        requirements: include_str!("requirements/2.10.0.txt"),
    },
    Release {
        tch: "0.24.0",
        libtorch: "2.11.0",
        requirements: include_str!("requirements/2.11.0.txt"),
    },
    Release {
        tch: "0.26.0",
        libtorch: "2.13.0",
        requirements: include_str!("requirements/2.13.0.txt"),
    },
];

/// Returns the newest release.
pub fn newest() -> &'static Release {
    &RELEASES[RELEASES.len() - 1]
}

/// Returns the release that a Cargo.lock pins, or the lowest one if it contains no tch.
pub fn locked(lock_file: &str) -> Result<&'static Release, String> {
    let Some(tch) = locked_version(lock_file, "tch") else {
        return Ok(&RELEASES[0]);
    };
    of_tch(tch).map_err(|message| {
        format!(
            "{message}; Cargo.lock pins the version, and `cargo update -p tch --precise <version>` \
             changes it"
        )
    })
}

/// Returns the release of a tch version such as 0.22.0 or 0.22.
pub fn of_tch(tch: &str) -> Result<&'static Release, String> {
    RELEASES.iter().find(|release| line(release.tch) == line(tch)).ok_or_else(|| {
        let known: Vec<_> = RELEASES.iter().map(|release| release.tch).collect();
        format!(
            "cannot choose a libtorch for tch {tch}: the supported versions of tch are {}",
            known.join(", ")
        )
    })
}

/// Returns the version of a package in a Cargo.lock.
pub fn locked_version<'a>(lock_file: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock_file.lines().map(str::trim);
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Returns the minor version: 0.22 for 0.22.0 and for 0.22.
fn line(version: &str) -> &str {
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(index, _)| index);
    &version[..end]
}

/// Returns the version without build metadata: 2.9.0 for 2.9.0+cu128, as in the file
/// `build-version` or in Python's `torch.__version__`.
pub fn without_build(version: &str) -> Option<&str> {
    let version = version.trim().split('+').next()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then_some(version)
}

/// Returns the version that libtorch's header `version.h` defines.
pub fn of_header(header: &str) -> Option<String> {
    let part = |name: &str| {
        let mut lines = header.lines().map(str::split_whitespace);
        let value = lines.find_map(|mut words| {
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next())
        })??;
        value.parse::<u32>().ok()
    };
    let major = part("TORCH_VERSION_MAJOR")?;
    let minor = part("TORCH_VERSION_MINOR")?;
    let patch = part("TORCH_VERSION_PATCH")?;
    Some(format!("{major}.{minor}.{patch}"))
}

/// Returns the error message for a wrong version. `found` is a text such as `LIBTORCH
/// (/opt/libtorch) is libtorch`, and `remedy` describes the solution.
pub fn mismatch(found: &str, version: &str, release: &Release, remedy: &str) -> String {
    let Release { tch, libtorch, .. } = release;
    format!(
        "{found} {version}, but tch {tch} needs {libtorch}: {remedy}, or set \
         LIBTORCH_BYPASS_VERSION_CHECK=1 to use this version anyway"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "#pragma once\n\n/// Indicates the major version of LibTorch.\n\
        #define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 13\n\
        #define TORCH_VERSION_PATCH 1\n#define TORCH_VERSION_ABI_TAG 0\n";

    #[test]
    fn the_table_ascends_and_pins_the_wheels_of_each_libtorch() {
        let number = |version: &str| -> Vec<u32> {
            version.split('.').map(|part| part.parse().expect("a number")).collect()
        };
        for pair in RELEASES.windows(2) {
            assert!(number(pair[0].tch) < number(pair[1].tch));
            assert!(number(pair[0].libtorch) < number(pair[1].libtorch));
        }
        for release in &RELEASES {
            let torch = format!("torch=={} \\\n", release.libtorch);
            assert!(release.requirements.contains(&torch), "{}", release.requirements);
            let packages = release.requirements.matches("==").count();
            let markers = release.requirements.matches("platform_machine ==").count();
            assert_eq!(packages - markers, 3, "{}", release.requirements);
            assert!(release.requirements.matches("--hash=sha256:").count() >= 4);
        }
    }

    #[test]
    fn the_range_that_the_workspace_accepts_is_the_table() {
        let manifest = include_str!("../../../Cargo.toml");
        let tch = manifest.lines().find(|line| line.starts_with("tch = ")).expect("tch is named");
        assert!(tch.contains(&format!(">={}", line(RELEASES[0].tch))), "{tch}");
        let (major, minor) = line(newest().tch).split_once('.').expect("two numbers");
        let minor: u32 = minor.parse().expect("a number");
        assert!(tch.contains(&format!("<{major}.{}", minor + 1)), "{tch}");
    }

    #[test]
    fn the_lock_file_decides() {
        let lock = |version| {
            format!(
                "[[package]]\nname = \"burn-tch\"\nversion = \"1.0.0\"\n\n\
                 [[package]]\nname = \"tch\"\nversion = \"{version}\"\nsource = \"x\"\n"
            )
        };
        assert_eq!(locked_version(&lock("0.23.4"), "tch"), Some("0.23.4"));
        assert_eq!(locked(&lock("0.23.4")).expect("known").libtorch, "2.10.0");
        assert_eq!(locked(&lock("0.26.0")).expect("known").libtorch, "2.13.0");
        assert_eq!(locked("version = 4\n").expect("the lowest").libtorch, "2.9.0");
        let message = locked(&lock("0.2.6")).expect_err("too old");
        assert!(message.starts_with("cannot choose a libtorch for tch 0.2.6: "), "{message}");
        assert!(message.contains("are 0.22.0, 0.23.0, 0.24.0, 0.26.0; Cargo.lock"), "{message}");
        assert_eq!(of_tch("0.24").expect("known").libtorch, "2.11.0");
        assert!(of_tch("0").is_err() && of_tch("").is_err());
    }

    #[test]
    fn versions_are_read_from_either_file() {
        assert_eq!(without_build("2.9.0+cu128\n"), Some("2.9.0"));
        assert_eq!(without_build("2.4.1"), Some("2.4.1"));
        assert_eq!(without_build("\n"), None);
        assert_eq!(without_build("nightly"), None);
        assert_eq!(of_header(HEADER).as_deref(), Some("2.13.1"));
        // In newer versions, the old header only includes the new one.
        assert_eq!(of_header("#pragma once\n#include <torch/headeronly/version.h>\n"), None);
        assert_eq!(of_header("#define TORCH_VERSION_MAJOR two\n"), None);
    }

    #[test]
    fn a_mismatch_is_one_sentence_with_all_there_is_to_know() {
        let message =
            mismatch("LIBTORCH (/opt/t) is libtorch", "2.4.0", &RELEASES[0], "unset LIBTORCH");
        assert_eq!(
            message,
            "LIBTORCH (/opt/t) is libtorch 2.4.0, but tch 0.22.0 needs 2.9.0: unset LIBTORCH, \
             or set LIBTORCH_BYPASS_VERSION_CHECK=1 to use this version anyway"
        );
    }
}
