//! Thread events of a trace.

use std::io::{self, Write};

use super::engine::Tie;
use super::index::LinkEnd;
use super::stacks::StackId;
use super::work::Work;
use super::{ArrowEnd, Writer};
use crate::cycle::{Event, MemoryEvent, Track};
use crate::nest::Lanes;
use mlprof_events::{Action, ActionKind, DeviceActivity, MemoryDevice, OpStart, TimingMethod};

/// Names that analysis tools recognise as launches.
const KNOWN_LAUNCHES: [&str; 4] =
    ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"];

/// Tracks of one thread while it is written.
struct Thread<'track> {
    track: &'track Track,
    lanes: Lanes<Around>,
    /// Track number of each lane.
    numbers: Vec<u64>,
}

/// Information about a slice that may enclose others in its lane.
#[derive(Clone, Copy)]
struct Around {
    /// Number of the innermost op; 0 if there is none.
    op: u64,
    /// End of the slice as readers compute it.
    end: f64,
    /// Stack of open scopes inside the slice, if stacks are written.
    stack: StackId,
    /// Set if an enclosing op already counts the operations inside the slice.
    is_counted: bool,
    /// Set if an enclosing op already counts the bytes inside the slice.
    has_bytes: bool,
}

/// A slice to be written.
#[derive(Clone, Copy)]
struct Slice {
    /// Number of the event.
    id: u64,
    thread: u64,
    start: i64,
    end: i64,
    /// Number of the enclosing op; 0 if there is none.
    op: u64,
    /// Stack of open scopes around the slice, if stacks are written.
    stack: StackId,
    /// Work of an op, as in tables, if it is written.
    work: Work,
}

