//! Argument files for command lines that exceed the system limit: `rustc @file`, with one argument
//! per line.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use mlprof_events::files;

/// Maximum size of an argument file in bytes.
const LONGEST: u64 = 64 << 20;

/// Expands `@file` arguments to the lines of the file. As in rustc, `@file` inside a file is not
/// expanded. An unreadable file is left to the compiler, which reports the error.
pub fn expanded(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut expanded = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let file = argument.to_str().and_then(|text| text.strip_prefix('@'));
        match file.map(|file| files::read_text(Path::new(file), LONGEST)) {
            Some(Ok(text)) => expanded.extend(text.lines().map(OsString::from)),
            _ => expanded.push(argument),
        }
    }
    expanded
}

/// Writes arguments to a file, and returns the `@file` argument that names it.
///
/// # Errors
///
/// Returns an error if the file cannot be written, or if an argument is not a single line of UTF-8.
pub fn write(arguments: &[OsString], file: &Path) -> io::Result<OsString> {
    let mut text = String::new();
    for argument in arguments {
        let line = argument.to_str().filter(|line| !line.contains(['\n', '\r']));
        let unfit = || {
            let shown = argument.display();
            io::Error::other(format!(
                "the command line is too long, and an argument file cannot contain {shown}"
            ))
        };
        text += line.ok_or_else(unfit)?;
        text.push('\n');
    }
    files::replace(file, text.as_bytes())?;
    let mut named = OsString::from("@");
    named.push(file);
    Ok(named)
}

/// Returns `true` if the argument names an argument file.
pub fn is_file(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"@")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_back_and_nothing_is_expanded_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("arguments");
        let all =
            ["--crate-name", "a", "-C", "link-arg=with space", "@none", ""].map(OsString::from);
        let named = write(&all, &file).expect("written");
        assert!(is_file(&named) && !is_file(&all[0]));
        let line = vec!["-vV".into(), named, "@/no/such/file".into()];
        let expected: Vec<OsString> =
            ["-vV".into()].into_iter().chain(all).chain(["@/no/such/file".into()]).collect();
        assert_eq!(expanded(line), expected);
        let error = write(&["a\nb".into()], &file).expect_err("two lines");
        assert!(error.to_string().contains("too long"), "{error}");
    }
}
