//! Critical paths: the chain of dependencies from the end of a step back to its beginning.
//!
//! The walk goes backward in time:
//!
//! - On a thread, it follows the innermost slices.
//! - At a call that waited for a device, or for space in its full queue, it moves to the last work
//!   of the device.
//! - From device work, it moves to the previous work of the stream, or to work of another stream
//!   that the stream waited for.
//! - If that work had ended before the launch, it moves to the launch call.
//!
//! The dependency graph of [`crate::what_if`] takes its waits from the same lookups.
//!
//! Gaps between slices are also segments, so the path is as long as the step. A trace without steps
//! ends with its last slice, which may be device work.

use rustc_hash::{FxHashMap, FxHashSet};

use super::waits::Waits;
use crate::answers::{Activity, CriticalPath, PathKind, PathPart, PathSegment, WorkKind};
use crate::classify::Meanings;
use crate::device::BETWEEN;
use crate::device::work::DeviceWork;
use crate::host::steps::Step;
use crate::sweep::Innermost;
use crate::trace::{Correlated, FlowKind, Name, Slice, Trace};

/// Inputs of the critical path walks.
pub(crate) struct Paths<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) meanings: &'a Meanings,
    pub(crate) work: &'a DeviceWork,
    pub(crate) waits: Waits<'a>,
    /// Threads that run the backward ops of a thread's forward ops.
    backward: FxHashMap<usize, Vec<usize>>,
    innermost: Innermost<'a>,
}

/// Path segment before its names are resolved to text.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: i64,
    end: i64,
    kind: PathKind,
    name: Option<Name>,
    track: usize,
}

/// Returns `true` if a thread with this activity may wait for its backward thread. In traces with
/// stacks, a Python frame is the innermost slice while the thread waits for autograd.
pub(crate) fn may_wait_for_backward(activity: Activity) -> bool {
    matches!(activity, Activity::Nothing | Activity::Annotation | Activity::Python)
}

/// Current place of a walk.
#[derive(Debug, Clone, Copy)]
enum Place {
    Thread(usize),
    Device(u32),
}

/// Walk through one step.
struct Walk<'a> {
    paths: &'a Paths<'a>,
    step: &'a Step,
    /// Start of the current part of the step.
    from: i64,
    /// Current time of the walk. Everything after it is already in `segments`.
    now: i64,
    /// Time of the last move to another thread. It prevents the walk from moving back and forth
    /// between two threads at one moment.
    went_over: i64,
    /// Segments found so far, last one first.
    segments: Vec<Segment>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        meanings: &'a Meanings,
        correlations: &'a FxHashMap<u32, Correlated>,
        work: &'a DeviceWork,
    ) -> Self {
        let base = |place: u32| {
            let track = trace.slices[place as usize].track;
            trace.tracks[track as usize].overlaps.unwrap_or(track) as usize
        };
        let links = trace.flows.iter().filter(|flow| flow.kind == FlowKind::ForwardBackward);
        let pairs: FxHashSet<_> = links.map(|flow| (base(flow.from), base(flow.to))).collect();
        let mut backward: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (forward, of) in pairs.into_iter().filter(|(one, other)| one != other) {
            backward.entry(forward).or_default().push(of);
        }
        backward.values_mut().for_each(|tracks| tracks.sort_unstable());
        let waits = Waits::new(trace, meanings, correlations, work);
        Self { trace, meanings, work, waits, backward, innermost: Innermost::new(trace) }
    }

    /// Returns the critical path of a step. `with_segments` also includes each segment.
    pub(crate) fn of(&self, step: &Step, with_segments: bool) -> CriticalPath {
        let (from, now) = (step.start(), step.end());
        let mut walk =
            Walk { paths: self, step, from, now, went_over: i64::MAX, segments: Vec::new() };
        for part in step.parts.iter().rev() {
            walk.run(*part);
        }
        let mut sums: FxHashMap<(PathKind, Option<Name>), (u64, i64)> = FxHashMap::default();
        for segment in &walk.segments {
            let sum = sums.entry((segment.kind, segment.name)).or_default();
            *sum = (sum.0 + 1, sum.1 + segment.end - segment.start);
        }
        let text = |name: Option<Name>| name.map(|name| self.trace.names.text(name).to_owned());
        let mut parts: Vec<PathPart> = sums
            .into_iter()
            .map(|((kind, name), (count, duration_ns))| PathPart {
                kind,
                name: text(name),
                count,
                duration_ns,
            })
            .collect();
        parts.sort_by(|one, other| {
            let key = |part: &PathPart| (std::cmp::Reverse(part.duration_ns), part.kind);
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        let length_ns = parts.iter().map(|part| part.duration_ns).sum();
        let shown = walk.segments.iter().rev().filter(|_| with_segments);
        let mut now = 0;
        let segments = shown.map(|segment| {
            let (start_ns, duration_ns) = (now, segment.end - segment.start);
            now += duration_ns;
            PathSegment {
                start_ns,
                duration_ns,
                kind: segment.kind,
                name: text(segment.name),
                track: self.trace.track_name(segment.track),
            }
        });
        CriticalPath { step: step.number, length_ns, parts, segments: segments.collect() }
    }

    fn slice(&self, place: u32) -> &'a Slice {
        &self.trace.slices[place as usize]
    }

    /// Returns the backward thread whose slice ended last while this thread was idle, with the end
    /// of that slice.
    pub(crate) fn backward_of(
        &self,
        track: usize,
        (since, now): (i64, i64),
    ) -> Option<(usize, i64)> {
        let others = self.backward.get(&track)?;
        let ended = others.iter().filter_map(|other| {
            let slices = self.trace.of_track(&self.trace.tracks[*other]);
            let begun = slices.partition_point(|slice| slice.start < now);
            let outermost = slices[..begun].iter().rev().filter(|slice| slice.depth == 0);
            let mut during = outermost.take_while(|slice| slice.end() > since);
            let is_whole = |slice: &&Slice| slice.duration > 0 && slice.end() <= now;
            during.find(is_whole).map(|slice| (*other, slice.end()))
        });
        ended.max_by_key(|(_, end)| *end)
    }
}

