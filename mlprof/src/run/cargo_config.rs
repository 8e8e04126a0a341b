//! Cargo's configuration, limited to the programs that mlprof replaces.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mlprof_events::files;

use super::cargo_command;

/// Configuration tables, strongest first.
#[derive(Debug, Default)]
pub struct CargoConfig {
    /// Tables of `--config` options, which override the environment.
    options: Vec<Source>,
    /// Tables of configuration files.
    files: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    table: toml::Table,
    /// Folder that relative paths in the table refer to.
    root: PathBuf,
}

impl CargoConfig {
    /// Reads the configuration of a command. Sources are its `--config` options, the files in the
    /// working directory and its parents, and the file in cargo's home.
    pub fn of(command: &[OsString]) -> Self {
        let folder = cargo_command::folder(command);
        let mut config = Self::default();
        for value in cargo_command::configs(command).iter().rev() {
            let file = folder.join(value);
            if file.is_file() {
                read(&file, &mut config.options, 0);
            } else if let Some(table) = value.to_str().and_then(|text| text.parse().ok()) {
                config.options.push(Source { table, root: folder.clone() });
            }
        }
        let home = std::env::var_os("CARGO_HOME").map(|home| folder.join(home)).or_else(|| {
            let home = std::env::var_os("HOME").map(PathBuf::from)?;
            Some(home.join(".cargo"))
        });
        let folders = folder.ancestors().map(|folder| folder.join(".cargo"));
        for folder in folders.chain(home) {
            // If both files exist, cargo reads the one without an extension.
            let file = ["config", "config.toml"].map(|name| folder.join(name));
            if let Some(file) = file.iter().find(|file| file.is_file()) {
                read(file, &mut config.files, 0);
            }
        }
        config
    }

    /// Returns the compiler wrapper that cargo would call.
    pub fn rustc_wrapper(&self) -> Option<PathBuf> {
        self.program("RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER", "rustc-wrapper")
    }

    /// Returns the rustdoc program that cargo would call, if it is not the default.
    pub fn rustdoc(&self) -> Option<PathBuf> {
        self.program("RUSTDOC", "CARGO_BUILD_RUSTDOC", "rustdoc")
    }

    /// Returns `true` if the user has configured a separate folder for intermediate artifacts.
    pub fn has_build_dir(&self) -> bool {
        let mut sources = self.options.iter().chain(&self.files);
        std::env::var_os("CARGO_BUILD_BUILD_DIR").is_some()
            || sources.any(|source| source.setting("build-dir").is_some())
    }

    /// Returns a program of cargo's `build` table, or of a variable that overrides it. Returns
    /// `None` for an empty value, which disables the program.
    fn program(&self, variable: &str, setting: &str, key: &str) -> Option<PathBuf> {
        let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let configured = |sources: &[Source]| sources.iter().find_map(|source| source.program(key));
        named(variable)
            .or_else(|| configured(&self.options))
            .or_else(|| named(setting))
            .or_else(|| configured(&self.files))
            .filter(|path| !path.as_os_str().is_empty())
    }
}

impl Source {
    /// Returns the program in `build.{key}`. A path with a separator is relative to the root, and a
    /// bare name is looked up in `PATH`.
    fn program(&self, key: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.setting(key)?);
        let has_folder = path.components().count() > 1;
        Some(if has_folder { self.root.join(path) } else { path })
    }

    /// Returns a string setting of the `build` table.
    fn setting(&self, key: &str) -> Option<&str> {
        self.table.get("build")?.get(key)?.as_str()
    }
}

/// Maximum size of a configuration file in bytes.
const LONGEST: u64 = 1 << 20;
/// Maximum depth of nested includes.
const DEEPEST: usize = 8;

/// Adds the settings of a file, followed by those of its included files, which are weaker.
fn read(file: &Path, sources: &mut Vec<Source>, depth: usize) {
    let Ok(text) = files::read_text(file, LONGEST) else { return };
    let Ok(table) = text.parse::<toml::Table>() else { return };
    let folder = file.parent().unwrap_or(file);
    let root = folder.parent().unwrap_or(folder).to_owned();
    let included = table.get("include").map(included).unwrap_or_default();
    sources.push(Source { table, root });
    if depth < DEEPEST {
        included.iter().rev().for_each(|name| read(&folder.join(name), sources, depth + 1));
    }
}

/// Returns the files listed in `include`: a path, or a list of paths or tables with a path.
fn included(value: &toml::Value) -> Vec<String> {
    match value {
        toml::Value::String(path) => vec![path.clone()],
        toml::Value::Array(all) => all.iter().flat_map(included).collect(),
        toml::Value::Table(table) => table.get("path").map(included).unwrap_or_default(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, options: &str) -> CargoConfig {
        let mut command = vec![OsString::from("cargo"), "-C".into(), folder.into()];
        command.extend(options.split_whitespace().map(OsString::from));
        CargoConfig::of(&command)
    }

    fn program(sources: &[Source], key: &str) -> Option<PathBuf> {
        sources.iter().find_map(|source| source.program(key))
    }

    #[test]
    fn programs_are_found_in_files_and_options_and_resolved_as_cargo_does() {
        let all = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = all.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write(
            ".cargo/config.toml",
            "[build]\nrustc-wrapper = \"sccache\"\nrustdoc = \"bin/doc\"\n",
        );
        write("sub/.cargo/config.toml", "include = [\"more.toml\"]\n[build]\njobs = 2\n");
        write("sub/.cargo/more.toml", "[build]\nrustc-wrapper = \"tools/wrap\"\n");
        let root = all.path();
        let files = config(&root.join("sub"), "run").files;
        assert_eq!(program(&files, "rustc-wrapper"), Some(root.join("sub/tools/wrap")));
        assert_eq!(program(&files, "rustdoc"), Some(root.join("bin/doc")), "of the folder above");
        assert_eq!(program(&config(root, "run").files, "rustc-wrapper"), Some("sccache".into()));
        assert!(!config(root, "run").has_build_dir());
        assert!(config(root, "run --config build.build-dir='b'").has_build_dir());
        // Invalid files are ignored, because cargo itself reports them. If both files exist, the
        // one without an extension is read.
        write("sub/.cargo/config", "not toml [");
        let files = config(&root.join("sub"), "run").files;
        assert_eq!(program(&files, "rustc-wrapper"), Some("sccache".into()));

        let options =
            config(root, "--config build.rustdoc='a/b' run --config sub/.cargo/more.toml").options;
        assert_eq!(program(&options, "rustdoc"), Some(root.join("a/b")));
        assert_eq!(program(&options, "rustc-wrapper"), Some(root.join("sub/tools/wrap")));
    }
}
