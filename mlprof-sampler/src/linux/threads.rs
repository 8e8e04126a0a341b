//! Threads of this process, read from `/proc`.

/// Returns the ids of all threads of the process.
pub(super) fn threads() -> Option<Vec<i32>> {
    let entries = std::fs::read_dir("/proc/self/task").ok()?.collect::<Result<Vec<_>, _>>().ok()?;
    Some(entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the name of a thread as the system keeps it, at most 15 bytes. Returns an empty string
/// if the thread has ended.
pub(super) fn name_of(thread: i32) -> String {
    if thread == std::process::id().cast_signed() {
        return "main".to_owned();
    }
    let name = std::fs::read(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()
}
