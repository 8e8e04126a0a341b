//! Client for the live socket of a process.

use mlprof_events::error_chain::Chain;
use std::collections::HashSet;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mlprof_events::live::{
    Answer, FolderError, LONGEST_ANSWER, ProcessIdentity, Question, Request, check, connect,
    folders, is_own_user, listening, own_user, peer, read_line, write_line,
};
use mlprof_report::output::say;

use super::{Error, ProcessName};

/// Read and write timeout for requests that a process can answer at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Socket of a process. The process may no longer listen on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listener {
    folder: PathBuf,
    identity: ProcessIdentity,
}

impl Listener {
    /// Returns the sockets of this user's processes in all possible socket folders. Sockets left
    /// behind by ended processes are removed.
    ///
    /// # Errors
    ///
    /// Returns an error if no socket is found and at least one folder could not be used.
    pub(super) fn all() -> Result<Vec<Self>, Error> {
        Self::all_in(&folders())
    }

    fn all_in(folders: &[PathBuf]) -> Result<Vec<Self>, Error> {
        let (mut all, mut refused): (Vec<Self>, Vec<FolderError>) = (Vec::new(), Vec::new());
        for folder in folders {
            let unreadable = |error| FolderError::Unusable { path: folder.clone(), error };
            let found = check(folder, false).and_then(|is_there| match is_there {
                true => listening(folder).map_err(unreadable),
                false => Ok(Vec::new()),
            });
            match found {
                Ok(found) => all.extend(
                    found.into_iter().map(|identity| Self { folder: folder.clone(), identity }),
                ),
                Err(error) => refused.push(error),
            }
        }
        match refused.into_iter().next() {
            Some(error) if all.is_empty() => return Err(error.into()),
            Some(error) => say(format_args!("note: {}", Chain(&error))),
            None => {}
        }
        all.sort_by_key(|listener| listener.identity);
        all.dedup_by_key(|listener| listener.identity);
        Ok(all)
    }

    #[cfg(test)]
    pub(super) fn in_folder(folder: &std::path::Path, identity: ProcessIdentity) -> Self {
        Self { folder: folder.to_owned(), identity }
    }

    /// Returns the name of the process, derived from its socket.
    pub(super) fn name(&self) -> ProcessName {
        let ProcessIdentity { process, namespace, .. } = self.identity;
        match self.identity.is_of_own_namespace() {
            true => ProcessName::from(process),
            false => ProcessName { number: process, namespace },
        }
    }

    /// Returns `true` if `name` matches the process id and the PID namespace.
    fn is_named(&self, name: ProcessName) -> bool {
        match name.namespace {
            Some(namespace) => {
                let is_it = self.identity.namespace == Some(namespace);
                is_it && self.identity.process == name.number
            }
            None => self.name() == name,
        }
    }

    /// Connects to the process, with a deadline of `until`. Makes at least one attempt.
    pub(super) fn connect(&self, until: Instant) -> Result<Client, Error> {
        let own_name = self.name();
        let stream = match connect(&self.folder, &self.identity, until) {
            Ok(stream) => stream,
            Err(error) => {
                return Err(match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                        Error::NotListening { process: own_name }
                    }
                    ErrorKind::WouldBlock => Error::NotAnswering { process: own_name },
                    _ => Error::Connection { process: own_name, error },
                });
            }
        };
        let broken = |error| Error::Connection { process: own_name, error };
        let peer = peer(&stream).map_err(broken)?;
        if !is_own_user(peer.user) {
            return Err(Error::OtherUser { process: own_name });
        }
        // A process in a container has a different id outside the container.
        let name = peer.process.map_or(own_name, ProcessName::from);
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
        Ok(Client { name, listener: self.clone(), stream: BufReader::new(stream) })
    }
}

/// Connection to a process.
pub(super) struct Client {
    name: ProcessName,
    listener: Listener,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to a process of this user by name. A process with this id in the own namespace is
    /// preferred, otherwise the only containerised process with this id.
    pub(super) fn connect(name: ProcessName) -> Result<Self, Error> {
        let all = Listener::all().map_err(|error| match why_not(name) {
            Error::NotListening { .. } => error,
            // "No such process" and "owned by another user" are more helpful errors than a refused
            // folder.
            why => why,
        })?;
        Self::connect_to(&all, name)
    }

