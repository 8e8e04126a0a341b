//! Queries all listening processes at once, with one deadline for all answers.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mlprof_events::live::{Answer, LONGEST_ANSWER, Question, Request, write_line};

use super::client::Listener;
use super::listed::Listed;
use super::{Error, ProcessName};

/// Deadline for all answers. The survey does not wait longer for a process, because it may be
/// stopped.
const PATIENCE: Duration = Duration::from_secs(3);

/// Retry interval for connecting to a process whose backlog is full.
const RETRY: Duration = Duration::from_millis(20);

/// Returns all listening processes of this user, ordered by process id. Processes that do not
/// answer are included.
///
/// # Errors
///
/// Returns an error if no socket is found and at least one folder could not be used.
pub(super) fn survey() -> Result<Vec<Listed>, Error> {
    Ok(survey_of(Listener::all()?, PATIENCE))
}

fn survey_of(listeners: Vec<Listener>, patience: Duration) -> Vec<Listed> {
    let until = Instant::now() + patience;
    let mut asked: Vec<Inquiry> = listeners.into_iter().map(Inquiry::Queued).collect();
    loop {
        asked.iter_mut().for_each(Inquiry::connect);
        let left = until.saturating_duration_since(Instant::now());
        if !asked.iter().any(Inquiry::may_answer) || left.is_zero() {
            break;
        }
        let is_queued = asked.iter().any(|it| matches!(it, Inquiry::Queued(_)));
        wait_for_any(&asked, if is_queued { left.min(RETRY) } else { left });
        asked.iter_mut().for_each(Inquiry::read);
    }
    let mut listed: Vec<Listed> = asked.into_iter().filter_map(|it| it.listed(patience)).collect();
    listed.sort_by_key(|it| (it.name.namespace, it.name.number));
    listed
}

/// State of the query to one process.
enum Inquiry {
    /// Not connected yet, because the backlog of the process may be full.
    Queued(Listener),
    Waiting(Waiting),
    Answered(Box<Listed>),
    /// The process ended or belongs to another user.
    Gone,
}

struct Waiting {
    name: ProcessName,
    stream: UnixStream,
    answer: Vec<u8>,
}

impl Inquiry {
    fn connect(&mut self) {
        let Self::Queued(listener) = self else { return };
        *self = match listener.connect(Instant::now()) {
            Ok(client) => {
                let (name, stream) = (client.process(), client.into_stream());
                let is_asked = stream.set_nonblocking(true).is_ok()
                    && write_line(&stream, &Question::new(Request::State)).is_ok();
                match is_asked {
                    true => Self::Waiting(Waiting { name, stream, answer: Vec::new() }),
                    false => Self::Gone,
                }
            }
            Err(Error::NotAnswering { .. }) => return,
            Err(_) => Self::Gone,
        };
    }

    /// Returns `true` if an answer may still arrive. A stopped process does not answer.
    fn may_answer(&self) -> bool {
        match self {
            Self::Queued(listener) => !is_stopped(listener.name()),
            Self::Waiting(waiting) => !is_stopped(waiting.name),
            Self::Answered(_) | Self::Gone => false,
        }
    }

    fn read(&mut self) {
        let Self::Waiting(waiting) = self else { return };
        match waiting.read() {
            Ok(None) => {}
            Ok(Some(listed)) => *self = Self::Answered(Box::new(listed)),
            Err(_) => *self = Self::Gone,
        }
    }

    fn listed(self, patience: Duration) -> Option<Listed> {
        let name = match self {
            Self::Answered(listed) => return Some(*listed),
            Self::Gone => return None,
            Self::Queued(listener) => listener.name(),
            Self::Waiting(waiting) => waiting.name,
        };
        let why = match is_stopped(name) {
            true => "stopped".to_owned(),
            false => format!("no answer in {} s", patience.as_secs_f64()),
        };
        Some(Listed::unanswered(name, program(name), why))
    }
}

