//! Critical paths: what the end of a step waited for, and what that waited for, back to its beginning.
//!
//! A walk backward in time. On a thread it goes through what is innermost; at a call that waited for a
//! device, or for a place in its full queue, over to what the device did last; from there to what ran before
//! on the stream, or to what the stream waited for on another one; where that was over when the work was
//! launched, back to the launch. What a stretch is between is one, too: the path has no holes, so it is as long
//! as the step.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::answers::{Activity, CriticalPath, PathKind, PathPart, PathSegment, WorkKind};
use crate::device::event_waits::EventWaits;
use crate::device::launch_order::LaunchOrder;
use crate::device::work::DeviceWork;
use crate::host::steps::Step;
use crate::meaning::Meanings;
use crate::sweep;
use crate::trace::{Category, Correlated, FlowKind, Name, Slice, Trace};

/// Where so much was launched on a stream and has not begun, the next launch waits until something begins. CUDA has
/// 1,024 places, of which a few are taken by what traces do not show: 1,021 kernels were seen.
const FULL: usize = 1000;

/// What a walk looks at.
pub(crate) struct Paths<'a> {
    trace: &'a Trace,
    meanings: &'a Meanings,
    correlations: &'a FxHashMap<u32, Correlated>,
    work: &'a DeviceWork,
    order: LaunchOrder,
    waits: EventWaits,
    /// Threads that run the backward ops of a thread's forward ops.
    backward: FxHashMap<usize, Vec<usize>>,
}

/// A stretch, before it has texts.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: i64,
    end: i64,
    kind: PathKind,
    name: Option<Name>,
    track: usize,
}

/// Where a walk is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Thread(usize),
    Device(u32),
}