    fn connect_to(all: &[Listener], name: ProcessName) -> Result<Self, Error> {
        let until = Instant::now() + PATIENCE;
        if let Some(listener) = all.iter().find(|listener| listener.is_named(name)) {
            let refused = |error| match error {
                Error::NotListening { .. } => why_not(name),
                error => error,
            };
            return listener.connect(until).map_err(refused);
        }
        if name.namespace.is_some() {
            return Err(why_not(name));
        }
        let of_containers = all.iter().filter(|it| !it.identity.is_of_own_namespace());
        let mut clients: Vec<Self> =
            of_containers.filter_map(|it| it.connect(Instant::now()).ok()).collect();
        if let Some(place) = clients.iter().position(|client| client.name == name) {
            return Ok(clients.swap_remove(place));
        }
        clients.retain(|client| client.listener.identity.process == name.number);
        if clients.len() > 1 {
            let names = clients.iter().map(Self::process).collect();
            return Err(Error::Ambiguous { number: name.number, names });
        }
        clients.pop().ok_or_else(|| why_not(name))
    }

    /// Connects to all listening processes of this user, except those with the given keys, ordered
    /// by process id. Does not wait for processes that are not ready.
    pub(super) fn all_but(known: &HashSet<String>) -> Result<Vec<Self>, Error> {
        let all = Listener::all()?.into_iter();
        let new = all.filter(|listener| !known.contains(&key_of(listener)));
        Ok(new.filter_map(|listener| listener.connect(Instant::now()).ok()).collect())
    }

    /// Returns a key that no other process ever has.
    pub(super) fn key(&self) -> String {
        key_of(&self.listener)
    }

    /// Returns the underlying stream, for callers that query many processes at once.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
    }

    pub(super) fn process(&self) -> ProcessName {
        self.name
    }

    /// Sends a request and reads the first line of the answer.
    pub(super) fn ask(&mut self, request: Request) -> Result<Answer, Error> {
        let written = write_line(self.stream.get_ref(), &Question::new(request));
        written.map_err(|error| self.failed(error))?;
        self.answer()
    }

    /// Removes the read timeout, so the next answer may take any time.
    pub(super) fn wait_for_ever(&self) -> Result<(), Error> {
        self.stream.get_ref().set_read_timeout(None).map_err(|error| self.failed(error))
    }

    /// Reads the next line of the answer.
    pub(super) fn answer(&mut self) -> Result<Answer, Error> {
        let process = self.name;
        match read_line(&mut self.stream, LONGEST_ANSWER) {
            Ok(Some(line)) => serde_json::from_slice(&line)
                .map_err(|error| Error::NotUnderstood { process, reason: error.to_string() }),
            Ok(None) => Err(Error::Gone { process }),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Reads the `count` bytes that follow a line.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = (&mut self.stream).take(count).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 == count => Ok(bytes),
            Ok(_) => Err(Error::Gone { process: self.name }),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        let process = self.name;
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                Error::Gone { process }
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let seconds = PATIENCE.as_secs();
                let error = io::Error::other(format!("no answer in {seconds} s"));
                Error::Connection { process, error }
            }
            _ => Error::Connection { process, error },
        }
    }
}

fn key_of(listener: &Listener) -> String {
    listener.identity.file_name("")
}

/// Returns the reason why a process has no socket.
fn why_not(name: ProcessName) -> Error {
    let process = name;
    // Process ids of other namespaces cannot be checked from here.
    let Some(number) = libc::pid_t::try_from(name.number).ok().filter(|_| name.namespace.is_none())
    else {
        return Error::NoProcess { process };
    };
    if number == 0 {
        return Error::NoProcess { process };
    }
    // SAFETY: `kill` takes two integers and no pointers. Signal 0 is not delivered and only checks
    // that the process exists.
    let is_there = unsafe { libc::kill(number, 0) } == 0;
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM) if !is_there => Error::OtherUser { process },
        _ if !is_there => Error::NoProcess { process },
        // Root may send signals to processes of all users, so the owner is checked separately.
        _ if owner(name.number).is_some_and(|owner| owner != own_user()) => {
            Error::OtherUser { process }
        }
        _ => Error::NotListening { process },
    }
}

#[cfg(target_os = "linux")]
fn owner(process: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{process}")).ok().map(|found| found.uid())
}

