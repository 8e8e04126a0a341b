//! Thread that polls the dynolog daemon.

use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mlprof_core::output::say;
use mlprof_events::forking::Mutex;
use mlprof_events::own_thread;

use super::config::{Order, Place};
use super::endpoint::{Endpoint, Received};
use super::message::{self, Answer};
use super::{Settings, trace};
use crate::descriptor::Descriptor;
use crate::own_file::OwnFile;
use crate::service::recorded::deliver_at_exit;
use crate::shared;

/// Maximum size of a config in bytes; typical configs have some hundred bytes.
const LONGEST: usize = 64 << 10;

/// Id of the process that polls, or 0.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Socket of the thread. A forked child closes its copy when it opens its own socket.
static SOCKET: Descriptor = Descriptor::none();
/// Path of the socket's file, which is removed when the process ends.
static FILE: OwnFile = OwnFile::none();

/// Pause after a datagram from an unknown sender, which could otherwise keep the thread busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns `true` if this process polls, and not only its parent.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

pub(super) struct Client {
    endpoint: Endpoint,
    settings: &'static Settings,
    processes: Vec<i32>,
    is_registered: bool,
    orders: trace::UnderWayOrder,
    /// Kinds of messages that were already printed, so that each is printed once.
    said: HashSet<&'static str>,
}

impl Client {
    /// Starts a background thread that polls the daemon.
    pub(super) fn start(settings: &'static Settings) -> io::Result<()> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if is_of_this_process() {
            return Ok(());
        }
        // In a forked child, this is the copy of the parent's socket.
        SOCKET.close_in_child();
        let endpoint = Endpoint::open(settings.sockets.as_deref())?;
        let (number, file) = (endpoint.number(), endpoint.file().map(ToOwned::to_owned));
        let processes = message::ancestry();
        let (orders, said) = (trace::UnderWayOrder::default(), HashSet::new());
        let client = Self { endpoint, settings, processes, is_registered: false, orders, said };
        own_thread::spawn("mlprof-dynolog", move || client.ask_on())?;
        SOCKET.set(number);
        // This fails only if the file was already removed.
        let _ = file.map(|file| FILE.set(&file));
        if PROCESS.swap(std::process::id(), Ordering::SeqCst) == 0 {
            // SAFETY: `exiting` is an `extern "C"` function of this library and stays valid while
            // it is loaded. The registration fails only if memory is exhausted, and a running
            // recording is then not written at exit.
            unsafe { libc::atexit(exiting) };
        }
        Ok(())
    }

    fn ask_on(mut self) {
        let mut buffer = vec![0; message::HEADER_BYTES + LONGEST];
        loop {
            self.ask();
            let next = Instant::now() + self.settings.interval;
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                match self.endpoint.receive(&mut buffer, left) {
                    Ok(Some(received)) => self.hear(&buffer, received),
                    Ok(None) => {}
                    Err(_) => {
                        // The socket cannot be waited for, so the thread sleeps until the next
                        // poll.
                        std::thread::sleep(left);
                    }
                }
            }
        }
    }

    /// Polls the daemon for a recording request. During a recording, the poll requests no config.
    fn ask(&mut self) {
        let job = self.settings.job;
        if !self.is_registered {
            // The device index is 0, as in libkineto without a device.
            let context = message::context(0, self.processes[0], job);
            self.is_registered = self.send(&context);
        }
        if self.is_registered {
            let is_busy = shared::watcher().is_some_and(|watcher| watcher.states().1);
            let kinds = if is_busy { message::NOTHING } else { message::ACTIVITIES };
            self.is_registered = self.send(&message::request(kinds, &self.processes, job));
        }
    }

    /// Sends a datagram and returns `true` if a daemon received it. A restarted daemon must receive
    /// the registration first.
    fn send(&mut self, datagram: &[u8]) -> bool {
        match self.endpoint.send(datagram) {
            Ok(()) => true,
            // The daemon runs, but its queue is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => {
                let (daemon, interval) = (self.endpoint.daemon(), self.settings.interval);
                self.say_once(
                    "no daemon",
                    format_args!(
                        "KINETO_USE_DAEMON is set, but mlprof cannot reach dynolog's daemon ({daemon}: \
                         {error}); it retries every {} s",
                        interval.as_secs()
                    ),
                );
                false
            }
        }
    }

    fn hear(&mut self, buffer: &[u8], received: Received) {
        if !received.is_daemon {
            std::thread::sleep(PAUSE);
            self.say_once(
                "not the daemon",
                format_args!(
                    "ignoring messages from another user's process in place of dynolog's daemon; if the \
                     daemon does not run as root, set KINETO_IPC_SOCKET_DIR"
                ),
            );
            return;
        }
        let understood = if received.is_whole {
            message::understand(&buffer[..received.bytes])
        } else {
            Err(format!("it is longer than {} bytes", buffer.len()))
        };
        match understood {
            Ok(Answer::Registered | Answer::Config(b"")) => {}
            Ok(Answer::Config(text)) => self.obey(text),
            Err(why) => {
                let message = format_args!("ignoring a message from dynolog's daemon: {why}");
                self.say_once("junk", message);
            }
        }
    }

    fn obey(&mut self, text: &[u8]) {
        let place = Place { folders: self.settings.traces.clone(), process: std::process::id() };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let order = Order::read(&String::from_utf8_lossy(text), &place, now.as_millis() as u64);
        if let Err(why) = order.and_then(|order| trace::carry_out(order, place, &self.orders)) {
            say(format_args!("mlprof: cannot record for dynolog: {why}"));
        }
    }

    fn say_once(&mut self, what: &'static str, sentence: std::fmt::Arguments<'_>) {
        if self.said.insert(what) {
            say(format_args!("mlprof: {sentence}"));
        }
    }
}

extern "C" fn exiting() {
    if !is_of_this_process() {
        return;
    }
    deliver_at_exit();
    FILE.remove();
}
