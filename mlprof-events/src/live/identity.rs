//! Identity of a process with a live socket: its id, the PID namespace of that id, and its start
//! time.

use std::ffi::OsStr;

use crate::run::process_record;

/// Identifies a process across PID namespaces and across reuse of its id.
///
/// Processes in containers that share a folder of sockets may have equal ids. A killed process
/// leaves its files to the next process with the same id. The file names of sockets and tokens
/// therefore contain all three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    /// Process id, as seen by the process itself.
    pub process: u32,
    /// Inode of the PID namespace that the id belongs to; `None` if the system does not have such
    /// namespaces.
    pub namespace: Option<u64>,
    /// Start time of the process in clock ticks since the machine started; `None` if the system
    /// does not report it.
    pub start: Option<u64>,
}

impl ProcessIdentity {
    /// Returns the identity of this process. A forked child has its own.
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// Returns the identity of a process in the caller's PID namespace.
    pub fn of(process: u32) -> Self {
        let start = stat(&process.to_string()).map(|stat| stat.start);
        Self { process, namespace: own_namespace(), start }
    }

    /// Returns the name of a file of this process: `4711-4026531836-123456.sock`, or `4711.sock`
    /// without a namespace and a start time.
    pub fn file_name(&self, ending: &str) -> String {
        let process = self.process;
        match (self.namespace, self.start) {
            (Some(namespace), Some(start)) => format!("{process}-{namespace}-{start}.{ending}"),
            _ => format!("{process}.{ending}"),
        }
    }

    /// Parses the name of a file. Returns `None` if [`file_name`](Self::file_name) cannot have
    /// produced it.
    pub fn of_file_name(name: &OsStr, ending: &str) -> Option<Self> {
        let stem = name.to_str()?.strip_suffix(ending)?.strip_suffix('.')?;
        let mut parts = stem.split('-');
        let process = parts.next()?.parse().ok()?;
        let identity = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => Self { process, namespace: None, start: None },
            (Some(namespace), Some(start), None) => Self {
                process,
                namespace: Some(namespace.parse().ok()?),
                start: Some(start.parse().ok()?),
            },
            _ => return None,
        };
        Some(identity)
    }

    /// Returns `true` if the process id belongs to the PID namespace of the calling process.
    pub fn is_of_own_namespace(&self) -> bool {
        self.namespace.is_none() || self.namespace == own_namespace()
    }

    /// Returns `true` if the process has ended, or `None` if that is not visible from here, as in
    /// another container.
    pub fn has_ended(&self) -> Option<bool> {
        if !self.is_of_own_namespace() {
            return None;
        }
        let Ok(number) = libc::pid_t::try_from(self.process) else { return Some(true) };
        if number == 0 {
            return Some(true);
        }
        // SAFETY: `kill` takes two integers. Signal 0 is not delivered and only checks that the
        // process exists.
        let answer = unsafe { libc::kill(number, 0) };
        if answer != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            return Some(true);
        }
        match (self.start, stat(&self.process.to_string())) {
            (Some(start), Some(found)) => Some(found.start != start || found.is_zombie),
            // The mount options of `/proc` hide the process, or the system does not have `/proc`.
            _ => Some(false),
        }
    }
}

/// Returns the inode of this process's PID namespace.
pub fn own_namespace() -> Option<u64> {
    process_record::own_namespace()
}

struct Stat {
    /// Start time in clock ticks since the machine started.
    start: u64,
    is_zombie: bool,
}

fn stat(process: &str) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{process}/stat")).ok()?)
}

fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let stat = String::from_utf8_lossy(stat);
    // The program's name may contain parentheses and spaces.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    // The state is field 3 of the line, and the start time is field 22.
    Some(Stat { start: fields.nth(18)?.parse().ok()?, is_zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(identity: ProcessIdentity, name: &str) {
        assert_eq!(identity.file_name("sock"), name);
        assert_eq!(ProcessIdentity::of_file_name(name.as_ref(), "sock"), Some(identity));
    }

    #[test]
    fn names_of_files_hold_the_whole_identity() {
        let full = ProcessIdentity { process: 1, namespace: Some(4_026_532_201), start: Some(77) };
        round(full, "1-4026532201-77.sock");
        round(ProcessIdentity { process: 4711, namespace: None, start: None }, "4711.sock");
        for name in
            ["x.sock", "4711", "1-2.sock", "1-2-3-4.sock", "-1-2.sock", "1-x-3.sock", ".sock"]
        {
            assert_eq!(ProcessIdentity::of_file_name(name.as_ref(), "sock"), None, "{name}");
        }
        assert_eq!(ProcessIdentity::of_file_name("1.token".as_ref(), "sock"), None);
    }

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let line = b"7 (a) R 1 (b) S 1 7 7 0 -1 4194560 1 0 0 0 5 0 0 0 20 0 1 0 4242 1 1 1";
        let stat = parse_stat(line).expect("a line");
        assert_eq!((stat.start, stat.is_zombie), (4242, false));
        let zombie = String::from_utf8_lossy(line).replace("(b) S", "(b) Z");
        assert!(parse_stat(zombie.as_bytes()).expect("a line").is_zombie);
        assert!(parse_stat(b"7 (a) S 1").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_has_ended_is_known_in_its_own_namespace_only() {
        let own = ProcessIdentity::own();
        assert_eq!((own.is_of_own_namespace(), own.has_ended()), (true, Some(false)));
        let earlier = ProcessIdentity { start: own.start.map(|start| start + 1), ..own };
        assert_eq!(earlier.has_ended(), Some(true), "another process had this number");
        let elsewhere = ProcessIdentity { namespace: own.namespace.map(|it| it + 1), ..own };
        assert_eq!(elsewhere.has_ended(), None);
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let number = child.id();
        // The child has not been reaped yet. A zombie has no sockets, so it counts as ended.
        let ended = || {
            let start = stat(&number.to_string()).map(|it| it.start);
            ProcessIdentity { process: number, start, ..own }.has_ended()
        };
        let began = std::time::Instant::now();
        while ended() != Some(true) {
            assert!(began.elapsed().as_secs() < 60, "it never ended");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().expect("it ended");
        assert_eq!(ended(), Some(true));
    }
}
