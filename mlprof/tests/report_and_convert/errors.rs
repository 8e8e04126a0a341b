//! Invalid input files.

use crate::runs::{Folder, counted, printed, refused, simple, text};

/// Returns the error messages of both commands, which read files in the same way.
fn both(file: &str) -> [String; 2] {
    [refused(&["report", file]), refused(&["convert", file, "--to", "json"])]
}

#[test]
fn every_error_says_which_file_and_what_is_wrong_with_it() {
    let folder = Folder::new();
    let report = simple().to_json().expect("JSON");
    let newer = report.replace("\"schema_version\": 1", "\"schema_version\": 2");
    let other = report.replace("\"profiler\": \"simple\"", "\"profiler\": \"complex\"");
    let damaged = report.replace("\"wall_seconds\"", "\"wall_clock\"");
    for (name, content, expected) in [
        ("empty", "", " as JSON: EOF"),
        ("words", "FIT Profiler Report\n", " as JSON: expected"),
        ("half", &report[..report.len() / 2], " as JSON: EOF"),
        ("more", &format!("{report} {{"), " as JSON: trailing"),
        ("number", "7", " as JSON: invalid type: integer"),
        (
            "other",
            "{\"a\": 1}",
            "it is neither an mlprof report (JSON with the field \"profiler\") nor",
        ),
        ("list", "[]", "it is neither an mlprof report"),
        ("numbers", "[1, 2]", "it is neither an mlprof report"),
        ("newer", &newer, "it has schema version 2, and this mlprof supports versions up to"),
        ("kind", &other, "kind: unknown variant `complex`, expected one of `simple`"),
        ("damaged", &damaged, "damaged: missing field `wall_seconds`"),
        ("trace", "{\"traceEvents\": []}", "the trace has no slices"),
        (
            "bad trace",
            "{\"traceEvents\": [{\"ph\": 1}]}",
            "none of the trace's events is a readable slice: 1 event was left out: unsupported kind \"1\"",
        ),
    ] {
        let file = folder.file(name, content);
        for error in both(text(&file)) {
            assert!(error.contains(expected), "{name}: {error}");
            assert!(error.contains(text(&file)), "{name}: {error}");
        }
    }
    let missing = folder.path().join("missing.json");
    for error in both(text(&missing)) {
        assert!(error.contains("cannot read ") && error.contains("missing.json: "), "{error}");
    }
    for error in both(text(folder.path())) {
        assert!(error.contains("cannot read "), "a folder: {error}");
    }
}

#[test]
fn compressed_files_are_read_under_any_name() {
    let folder = Folder::new();
    let report = counted();
    let plain = folder.report("plain.json", &report);
    let compress = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let bytes = compress(report.to_json().expect("JSON").as_bytes());
    let packed = folder.file("packed.json", &bytes);
    assert_eq!(printed(&["report", text(&packed)]), printed(&["report", text(&plain)]));
    let half = folder.file("half.json.gz", &bytes[..bytes.len() / 2]);
    for error in both(text(&half)) {
        assert!(error.contains("half.json.gz"), "{error}");
    }
}

/// A decompression bomb expands from a small file to a very large text.
#[test]
fn a_small_file_does_not_unpack_to_all_memory() {
    let folder = Folder::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut write = |bytes: &[u8]| std::io::Write::write_all(&mut encoder, bytes).expect("memory");
    write(b"{\"profiler\": \"");
    (0..64).for_each(|_| write(&[b'a'; 1 << 20]));
    write(b"\"}");
    let bytes = encoder.finish().expect("memory");
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let file = folder.file("bomb.json.gz", &bytes);
    for error in both(text(&file)) {
        assert!(error.contains("cannot read ") && error.contains("bomb.json.gz"), "{error:.300}");
        assert!(error.contains("expands to more than 200 times its size"), "{error:.300}");
    }
}

#[test]
fn wrong_arguments_are_told_with_what_is_right() {
    let folder = Folder::new();
    let file = folder.report("run.json", &simple());
    for (arguments, expected) in [
        (["report", "--limit", "1.5"], "a share such as 0.1 or 10%"),
        (["report", "--filter", "("], "unclosed group"),
        (["report", "--group-by", "size"], "use name, shapes, stack 5, module, phase"),
        (["report", "--layout", "wide"], "possible values: lightning, short, detailed"),
        (
            ["convert", "--to", "pdf"],
            "possible values: chrome, folded, svg, prof, speedscope, json",
        ),
    ] {
        let error = refused(&[&arguments[..], &[text(&file)]].concat());
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

/// If standard error cannot be written, the exit code stays the same and nothing panics.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_error_changes_nothing() {
    let folder = Folder::new();
    let file = folder.report("run.json", &simple());
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let status = |arguments: &[&str], output: std::process::Stdio| {
        let mut command = crate::runs::command(arguments);
        command.stdout(output).stderr(full()).status().expect("started").code()
    };
    let missing = folder.path().join("missing.json");
    for arguments in [&["report", text(&missing)][..], &["report", text(&file), "--sort", "no"]] {
        assert_eq!(status(arguments, std::process::Stdio::null()), Some(2), "{arguments:?}");
    }
    assert_eq!(status(&["report", text(&file)], full().into()), Some(2), "both are full");
    assert_eq!(status(&["report"], std::process::Stdio::null()), Some(2), "no file is named");
    let convert = ["convert", text(&file), "--to", "json"];
    assert_eq!(status(&convert, std::process::Stdio::null()), Some(0));
    assert_eq!(status(&convert, full().into()), Some(2));
    // The program runs under the name with which cargo calls it as a compiler wrapper.
    let mut compiler = crate::runs::command(&["/nowhere/rustc", "src/lib.rs", "--crate-name", "x"]);
    std::os::unix::process::CommandExt::arg0(&mut compiler, "mlprof-rustc-wrapper");
    compiler.env(mlprof::run::plan::PLAN_VARIABLE, missing).stderr(full());
    assert_eq!(compiler.status().expect("started").code(), Some(1));
}