impl Walk<'_> {
    fn run(&mut self, (from, to): (i64, i64)) {
        (self.from, self.now) = (from, to);
        let mut place = self.last();
        while self.now > self.from {
            place = match place {
                Place::Thread(track) => self.thread(track),
                Place::Device(work) => self.device(work),
            };
        }
    }

    /// Returns the starting place of the walk. A step ends on its thread. A trace without steps can
    /// also end on a device that works longer than the thread.
    fn last(&mut self) -> Place {
        let (trace, track) = (self.paths.trace, self.step.track);
        if self.step.number.is_none() {
            let lanes = (0..trace.tracks.len()).filter(|lane| {
                *lane == track || trace.tracks[*lane].overlaps == Some(track as u32)
            });
            let slices = lanes.flat_map(|lane| trace.of_track(&trace.tracks[lane]));
            let thread_ended = slices.map(Slice::end).max().unwrap_or(self.from);
            let later = (thread_ended, self.now);
            if let Some(work) = self.paths.work.last_ended(trace, (None, None), later) {
                let ended = self.paths.slice(work).end();
                self.push(ended, PathKind::Host(Activity::Nothing), None, track);
                return Place::Device(work);
            }
        }
        Place::Thread(track)
    }

    /// Adds a segment of this kind from `since` to the current time of the walk.
    fn push(&mut self, since: i64, kind: PathKind, name: Option<Name>, track: usize) {
        let start = since.max(self.from);
        if start >= self.now {
            return;
        }
        let end = std::mem::replace(&mut self.now, start);
        match self.segments.last_mut() {
            Some(last)
                if (last.kind, last.name, last.track, last.start) == (kind, name, track, end) =>
            {
                last.start = start;
            }
            _ => self.segments.push(Segment { start, end, kind, name, track }),
        }
    }

    fn thread(&mut self, track: usize) -> Place {
        let (trace, meanings) = (self.paths.trace, self.paths.meanings);
        let (innermost, since) = self.paths.innermost.before(track, self.now);
        let activity = meanings.activity(trace, innermost);
        let slice = innermost.map(|place| &trace.slices[place]);
        let name = slice.map(|slice| slice.name).filter(|_| activity != Activity::Nothing);
        if let Some(call) = slice
            && let Some(work) = self.paths.waits.of_call(call, self.now)
        {
            let ended = self.paths.slice(work).end();
            self.push(ended, PathKind::ReturnFromWaiting, name, track);
            return Place::Device(work);
        }
        if may_wait_for_backward(activity)
            && self.went_over != self.now
            && let Some((other, end)) = self.paths.backward_of(track, (since, self.now))
        {
            self.push(end, PathKind::Host(activity), name, track);
            self.went_over = self.now;
            return Place::Thread(other);
        }
        if innermost.is_none() && track != self.step.track {
            // The other thread began its work because the step's own thread requested it.
            return Place::Thread(self.step.track);
        }
        self.push(since, PathKind::Host(activity), name, track);
        Place::Thread(track)
    }

    fn device(&mut self, place: u32) -> Place {
        let (trace, work) = (self.paths.trace, self.paths.work);
        let slice = self.paths.slice(place);
        let kind = match self.paths.meanings.work(slice) {
            Some(WorkKind::Communication) => PathKind::Communication,
            Some(WorkKind::Memory) => PathKind::Memory,
            Some(WorkKind::Compute) | None => PathKind::Compute,
        };
        let track = slice.track as usize;
        self.push(slice.start, kind, Some(slice.name), track);
        let call = work.call(place).map(|call| self.paths.slice(call));
        let end = |place: &u32| self.paths.slice(*place).end();
        // Each move goes back in time, so that the walk ends even for inconsistent traces.
        let of_another = self
            .paths
            .waits
            .of_stream(place)
            .filter(|it| self.paths.slice(*it).start < slice.start && end(it) <= slice.start);
        let previous = work.previous(trace, place);
        let previous = of_another.into_iter().chain(previous).max_by_key(end);
        let waited_for_previous = |call: &Slice, previous: u32| {
            let done = self.paths.slice(previous).end();
            // A call that began after its work is still its launch, because host and device clocks
            // can differ.
            let launched = call.start.min(slice.start);
            done > launched && (done >= call.end() || slice.start < call.end())
        };
        match (call, previous) {
            (Some(call), Some(previous)) if waited_for_previous(call, previous) => {
                self.after(previous, slice, PathKind::BetweenKernels)
            }
            (None, Some(previous)) => {
                let gap = slice.start - self.paths.slice(previous).end();
                let is_short = gap < BETWEEN;
                let kind = if is_short { PathKind::BetweenKernels } else { PathKind::Unexplained };
                self.after(previous, slice, kind)
            }
            (Some(call), _) => {
                self.push(call.end(), PathKind::LaunchDelay, Some(slice.name), track);
                let base = trace.tracks[call.track as usize].overlaps.unwrap_or(call.track);
                Place::Thread(base as usize)
            }
            (None, None) => Place::Thread(self.step.track),
        }
    }

    /// Moves to the previous work of the stream, and adds the gap until `slice` began.
    fn after(&mut self, previous: u32, slice: &Slice, gap: PathKind) -> Place {
        let done = self.paths.slice(previous).end();
        self.push(done, gap, Some(slice.name), slice.track as usize);
        Place::Device(previous)
    }
}
