//! The user's command, read as a command line of cargo.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cargo's own subcommands that build, with their short names. Cargo hands `--config` to these
/// only: other subcommands are programs of their own, or aliases.
const BUILDING: [&str; 11] =
    ["run", "r", "build", "b", "test", "t", "bench", "check", "c", "rustc", "doc"];

/// Global options whose value is the next argument.
const WITH_VALUE: [&str; 5] = ["--config", "-Z", "-C", "--color", "--explain"];

/// Whether the command calls cargo itself and not a script.
pub fn is_cargo(command: &[OsString]) -> bool {
    command.first().is_some_and(|it| Path::new(it).file_stem() == Some(OsStr::new("cargo")))
}

/// The arguments that are cargo's and not the program's.
fn own(command: &[OsString]) -> &[OsString] {
    let end = command.iter().position(|argument| argument == "--").unwrap_or(command.len());
    &command[..end]
}

/// The values of an option, `--name value` or `--name=value`, each with the index at which it ends.
fn values<'a>(command: &'a [OsString], name: &'a str) -> impl Iterator<Item = (usize, OsString)> {
    let own = own(command);
    own.iter().enumerate().filter_map(move |(at, argument)| {
        let rest = argument.as_encoded_bytes().strip_prefix(name.as_bytes())?;
        if rest.is_empty() {
            return own.get(at + 1).map(|value| (at + 1, value.clone()));
        }
        // `-Cfolder` and `-Zflag` need no `=`.
        let skip = match rest.strip_prefix(b"=") {
            Some(_) => name.len() + 1,
            None if name.len() == 2 => name.len(),
            None => return None,
        };
        Some((at, after(argument, skip)))
    })
}

/// An argument without its first bytes, which are ASCII.
#[cfg(unix)]
fn after(argument: &OsStr, skip: usize) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    OsString::from_vec(argument.as_bytes()[skip..].to_vec())
}

/// An argument without its first bytes, which are ASCII.
#[cfg(not(unix))]
fn after(argument: &OsStr, skip: usize) -> OsString {
    argument.to_string_lossy()[skip..].into()
}

/// The last value of an option.
pub fn option(command: &[OsString], name: &str) -> Option<OsString> {
    values(command, name).last().map(|(_, value)| value)
}

/// The values of `--config`, weakest first.
pub fn configs(command: &[OsString]) -> Vec<OsString> {
    if !is_cargo(command) {
        return Vec::new();
    }
    values(command, "--config").map(|(_, value)| value).collect()
}

/// The folder that cargo works in: `-C`, otherwise that of this process.
pub fn folder(command: &[OsString]) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    match option(command, "-C").filter(|_| is_cargo(command)) {
        Some(below) => folder.join(below),
        None => folder,
    }
}

/// The index of the subcommand, and its name.
fn subcommand(command: &[OsString]) -> Option<(usize, &str)> {
    let mut is_value = false;
    own(command).iter().enumerate().skip(1).find_map(|(at, argument)| {
        let text = argument.to_str()?;
        let skips = std::mem::replace(&mut is_value, WITH_VALUE.contains(&text));
        (!skips && !text.starts_with(['+', '-'])).then_some((at, text))
    })
}

/// Whether cargo builds programs to keep them among the user's installed ones.
pub fn installs(command: &[OsString]) -> bool {
    is_cargo(command) && subcommand(command).is_some_and(|(_, name)| name == "install")
}

/// The index at which an option can stand that overrides the `--config` options of the user. `None`
/// if cargo would not read it there.
fn config_index(command: &[OsString]) -> Option<usize> {
    if !is_cargo(command) {
        return None;
    }
    let (at, _) = subcommand(command).filter(|(_, name)| BUILDING.contains(name))?;
    let last = values(command, "--config").last().map_or(0, |(end, _)| end);
    Some(at.max(last) + 1)
}

/// How a command is told its folder of build output.
pub struct Redirected {
    /// The command, perhaps with other arguments.
    pub command: Vec<OsString>,
    /// Whether the environment must name the folder as well.
    pub by_environment: bool,
}

/// The command, changed so that both final artifacts and intermediate ones go to `folder`.
///
/// Options are preferred to the environment, which build scripts inherit: a script that calls cargo
/// would wait forever for the folder that is locked by the cargo that waits for the script. A
/// variable that the user has set is inherited anyway.
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

/// The command with the value of `--target-dir`, which overrides everything else, replaced by
/// `folder`.
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

/// A path as a TOML string, if it can be one.
fn quoted(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control))?;
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The folder of build output that cargo finds in its configuration, and by the workspace.
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
            // An alias, another program and a script are told by the environment.
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
