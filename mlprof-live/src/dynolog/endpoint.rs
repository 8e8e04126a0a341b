//! Sockets of this process and of the daemon, which have abstract names or are files in a folder.
//!
//! *Source*: dynolog's `ipcfabric/Endpoint.h`. Abstract names end with a NUL byte, which is part of
//! the name.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mlprof_events::live::is_own_user;

const DAEMON: &str = "dynolog";
const CLIENT: &str = "dynoconfigclient";

/// Maximum wait for a daemon whose queue is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// Permissions of a socket file: all users may write to it. The folder's owner controls the access
/// to the folder.
const MODE: u32 = 0o666;

pub(super) struct Endpoint {
    socket: UnixDatagram,
    daemon: SocketAddr,
    /// Paths of the daemon's socket and of this process's socket, if they are files.
    files: Option<(PathBuf, PathBuf)>,
}

/// Received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) bytes: usize,
    /// `true` if the buffer was large enough for the whole datagram.
    pub(super) is_whole: bool,
    /// `true` if the sender is the daemon and may request recordings.
    pub(super) is_daemon: bool,
}

impl Endpoint {
    /// Opens a socket with a unique name. With `folder`, the sockets are files in it.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let own = format!("{CLIENT}{}", random_name());
        let (socket, daemon, files) = match folder {
            None => {
                let address = |name: &str| SocketAddr::from_abstract_name(format!("{name}\0"));
                (UnixDatagram::bind_addr(&address(&own)?)?, address(DAEMON)?, None)
            }
            Some(folder) => {
                let (daemon, own) = (folder.join(DAEMON), folder.join(own));
                let address = SocketAddr::from_pathname(&daemon)?;
                let socket = UnixDatagram::bind(&own)?;
                std::fs::set_permissions(&own, std::fs::Permissions::from_mode(MODE))?;
                (socket, address, Some((daemon, own)))
            }
        };
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open. `on` is an initialised `c_int` that outlives the call,
        // and the given length is its size.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PASSCRED,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket, daemon, files })
    }

    /// Returns the path of the socket file, which is removed at the end.
    pub(super) fn file(&self) -> Option<&Path> {
        self.files.as_ref().map(|(_, own)| own.as_path())
    }

    pub(super) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Returns the daemon's address for messages.
    pub(super) fn daemon(&self) -> String {
        match &self.files {
            Some((daemon, _)) => daemon.display().to_string(),
            None => format!("@{DAEMON}"),
        }
    }

    /// Sends a datagram to the daemon. For abstract names, this also connects the socket, so the
    /// kernel rejects datagrams from other senders. Otherwise a stranger could fill the queue
    /// before the daemon answers. For socket files, the folder's owner controls the access.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        if self.files.is_none() {
            // A restarted daemon has a new socket with the same name, so the socket is connected
            // each time.
            self.socket.connect_addr(&self.daemon)?;
        }
        self.socket.send_to_addr(datagram, &self.daemon).map(drop)
    }

    /// Receives the next datagram, or returns `None` if none arrives in time.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        within: Duration,
    ) -> io::Result<Option<Received>> {
        self.socket.set_read_timeout(Some(within.max(Duration::from_millis(1))))?;
        match self.receive_once(buffer) {
            Ok(received) => Ok(Some(received)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Receives a datagram together with the sender's user id from the kernel. The standard library
    /// has no function for this. Other crates reject senders from other PID namespaces, whose
    /// process id is 0 here.
    fn receive_once(&self, buffer: &mut [u8]) -> io::Result<Received> {
        // SAFETY: both types contain only integers and raw pointers, for which all-zero bytes are
        // valid.
        let (mut name, mut header): (libc::sockaddr_un, libc::msghdr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // The control buffer is aligned and has room for the sender's credentials only, so the
        // kernel closes any descriptors that are sent along.
        let mut control = [0_u64; 4];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: all pointers in the header refer to live local buffers, and each length matches
        // its buffer. No reference to these buffers is used during the call.
        let read = unsafe { libc::recvmsg(self.number(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        let Ok(bytes) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
        let is_daemon = match &self.files {
            // In a folder, any process that can create a socket of this name counts as the daemon.
            Some((daemon, _)) => is_path(&name, header.msg_namelen, daemon),
            None => sender(&header).is_some_and(|user| may_say(user, is_own_user)),
        };
        Ok(Received { bytes, is_whole: header.msg_flags & libc::MSG_TRUNC == 0, is_daemon })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(file) = self.file() {
            // The file may already have been removed with its folder.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Returns `true` if datagrams of this user are accepted. Any process can take the daemon's
/// abstract name, so only this user and root are trusted.
fn may_say(user: u32, is_own: impl Fn(u32) -> bool) -> bool {
    is_own(user) || user == 0
}

fn is_path(name: &libc::sockaddr_un, length: libc::socklen_t, path: &Path) -> bool {
    let start = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let length = (length as usize).saturating_sub(start).min(name.sun_path.len());
    let bytes: Vec<u8> =
        name.sun_path[..length].iter().map(|byte| *byte as u8).take_while(|it| *it != 0).collect();
    bytes == path.as_os_str().as_bytes()
}

/// Returns the user id of the sending process.
fn sender(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: `recvmsg` has filled the header. Its control pointer and length describe the live
    // control buffer.
    let control = unsafe { libc::CMSG_FIRSTHDR(header) };
    if control.is_null() {
        return None;
    }
    // SAFETY: `CMSG_FIRSTHDR` returns null unless a complete header fits into the control buffer.
    let found = unsafe { std::ptr::read_unaligned(control) };
    if found.cmsg_level != libc::SOL_SOCKET || found.cmsg_type != libc::SCM_CREDENTIALS {
        return None;
    }
    // SAFETY: the kernel writes a `ucred` after a header of type `SCM_CREDENTIALS`, and the control
    // buffer has room for both.
    let credentials =
        unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::ucred>()) };
    Some(credentials.uid)
}

/// Returns a random UUID, as in libkineto's socket names.
fn random_name() -> String {
    // `RandomState` is seeded by the system's random numbers.
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_random_uuids() {
        let name = random_name();
        let lengths: Vec<_> = name.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{name}");
        assert!(name[14..].starts_with('4') && "89ab".contains(&name[19..20]), "{name}");
        assert_ne!(name, random_name());
    }

    #[test]
    fn only_the_user_and_root_may_say_what_is_recorded() {
        let is_own = |user: u32| user == 1000;
        assert!(may_say(1000, is_own) && may_say(0, is_own) && !may_say(1001, is_own));
    }

    #[test]
    fn in_a_folder_the_daemon_is_told_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoint = Endpoint::open(Some(folder.path())).expect("made");
        let refused = endpoint.send(b"anybody?").expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        let daemon = UnixDatagram::bind(folder.path().join("dynolog")).expect("made");
        endpoint.send(b"hello").expect("sent");
        let mut buffer = [0; 8];
        let (bytes, from) = daemon.recv_from(&mut buffer).expect("received");
        assert_eq!(&buffer[..bytes], b"hello");
        let own = from.as_pathname().expect("a file").to_owned();
        assert_eq!(Some(own.as_path()), endpoint.file());
        let mut receive = || endpoint.receive(&mut buffer, Duration::from_secs(60));
        daemon.send_to(b"answer", &own).expect("sent");
        let of_daemon = Received { bytes: 6, is_whole: true, is_daemon: true };
        assert_eq!(receive().expect("received"), Some(of_daemon));
        daemon.send_to(b"too long for it", &own).expect("sent");
        let too_long = Received { bytes: 8, is_whole: false, is_daemon: true };
        assert_eq!(receive().expect("received"), Some(too_long));
        let other = UnixDatagram::bind(folder.path().join("other")).expect("made");
        other.send_to(b"answer", &own).expect("sent");
        assert!(!receive().expect("received").expect("something").is_daemon);
        drop(endpoint);
        assert!(!own.exists());
    }

    #[test]
    fn an_abstract_daemon_of_this_user_is_heard() {
        let endpoint = Endpoint::open(None).expect("made");
        let own = endpoint.socket.local_addr().expect("an address");
        let name = own.as_abstract_name().expect("an abstract name").to_owned();
        assert!(name.starts_with(CLIENT.as_bytes()) && name.ends_with(b"\0"), "{name:?}");
        let daemon = UnixDatagram::unbound().expect("made");
        daemon.send_to_addr(b"answer", &own).expect("sent");
        let mut buffer = [0; 8];
        let received = endpoint.receive(&mut buffer, Duration::from_secs(60)).expect("received");
        assert_eq!(received, Some(Received { bytes: 6, is_whole: true, is_daemon: true }));
        let nothing = endpoint.receive(&mut buffer, Duration::ZERO).expect("nothing comes");
        assert_eq!(nothing, None);
        assert_eq!(endpoint.daemon(), "@dynolog");
    }
}
