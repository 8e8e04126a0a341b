//! Records that processes leave for `mlprof run`, so that it notices each process that ended
//! without results.
//!
//! Each process has a file. It contains a line for the start of each measured program, and one for
//! its written results. If a process dies in between, only the first line is present. Each line is
//! a single `write`, which a signal handler may also perform.

#[cfg(unix)]
use std::ffi::CStr;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::OrderExt;
use crate::{files, process_id};

/// Maximum number of bytes read from a record, which has a few lines per program.
const LONGEST: u64 = 16 << 20;
const BEGAN: &str = "began ";
const WRITES: &str = "writes ";
const SIGNAL: &str = "signal ";
const REPORTED: &str = "reported";
const LEFT: &str = "left";

/// Record of a process started by `mlprof run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Process id, as seen by the process itself.
    pub process: u32,
    /// Inode of the process's PID namespace, which distinguishes its id from ids in other
    /// containers; `None` if unknown.
    pub container: Option<u64>,
    /// Programs that the process ran, in chronological order. `exec` replaces the program of a
    /// process.
    pub programs: Vec<ProgramRecord>,
}

/// A measured program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRecord {
    /// Path of the executable.
    pub program: PathBuf,
    /// Prefix of the names of its result files, after the stage.
    pub results: Option<String>,
    /// Signal that terminated the program, if it was one that can be handled.
    pub signal: Option<i32>,
    /// Set if the program's results were written.
    pub has_reported: bool,
}

impl ProcessRecord {
    /// Reads all records in a folder.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system.
    pub fn read_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some((process, container)) = name.and_then(named) {
                let text = files::read(&path, LONGEST)?;
                records.push(Self::of(process, container, &String::from_utf8_lossy(&text)));
            }
        }
        records.order_by_key(|record: &Self| (record.process, record.container));
        Ok(records)
    }

    /// Returns `true` if the record's process id belongs to the PID namespace of the calling
    /// process.
    pub fn is_of_this_container(&self) -> bool {
        self.container == own_namespace()
    }

    fn of(process: u32, container: Option<u64>, text: &str) -> Self {
        let mut programs: Vec<ProgramRecord> = Vec::new();
        for line in text.lines() {
            if let Some(program) = line.strip_prefix(BEGAN) {
                let program = PathBuf::from(program);
                programs.push(ProgramRecord {
                    program,
                    results: None,
                    signal: None,
                    has_reported: false,
                });
            } else if line == LEFT {
                programs.pop();
            } else if let Some(last) = programs.last_mut() {
                last.has_reported |= line == REPORTED;
                let results = line.strip_prefix(WRITES).map(str::to_owned);
                last.results = last.results.take().or(results);
                let signal = line.strip_prefix(SIGNAL).and_then(|number| number.parse().ok());
                last.signal = last.signal.or(signal);
            }
        }
        Self { process, container, programs }
    }
}

/// Returns the file name of this process's record. The process id alone is not sufficient, because
/// processes of other containers may have the same id.
fn name() -> String {
    let process = process_id();
    own_namespace()
        .map_or_else(|| process.to_string(), |container| format!("{process}-{container}"))
}

/// Parses the process id and the PID namespace from the name of a record.
fn named(name: &str) -> Option<(u32, Option<u64>)> {
    match name.split_once('-') {
        Some((process, container)) => Some((process.parse().ok()?, Some(container.parse().ok()?))),
        None => Some((name.parse().ok()?, None)),
    }
}

/// Returns the inode of this process's PID namespace. It stays the same across `exec`.
pub(crate) fn own_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Path of this process's record as a C string that is never freed; null if there is no record. The
/// file is opened again for each line. If the program closes all descriptors, a descriptor kept
/// open might refer to a file of the program later.
static FILE: AtomicPtr<std::ffi::c_char> = AtomicPtr::new(ptr::null_mut());

/// Starts the record of this process and writes a line for the current program.
pub fn begin(folder: &Path) {
    let path = folder.join(name());
    let Ok(path) = CString::new(path.into_os_string().into_encoded_bytes()) else { return };
    FILE.store(path.into_raw(), Ordering::Release);
    let program = std::env::current_exe().unwrap_or_default();
    write(format!("{BEGAN}{}\n", program.display()).as_bytes());
}

/// Records the prefix of the program's result file names.
pub fn writes(name: &str) {
    write(format!("{WRITES}{name}\n").as_bytes());
}

/// Records that the results are written.
pub fn reported() {
    write(format!("{REPORTED}\n").as_bytes());
}

/// Records that another copy of this crate measures the program, and stops recording.
pub fn leave() {
    write(format!("{LEFT}\n").as_bytes());
    FILE.store(ptr::null_mut(), Ordering::Release);
}

/// Records the signal that is terminating the process. It may be called in a signal handler.
pub fn ends_by(signal: i32) {
    let mut line = *b"signal 00\n";
    line[7] = b'0' + (signal / 10 % 10) as u8;
    line[8] = b'0' + (signal % 10) as u8;
    write(&line);
}

#[cfg(not(unix))]
fn write(_line: &[u8]) {}

/// Writes a line to the record with system calls only.
#[cfg(unix)]
fn write(line: &[u8]) {
    let path = FILE.load(Ordering::Acquire);
    if path.is_null() {
        return;
    }
    // SAFETY: the pointer is not null, so `begin` stored it from a `CString`. That string is
    // NUL-terminated and never freed or changed.
    let path = unsafe { CStr::from_ptr(path) };
    files::append_in_handler(path, line);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn replacement_and_end_of_a_process_are_read_back() {
        let text = "began /a/first\nleft\nbegan /a/first\nwrites first-7\nsignal 06\n\
                    began /b/second\nwrites second-7-2\nreported\n";
        let record = ProcessRecord::of(7, None, text);
        let program = |program: &str, results: &str, signal, has_reported| ProgramRecord {
            program: program.into(),
            results: Some(results.to_owned()),
            signal,
            has_reported,
        };
        let expected = [
            program("/a/first", "first-7", Some(6), false),
            program("/b/second", "second-7-2", None, true),
        ];
        assert_eq!(record.programs, expected);
        let other = ProcessRecord::of(7, Some(4_026_532_201), "began /c/third\n");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("7"), text).expect("written");
        std::fs::write(folder.path().join("7-4026532201"), "began /c/third\n").expect("written");
        std::fs::write(folder.path().join("plan.json"), "{}").expect("written");
        assert_eq!(ProcessRecord::read_all(folder.path()).expect("read"), [record, other]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_record_is_found_by_its_process_and_its_container() {
        let (process, container) = named(&name()).expect("a name of ours");
        assert_eq!((process, container), (std::process::id(), super::own_namespace()));
        assert!(container.is_some());
        let record = ProcessRecord::of(process, container, "");
        assert!(record.is_of_this_container());
        let elsewhere = container.map(|container| container + 1);
        assert!(!ProcessRecord::of(process, elsewhere, "").is_of_this_container());
    }
}
