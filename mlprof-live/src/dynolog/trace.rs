//! Performs a recording for dynolog and writes its file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use mlprof_core::output::say;
use mlprof_core::report::internals::counted;
use mlprof_core::tensor::Cycle;
use mlprof_events::files::{Directory, write_file_in};
use mlprof_events::live::{RecordRequest, own_user};
use mlprof_events::own_thread;
use mlprof_trace::kineto;

use super::config::{Order, Place};
use crate::recording::News;
use crate::requester::Requester;
use crate::service::recorded::{UnderWay, complete_notes};
use crate::shared;
use crate::watcher::Watcher;

/// Interval at which the recording's deadline is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Maximum time that an order waits for another recording to end.
const PATIENCE: Duration = Duration::from_secs(600);

/// Flag that is set while an order is active. Only one order at a time is active, in its own
/// thread.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWayOrder(Arc<AtomicBool>);

impl UnderWayOrder {
    fn begin(&self) -> Result<OrderGuard, String> {
        if self.0.swap(true, Ordering::SeqCst) {
            return Err("its previous recording is still active".to_owned());
        }
        Ok(OrderGuard(self.0.clone()))
    }
}

/// RAII guard that prevents other orders.
struct OrderGuard(Arc<AtomicBool>);

impl Drop for OrderGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Starts the recording in a new thread, so that polling continues.
///
/// # Errors
///
/// Returns an error in these cases:
///
/// - the request exceeds the limits of a recording
/// - its file cannot be written
/// - the previous order is still active
pub(super) fn carry_out(
    mut order: Order,
    place: Place,
    orders: &UnderWayOrder,
) -> Result<(), String> {
    let Some(watcher) = shared::watcher() else { return Ok(()) };
    // A training that has begun will report its steps.
    let wishes = order.request(!watcher.states().0.is_empty());
    wishes.check()?;
    let path = order.path.clone();
    let target = Target::open(path.clone(), &place)?;
    let turn = orders.begin()?;
    let under_way = UnderWay::begin();
    let work = move || {
        match record(watcher, wishes, order, &target) {
            Ok(said) => say(format_args!("mlprof: {said}")),
            Err(why) => {
                say(format_args!("mlprof: cannot write {} for dynolog: {why}", path.display()))
            }
        }
        drop((turn, under_way));
    };
    own_thread::spawn("mlprof-dynolog-recording", work).map(drop).map_err(|error| error.to_string())
}

/// Destination of a trace. The folder stays open from the order to the end of the recording.
/// Another user who changes its path in the meantime cannot redirect the trace.
struct Target {
    folder: Arc<Directory>,
    name: OsString,
    path: PathBuf,
}

impl Target {
    fn open(path: PathBuf, place: &Place) -> Result<Self, String> {
        let parent = path.parent().unwrap_or(&path);
        let of_folder =
            |error: io::Error| format!("cannot use the folder {}: {error}", parent.display());
        let Some(name) = path.file_name() else {
            return Err(format!("{} has no file name", path.display()));
        };
        let folder = Directory::open(parent).map_err(of_folder)?;
        // The check uses the folder that is open, because the path may lead elsewhere by now.
        let real = folder.real_path().map_err(of_folder)?;
        let allowed = place.folders.iter().filter_map(|folder| folder.canonicalize().ok());
        let own = (path.starts_with("/tmp") && real == Path::new("/tmp")).then(|| real.clone());
        let Some(allowed) = allowed.chain(own).find(|folder| real.starts_with(folder)) else {
            let (parent, real) = (parent.display(), real.display());
            return Err(format!(
                "{parent} resolves to {real}, which is outside the allowed folders"
            ));
        };
        check_owner(&folder, &allowed).map_err(of_folder)?;
        let earlier = folder.open_regular(name);
        let earlier = earlier.and_then(|it| it.map_or(Ok(()), |mut it| check_is_trace(&mut it)));
        earlier.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { folder: Arc::new(folder), name: name.to_owned(), path })
    }

    /// Writes the trace as libkineto does, uncompressed unless the name ends in `.gz`. The file
    /// gets its name only when it is complete.
    fn write(&self, cycle: &Cycle) -> io::Result<()> {
        let name = self.path.display().to_string();
        self.write_with(|file| {
            let mut out = BufWriter::new(file);
            if self.path.extension().is_some_and(|ending| ending == "gz") {
                let mut encoder = GzEncoder::new(&mut out, Compression::fast());
                kineto::write(cycle, &name, &mut encoder)?;
                encoder.finish()?;
            } else {
                kineto::write(cycle, &name, &mut out)?;
            }
            out.flush()
        })
    }

    /// Writes into the open folder and replaces an earlier trace.
    fn write_with(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        write_file_in(&self.folder, &self.name, check_is_trace, write)
    }
}

