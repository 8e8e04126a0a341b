//! Id of the calling process, and the name of its program.

/// Returns the id of the calling process. On WebAssembly it returns 1, because reading the id would
/// panic there. The function may be called in a signal handler. *Cost*: one system call.
pub fn process_id() -> u32 {
    if cfg!(all(target_family = "wasm", not(unix))) { 1 } else { std::process::id() }
}

/// Returns the file name of the running program, or `None` if the system does not report it.
pub fn program_name() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    Some(program.file_name()?.to_string_lossy().into_owned())
}