impl<W: Write> Writer<'_, W> {
    pub(super) fn host_events(&mut self) -> io::Result<()> {
        let mut before = 0;
        for track in self.cycle.tracks() {
            let process = self.tracks.process;
            self.tracks.name(process, track.thread, track.thread_name.clone());
            let numbers = vec![track.thread];
            let mut thread = Thread { track, lanes: Lanes::new(), numbers };
            self.annotations.begin_thread();
            let count = track.event_count() as u64;
            // Events are written from the last to the first, so that an enclosing event precedes
            // the events inside it.
            for (number, event) in track.events().rev().enumerate() {
                self.host_event(&mut thread, before + count - number as u64, &event)?;
            }
            for event in track.memory_events() {
                self.memory_event(track.thread, &event)?;
            }
            before += count;
        }
        Ok(())
    }

    fn host_event(&mut self, thread: &mut Thread<'_>, id: u64, event: &Event) -> io::Result<()> {
        let (start, end) = (self.time(event.start), self.time(event.end));
        let lane = thread.lanes.place(start, end, usize::from(event.overlaps));
        let kind = self.names.kind(event.action);
        if !self.cycle.device_events.is_empty() {
            self.annotations.see(event, kind, start);
        }
        self.separate()?;
        let Some(lane) = lane else {
            let (thread, work) = (thread.track.thread, Work::default());
            let slice = Slice { id, thread, start, end, op: 0, stack: 0, work };
            return self.instant(&slice, event);
        };
        while thread.numbers.len() <= lane {
            let process = self.tracks.process;
            let name = format!("{} (overlapping)", thread.track.thread_name);
            thread.numbers.push(self.tracks.further(process, &name));
        }
        let around = thread.lanes.lane(lane).parent(start, end).copied();
        let op = if kind == ActionKind::Op { id } else { around.map_or(0, |around| around.op) };
        let shown = shown_end(start, end, around.map_or(f64::INFINITY, |around| around.end));
        let stack = self.stack_around(event, around.as_ref());
        let is_counted = around.is_some_and(|around| around.is_counted);
        let has_bytes_around = around.is_some_and(|around| around.has_bytes);
        let mut work = self.work_of(event, kind);
        work.flops = work.flops.filter(|_| !is_counted);
        work.bytes = work.bytes.filter(|_| !has_bytes_around);
        let own = Around {
            op,
            end: reckoned_end(start, shown),
            stack: match self.cycle.trace.with_stack {
                true => self.stacks.inside(stack, event.action, kind),
                false => 0,
            },
            is_counted: is_counted || work.flops.is_some(),
            has_bytes: has_bytes_around || work.bytes.is_some(),
        };
        thread.lanes.lane(lane).push(start, end, own);
        // An event on a further track still belongs to an op on the thread's first track.
        let op = if op == 0 && lane > 0 {
            thread.lanes.lane(0).around(start).map_or(0, |around| around.op)
        } else {
            op
        };
        let slice = Slice { id, thread: thread.numbers[lane], start, end: shown, op, stack, work };
        match kind {
            ActionKind::Op => self.op(&slice, event),
            ActionKind::Launch => self.launch(&slice, event),
            kind => self.annotation(&slice, event, kind),
        }
    }

    /// Returns the stack around an event, on its own thread or at its call site.
    fn stack_around(&mut self, event: &Event, around: Option<&Around>) -> StackId {
        if !self.cycle.trace.with_stack {
            return 0;
        }
        let on_thread = around.map_or(0, |around| around.stack);
        let called = event.context.and_then(|context| self.cycle.context(context));
        match called.filter(|_| on_thread == 0) {
            None => on_thread,
            Some(called) => called.actions.iter().fold(0, |around, action| {
                self.stacks.inside(around, *action, self.names.kind(*action))
            }),
        }
    }

    /// Returns the work of an op, if it is written.
    fn work_of(&mut self, event: &Event, kind: ActionKind) -> Work {
        let is_wanted = self.cycle.trace.with_flops && kind == ActionKind::Op;
        if is_wanted { self.work.of(event) } else { Work::default() }
    }

    /// Writes `","pid":…,"tid":…,"ts":…,"dur":…,"args":{`.
    #[inline]
    fn slice(&mut self, slice: &Slice) {
        self.json.raw("\"");
        self.place(self.tracks.process, slice.thread, slice.start);
        self.json.raw(",\"dur\":");
        self.json.microseconds(slice.end.saturating_sub(slice.start).max(0));
        self.json.raw(",\"args\":{");
    }

    fn op(&mut self, slice: &Slice, event: &Event) -> io::Result<()> {
        self.json.raw("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"");
        self.json.raw(self.names.escaped(event.action));
        self.slice(slice);
        self.json.raw("\"External id\":");
        self.json.integer(slice.id);
        self.json.raw(",\"Ev Idx\":");
        self.json.integer(slice.id - 1);
        let tie = Tie::of(event).or_else(|| self.index.engine_scopes.tie_of(slice.id));
        if let Some(tie) = tie {
            self.json.raw(",\"Fwd thread id\":");
            self.json.integer(tie.forward_thread);
            self.json.raw(",\"Sequence number\":");
            let is_first = tie.sequence == OpStart::FIRST_SEQUENCE;
            self.json.integer(if is_first { 0 } else { tie.sequence });
        }
        self.json.raw(self.shapes.arguments(event.shapes));
        if let Some(flops) = slice.work.flops {
            self.json.raw(",\"flops\":");
            self.json.integer(flops);
        }
        if let Some(bytes) = slice.work.bytes {
            self.json.raw(",\"bytes\":");
            self.json.integer(bytes);
        }
        self.json.raw(self.stacks.arguments(slice.stack));
        self.json.raw(self.contexts.arguments(self.cycle, event.context));
        self.end_of(event);
        let place = (self.tracks.process, slice.thread, slice.start);
        match self.index.link_of(slice.id, event) {
            Some((number, LinkEnd::Forward)) => self.arrow(ArrowEnd::Forward(number), place),
            Some((number, LinkEnd::Backward)) => self.arrow(ArrowEnd::Backward(number), place),
            None => Ok(()),
        }
    }

    fn annotation(&mut self, slice: &Slice, event: &Event, kind: ActionKind) -> io::Result<()> {
        self.json.raw("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"");
        self.json.raw(self.names.escaped(event.action));
        if kind == ActionKind::Step {
            self.json.raw("#");
            self.json.integer(event.sequence);
        }
        self.slice(slice);
        self.json.raw("\"External id\":");
        self.json.integer(slice.id);
        self.json.raw(",\"Ev Idx\":");
        self.json.integer(slice.id - 1);
        if event.sequence != 0 && matches!(kind, ActionKind::Action | ActionKind::Module) {
            self.json.raw(",\"Collective name\":\"");
            self.json.raw(self.names.escaped(event.action));
            self.json.raw("\",\"Seq\":");
            self.json.integer(event.sequence - 1);
        }
        self.json.raw(self.contexts.arguments(self.cycle, event.context));
        self.end_of(event);
        Ok(())
    }

    fn launch(&mut self, slice: &Slice, event: &Event) -> io::Result<()> {
        let launched = self.index.launches.get_mut(&event.sequence);
        let launched = launched.map(|launch| {
            launch.external_id = slice.op;
            &self.cycle.device_events[launch.device_event]
        });
        let activity = launched.map(|event| event.activity);
        let known = (event.sequence != 0).then(|| known_name(event.action, activity)).flatten();
        let is_driver = known.is_none() && is_of_driver(event.action.name());
        self.json.raw("{\"ph\":\"X\",\"cat\":\"");
        self.json.raw(if is_driver { "cuda_driver" } else { "cuda_runtime" });
        self.json.raw("\",\"name\":\"");
        match known {
            Some(name) => self.json.raw(name),
            None => self.json.raw(self.names.escaped(event.action)),
        }
        self.slice(slice);
        self.json.raw("\"External id\":");
        self.json.integer(slice.op);
        if event.sequence != 0 {
            self.json.raw(",\"correlation\":");
            self.json.integer(event.sequence);
        }
        if known.is_some() {
            self.json.raw(",\"api\":\"");
            self.json.raw(self.names.escaped(event.action));
            self.json.raw("\"");
        }
        let untimed = launched.filter(|event| event.method == TimingMethod::None);
        if let Some(untimed) = untimed {
            self.json.raw(",\"kernel\":\"");
            self.json.raw(self.names.escaped(untimed.action));
            self.json.raw("\"");
        }
        self.end_of(event);
        let has_arrow = launched.is_some_and(|event| self.is_shown_with_launch(event));
        if has_arrow {
            let place = (self.tracks.process, slice.thread, slice.start);
            self.arrow(ArrowEnd::Launch(event.sequence), place)?;
        }
        Ok(())
    }

    /// Writes an event as an instant, because no track is left for it.
    fn instant(&mut self, slice: &Slice, event: &Event) -> io::Result<()> {
        self.json.raw("{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"user_annotation\",\"name\":\"");
        self.json.raw(self.names.escaped(event.action));
        self.json.raw("\"");
        self.place(self.tracks.process, slice.thread, slice.start);
        self.json.raw(",\"args\":{\"dur\":");
        self.json.microseconds(slice.end.saturating_sub(slice.start).max(0));
        self.end_of(event);
        Ok(())
    }

    /// Writes the final arguments of an event and closes it.
    #[inline]
    fn end_of(&mut self, event: &Event) {
        if event.is_unfinished {
            self.json.raw(",\"unfinished\":true");
        }
        if event.overlaps {
            self.json.raw(",\"overlaps\":true");
        }
        self.json.raw("}}");
    }

    fn memory_event(&mut self, thread: u64, event: &MemoryEvent) -> io::Result<()> {
        self.separate()?;
        let (device_type, device) = match event.change.device {
            MemoryDevice::Cpu => (0, -1),
            MemoryDevice::Accelerator(number) => (1, i32::from(number)),
        };
        self.json
            .raw("{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\"");
        let time = self.time(event.time);
        self.place(self.tracks.process, thread, time);
        self.json.raw(",\"args\":{\"Addr\":");
        self.json.integer(event.change.address);
        self.json.raw(",\"Bytes\":");
        self.json.integer(event.change.bytes);
        self.json.raw(",\"Total Allocated\":");
        self.json.integer(event.change.total_allocated);
        self.json.raw(",\"Total Reserved\":");
        self.json.integer(event.change.total_reserved);
        self.json.raw(",\"Device Type\":");
        self.json.integer(device_type);
        self.json.raw(",\"Device Id\":");
        self.json.integer(device);
        self.json.raw("}}");
        Ok(())
    }
}

/// Returns the end of a slice as readers compute it from its start and duration. They use
/// floating-point microseconds, so the sum is rounded.
fn reckoned_end(start: i64, end: i64) -> f64 {
    microseconds(start) + microseconds(end - start)
}

fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Returns the end with which a slice is written. Readers omit a slice that appears to end after
/// the enclosing slice or after the start of the next one. In these cases the written end is
/// earlier by a nanosecond, or by one more than that of the enclosing slice.
fn shown_end(start: i64, mut end: i64, around: f64) -> i64 {
    let latest = around.min(microseconds(end));
    while end > start && reckoned_end(start, end) > latest {
        end -= 1;
    }
    end
}

/// Returns `true` if the name is in the style of CUDA's driver: `cuMemAlloc`, not `cudaMalloc`.
fn is_of_driver(name: &str) -> bool {
    let rest = name.strip_prefix("cu").and_then(|rest| rest.chars().next());
    rest.is_some_and(|first| first.is_ascii_uppercase())
}

/// Returns the name under which analysis tools know a launch, or `None` if they know its own name.
fn known_name(action: Action, activity: Option<DeviceActivity>) -> Option<&'static str> {
    if KNOWN_LAUNCHES.contains(&action.name()) {
        return None;
    }
    match activity {
        Some(DeviceActivity::Copy) => Some("cudaMemcpyAsync"),
        Some(DeviceActivity::Fill) => Some("cudaMemsetAsync"),
        Some(
            DeviceActivity::Synchronization | DeviceActivity::Region | DeviceActivity::Overhead,
        ) => None,
        Some(DeviceActivity::Kernel | DeviceActivity::Tuning) => Some("cudaLaunchKernel"),
        // Most driver calls do not launch anything.
        None => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tests real data: a backward op and an op inside it that ended in the same nanosecond.
    #[test]
    fn readers_see_what_ends_together_inside_of_each_other() {
        let (outer, inner, end) = (342_543_645_083_772, 342_543_645_083_842, 342_543_645_089_380);
        assert!(
            reckoned_end(inner, end) > reckoned_end(outer, end),
            "else there is nothing to mend"
        );
        let shown = shown_end(inner, end, reckoned_end(outer, end));
        assert_eq!(shown, end - 1);
    }

    /// Tests two slices whose ends are both rounded up: the outer one beyond the next slice, and
    /// the inner one beyond the outer one.
    #[test]
    fn inner_slices_are_cut_to_the_outer_slice() {
        let (inner, end) = (279_401_515_042_155, 279_401_515_042_155 + 602_223_177);
        let outer = inner - 145_393;
        let outer_shown = shown_end(outer, end, f64::INFINITY);
        let around = reckoned_end(outer, outer_shown);
        let shown = shown_end(inner, end, around);
        assert_eq!((outer_shown, shown), (end - 1, end - 2));
        assert!(reckoned_end(inner, shown) <= around);
    }

    proptest! {
        #[test]
        fn shown_ends_are_never_later_than_real_ends(
            start in 0_i64..604_800_000_000_000,
            before in 0_i64..1_000_000,
            duration in 0_i64..1_000_000_000,
        ) {
            let end = start + duration;
            let outer = start - before.min(start);
            let outer_shown = shown_end(outer, end, f64::INFINITY);
            let around = reckoned_end(outer, outer_shown);
            let shown = shown_end(start, end, around);
            prop_assert!(end - outer_shown <= 1 && outer_shown.min(end) - shown <= 1);
            // A slice without length does not cross any other.
            if shown > start {
                prop_assert!(reckoned_end(start, shown) <= around, "inside of what is around it");
                prop_assert!(reckoned_end(start, shown) <= microseconds(end), "before what follows");
            }
        }
    }
}
