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

const BEGAN: &str = "began ";
const SIGNAL: &str = "signal ";
const REPORTED: &str = "reported";
const LEFT: &str = "left";

/// What is known of a process of `mlprof run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRecord {
    /// The number of the process.
    pub process: u32,
    /// The programs that it was, one after the other: `exec` makes another one of it.
    pub programs: Vec<ProgramRecord>,
}

/// A program that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRecord {
    /// Its file.
    pub program: PathBuf,
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
            let process = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if let Some(process) = process {
                let text = std::fs::read(&path)?;
                records.push(Self::of(process, &String::from_utf8_lossy(&text)));
            }
        }
        records.sort_by_key(|record: &Self| record.process);
        Ok(records)
    }

    fn of(process: u32, text: &str) -> Self {
        let mut programs: Vec<ProgramRecord> = Vec::new();
        for line in text.lines() {
            if let Some(program) = line.strip_prefix(BEGAN) {
                let program = PathBuf::from(program);
                programs.push(ProgramRecord { program, signal: None, has_reported: false });
            } else if line == LEFT {
                programs.pop();
            } else if let Some(last) = programs.last_mut() {
                last.has_reported |= line == REPORTED;
                let signal = line.strip_prefix(SIGNAL).and_then(|number| number.parse().ok());
                last.signal = last.signal.or(signal);
            }
        }
        Self { process, programs }
    }
}

/// The file of this process; null: nobody wants to know. Never freed. It is opened anew for each
/// line: a descriptor that is kept may be somebody else's by then, in programs that close all.
static FILE: AtomicPtr<std::ffi::c_char> = AtomicPtr::new(ptr::null_mut());

/// This process begins to be measured.
pub(super) fn begin(folder: &Path) {
    let path = folder.join(std::process::id().to_string());
    let Ok(path) = CString::new(path.into_os_string().into_encoded_bytes()) else { return };
    FILE.store(path.into_raw(), Ordering::Release);
    let program = std::env::current_exe().unwrap_or_default();
    write(format!("{BEGAN}{}\n", program.display()).as_bytes());
}

/// Its results are written.
pub(super) fn reported() {
    write(format!("{REPORTED}\n").as_bytes());
}

/// Another copy of this crate measures it.
pub(super) fn leave() {
    write(format!("{LEFT}\n").as_bytes());
    FILE.store(ptr::null_mut(), Ordering::Release);
}

/// A signal is ending it. May be called in a signal handler.
pub(super) fn ends_by(signal: i32) {
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
    // SAFETY: `begin` made it from a C string, which is never freed.
    let path = unsafe { CStr::from_ptr(path) };
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: a C string, bytes that are there, and a descriptor that was just opened.
    unsafe {
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file >= 0 {
            libc::write(file, line.as_ptr().cast(), line.len());
            libc::close(file);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_became_and_how_it_ended_is_read_back() {
        let text = "began /a/first\nleft\nbegan /a/first\nsignal 06\nbegan /b/second\nreported\n";
        let record = ProcessRecord::of(7, text);
        let program = |program: &str, signal, has_reported| ProgramRecord {
            program: program.into(),
            signal,
            has_reported,
        };
        let expected = [program("/a/first", Some(6), false), program("/b/second", None, true)];
        assert_eq!(record.programs, expected);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("7"), text).expect("written");
        std::fs::write(folder.path().join("plan.json"), "{}").expect("written");
        assert_eq!(ProcessRecord::read_all(folder.path()).expect("read"), [record]);
    }
}
