//! Parses the user's command as a cargo command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cargo's built-in subcommands that build, with their aliases. Cargo passes `--config` only to
/// these. Other subcommands are external programs or user aliases.
const BUILDING: [&str; 11] =
    ["run", "r", "build", "b", "test", "t", "bench", "check", "c", "rustc", "doc"];

/// Global options whose value is the next argument.
const WITH_VALUE: [&str; 5] = ["--config", "-Z", "-C", "--color", "--explain"];

/// Returns `true` if the command calls cargo directly instead of a script.
pub fn is_cargo(command: &[OsString]) -> bool {
    command.first().is_some_and(|it| Path::new(it).file_stem() == Some(OsStr::new("cargo")))
}

/// Returns the arguments for cargo, without those for the program.
fn own(command: &[OsString]) -> &[OsString] {
    let end = command.iter().position(|argument| argument == "--").unwrap_or(command.len());
    &command[..end]
}

/// Returns the values of an option, given as `--name value` or `--name=value`. Each value comes
/// with the index of its last argument.
fn values<'a>(command: &'a [OsString], name: &'a str) -> impl Iterator<Item = (usize, OsString)> {
    let own = own(command);
    own.iter().enumerate().filter_map(move |(at, argument)| {
        let rest = argument.as_encoded_bytes().strip_prefix(name.as_bytes())?;
        if rest.is_empty() {
            return own.get(at + 1).map(|value| (at + 1, value.clone()));
        }
        // Short options such as `-Cfolder` and `-Zflag` need no `=`.
        let skip = match rest.strip_prefix(b"=") {
            Some(_) => name.len() + 1,
            None if name.len() == 2 => name.len(),
            None => return None,
        };
        Some((at, after(argument, skip)))
    })
}

/// Returns the argument without its first `skip` bytes, which are ASCII.
#[cfg(unix)]
fn after(argument: &OsStr, skip: usize) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    OsString::from_vec(argument.as_bytes()[skip..].to_vec())
}

/// Returns the argument without its first `skip` bytes, which are ASCII.
#[cfg(not(unix))]
fn after(argument: &OsStr, skip: usize) -> OsString {
    argument.to_string_lossy()[skip..].into()
}

/// Returns the last value of an option.
pub fn option(command: &[OsString], name: &str) -> Option<OsString> {
    values(command, name).last().map(|(_, value)| value)
}

/// Returns the values of `--config`, weakest first.
pub fn configs(command: &[OsString]) -> Vec<OsString> {
    if !is_cargo(command) {
        return Vec::new();
    }
    values(command, "--config").map(|(_, value)| value).collect()
}

/// Returns cargo's working directory: the value of `-C`, otherwise the current directory.
pub fn folder(command: &[OsString]) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    match option(command, "-C").filter(|_| is_cargo(command)) {
        Some(below) => folder.join(below),
        None => folder,
    }
}

/// Returns the subcommand and its index.
fn subcommand(command: &[OsString]) -> Option<(usize, &str)> {
    let mut is_value = false;
    own(command).iter().enumerate().skip(1).find_map(|(at, argument)| {
        let text = argument.to_str()?;
        let skips = std::mem::replace(&mut is_value, WITH_VALUE.contains(&text));
        (!skips && !text.starts_with(['+', '-'])).then_some((at, text))
    })
}

/// Returns `true` for `cargo install`, which installs the built programs for the user.
pub fn installs(command: &[OsString]) -> bool {
    is_cargo(command) && subcommand(command).is_some_and(|(_, name)| name == "install")
}

/// Returns the index at which a `--config` option overrides the user's own. Returns `None` if cargo
/// would not read the option there.
fn config_index(command: &[OsString]) -> Option<usize> {
    if !is_cargo(command) {
        return None;
    }
    let (at, _) = subcommand(command).filter(|(_, name)| BUILDING.contains(name))?;
    let last = values(command, "--config").last().map_or(0, |(end, _)| end);
    Some(at.max(last) + 1)
}

/// Command whose build output is redirected to another folder.
pub struct Redirected {
    /// Command, possibly with changed arguments.
    pub command: Vec<OsString>,
    /// Set when the environment must also name the folder.
    pub by_environment: bool,
}