#[cfg(not(target_os = "linux"))]
fn owner(_process: u32) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use mlprof_events::live::{listen, socket_of};

    use super::*;

    /// Creates a folder that only its user may enter.
    fn folder_in(around: &tempfile::TempDir, name: &str) -> PathBuf {
        let folder = around.path().join(name);
        assert!(check(&folder, true).expect("made"));
        folder
    }

    #[test]
    fn only_files_of_killed_processes_are_removed() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = folder_in(&around, "mlprof");
        let own = ProcessIdentity::own();
        let killed = ProcessIdentity { start: own.start.map(|start| start + 1), ..own };
        for identity in [own, killed] {
            drop(listen(&folder, &identity).expect("bound"));
            assert!(socket_of(&folder, &identity).exists(), "a socket outlives who made it");
        }
        let folders = [folder.clone(), around.path().join("is not there")];
        let all = Listener::all_in(&folders).expect("it can be read");
        // A socket of this process is kept, because the process could be about to listen.
        assert!(socket_of(&folder, &own).exists());
        let error = Client::connect_to(&all, own.process.into()).err().expect("nobody listens");
        assert!(matches!(error, Error::NotListening { .. }), "{error}");
        assert!(socket_of(&folder, &own).exists());
        if cfg!(target_os = "linux") {
            assert!(!socket_of(&folder, &killed).exists());
        }
    }

    #[test]
    fn sockets_are_found_in_all_folders_and_one_that_is_refused_is_said() {
        let around = tempfile::tempdir().expect("a folder");
        let paths = ["open", "empty", "used"].map(|name| folder_in(&around, name));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&paths[0], open).expect("it is ours");
        let error = Listener::all_in(&paths).expect_err("there is no other").to_string();
        assert!(error.contains("other users can access it"), "{error}");
        let own = ProcessIdentity::own();
        let _listener = listen(&paths[2], &own).expect("bound");
        let all = Listener::all_in(&paths).expect("one can be used");
        assert_eq!(all, [Listener { folder: paths[2].clone(), identity: own }]);
        let client = Client::connect_to(&all, own.process.into()).expect("it listens");
        assert_eq!(client.process(), own.process.into());
    }

    /// Two containers each have a socket of a process with id 1.
    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_of_containers_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let of =
            |namespace| ProcessIdentity { process: 1, namespace: Some(namespace), start: Some(7) };
        let all = [1, 2]
            .map(|namespace| Listener { folder: folder.path().into(), identity: of(namespace) });
        let listeners =
            all.each_ref().map(|it| listen(folder.path(), &it.identity).expect("bound"));
        // Here this process listens on behalf of both, so its own id is visible from outside.
        let own = ProcessName::from(std::process::id());
        assert_eq!(all[0].name().to_string(), "1@1");
        let exact = Client::connect_to(&all, "1@2".parse().expect("a name")).expect("it listens");
        assert_eq!((exact.key(), exact.process()), (key_of(&all[1]), own));
        assert!(Client::connect_to(&all, own).is_ok(), "by the number that it has here");
        let error = Client::connect_to(&all, 1.into()).err().expect("there are two");
        assert!(matches!(error, Error::Ambiguous { number: 1, .. }), "{error}");
        drop(listeners);
        let error = Client::connect_to(&all, 1.into()).err().expect("neither listens");
        assert!(!matches!(error, Error::Ambiguous { .. }), "{error}");
        let _one = {
            std::fs::remove_file(socket_of(folder.path(), &of(1))).expect("left");
            listen(folder.path(), &of(1)).expect("bound")
        };
        let client = Client::connect_to(&all, 1.into()).expect("there is one");
        assert_eq!(client.key(), key_of(&all[0]));
    }

    #[test]
    fn it_is_said_why_a_process_cannot_be_asked() {
        let of = |number: u32| why_not(number.into());
        assert!(matches!(of(u32::MAX), Error::NoProcess { .. }));
        assert!(matches!(of(0), Error::NoProcess { .. }));
        // This id exceeds the maximum on Linux.
        assert!(matches!(of(1 << 30), Error::NoProcess { .. }));
        assert!(matches!(of(std::process::id()), Error::NotListening { .. }));
        let elsewhere = ProcessName { number: std::process::id(), namespace: Some(1) };
        assert!(matches!(why_not(elsewhere), Error::NoProcess { .. }));
    }
}
