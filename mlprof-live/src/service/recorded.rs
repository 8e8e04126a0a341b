//! A recording, from the request to the bytes of its trace.

use std::io::{self, Write};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use mlprof_core::spliced::why_no_steps;
use mlprof_core::tensor::Cycle;
use mlprof_core::{ActionKind, RunContext};
use mlprof_events::live::{Answer, RecordRequest, Recorded, TrainingState, write_line};
use mlprof_trace::kineto;

use super::peer::has_gone;
use super::timed::Timed;
use crate::recording::News;
use crate::requester::Requester;
use crate::watcher::Watcher;
use crate::{samples, shared};

/// How often is looked whether the other side is still there, and at the clock.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// How long the end of the process waits for recordings that are on their way.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time within which the line that says that a recording has begun must have been taken.
const TAKES_A_LINE: Duration = Duration::from_secs(10);

/// Recordings that are not in the hands of those who asked.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// While it lives a recording is under way.
pub(crate) struct UnderWay(());

impl UnderWay {
    pub(crate) fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The process ends: whoever has asked for a recording gets what there is of it.
pub(crate) fn deliver_at_exit() {
    if UNDER_WAY.load(Ordering::SeqCst) == 0 {
        return;
    }
    let began = Instant::now();
    while UNDER_WAY.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
        // This is called from C, which no panic may reach. Again and again: another one may have waited for this one.
        let _ = catch_unwind(|| {
            shared::watcher().map(|watcher| watcher.end_any("the process ended meanwhile"))
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is handed over.
pub(super) struct Delivery {
    pub(super) recorded: Recorded,
    pub(super) trace: Vec<u8>,
    /// The report of samples, if they were asked for.
    pub(super) samples: Option<String>,
}

impl Delivery {
    /// Bytes that the process keeps until they are taken.
    pub(super) fn bytes(&self) -> u64 {
        self.recorded.bytes + self.recorded.sample_bytes.unwrap_or_default()
    }
}

/// That, or why there is none.
type Outcome = Result<Delivery, String>;

/// Takes the wish back if whoever asked is not there any more, or the answer cannot be made.
struct Asked<'watcher>(&'watcher Watcher, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.cancel(self.1);
    }
}

/// Has something recorded and waits for it.
pub(super) fn record(
    watcher: &Arc<Watcher>,
    stream: &Timed<'_>,
    requester: Requester,
    wishes: RecordRequest,
) -> io::Result<Outcome> {
    if let Err(message) = wishes.check().and_then(|()| can_be_had(&wishes)) {
        return Ok(Err(message));
    }
    let (sender, news) = channel();
    let asked = match watcher.record(wishes.clone(), requester, sender) {
        Ok(number) => Asked(watcher, number),
        Err(busy) => return Ok(Err(busy.to_string())),
    };
    let (mut cycle, mut sampler) = (None, None);
    let notes = loop {
        match news.recv_timeout(LOOK) {
            Ok(News::Began) => match samples::begin(&wishes) {
                Ok(begun) => {
                    sampler = begun;
                    stream.allow(TAKES_A_LINE);
                    write_line(stream, &Answer::Recording)?;
                }
                Err(message) => return Ok(Err(message)),
            },
            Ok(News::Cycle(recorded)) => cycle = Some(recorded),
            Ok(News::Over(notes, _profiler)) => break notes,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) if has_gone(stream.stream()) => {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Err(RecvTimeoutError::Timeout) => watcher.look_at_clock(asked.1),
        }
    };
    let samples = sampler.map(|sampler| samples::end(sampler, &run_of(watcher))).transpose();
    let samples = match samples {
        Ok(samples) => samples,
        Err(message) => return Ok(Err(message)),
    };
    let Some(cycle) = cycle else {
        let why = if notes.is_empty() { "nothing happened".to_owned() } else { notes.join("; ") };
        return Ok(Err(format!("there is nothing to show: {why}")));
    };
    Ok(written(&cycle, &wishes, notes, samples))
}

/// Which of the processes that train together this one is.
fn run_of(watcher: &Watcher) -> RunContext {
    let training = watcher.states().0.into_iter().next();
    let run = |it: TrainingState| {
        let mut run = RunContext::default();
        (run.rank, run.world_size) = (it.rank, it.world_size);
        run
    };
    training.map(run).unwrap_or_default()
}

/// Whether there can ever be what was asked for.
fn can_be_had(wishes: &RecordRequest) -> Result<(), String> {
    match why_no_steps() {
        Some(why) if wishes.steps.is_some() => {
            Err(format!("no steps can be recorded, but a time (--seconds): {why}"))
        }
        _ => samples::check(wishes),
    }
}

/// The trace of a cycle.
fn written(
    cycle: &Cycle,
    wishes: &RecordRequest,
    mut notes: Vec<String>,
    samples: Option<String>,
) -> Outcome {
    let steps = cycle.steps.end - cycle.steps.start;
    let ops = complete_notes(cycle, wishes, &mut notes);
    let trace =
        compressed(cycle).map_err(|error| format!("the trace cannot be written: {error}"))?;
    let dropped = cycle.dropped;
    let recorded = Recorded {
        bytes: trace.len() as u64,
        sample_bytes: samples.as_ref().map(|samples| samples.len() as u64),
        steps,
        first_step: (steps > 0).then_some(cycle.steps.start),
        events: cycle.event_count() as u64,
        ops,
        dropped: dropped.events + dropped.memory + dropped.device,
        notes,
    };
    Ok(Delivery { recorded, trace, samples })
}

/// Adds what a cycle lacks of what was asked for: how many ops it has.
pub(crate) fn complete_notes(
    cycle: &Cycle,
    wishes: &RecordRequest,
    notes: &mut Vec<String>,
) -> u64 {
    let steps = cycle.steps.end - cycle.steps.start;
    if let Some(asked) = wishes.steps.filter(|asked| steps < *asked) {
        notes.push(format!("{steps} of {asked} steps were over by then"));
    }
    let events = cycle.tracks().iter().flat_map(|track| track.events());
    let ops = events.filter(|event| event.action.kind() == ActionKind::Op).count() as u64;
    if ops == 0 && (wishes.ops || wishes.shapes) {
        let reason = mlprof_core::hook::reason_without_ops();
        notes.push(format!("there are no ops in it: {reason}"));
    }
    ops
}

/// The trace of a cycle, compressed by gzip.
pub(crate) fn compressed(cycle: &Cycle) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    kineto::write(cycle, "recorded on demand", &mut encoder)?;
    encoder.flush()?;
    encoder.finish()
}
