//! Hash of a function's source text, to detect if it changed since the program was built.

/// Returns a hash that changes with the text of a function: FNV-1a of its lines, regardless of the
/// line endings.
pub fn source_hash<'text>(lines: impl IntoIterator<Item = &'text str>) -> u64 {
    let bytes = lines.into_iter().flat_map(|line| line.trim_end().bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