impl Waiting {
    /// Reads the available bytes, and returns the answer when it is complete.
    fn read(&mut self) -> io::Result<Option<Listed>> {
        let mut part = [0; 16 << 10];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.answer.extend_from_slice(&part[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Some(line) = self.answer.strip_suffix(b"\n") {
                return Ok(Some(understand(self.name, line)));
            }
            if self.answer.len() as u64 > LONGEST_ANSWER {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

fn understand(name: ProcessName, line: &[u8]) -> Listed {
    let why = match serde_json::from_slice(line) {
        Ok(Answer::State(state)) => return Listed::answered(name, state),
        Ok(Answer::Error { message }) => message,
        Ok(_) => "unexpected kind of reply".to_owned(),
        Err(error) => format!("cannot parse its reply: {error}"),
    };
    Listed::unanswered(name, program(name), why)
}

/// Waits until at least one queried process answers or closes its connection.
fn wait_for_any(asked: &[Inquiry], within: Duration) {
    let streams = asked.iter().filter_map(|it| match it {
        Inquiry::Waiting(waiting) => Some(waiting.stream.as_raw_fd()),
        _ => None,
    });
    let mut all: Vec<libc::pollfd> =
        streams.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let milliseconds = within.as_millis().clamp(1, 1000) as libc::c_int;
    // SAFETY: the pointer and the length belong to the same `Vec` of initialised `pollfd`s. It is
    // borrowed exclusively and lives until the call returns.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
}

/// Returns `true` if the process is stopped, for example by Ctrl-Z or a debugger.
fn is_stopped(name: ProcessName) -> bool {
    let stat = name.namespace.is_none().then(|| format!("/proc/{}/stat", name.number));
    let stat = stat.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    // The state follows the program name, which may contain parentheses itself.
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    state.starts_with(['T', 't'])
}

fn program(name: ProcessName) -> Option<String> {
    let link = name.namespace.is_none().then(|| format!("/proc/{}/exe", name.number))?;
    let program = std::fs::read_link(link).ok()?;
    Some(program.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use mlprof_events::live::{ProcessIdentity, listen};

    use super::*;

    #[test]
    fn one_that_does_not_answer_delays_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = ProcessIdentity::own();
        let mut others = Vec::new();
        let mut threads = Vec::new();
        for start in 0..3 {
            let identity = ProcessIdentity { start: own.start.map(|it| it + start), ..own };
            let listener = listen(folder.path(), &identity).expect("bound");
            let socket = Listener::in_folder(folder.path(), identity);
            others.push(socket);
            match start {
                // The first process accepts the connection but never answers.
                0 => threads.push(std::thread::spawn(move || {
                    let _quiet = listener.accept();
                    std::thread::park();
                })),
                // The second process answers.
                1 => threads.push(std::thread::spawn(move || {
                    let (stream, _) = listener.accept().expect("a connection");
                    let answer = Listed::unanswered(7.into(), None, String::new()).state;
                    write_line(&stream, &Answer::State(answer)).expect("written");
                    std::thread::park();
                })),
                // The third process does not accept connections, and its backlog is full.
                _ => {
                    // SAFETY: `listen` takes no pointers, and the listener keeps the descriptor
                    // open during the call.
                    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
                    let full = others[2].connect(Instant::now()).expect("there is room for one");
                    threads.push(std::thread::spawn(move || {
                        let _open = (listener, full);
                        std::thread::park();
                    }));
                }
            }
        }
        let listed = survey_of(others, Duration::from_secs(2));
        let whys: Vec<_> = listed.iter().map(|it| it.unanswered.as_deref()).collect();
        assert_eq!(whys.iter().filter(|why| why.is_none()).count(), 1, "{whys:?}");
        let silent = whys.iter().filter(|why| **why == Some("no answer in 2 s")).count();
        // On systems other than Linux, a full backlog refuses connections.
        assert_eq!(silent, if cfg!(target_os = "linux") { 2 } else { 1 }, "{whys:?}");
        threads.iter().for_each(|thread| thread.thread().unpark());
    }
}
