//! The other end of the socket of a process.

use std::fs;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use profiler_events::live::{
    Answer, LONGEST_ANSWER, Question, Request, check, folder, own_user, peer_user, process_of,
    read_line, socket_of, write_line,
};

use super::Error;

/// Who does not answer what can be answered at once is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a process.
pub(super) struct Client {
    process: u32,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to a process of this user.
    pub(super) fn connect(process: u32) -> Result<Self, Error> {
        let folder = folder();
        if !check(&folder, false)? {
            return Err(why_not(process));
        }
        Self::connect_in(&folder, process)
    }

    fn connect_in(folder: &Path, process: u32) -> Result<Self, Error> {
        let path = socket_of(folder, process);
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(why_not(process)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Left behind by a process that was killed. If it cannot be removed somebody else has done so.
                let _ = fs::remove_file(&path);
                return Err(why_not(process));
            }
            Err(error) => return Err(Error::Connection { process, error }),
        };
        let broken = |error| Error::Connection { process, error };
        if peer_user(&stream).map_err(broken)? != own_user() {
            return Err(Error::OtherUser { process });
        }
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
        Ok(Self { process, stream: BufReader::new(stream) })
    }

    /// All processes of this user that listen, in the order of their numbers. What killed ones have left is removed.
    pub(super) fn all() -> Result<Vec<Self>, Error> {
        let folder = folder();
        if !check(&folder, false)? {
            return Ok(Vec::new());
        }
        let unreadable = |error| Error::Write { path: folder.clone(), error };
        let mut processes = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            processes.extend(process_of(&entry.map_err(unreadable)?.file_name()));
        }
        processes.sort_unstable();
        Ok(processes.into_iter().filter_map(|it| Self::connect_in(&folder, it).ok()).collect())
    }

    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Asks, and reads the first line of the answer.
    pub(super) fn ask(&mut self, request: Request) -> Result<Answer, Error> {
        let written = write_line(self.stream.get_ref(), &Question::new(request));
        written.map_err(|error| self.failed(error))?;
        self.answer()
    }

    /// From here on an answer may take as long as it does.
    pub(super) fn wait_for_ever(&self) -> Result<(), Error> {
        self.stream.get_ref().set_read_timeout(None).map_err(|error| self.failed(error))
    }

    /// Reads another line.
    pub(super) fn answer(&mut self) -> Result<Answer, Error> {
        let process = self.process;
        match read_line(&mut self.stream, LONGEST_ANSWER) {
            Ok(Some(line)) => serde_json::from_slice(&line)
                .map_err(|error| Error::NotUnderstood { process, reason: error.to_string() }),
            Ok(None) => Err(Error::Gone { process }),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Reads what follows a line.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = (&mut self.stream).take(count).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 == count => Ok(bytes),
            Ok(_) => Err(Error::Gone { process: self.process }),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        let process = self.process;
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                Error::Gone { process }
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let seconds = PATIENCE.as_secs();
                let error = io::Error::other(format!("it has not answered for {seconds} s"));
                Error::Connection { process, error }
            }
            _ => Error::Connection { process, error },
        }
    }
}

/// Why there is no socket of a process.
fn why_not(process: u32) -> Error {
    let Ok(number) = libc::pid_t::try_from(process) else { return Error::NoProcess { process } };
    if number == 0 {
        return Error::NoProcess { process };
    }
    // SAFETY: signal 0 does nothing but ask whether the process is there.
    let is_there = unsafe { libc::kill(number, 0) } == 0;
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM) if !is_there => Error::OtherUser { process },
        _ if !is_there => Error::NoProcess { process },
        // Root may send signals to everybody.
        _ if owner(process).is_some_and(|owner| owner != own_user()) => {
            Error::OtherUser { process }
        }
        _ => Error::NotListening { process },
    }
}

#[cfg(target_os = "linux")]
fn owner(process: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{process}")).ok().map(|found| found.uid())
}

#[cfg(not(target_os = "linux"))]
fn owner(_process: u32) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = std::process::id();
        let path = socket_of(folder.path(), own);
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "a socket outlives who made it");
        let error = Client::connect_in(folder.path(), own).err().expect("nobody listens");
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn it_is_said_why_a_process_cannot_be_asked() {
        assert!(matches!(why_not(u32::MAX), Error::NoProcess { .. }));
        assert!(matches!(why_not(0), Error::NoProcess { .. }));
        // More than there can be on Linux.
        assert!(matches!(why_not(1 << 30), Error::NoProcess { .. }));
        assert!(matches!(why_not(std::process::id()), Error::NotListening { .. }));
    }
}
