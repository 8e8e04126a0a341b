//! Names of the machine and the process.

/// Returns the machine's name, or an empty string if the system does not report it.
pub fn host_name() -> String {
    #[cfg(unix)]
    {
        let mut name = [0_u8; 256];
        // SAFETY: the pointer refers to a local buffer of the given length, which outlives the
        // call.
        let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        if result == 0 { String::from_utf8_lossy(&name[..end]).into_owned() } else { String::new() }
    }
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Returns the id of the machine's current boot, which is the same for all its processes and
/// containers. Returns `None` on systems other than Linux. Processes with the same id share the
/// monotonic clock.
pub(crate) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Returns the name of the process in file names: `{host}_{process id}`.
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
