//! The number of the calling process, and the name of its program.

/// Returns the number of the calling process; 1 on WebAssembly, where there is one process and
/// asking for its number panics. May be called in a signal handler. *Cost*: one system call.
pub fn process_id() -> u32 {
    if cfg!(all(target_family = "wasm", not(unix))) { 1 } else { std::process::id() }
}

/// Returns the file name of the program that runs; `None` where the system does not tell.
pub fn program_name() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    Some(program.file_name()?.to_string_lossy().into_owned())
}