/// Rejects a folder in which another user could replace the trace. The owner must be this user,
/// root, or the owner of the allowed folder.
fn check_owner(folder: &Directory, allowed: &Path) -> io::Result<()> {
    let (found, user) = (folder.metadata()?, own_user());
    let of_allowed = allowed.metadata()?.uid();
    let owner = found.uid();
    let is_shared = found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0;
    if owner == user || !is_shared && (owner == 0 || owner == of_allowed) {
        return Ok(());
    }
    let reason = format!("it belongs to user {owner}, who could replace the trace");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Number of bytes to read at the start of a trace, which contain the field names.
const HEAD: u64 = 4096;

/// Rejects the replacement of a file that is not an earlier trace. The path comes from any user of
/// the daemon. An empty file is accepted, because no data can be lost.
fn check_is_trace(earlier: &mut File) -> io::Result<()> {
    let mut head = Vec::new();
    (&*earlier).take(HEAD).read_to_end(&mut head)?;
    if head.starts_with(&[0x1f, 0x8b]) {
        earlier.seek(SeekFrom::Start(0))?;
        head.clear();
        // A file that cannot be decompressed is not a trace.
        let _ = GzDecoder::new(earlier).take(HEAD).read_to_end(&mut head);
        if head.is_empty() {
            head.push(b'?');
        }
    }
    let has = |field: &[u8]| head.windows(field.len()).any(|it| it == field);
    let is_trace = head.trim_ascii_start().starts_with(b"{")
        && (has(b"\"schemaVersion\"") || has(b"\"traceEvents\""));
    if head.is_empty() || is_trace {
        return Ok(());
    }
    let reason = "mlprof does not replace this file, because it is not a trace";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

/// Records and writes the trace, and returns a message for the user.
fn record(
    watcher: &Arc<Watcher>,
    wishes: RecordRequest,
    mut order: Order,
    target: &Target,
) -> Result<String, String> {
    let (number, news) = begin(watcher, &wishes)?;
    let mut cycle = None;
    let notes = loop {
        match news.recv_timeout(LOOK) {
            Ok(News::Began) => {}
            Ok(News::Cycle(recorded)) => cycle = Some(recorded),
            Ok(News::Over(notes, _profiler)) => break notes,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => watcher.look_at_clock(number),
        }
    };
    order.notes.extend(notes);
    let Some(cycle) = cycle else {
        let why = order.notes.join("; ");
        return Err(if why.is_empty() { "no event occurred".to_owned() } else { why });
    };
    complete_notes(&cycle, &wishes, &mut order.notes);
    target.write(&cycle).map_err(|error| error.to_string())?;
    let steps = cycle.steps.end - cycle.steps.start;
    let are = if steps == 1 { "is" } else { "are" };
    let steps = counted(steps, "step", "steps");
    let mut said = format!("{steps} requested by dynolog {are} in {}", order.path.display());
    for note in &order.notes {
        said.push_str("; ");
        said.push_str(note);
    }
    Ok(said)
}

/// Waits until no other recording is active. The daemon delivers a config only once, so the order
/// must not be lost.
///
/// # Errors
///
/// Returns a description of the other recording if the wait takes too long.
fn begin(watcher: &Watcher, wishes: &RecordRequest) -> Result<(u64, Receiver<News>), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let (sender, news) = channel();
        match watcher.record(wishes.clone(), Requester::Dynolog, sender) {
            Ok(number) => return Ok((number, news)),
            Err(busy) if Instant::now() >= until => return Err(busy.to_string()),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_lead_elsewhere_are_refused() {
        let around = tempfile::tempdir().expect("a folder");
        let (inside, outside) = (around.path().join("inside"), around.path().join("outside"));
        std::fs::create_dir(&inside).expect("made");
        std::fs::create_dir(&outside).expect("made");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("made");
        let place = Place { folders: vec![inside.clone()], process: 1 };
        let check = |path: &str| Target::open(inside.join(path), &place).map(drop);
        assert_eq!(check("t.json"), Ok(()));
        let error = check("link/t.json").expect_err("it leads elsewhere");
        assert!(error.ends_with("which is outside the allowed folders"), "{error}");
        assert!(check("nowhere/t.json").expect_err("it is not there").contains("No such file"));
    }

    /// The folder is moved away and replaced by a link during the recording.
    #[test]
    fn a_trace_stays_in_the_folder_that_was_checked() {
        let around = tempfile::tempdir().expect("a folder");
        let (inside, victim) = (around.path().join("inside"), around.path().join("victim"));
        std::fs::create_dir_all(inside.join("x")).expect("made");
        std::fs::create_dir(&victim).expect("made");
        std::fs::write(victim.join("authorized_keys"), "precious").expect("written");
        let place = Place { folders: vec![inside.clone()], process: 1 };
        let target = Target::open(inside.join("x/authorized_keys"), &place).expect("it is free");
        std::fs::rename(inside.join("x"), inside.join("was")).expect("moved");
        std::os::unix::fs::symlink(&victim, inside.join("x")).expect("linked");
        let written = target.write_with(|file| file.write_all(b"{\"schemaVersion\":1}"));
        written.expect("written where the folder is now");
        let read = |path: PathBuf| std::fs::read_to_string(path).expect("there");
        assert_eq!(read(victim.join("authorized_keys")), "precious");
        assert_eq!(read(inside.join("was/authorized_keys")), "{\"schemaVersion\":1}");
        let names = std::fs::read_dir(inside.join("was")).expect("a folder").count();
        assert_eq!(names, 1, "nothing temporary is left");
    }

    #[test]
    fn only_an_earlier_trace_is_replaced() {
        let around = tempfile::tempdir().expect("a folder");
        let path = around.path().join("file");
        let place = Place { folders: vec![around.path().to_owned()], process: 1 };
        let packed = |text: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).expect("in memory");
            encoder.finish().expect("in memory")
        };
        let trace = b"{\n\"schemaVersion\":1,\n\"deviceProperties\":[";
        for (content, is_replaced) in [
            (trace.to_vec(), true),
            (packed(trace), true),
            (b"{\"traceEvents\": []}".to_vec(), true),
            (Vec::new(), true),
            (b"ssh-ed25519 AAAA".to_vec(), false),
            (packed(b"weights"), false),
            (vec![0x1f, 0x8b], false),
        ] {
            std::fs::write(&path, &content).expect("written");
            let opened = Target::open(path.clone(), &place).map(drop);
            assert_eq!(opened.is_ok(), is_replaced, "{opened:?}: {content:?}");
        }
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/dev/null", &path).expect("linked");
        assert!(Target::open(path, &place).is_err(), "a link");
    }

    /// Root may write anywhere, but must not write into a folder in which another user can replace
    /// the trace.
    #[test]
    fn a_folder_of_another_user_is_refused() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = around.path().join("theirs");
        std::fs::create_dir(&folder).expect("made");
        if std::os::unix::fs::chown(&folder, Some(65534), None).is_err() {
            return; // only root can change the owner
        }
        let place = Place { folders: vec![around.path().to_owned()], process: 1 };
        let error = Target::open(folder.join("t.json"), &place).map(drop).expect_err("theirs");
        assert!(error.contains("it belongs to user 65534"), "{error}");
        let place = Place { folders: vec![folder.clone()], process: 1 };
        Target::open(folder.join("t.json"), &place).map(drop).expect("named by the environment");
    }

    #[test]
    fn one_order_is_carried_out_at_a_time() {
        let orders = UnderWayOrder::default();
        let first = orders.begin().expect("there is no other");
        assert!(orders.clone().begin().is_err(), "no thread for each that comes meanwhile");
        drop(first);
        assert!(orders.begin().is_ok());
    }
}