/// Changes the command so that final and intermediate artifacts go to `folder`.
///
/// Options are preferred to environment variables, which build scripts inherit. A build script that
/// calls cargo would wait for the folder lock of the outer cargo, which waits for the script. If
/// the user has set the variable, scripts inherit it anyway.
pub fn redirected(command: &[OsString], folder: &Path, has_variable: bool) -> Redirected {
    let mut redirected = with_target_dir(command, folder);
    let Some((at, path)) = config_index(command).zip(quoted(folder)) else {
        return Redirected { command: redirected, by_environment: true };
    };
    let settings = ["target-dir", "build-dir"].map(|key| format!("build.{key}={path}"));
    let options = settings.into_iter().flat_map(|it| ["--config".into(), OsString::from(it)]);
    redirected.splice(at..at, options);
    Redirected { command: redirected, by_environment: has_variable }
}

/// Replaces the value of `--target-dir`, which overrides all other settings, with `folder`.
fn with_target_dir(command: &[OsString], folder: &Path) -> Vec<OsString> {
    let mut redirected = command.to_vec();
    for (at, _) in values(command, "--target-dir") {
        let has_own_place = !command[at].as_encoded_bytes().starts_with(b"--target-dir=");
        let mut value = OsString::from(if has_own_place { "" } else { "--target-dir=" });
        value.push(folder);
        redirected[at] = value;
    }
    redirected
}

/// Formats a path as a TOML string. Returns `None` if that is not possible.
fn quoted(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control))?;
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Asks cargo for the folder of build output, according to its configuration and workspace.
pub fn ask_for_target(command: &[OsString]) -> Option<PathBuf> {
    let is_cargo = is_cargo(command);
    let mut cargo = Command::new(if is_cargo { command.first()? } else { OsStr::new("cargo") });
    let toolchain = command.get(1).filter(|it| is_cargo && it.as_encoded_bytes().starts_with(b"+"));
    cargo.args(toolchain);
    if is_cargo {
        for name in ["-C", "-Z", "--config"] {
            for (_, value) in values(command, name) {
                cargo.arg(name).arg(value);
            }
        }
    }
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    if let Some(manifest) = option(command, "--manifest-path") {
        cargo.arg("--manifest-path").arg(manifest);
    }
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    metadata["target_directory"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn redirected_line(line: &str) -> String {
        let redirected = redirected(&words(line), Path::new("/o"), false);
        let line = redirected.command.join(OsStr::new(" ")).to_string_lossy().into_owned();
        format!("{line}{}", if redirected.by_environment { " (environment)" } else { "" })
    }

    #[test]
    fn both_folders_are_named_behind_the_user_s_own_settings() {
        let folders = r#"--config build.target-dir="/o" --config build.build-dir="/o""#;
        for (line, expected) in [
            ("cargo run -- a", "cargo run OURS -- a"),
            ("cargo r a", "cargo r OURS a"),
            ("cargo +nightly -Z x test --doc", "cargo +nightly -Z x test OURS --doc"),
            (
                "/bin/cargo --config a=1 b --config=c=2 --release",
                "/bin/cargo --config a=1 b --config=c=2 OURS --release",
            ),
            (
                "cargo run --target-dir /t -- --target-dir /m",
                "cargo run OURS --target-dir /o -- --target-dir /m",
            ),
            ("cargo test --target-dir=/t", "cargo test OURS --target-dir=/o"),
            // An alias, an external program and a script receive the folder by the environment.
            ("cargo mine", "cargo mine (environment)"),
            (
                "cargo nextest run --target-dir /t",
                "cargo nextest run --target-dir /o (environment)",
            ),
            ("make -C run run", "make -C run run (environment)"),
        ] {
            assert_eq!(redirected_line(line), expected.replace("OURS", folders));
        }
        let with_variable = redirected(&words("cargo run"), Path::new("/o"), true);
        assert!(with_variable.by_environment, "CARGO_TARGET_DIR overrides build.target-dir");
        assert_eq!(quoted(Path::new(r#"/a "b"\c"#)).as_deref(), Some(r#""/a \"b\"\\c""#));
        assert_eq!(quoted(Path::new("/a\nb")), None);
    }

    #[test]
    fn installing_is_recognised() {
        assert!(installs(&words("cargo +nightly --config a=1 install --path .")));
        assert!(!installs(&words("cargo run install")) && !installs(&words("npm install")));
    }

    #[test]
    fn options_of_cargo_are_found_in_each_form_and_no_others() {
        let command = words("cargo -C sub --config=a=1 run --config b=2 -- --config c=3 -C d");
        assert_eq!(configs(&command), ["a=1", "b=2"]);
        assert!(folder(&command).ends_with("sub"));
        assert!(!folder(&words("make -C sub")).ends_with("sub"));
        assert_eq!(
            option(&words("cargo run --manifest-path=x/Cargo.toml"), "--manifest-path"),
            Some("x/Cargo.toml".into())
        );
    }
}