/// A walk through one step.
struct Walk<'a> {
    paths: &'a Paths<'a>,
    step: Step,
    /// Everything from here on is in `segments`.
    now: i64,
    /// Where the walk went over to another thread last: nothing is between two threads there and back.
    went_over: i64,
    /// The last one first.
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
        let order = LaunchOrder::of(trace, work);
        let waits = EventWaits::of(trace, correlations, work, &order);
        Self { trace, meanings, correlations, work, order, waits, backward }
    }

    /// The path of a step. `with_segments`: every stretch of it, too.
    pub(crate) fn of(&self, step: Step, with_segments: bool) -> CriticalPath {
        let mut walk =
            Walk { paths: self, step, now: step.end, went_over: i64::MAX, segments: Vec::new() };
        walk.run();
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
        let segments = shown.map(|segment| PathSegment {
            start_ns: segment.start - step.start,
            duration_ns: segment.end - segment.start,
            kind: segment.kind,
            name: text(segment.name),
            track: self.trace.track_name(segment.track),
        });
        CriticalPath { step: step.number, length_ns, parts, segments: segments.collect() }
    }

    fn slice(&self, place: u32) -> &'a Slice {
        &self.trace.slices[place as usize]
    }

    /// What a call waited for that had not returned at `now`: of its own work, of the stream that it
    /// names, of any.
    fn waited_for(&self, call: &Slice, now: i64) -> Option<u32> {
        if !call.category.is_runtime() {
            return None;
        }
        let during = (call.start, now);
        let own = self.correlations.get(&call.correlation).filter(|_| call.correlation != 0);
        let of_device = || own.into_iter().flat_map(|own| own.device.iter().copied());
        let ended = of_device().filter(|place| {
            let slice = self.slice(*place);
            let is_during = slice.end() > during.0 && slice.end() <= during.1;
            slice.category.is_device_work() && slice.duration > 0 && is_during
        });
        if let Some(last) = ended.max_by_key(|place| self.slice(*place).end()) {
            return Some(last);
        }
        if let Some(launched) = of_device().find(|it| self.slice(*it).category.is_device_work())
            && let Some((device, stream)) = self.work.stream_number(self.trace, launched)
            && self.order.waiting((device, stream), call.start) >= FULL
        {
            return self.work.last_ended(self.trace, Some(stream), during);
        }
        if !self.meanings.waits_for_device(call) {
            return None;
        }
        let wait = of_device().find(|place| self.slice(*place).category == Category::CudaSync);
        if let Some(source) = wait.and_then(|wait| self.waits.of_wait(wait)) {
            let end = self.slice(source).end();
            return (during.0 < end && end <= during.1).then_some(source);
        }
        let details = wait.and_then(|wait| self.trace.details(self.slice(wait)));
        // -1 where a whole device, or context, is waited for, and where it is an event.
        let stream = details.and_then(|it| it.stream.filter(|it| *it >= 0).or(it.event.stream));
        let stream = stream.map(i64::from);
        self.work.last_ended(self.trace, stream, during)
    }

    /// Where a thread has nothing to do itself: what another one did for it that ended last.
    fn backward_of(&self, track: usize, (since, now): (i64, i64)) -> Option<(usize, i64)> {
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
    fn run(&mut self) {
        let mut place = Place::Thread(self.step.track);
        while self.now > self.step.start {
            place = match place {
                Place::Thread(track) => self.thread(track),
                Place::Device(work) => self.device(work),
            };
        }
    }

    /// Everything since `since` is of this kind.
    fn push(&mut self, since: i64, kind: PathKind, name: Option<Name>, track: usize) {
        let start = since.max(self.step.start);
        if start >= self.now {
            return;
        }
        let end = std::mem::replace(&mut self.now, start);
        match self.segments.last_mut() {
            Some(last) if (last.kind, last.name, last.track) == (kind, name, track) => {
                last.start = start;
            }
            _ => self.segments.push(Segment { start, end, kind, name, track }),
        }
    }

    fn thread(&mut self, track: usize) -> Place {
        let (trace, meanings) = (self.paths.trace, self.paths.meanings);
        let (innermost, since) = sweep::before(trace, track, self.now);
        let activity = meanings.activity(trace, innermost);
        let slice = innermost.map(|place| &trace.slices[place]);
        let name = slice.map(|slice| slice.name).filter(|_| activity != Activity::Nothing);
        if let Some(call) = slice
            && let Some(work) = self.paths.waited_for(call, self.now)
        {
            let ended = self.paths.slice(work).end();
            self.push(ended, PathKind::ReturnFromWaiting, name, track);
            return Place::Device(work);
        }
        let has_nothing_to_do = matches!(activity, Activity::Nothing | Activity::Annotation);
        if has_nothing_to_do
            && self.went_over != self.now
            && let Some((other, end)) = self.paths.backward_of(track, (since, self.now))
        {
            self.push(end, PathKind::Host(activity), name, track);
            self.went_over = self.now;
            return Place::Thread(other);
        }
        if innermost.is_none() && track != self.step.track {
            // It began what it does because the step's own thread told it to.
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
        let call = call.filter(|call| call.start <= slice.start);
        let end = |place: &u32| self.paths.slice(*place).end();
        // Each step is one back in time, whatever the trace says.
        let of_another = self
            .paths
            .waits
            .before(place)
            .filter(|it| self.paths.slice(*it).start < slice.start && end(it) <= slice.start);
        let previous = work.previous(trace, place);
        let previous = of_another.into_iter().chain(previous).max_by_key(end);
        let waited_for_previous = |call: &Slice, previous: u32| {
            let done = self.paths.slice(previous).end();
            done > call.start && (done >= call.end() || slice.start < call.end())
        };
        match (call, previous) {
            (Some(call), Some(previous)) if waited_for_previous(call, previous) => {
                self.after(previous, slice)
            }
            (None, Some(previous)) => self.after(previous, slice),
            (Some(call), _) => {
                self.push(call.end(), PathKind::LaunchDelay, Some(slice.name), track);
                let base = trace.tracks[call.track as usize].overlaps.unwrap_or(call.track);
                Place::Thread(base as usize)
            }
            (None, None) => Place::Thread(self.step.track),
        }
    }

    /// What ran before on the same stream, until `slice` began.
    fn after(&mut self, previous: u32, slice: &Slice) -> Place {
        let done = self.paths.slice(previous).end();
        self.push(done, PathKind::BetweenKernels, Some(slice.name), slice.track as usize);
        Place::Device(previous)
    }
}
