//! Unix sockets in a folder. The folder's path may be longer than a socket address allows.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::ProcessIdentity;

const SOCKET: &str = "sock";
/// File extension of the tokens for metrics, which are stored next to the sockets.
pub const TOKEN: &str = "token";

/// Interval between attempts to connect to a process whose connection queue is full.
const RETRY: Duration = Duration::from_millis(10);

/// Age after which files of another namespace's processes are removed. From here it is not visible
/// if those processes have ended.
const LEFTOVER_AGE: Duration = Duration::from_secs(86_400);

/// Returns the path of a process's socket.
pub fn socket_of(folder: &Path, identity: &ProcessIdentity) -> PathBuf {
    folder.join(identity.file_name(SOCKET))
}

/// Returns the processes that have a socket in a folder, sorted by process id. Sockets and tokens
/// of processes that have ended are removed.
///
/// # Errors
///
/// Fails if the folder cannot be read.
pub fn listening(folder: &Path) -> io::Result<Vec<ProcessIdentity>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(identity) = ProcessIdentity::of_file_name(&name, SOCKET) {
            match is_leftover(folder, &identity) {
                true => {
                    // A failed removal is ignored, because another process may have removed the
                    // file. The token of a process in another namespace is removed with its socket.
                    // The token alone does not show that the process has ended.
                    let _ = std::fs::remove_file(entry.path());
                    let _ = std::fs::remove_file(folder.join(identity.file_name(TOKEN)));
                }
                false => found.push(identity),
            }
        } else if let Some(identity) = ProcessIdentity::of_file_name(&name, TOKEN)
            && identity.start.is_some()
            && identity.has_ended() == Some(true)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns `true` if the process of a socket has ended. In that case no process creates a new
/// socket with this name meanwhile.
fn is_leftover(folder: &Path, identity: &ProcessIdentity) -> bool {
    let refuses = || {
        let refused = connect(folder, identity, Instant::now());
        refused.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let is_old = || {
        let modified = socket_of(folder, identity).symlink_metadata().and_then(|it| it.modified());
        let age = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age > LEFTOVER_AGE)
    };
    match identity.has_ended() {
        Some(has_ended) => has_ended && refuses(),
        None => is_old() && refuses(),
    }
}

/// Creates the socket of this process and listens on it. An old socket with the same identity is
/// replaced if it refuses connections. Such a socket remains after `exec`, which keeps the identity
/// of the process.
///
/// # Errors
///
/// Returns [`AddrInUse`](ErrorKind::AddrInUse) if this process already listens on the socket, and
/// errors of the system.
pub fn listen(folder: &Path, identity: &ProcessIdentity) -> io::Result<UnixListener> {
    let address = Address::new(folder, identity)?;
    let path = address.path();
    let listener = match UnixListener::bind(&path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            match UnixStream::connect(&path) {
                Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {}
                _ => return Err(error),
            }
            std::fs::remove_file(&path)?;
            UnixListener::bind(&path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to a process and retries until `until` while its queue is full. A stopped process does
/// not accept connections, so its queue may stay full. At least one attempt is made.
///
/// # Errors
///
/// Returns errors of the system, among them:
///
/// - [`ConnectionRefused`](ErrorKind::ConnectionRefused) or [`NotFound`](ErrorKind::NotFound) if no
///   process listens on the socket
/// - [`WouldBlock`](ErrorKind::WouldBlock) if the queue stays full
pub fn connect(
    folder: &Path,
    identity: &ProcessIdentity,
    until: Instant,
) -> io::Result<UnixStream> {
    let address = Address::new(folder, identity)?;
    let path = address.path();
    let (name, length) = socket_address(&path)?;
    loop {
        let stream = nonblocking_socket()?;
        // SAFETY: `name` is an initialised address of at least `length` bytes that outlives the
        // call, and the descriptor is open.
        let result = unsafe {
            libc::connect(stream.as_raw_fd(), (&raw const name).cast::<libc::sockaddr>(), length)
        };
        if result == 0 {
            stream.set_nonblocking(false)?;
            return Ok(stream);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            ErrorKind::Interrupted => {}
            ErrorKind::WouldBlock if Instant::now() < until => std::thread::sleep(RETRY),
            _ => return Err(error),
        }
    }
}

fn nonblocking_socket() -> io::Result<UnixStream> {
    // SAFETY: `socket` takes three integers and accesses no memory of the program.
    let number = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `socket` has just returned this open descriptor, and it has no other owner.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) });
    // SAFETY: `F_SETFD` takes an integer and sets one flag of an open descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn socket_address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: `sockaddr_un` is a plain C structure of integers, for which all-zero bytes are valid.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= name.sun_path.len() {
        return Err(too_long(path));
    }
    for (to, from) in name.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Ok((name, length as libc::socklen_t))
}

/// Address of a socket in a folder.
struct Address {
    folder: PathBuf,
    name: String,
    /// The open folder, if its path is too long for an address.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no /proc"))]
    open: Option<OwnedFd>,
}

