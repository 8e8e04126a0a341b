//! What a process leaves for `mlprof run`, so that none ends without a word.
//!
//! A file per process: a line when a program begins to be measured, and one when its results are
//! written. Whoever dies in between leaves the first without the second. Each line is one `write`,
//! which a signal handler may do, too.

#[cfg(unix)]
use std::ffi::CStr;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::OrderExt;
use crate::{files, process_id};

/// Bytes of a record that are read, at most: a line per program that the process has been, and a
/// few more.
const LONGEST: u64 = 16 << 20;
const BEGAN: &str = "began ";
const WRITES: &str = "writes ";
const SIGNAL: &str = "signal ";
const REPORTED: &str = "reported";
const LEFT: &str = "left";

/// What is known of a process of `mlprof run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRecord {
    /// The number of the process, as it sees it itself.
    pub process: u32,
    /// What tells the numbers of its container from those of others, where that is known.
    pub container: Option<u64>,
    /// The programs that it was, one after the other: `exec` makes another one of it.
    pub programs: Vec<ProgramRecord>,
}

/// A program that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRecord {
    /// Its file.
    pub program: PathBuf,
    /// What the names of its results begin with, behind their stage.
    pub results: Option<String>,
    /// The signal that was ending it, if it was one that can be handled.
    pub signal: Option<i32>,
    /// Whether its results were written.
    pub has_reported: bool,
}

impl ProcessRecord {
    /// Reads the records of a folder.
    ///
    /// # Errors
    ///
    /// Those of the file system.
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

    /// Whether its number is one of those that this process is told of its children.
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

/// What this process's record is called. Its number alone would not do: another container has it, too.
fn name() -> String {
    let process = process_id();
    own_namespace()
        .map_or_else(|| process.to_string(), |container| format!("{process}-{container}"))
}

/// The process and its container by the name of a record.
fn named(name: &str) -> Option<(u32, Option<u64>)> {
    match name.split_once('-') {
        Some((process, container)) => Some((process.parse().ok()?, Some(container.parse().ok()?))),
        None => Some((name.parse().ok()?, None)),
    }
}

/// Returns the inode of the PID namespace of this process. It stays the same when the process becomes
/// another program.
pub(crate) fn own_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The file of this process; null: nobody wants to know. Never freed. It is opened anew for each
/// line: a descriptor that is kept may be somebody else's by then, in programs that close all.
static FILE: AtomicPtr<std::ffi::c_char> = AtomicPtr::new(ptr::null_mut());

/// This process begins to be measured.
pub fn begin(folder: &Path) {
    let path = folder.join(name());
    let Ok(path) = CString::new(path.into_os_string().into_encoded_bytes()) else { return };
    FILE.store(path.into_raw(), Ordering::Release);
    let program = std::env::current_exe().unwrap_or_default();
    write(format!("{BEGAN}{}\n", program.display()).as_bytes());
}

/// What the names of its results begin with.
pub fn writes(name: &str) {
    write(format!("{WRITES}{name}\n").as_bytes());
}

/// Its results are written.
pub fn reported() {
    write(format!("{REPORTED}\n").as_bytes());
}

/// Another copy of this crate measures it.
pub fn leave() {
    write(format!("{LEFT}\n").as_bytes());
    FILE.store(ptr::null_mut(), Ordering::Release);
}

/// A signal is ending it. May be called in a signal handler.
pub fn ends_by(signal: i32) {
    let mut line = *b"signal 00\n";
    line[7] = b'0' + (signal / 10 % 10) as u8;
    line[8] = b'0' + (signal % 10) as u8;
    write(&line);
}

#[cfg(not(unix))]
fn write(_line: &[u8]) {}

/// Nothing but system calls.
#[cfg(unix)]
fn write(line: &[u8]) {
    let path = FILE.load(Ordering::Acquire);
    if path.is_null() {
        return;
    }
    // SAFETY: `begin` stored the pointer of a C string, which is never freed.
    let path = unsafe { CStr::from_ptr(path) };
    files::append_in_handler(path, line);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_became_and_how_it_ended_is_read_back() {
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
