//! The thread that asks the daemon.

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

/// What a config may have, in bytes: they have some hundreds.
const LONGEST: usize = 64 << 10;

/// The process that asks; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The socket, which a forked child closes when it makes its own.
static SOCKET: Descriptor = Descriptor::none();
/// The file of the socket, which is removed at the end.
static FILE: OwnFile = OwnFile::none();

/// Pause after a datagram of a stranger, who could take a whole processor otherwise.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether this process asks, and not only the one that it is a forked child of.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

pub(super) struct Client {
    endpoint: Endpoint,
    settings: &'static Settings,
    processes: Vec<i32>,
    is_registered: bool,
    orders: trace::UnderWayOrder,
    /// What has been said: the same is not said again.
    said: HashSet<&'static str>,
}

impl Client {
    /// Begins to ask, from a thread of ours.
    pub(super) fn start(settings: &'static Settings) -> io::Result<()> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if is_of_this_process() {
            return Ok(());
        }
        // The child's copy of its parent's socket.
        SOCKET.close_in_child();
        let endpoint = Endpoint::open(settings.sockets.as_deref())?;
        let (number, file) = (endpoint.number(), endpoint.file().map(ToOwned::to_owned));
        let processes = message::ancestry();
        let (orders, said) = (trace::UnderWayOrder::default(), HashSet::new());
        let client = Self { endpoint, settings, processes, is_registered: false, orders, said };
        own_thread::spawn("mlprof-dynolog", move || client.ask_on())?;
        SOCKET.set(number);
        // It fails only if somebody has removed the file already.
        let _ = file.map(|file| FILE.set(&file));
        if PROCESS.swap(std::process::id(), Ordering::SeqCst) == 0 {
            // SAFETY: the function does only what may be done there, and is there as long as the library is. It fails only
            // without memory: then a recording that is under way has no file.
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
                        // Nothing that can be waited for: it is asked again all the same.
                        std::thread::sleep(left);
                    }
                }
            }
        }
    }

    /// Asks whether something is to be recorded; nothing, while something is.
    fn ask(&mut self) {
        let job = self.settings.job;
        if !self.is_registered {
            // Of which device it is one of several, libkineto does not know either where there is none.
            let context = message::context(0, self.processes[0], job);
            self.is_registered = self.send(&context);
        }
        if self.is_registered {
            let is_busy = shared::watcher().is_some_and(|watcher| watcher.states().1);
            let kinds = if is_busy { message::NOTHING } else { message::ACTIVITIES };
            self.is_registered = self.send(&message::request(kinds, &self.processes, job));
        }
    }

    /// Whether there is a daemon that has it: one that was started anew must hear of this process first.
    fn send(&mut self, datagram: &[u8]) -> bool {
        match self.endpoint.send(datagram) {
            Ok(()) => true,
            // Its queue is full: it is there.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => {
                let (daemon, interval) = (self.endpoint.daemon(), self.settings.interval);
                self.say_once(
                    "no daemon",
                    format_args!(
                        "KINETO_USE_DAEMON is set, but dynolog's daemon cannot be reached ({daemon}: {error}); it is \
                         asked again every {} s",
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
                    "what another user's process says in place of dynolog's daemon is ignored; where the daemon is not \
                     root's, it is told by KINETO_IPC_SOCKET_DIR"
                ),
            );
            return;
        }
        let understood = if received.is_whole {
            message::understand(&buffer[..received.bytes])
        } else {
            Err(format!("it has more than {} bytes", buffer.len()))
        };
        match understood {
            Ok(Answer::Registered | Answer::Config(b"")) => {}
            Ok(Answer::Config(text)) => self.obey(text),
            Err(why) => {
                let message = format_args!("a message of dynolog's daemon is ignored: {why}");
                self.say_once("junk", message);
            }
        }
    }

    fn obey(&mut self, text: &[u8]) {
        let place = Place { folders: self.settings.traces.clone(), process: std::process::id() };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let order = Order::read(&String::from_utf8_lossy(text), &place, now.as_millis() as u64);
        if let Err(why) = order.and_then(|order| trace::carry_out(order, place, &self.orders)) {
            say(format_args!("mlprof: what dynolog asks for cannot be recorded: {why}"));
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
