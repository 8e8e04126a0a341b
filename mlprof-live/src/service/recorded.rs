//! Performs a recording, from the request to the bytes of its trace.

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

/// Interval at which the client's connection and the recording's deadline are checked.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Maximum time that the process waits at exit for active recordings.
const PATIENCE: Duration = Duration::from_secs(3);

/// Timeout for sending the line that announces the start of a recording.
const TAKES_A_LINE: Duration = Duration::from_secs(10);

/// Number of recordings that their requesters have not received completely.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// RAII guard that counts one active recording.
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

/// Delivers the data recorded so far when the process ends.
pub(crate) fn deliver_at_exit() {
    if UNDER_WAY.load(Ordering::SeqCst) == 0 {
        return;
    }
    let began = Instant::now();
    while UNDER_WAY.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
        // This handler is called from C, so no panic may escape. The loop ends recordings
        // repeatedly, because another request may have waited for the first one.
        let _ = catch_unwind(|| {
            shared::watcher()
                .map(|watcher| watcher.end_any("the process ended during the recording"))
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Recording to send to the client.
pub(super) struct Delivery {
    pub(super) recorded: Recorded,
    pub(super) trace: Vec<u8>,
    /// Report of samples, if requested.
    pub(super) samples: Option<String>,
}

impl Delivery {
    /// Returns the number of bytes that the process keeps until the client has received them.
    pub(super) fn bytes(&self) -> u64 {
        self.recorded.bytes + self.recorded.sample_bytes.unwrap_or_default()
    }
}

/// Delivery, or the reason why there is none.
type Outcome = Result<Delivery, String>;

/// Guard that cancels the request when it is dropped, for example because the client disconnected.
struct RequestGuard<'watcher>(&'watcher Watcher, u64);

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.cancel(self.1);
    }
}

/// Records as requested and waits for the result.
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
        Ok(number) => RequestGuard(watcher, number),
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
        let why = if notes.is_empty() { "no event occurred".to_owned() } else { notes.join("; ") };
        return Ok(Err(format!("the recording has no trace: {why}")));
    };
    Ok(written(&cycle, &wishes, notes, samples))
}

/// Returns the rank and world size of this process's training.
fn run_of(watcher: &Watcher) -> RunContext {
    let training = watcher.states().0.into_iter().next();
    let run = |it: TrainingState| {
        let mut run = RunContext::default();
        (run.rank, run.world_size) = (it.rank, it.world_size);
        run
    };
    training.map(run).unwrap_or_default()
}

/// Checks that the request can be fulfilled at all.
fn can_be_had(wishes: &RecordRequest) -> Result<(), String> {
    match why_no_steps() {
        Some(why) if wishes.steps.is_some() => {
            Err(format!("cannot record steps: {why}; record a time instead (--seconds)"))
        }
        _ => samples::check(wishes),
    }
}

/// Writes the trace of a cycle and builds the delivery.
fn written(
    cycle: &Cycle,
    wishes: &RecordRequest,
    mut notes: Vec<String>,
    samples: Option<String>,
) -> Outcome {
    let steps = cycle.steps.end - cycle.steps.start;
    let ops = complete_notes(cycle, wishes, &mut notes);
    let trace = compressed(cycle).map_err(|error| format!("cannot write the trace: {error}"))?;
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

/// Adds notes about requested data that the cycle lacks. Returns the number of ops in the cycle.
pub(crate) fn complete_notes(
    cycle: &Cycle,
    wishes: &RecordRequest,
    notes: &mut Vec<String>,
) -> u64 {
    let steps = cycle.steps.end - cycle.steps.start;
    if let Some(asked) = wishes.steps.filter(|asked| steps < *asked) {
        notes.push(format!("the recording has only {steps} of {asked} steps"));
    }
    let events = cycle.tracks().iter().flat_map(|track| track.events());
    let ops = events.filter(|event| event.action.kind() == ActionKind::Op).count() as u64;
    if ops == 0 && (wishes.ops || wishes.shapes) {
        let reason = mlprof_core::hook::reason_without_ops();
        notes.push(format!("the recording has no ops: {reason}"));
    }
    ops
}

/// Returns the trace of a cycle, compressed by gzip.
pub(crate) fn compressed(cycle: &Cycle) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    kineto::write(cycle, "recorded on demand", &mut encoder)?;
    encoder.flush()?;
    encoder.finish()
}
