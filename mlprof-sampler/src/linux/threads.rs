//! What `/proc` says of the threads of this process.

/// All threads of the process.
pub(super) fn threads() -> Option<Vec<i32>> {
    let entries = std::fs::read_dir("/proc/self/task").ok()?.collect::<Result<Vec<_>, _>>().ok()?;
    Some(entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The name of a thread as the system keeps it, 15 bytes; empty if the thread is gone.
pub(super) fn name_of(thread: i32) -> String {
    if thread == std::process::id().cast_signed() {
        return "main".to_owned();
    }
    let name = std::fs::read(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()
}
