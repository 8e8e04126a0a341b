//! What the machine and the program are called.

/// The machine's name; empty if it does not say.
pub fn host_name() -> String {
    #[cfg(unix)]
    {
        let mut name = [0_u8; 256];
        // SAFETY: the length is that of the buffer.
        let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        if result == 0 { String::from_utf8_lossy(&name[..end]).into_owned() } else { String::new() }
    }
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// What the machine calls the time since it was started, the same for all processes and containers on it;
/// `None` but on Linux. Who has the same shares the monotonic clock.
pub(crate) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// What a process calls itself in file names: `{host}_{process number}`.
pub fn worker_name() -> String {
    format!("{}_{}", host_name(), mlprof_events::process_id())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn machine_and_program_have_names() {
        let program = mlprof_events::program_name().expect("it runs");
        assert!(program.starts_with("mlprof_trace"), "{program}");
        #[cfg(target_os = "linux")]
        assert_eq!(
            host_name(),
            std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux says").trim()
        );
    }
}
