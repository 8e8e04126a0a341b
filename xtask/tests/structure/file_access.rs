//! Checks that only `mlprof-events/src/files` creates, replaces, appends to and reads files, so
//! that common rules apply to all of them. Other code of the libraries and the command must not
//! call the standard library for this.

use std::path::Path;

/// Calls that create, replace, open or read files.
const CALLS: [&str; 19] = [
    "File::create",
    "File::open",
    "File::options",
    "OpenOptions",
    "NamedTempFile",
    "fs::write(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    ".set_permissions(",
    "serialize_to_file(",
    "libc::open(",
    "libc::openat(",
    "libc::creat(",
    "libc::mkstemp(",
    "libc::rename(",
    "libc::renameat(",
];

/// The module that may use these calls.
const MODULE: &str = "mlprof-events/src/files";

/// Exceptions: file, call and reason.
pub const ALLOWED: [(&str, &str, &str); 25] = [
    ("mlprof/src/live/survey.rs", "fs::read_to_string(", PROC),
    ("mlprof/src/machine/processor.rs", "fs::read_to_string(", PROC),
    ("mlprof/src/run/child.rs", "File::open", "the terminal, whose owner is set"),
    ("mlprof/src/run/child.rs", "fs::read_to_string(", PROC),
    ("mlprof/src/run/target_copy.rs", "fs::copy(", "into a new folder of its own"),
    ("mlprof/src/run/target_copy.rs", "File::options", "into a new folder of its own"),
    ("mlprof/src/run/target_copy.rs", "fs::rename(", "a folder, where none is"),
    ("mlprof/src/run/tools.rs", "fs::rename(", "a link, in a folder of its own"),
    ("mlprof-instrument/src/modules.rs", "fs::read_to_string(", "sources that rustc reads, too"),
    ("profiler-core/src/machine.rs", "fs::read_to_string(", PROC),
    ("profiler-core/src/simple/counters/io.rs", "File::open", PROC),
    ("mlprof-cuda/src/locate_cupti.rs", "fs::read_to_string(", PROC),
    ("mlprof-events/src/live/identity.rs", "fs::read(", PROC),
    ("mlprof-events/src/live/socket.rs", "libc::open(", "a folder, to bind or connect below it"),
    ("mlprof-events/src/live/user.rs", "fs::read_to_string(", PROC),
    ("mlprof-events/src/startup/linux.rs", "fs::read(", PROC),
    ("mlprof-events/src/startup/linux.rs", "fs::read_to_string(", PROC),
    ("mlprof-live/src/dynolog/message.rs", "fs::read_to_string(", PROC),
    ("mlprof-live/src/families/process.rs", "fs::read_to_string(", PROC),
    ("mlprof-live/src/process_memory.rs", "fs::read_to_string(", PROC),
    ("mlprof-macros/src/recorder_path.rs", "fs::read_to_string(", "a manifest, in the compiler"),
    ("mlprof-sampler/src/linux/process_layout.rs", "fs::read_to_string(", PROC),
    ("mlprof-sampler/src/linux/threads.rs", "fs::read(", PROC),
    ("mlprof-trace/src/host.rs", "fs::read_to_string(", PROC),
    ("mlprof-sql/src/lib.rs", "fs::read_to_string(", "a query that a person has named"),
];

/// The reason for files that the kernel provides.
const PROC: &str = "a file of /proc";

/// Returns `true` if a file belongs to a library, a plugin or the command and is not test code.
pub fn is_product(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    let is_crate = parts.first().is_some_and(|folder| {
        folder.starts_with("mlprof") || *folder == "profiler-core" || folder.ends_with("-plugin")
    });
    let is_source = parts.get(1) == Some(&"src") && !parts.contains(&"tests");
    let name = parts.last().copied().unwrap_or_default();
    is_crate
        && is_source
        && name.ends_with(".rs")
        && !name.ends_with("tests.rs")
        && !file.starts_with(MODULE)
}

/// Returns the calls in a file with their line numbers. Tests and comments are ignored.
pub fn calls(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test") {
            // A test item is a single line, or it ends with an unindented closing brace.
            let item = lines.by_ref().find(|(_, line)| !line.starts_with("#["));
            if item.is_some_and(|(_, line)| !line.ends_with(';') && !line.ends_with('}')) {
                lines.by_ref().find(|(_, line)| *line == "}");
            }
        } else if !line.trim_start().starts_with("//") {
            let calls = CALLS.iter().filter(|call| has(line, call));
            found.extend(calls.map(|call| (number, *call)));
        }
    }
    found
}

/// Returns `true` if a line contains the call. Longer names with the same ending, such as
/// `GrowingFile::create`, do not count.
fn has(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(place, _)| {
        let before = line[..place].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[test]
fn calls_are_found_and_not_in_tests() {
    let text = "use std::fs;\n// fs::write(\nfs::write(path, text);\nGrowingFile::create(path)\n\
                #[cfg(all(test, not(loom)))]\nmod record_tests;\nlet f = std::fs::File::create(x);\n\
                #[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fs::read(x);\n}\nfs::read(y)\n";
    assert_eq!(calls(text), [(3, "fs::write("), (7, "File::create"), (13, "fs::read(")]);
    assert!(is_product(Path::new("mlprof/src/run/plan.rs")));
    for other in [
        "mlprof-events/src/files/whole.rs",
        "profiler-core/tests/lines.rs",
        "profiler-core/src/advanced/tests/mod.rs",
        "profiler-core/src/numerics/record_tests.rs",
        "mlprof/build.rs",
        "xtask/src/main.rs",
    ] {
        assert!(!is_product(Path::new(other)), "{other}");
    }
}
