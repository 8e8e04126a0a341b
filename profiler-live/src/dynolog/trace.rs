//! A recording that dynolog asks for, and its file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use profiler_core::output::{say, write_whole_at};
use profiler_core::tensor::Cycle;
use profiler_events::live::RecordRequest;
use profiler_events::own_thread;
use profiler_trace::kineto;

use super::config::{Order, Place};
use crate::recording::News;
use crate::service::recorded::{UnderWay, complete_notes};
use crate::shared;
use crate::watcher::Watcher;

/// How often is looked at the clock.
const LOOK: Duration = Duration::from_millis(20);

/// Has it recorded, by a thread of its own: the daemon is asked on meanwhile.
///
/// # Errors
///
/// If it asks for more than can be recorded, or for a file that cannot be.
pub(super) fn carry_out(mut order: Order, place: Place) -> Result<(), String> {
    let Some(watcher) = shared::watcher() else { return Ok(()) };
    // A training that has begun will tell of its steps.
    let wishes = order.request(!watcher.states().0.is_empty());
    wishes.check()?;
    check_folder(&order.path, &place)?;
    let under_way = UnderWay::begin();
    let work = move || {
        let path = order.path.clone();
        match record(watcher, wishes, order) {
            Ok(said) => say(format_args!("mlprof: {said}")),
            Err(why) => say(format_args!(
                "mlprof: what dynolog asked for is not in {}: {why}",
                path.display()
            )),
        }
        drop(under_way);
    };
    own_thread::spawn("mlprof-dynolog-recording", work).map(drop).map_err(|error| error.to_string())
}

/// Links may lead elsewhere.
fn check_folder(path: &Path, place: &Place) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    let real = parent.canonicalize();
    let real = real.map_err(|error| format!("the folder {}: {error}", parent.display()))?;
    let is_below = |folder: &PathBuf| folder.canonicalize().is_ok_and(|it| real.starts_with(it));
    if place.folders.iter().any(is_below) || path.starts_with("/tmp") && real == Path::new("/tmp") {
        return Ok(());
    }
    Err(format!("{} leads to {}, which is elsewhere", parent.display(), real.display()))
}

/// Records and writes: what is to be said of it.
fn record(
    watcher: &Arc<Watcher>,
    wishes: RecordRequest,
    mut order: Order,
) -> Result<String, String> {
    let (number, news) = begin(watcher, &wishes);
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
        return Err(if why.is_empty() { "nothing happened".to_owned() } else { why });
    };
    complete_notes(&cycle, &wishes, &mut order.notes);
    write(&cycle, &order.path).map_err(|error| error.to_string())?;
    let steps = cycle.steps.end - cycle.steps.start;
    let mut said = format!("{steps} steps that dynolog asked for are in {}", order.path.display());
    for note in &order.notes {
        said.push_str("; ");
        said.push_str(note);
    }
    Ok(said)
}

/// When it is this one's turn: the daemon has given the config away, so it must not be lost.
fn begin(watcher: &Watcher, wishes: &RecordRequest) -> (u64, Receiver<News>) {
    loop {
        let (sender, news) = channel();
        match watcher.record(wishes.clone(), sender) {
            Ok(number) => return (number, news),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Writes it as libkineto does: not compressed, but where the name says so. It has its name when it is whole.
fn write(cycle: &Cycle, path: &Path) -> io::Result<()> {
    let name = path.display().to_string();
    write_whole_at(path, |temporary| {
        let mut out = BufWriter::new(File::create(temporary)?);
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut encoder = GzEncoder::new(&mut out, Compression::fast());
            kineto::write(cycle, &name, &mut encoder)?;
            encoder.finish()?;
        } else {
            kineto::write(cycle, &name, &mut out)?;
        }
        out.flush()
    })
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
        let check = |path: &str| check_folder(&inside.join(path), &place);
        assert_eq!(check("t.json"), Ok(()));
        let error = check("link/t.json").expect_err("it leads elsewhere");
        assert!(error.ends_with("which is elsewhere"), "{error}");
        assert!(check("nowhere/t.json").expect_err("it is not there").contains("No such file"));
    }
}