/// Maximum length of a socket path that every system accepts, in bytes, including the final NUL.
const LONGEST_ADDRESS: usize = 104;

impl Address {
    fn new(folder: &Path, identity: &ProcessIdentity) -> io::Result<Self> {
        let name = identity.file_name(SOCKET);
        let path = folder.join(&name);
        let is_short = path.as_os_str().len() < LONGEST_ADDRESS;
        let open = if is_short { None } else { Some(open_folder(folder)?) };
        Ok(Self { folder: folder.to_owned(), name, open })
    }

    /// Returns a path that fits in an address. It leads through the open folder if the folder's own
    /// path is too long.
    fn path(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        if let Some(folder) = &self.open {
            return PathBuf::from(format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), self.name));
        }
        self.folder.join(&self.name)
    }
}

/// Opens a folder of this user.
#[cfg(target_os = "linux")]
fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::MetadataExt;

    use super::user::is_own_user;

    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `path` is a C string that outlives the call.
    let number = unsafe { libc::open(path.as_ptr(), flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `open` has just returned this open descriptor, and it has no other owner.
    let open = unsafe { OwnedFd::from_raw_fd(number) };
    let there = PathBuf::from(format!("/proc/self/fd/{number}/."));
    match there.metadata() {
        Ok(found) if is_own_user(found.uid()) => Ok(open),
        Ok(_) => Err(ErrorKind::PermissionDenied.into()),
        Err(_) => Err(too_long(folder)),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    Err(too_long(folder))
}

fn too_long(path: &Path) -> io::Error {
    let bytes = path.as_os_str().len();
    let reason = format!("the path is too long for a socket ({bytes} bytes)");
    io::Error::new(ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_socket_works_below_a_path_of_any_length() {
        let around = tempfile::tempdir().expect("a folder");
        let own = ProcessIdentity::own();
        for length in [1, 200] {
            let folder = around.path().join("x".repeat(length));
            std::fs::create_dir(&folder).expect("made");
            let listener = listen(&folder, &own).expect("bound");
            let mut client = connect(&folder, &own, soon()).expect("connected");
            client.write_all(b"x").expect("written");
            let mut byte = [0];
            listener.accept().expect("accepted").0.read_exact(&mut byte).expect("read");
            assert_eq!(listening(&folder).expect("a list"), [own]);
            let mode = socket_of(&folder, &own).metadata().expect("a socket").mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_socket_that_answers_is_not_replaced_and_one_that_refuses_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, own) = (folder.path(), ProcessIdentity::own());
        let first = listen(folder, &own).expect("bound");
        let error = listen(folder, &own).expect_err("it listens already");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        connect(folder, &own, soon()).expect("the first one still listens");
        drop(first);
        // A child process that another test has just forked may keep the listener open for a
        // moment.
        let deadline = soon();
        let again = loop {
            match listen(folder, &own) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                again => break again.expect("left behind"),
            }
        };
        connect(folder, &own, soon()).expect("connected");
        drop(again);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_ended_processes_have_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, own) = (folder.path(), ProcessIdentity::own());
        let ended = ProcessIdentity { start: own.start.map(|start| start + 1), ..own };
        let elsewhere = ProcessIdentity { namespace: own.namespace.map(|it| it + 1), ..own };
        for identity in [own, ended, elsewhere] {
            // The socket file remains after the listener is dropped.
            drop(listen(folder, &identity).expect("bound"));
            std::fs::write(folder.join(identity.file_name(TOKEN)), "secret").expect("written");
        }
        let mut expected = [own, elsewhere];
        expected.sort_unstable();
        assert_eq!(listening(folder).expect("a list"), expected);
        let mut left: Vec<_> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort_unstable();
        let mut files: Vec<_> =
            expected.iter().flat_map(|it| [it.file_name(SOCKET), it.file_name(TOKEN)]).collect();
        files.sort_unstable();
        assert_eq!(left, files, "neither this process's own nor another container's");
        // The processes of these sockets are not visible from here, so only the age of the files
        // counts.
        let long_ago = SystemTime::now() - 2 * LEFTOVER_AGE;
        let times = std::process::Command::new("touch")
            .args([
                "-h",
                "-d",
                &format!(
                    "@{}",
                    long_ago.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs()
                ),
            ])
            .arg(socket_of(folder, &elsewhere))
            .status();
        assert!(times.is_ok_and(|status| status.success()));
        assert_eq!(listening(folder).expect("a list"), [own]);
        let is_there = |it: &ProcessIdentity| folder.join(it.file_name(TOKEN)).exists();
        assert!(!is_there(&elsewhere), "its token goes with its socket");
        assert!(is_there(&own));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_queue_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, own) = (folder.path(), ProcessIdentity::own());
        let listener = listen(folder, &own).expect("bound");
        // SAFETY: `listen` takes two integers and sets the queue length of an open socket.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let first = connect(folder, &own, soon()).expect("there is room for one");
        let error = connect(folder, &own, Instant::now() + 5 * RETRY).expect_err("it is full");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(first);
    }
}
