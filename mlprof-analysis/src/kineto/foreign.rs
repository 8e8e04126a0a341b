//! Unsupported formats of other tools, each with its error message.

/// Top-level JSON fields of other tools.
const FIELDS: [(&str, &str); 8] = [
    (
        "rocprofiler-sdk-tool",
        "this is rocprofv3's own JSON; record with PyTorch's profiler instead, whose ROCm traces mlprof reads",
    ),
    ("$schema", "this is a JSON document of another tool, such as speedscope, not a trace"),
    ("schema", "this is an execution trace (Chakra), which lacks thread and device times"),
    ("device_traces", "this is a PyTorch memory snapshot, not a trace"),
    ("segments", "this is a PyTorch memory snapshot, not a trace"),
    ("cpuprofile", "this is a V8 CPU profile, not a trace"),
    (
        "planes",
        "this is an XProf XSpace; export trace.json.gz from XProf's trace viewer, which mlprof reads",
    ),
    ("resourceSpans", "this is OpenTelemetry OTLP, not a Chrome trace"),
];

/// Magic bytes of other tools' files.
const BEGINNINGS: [(&[u8], &str); 12] = [
    (
        b"SQLite format 3",
        "this is an SQLite database, such as from Nsight Systems or rocprof, not JSON",
    ),
    (b"PAR1", "this is a Parquet file; give the folder of the tables that mlprof wrote"),
    (b"PK\x03\x04", "this is a ZIP archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "this is compressed with zstd: decompress it first"),
    (b"BZh", "this is compressed with bzip2: decompress it first"),
    (b"\xfd7zXZ", "this is compressed with xz: decompress it first"),
    (b"\x1f\x8b", "this is compressed twice: decompress it first"),
    (b"\xff\xfe", "this is UTF-16, not UTF-8: convert it first"),
    (b"\xfe\xff", "this is UTF-16, not UTF-8: convert it first"),
    (b"<", "this is HTML or XML, not JSON"),
    (b"\x80\x04", "this is a Python pickle, such as a PyTorch memory snapshot, not JSON"),
    (
        b"version https://git-lfs",
        "this is a Git LFS pointer: fetch the file itself with git lfs pull",
    ),
];

/// Returns `true` if a JSON object with this field is certainly not a trace.
pub(super) fn is_certain(name: &str) -> bool {
    name == "rocprofiler-sdk-tool"
}

/// Returns the reason why a JSON object with this field and without events is not a trace.
fn by_field(name: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(field, _)| *field == name).map(|(_, reason)| *reason)
}

/// Returns the reason why a file is not a trace, from its first fields or its first bytes.
pub(super) fn reason(fields: &[String], begins: &[u8]) -> String {
    if let Some(reason) = fields.iter().find_map(|field| by_field(field)) {
        return reason.to_owned();
    }
    let known = BEGINNINGS.iter().find(|(beginning, _)| begins.starts_with(beginning));
    if let Some((_, reason)) = known {
        return (*reason).to_owned();
    }
    // This is a Protocol Buffers message whose first field is a Perfetto packet or an XProf plane.
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..0x7f);
    if begins.first() == Some(&0x0a) && !begins.iter().all(is_text) {
        return "this is the binary format of Perfetto or XProf (protobuf), not JSON".to_owned();
    }
    let expected = "no JSON object with \"traceEvents\" and no list of events";
    match fields {
        [] => format!("this is not a trace: {expected}"),
        fields => format!("this is not a trace: {expected}, but an object with {}", quoted(fields)),
    }
}

fn quoted(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| format!("{field:?}")).collect();
    quoted.join(", ")
}
