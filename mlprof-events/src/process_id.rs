//! The number of the calling process.

/// Returns the number of the calling process; 1 on WebAssembly, where there is one process and
/// asking for its number panics. May be called in a signal handler. *Cost*: one system call.
pub fn process_id() -> u32 {
    if cfg!(all(target_family = "wasm", not(unix))) { 1 } else { std::process::id() }
}
