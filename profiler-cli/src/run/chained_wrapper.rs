//! The wrapper of the compiler that a user has set already, such as sccache.

use std::path::{Path, PathBuf};

use profiler_events::files::read_text;

/// Bytes of a file of cargo's configuration that are read, at most.
const LONGEST_CONFIG: u64 = 16 << 20;

/// The wrapper that cargo would call: of the environment, else of cargo's configuration.
pub fn wrapper() -> Option<PathBuf> {
    ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"]
        .iter()
        .find_map(std::env::var_os)
        .map(PathBuf::from)
        .or_else(configured)
        // Set to nothing: no wrapper.
        .filter(|path| !path.as_os_str().is_empty())
}

/// Cargo's configuration: the nearest file from the working directory upwards, then its home's.
fn configured() -> Option<PathBuf> {
    let directory = std::env::current_dir().ok()?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        Some(home.join(".cargo"))
    });
    let folders = directory.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    folders.flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(name))).find_map(
        |file| {
            let text = read_text(&file, LONGEST_CONFIG).ok()?;
            in_configuration(&text).map(|path| resolved(path, &file))
        },
    )
}

fn in_configuration(text: &str) -> Option<PathBuf> {
    let table: toml::Table = text.parse().ok()?;
    table.get("build")?.get("rustc-wrapper")?.as_str().map(PathBuf::from)
}

/// A path with a slash is relative to the folder around `.cargo`; a bare name is looked up.
fn resolved(path: PathBuf, file: &Path) -> PathBuf {
    let has_folder = path.components().count() > 1;
    match file.parent().and_then(Path::parent) {
        Some(folder) if has_folder && path.is_relative() => folder.join(path),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_wrapper_is_found_and_resolved_as_cargo_does() {
        let text = "[build]\nrustc-wrapper = \"tools/wrap\"\n";
        let path = in_configuration(text).expect("it is there");
        assert_eq!(resolved(path, Path::new("/w/.cargo/config.toml")), Path::new("/w/tools/wrap"));
        let bare = resolved("sccache".into(), Path::new("/w/.cargo/config.toml"));
        assert_eq!(bare, Path::new("sccache"));
        assert_eq!(in_configuration("[build]\njobs = 2\n"), None);
        assert_eq!(in_configuration("not toml ["), None);
    }
}
