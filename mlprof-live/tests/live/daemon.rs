//! Fake dynolog daemon for the tests.

use std::collections::HashMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::asking::Program;

/// Timeout of a test.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Daemon {
    socket: UnixDatagram,
}

/// Datagram received from a process.
pub struct Datagram {
    pub bytes: Vec<u8>,
    pub from: SocketAddr,
}

impl Datagram {
    pub fn kind(&self) -> &[u8] {
        self.bytes[8..40].split(|byte| *byte == 0).next().expect("a name")
    }

    pub fn size(&self) -> u64 {
        u64::from_ne_bytes(self.bytes[..8].try_into().expect("eight bytes"))
    }

    /// Returns a 32-bit number at the start of the body.
    pub fn number(&self, index: usize) -> i32 {
        let start = 40 + index * 4;
        i32::from_ne_bytes(self.bytes[start..start + 4].try_into().expect("four bytes"))
    }
}

/// Creates a datagram in libkineto's format.
pub fn message(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u64).to_ne_bytes().to_vec();
    message.extend(kind.as_bytes());
    message.resize(40, 0);
    message.extend(body);
    message
}

impl Daemon {
    /// Opens the daemon's socket in a folder.
    pub fn within(folder: &Path) -> Self {
        let path = folder.join("dynolog");
        let _ = std::fs::remove_file(&path);
        Self::of(UnixDatagram::bind(path).expect("a socket"))
    }

    /// Opens the daemon's default abstract socket. Waits while another test on this machine uses
    /// this name.
    pub fn abstractly() -> Self {
        let address = SocketAddr::from_abstract_name("dynolog\0").expect("an address");
        let began = Instant::now();
        loop {
            match UnixDatagram::bind_addr(&address) {
                Ok(socket) => return Self::of(socket),
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Self { socket }
    }

    pub fn receive(&self) -> Datagram {
        let mut bytes = vec![0; 4096];
        let (length, from) = self.socket.recv_from(&mut bytes).expect("something");
        bytes.truncate(length);
        Datagram { bytes, from }
    }

    /// Returns the next poll of a process. Registrations before it are answered.
    pub fn question(&self) -> Datagram {
        loop {
            let said = self.receive();
            if said.kind() == b"req" {
                return said;
            }
            self.send(&message("ctxt", &1_i32.to_ne_bytes()), &said);
        }
    }

    pub fn send(&self, datagram: &[u8], to: &Datagram) {
        self.socket.send_to_addr(datagram, &to.from).expect("sent");
    }

    /// Answers the next poll for a config with this one.
    pub fn give(&self, config: &str) {
        loop {
            let question = self.question();
            let wants = question.number(0) == 2;
            let body = if wants { config.as_bytes() } else { b"" };
            self.send(&message("req", body), &question);
            if wants {
                return;
            }
        }
    }

    /// Answers the next poll without a config.
    pub fn give_nothing(&self) -> Datagram {
        let question = self.question();
        self.send(&message("req", b""), &question);
        question
    }
}

/// Folder for sockets and traces, with programs that poll the daemon there at short intervals.
pub struct Setting {
    pub folder: TempDir,
}

impl Setting {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n";
        std::fs::write(folder.path().join("libkineto.conf"), config).expect("written");
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the environment variables of the program.
    pub fn environment(&self) -> HashMap<&'static str, PathBuf> {
        HashMap::from([
            ("KINETO_USE_DAEMON", "1".into()),
            ("KINETO_CONFIG", self.path("libkineto.conf")),
            ("KINETO_IPC_SOCKET_DIR", self.folder.path().to_owned()),
            ("KINETO_ONDEMAND_TRACE_DIR", self.folder.path().to_owned()),
            ("SLURM_JOB_ID", "77".into()),
        ])
    }

    pub fn daemon(&self) -> Daemon {
        Daemon::within(self.folder.path())
    }

    pub fn start(&self, scene: &str) -> Program {
        Program::start_in(scene, "1", &self.environment())
    }
}
