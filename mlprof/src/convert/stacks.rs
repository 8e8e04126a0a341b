//! Stacks with their self time or self memory, from which flame graphs are drawn.

use std::collections::{BTreeMap, HashMap};
use std::iter::successors;

use mlprof_analysis::Trace;
use mlprof_analysis::trace::{Edge, Track, TrackKind};
use mlprof_report::AdvancedReport;
use mlprof_report::advanced::{CallTreeNode, FunctionKey};
use mlprof_report::folded::{self, Extent, Room, frame_name};
use mlprof_report::memory::{MemoryTree, PathMemory};
use mlprof_report::samples::{Samples, StackNode};

/// Function, action or op.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// Source file and line, if known.
    pub(crate) place: Option<(String, u32)>,
}

/// Stack, stored as its innermost frame and a link to the parent stack.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Index of the parent in [`ThreadStacks::stacks`]; a parent precedes its children.
    pub(crate) parent: Option<usize>,
    /// Index in [`Stacks::frames`].
    pub(crate) frame: u32,
    pub(crate) value: u64,
    extent: Extent,
    is_cut: bool,
}

/// Unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Unit {
    #[default]
    Nanoseconds,
    Bytes,
}

impl Unit {
    /// Returns the unit name in folded stacks.
    pub(crate) const fn of_folded(self) -> &'static str {
        match self {
            Self::Nanoseconds => "us",
            Self::Bytes => "bytes",
        }
    }

    fn folded(self, value: u64) -> u64 {
        match self {
            // A short non-zero time is rounded up: a stack of 1 ns to 1,499 ns counts as 1 us.
            Self::Nanoseconds if value > 0 => ((value + 500) / 1000).max(1),
            Self::Nanoseconds => 0,
            Self::Bytes => value,
        }
    }
}

/// Stacks of one thread, or of all devices. Parents precede their children.
#[derive(Debug)]
pub(crate) struct ThreadStacks {
    /// Thread name; `None` for device work, whose outermost frames are the devices.
    pub(crate) thread: Option<String>,
    pub(crate) stacks: Vec<Stack>,
}

impl ThreadStacks {
    /// Returns the frames of a stack, outermost first.
    pub(crate) fn frames(&self, stack: &Stack) -> Vec<u32> {
        let parent = |stack: &&Stack| self.stacks.get(stack.parent?);
        let mut frames: Vec<u32> =
            successors(Some(stack), parent).map(|stack| stack.frame).collect();
        frames.reverse();
        frames
    }
}

/// Stacks of all threads, within the [limits](flame) of flame graphs.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) unit: Unit,
    pub(crate) frames: Vec<Frame>,
    pub(crate) threads: Vec<ThreadStacks>,
    /// Number of stacks or trace slices that exceed the depth and size limits. They are merged into
    /// the frame [`folded::CUT`].
    pub(crate) cut: u64,
    room: Room,
    ids: HashMap<Frame, u32>,
}

impl Stacks {
    /// Collects the call trees of an Advanced report.
    pub(crate) fn of_report(report: &AdvancedReport) -> Self {
        let mut all = Self::default();
        for tree in &report.threads {
            let own = |node: &CallTreeNode| {
                (frame_of(&node.function), nanoseconds(node.calls.self_seconds))
            };
            let mut nodes = Nodes::default();
            all.walk(&mut nodes, &tree.roots, |node| &node.children, own);
            all.threads.push(nodes.of_thread(tree.thread.clone()));
        }
        all
    }

    /// Collects the sampled stacks, weighted by working time or by waiting time. All threads are
    /// merged.
    pub(crate) fn of_samples(samples: &Samples, by_waiting: bool) -> Self {
        let (mut all, mut nodes) = (Self::default(), Nodes::default());
        let mut places: Vec<usize> = Vec::with_capacity(samples.stacks.len());
        for node in &samples.stacks {
            // Parents precede their children in the report, so the parent's index is already known.
            let above = node.parent.and_then(|parent| places.get(parent as usize)).copied();
            let ticks = if by_waiting { node.waiting_ticks } else { node.working_ticks };
            let seconds = ticks as f64 * samples.seconds_per_tick;
            let place = all.below(&mut nodes, above, frame_of_sample(samples, node));
            nodes.add(place, nanoseconds(seconds));
            places.push(place);
        }
        all.threads.push(nodes.of_thread("all threads".to_owned()));
        all
    }

    /// Collects the allocation sites with their sizes in bytes.
    pub(crate) fn of_memory(tree: &MemoryTree) -> Self {
        let mut all = Self { unit: Unit::Bytes, ..Self::default() };
        let mut nodes = Nodes::default();
        if tree.blocks.own_bytes > 0 {
            let frame = plain("(outside of any action)".to_owned());
            let place = all.below(&mut nodes, None, frame);
            nodes.add(place, tree.blocks.own_bytes);
        }
        let own = |path: &PathMemory| (plain(path.action.clone()), path.own_bytes);
        all.walk(&mut nodes, &tree.blocks.inside, |path| &path.inside, own);
        all.threads.push(nodes.of_thread("all threads".to_owned()));
        all
    }

    /// Adds a whole tree iteratively, so deep trees cannot overflow the call stack. `own` returns
    /// the frame and self value of a node.
    fn walk<T>(
        &mut self,
        nodes: &mut Nodes,
        roots: &[T],
        below: fn(&T) -> &[T],
        own: impl Fn(&T) -> (Frame, u64),
    ) {
        let mut open = vec![(None, roots.iter())];
        while let Some((parent, siblings)) = open.last_mut() {
            let parent = *parent;
            let Some(node) = siblings.next() else {
                open.pop();
                continue;
            };
            let (frame, value) = own(node);
            let place = self.below(nodes, parent, frame);
            nodes.add(place, value);
            open.push((Some(place), below(node).iter()));
        }
    }

    /// Collects the slices of the threads in a trace. A slice that overlaps others without nesting
    /// has no self time. `with_devices` adds kernels, copies and fills below their device and
    /// stream. Device work is also added if no thread has a stack.
    pub(crate) fn of_trace(trace: &Trace, with_devices: bool) -> Self {
        let mut all = Self::default();
        for (place, track) in trace.tracks.iter().enumerate() {
            if track.kind != TrackKind::Stream && track.overlaps.is_none() {
                let nodes = all.thread(trace, track);
                all.threads.push(nodes.of_thread(trace.track_name(place)));
            }
        }
        if with_devices || all.threads.iter().all(|of_thread| of_thread.stacks.is_empty()) {
            let nodes = all.devices(trace);
            all.threads.push(ThreadStacks { thread: None, stacks: nodes.stacks });
        }
        all
    }

    /// Collects the work of devices as `device 0;stream 7;kernel`.
    fn devices(&mut self, trace: &Trace) -> Nodes {
        let mut nodes = Nodes::default();
        for slice in trace.slices.iter().filter(|slice| slice.category.is_device_work()) {
            let track = &trace.tracks[slice.track as usize];
            if track.kind != TrackKind::Stream {
                continue;
            }
            let base = track.overlaps.map_or(track, |base| &trace.tracks[base as usize]);
            let device = match trace.processes[track.process as usize].number {
                Some(number) => format!("device {number}"),
                None => "a device".to_owned(),
            };
            let device = self.below(&mut nodes, None, plain(device));
            let stream = plain(trace.names.text(base.name).to_owned());
            let stream = self.below(&mut nodes, Some(device), stream);
            let work = plain(trace.name(slice).to_owned());
            let work = self.below(&mut nodes, Some(stream), work);
            nodes.add(work, slice.duration.max(0).unsigned_abs());
        }
        nodes
    }

    fn thread(&mut self, trace: &Trace, track: &Track) -> Nodes {
        let mut nodes = Nodes::default();
        // `open` holds the nodes of the open slices. `since` is the start of the time that is not
        // yet attributed.
        let (mut open, mut since) = (Vec::new(), 0);
        for edge in trace.edges(track) {
            let now = match edge {
                Edge::Open(place) => trace.slices[place].start,
                Edge::Close(place) => trace.slices[place].end(),
            };
            if let Some(innermost) = open.last() {
                nodes.add(*innermost, now.abs_diff(since));
            }
            since = now;
            match edge {
                Edge::Open(place) => {
                    let name = name_of_step(trace.name(&trace.slices[place]));
                    let frame = plain(name.to_owned());
                    open.push(self.below(&mut nodes, open.last().copied(), frame));
                }
                Edge::Close(_) => drop(open.pop()),
            }
        }
        nodes
    }

    /// Returns the node of `frame` below `parent`. If the limits are exceeded, returns the
    /// truncated node of that parent.
    fn below(&mut self, nodes: &mut Nodes, parent: Option<usize>, frame: Frame) -> usize {
        let around =
            parent.map(|parent| (nodes.stacks[parent].is_cut, nodes.stacks[parent].extent));
        if let (Some(parent), Some((true, _))) = (parent, around) {
            self.cut += 1;
            return parent;
        }
        let extent = around.map_or_else(Extent::default, |(_, extent)| extent);
        let extent = extent.with(&folded_name(&frame));
        let id = self.frame(frame);
        if let Some(known) = nodes.ids.get(&(parent, id)) {
            return *known;
        }
        if self.room.take(extent) {
            return nodes.insert(parent, id, extent, false);
        }
        self.cut += 1;
        let id = self.frame(plain(folded::CUT.to_owned()));
        match nodes.ids.get(&(parent, id)) {
            Some(known) => *known,
            None => nodes.insert(parent, id, extent, true),
        }
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        if let Some(id) = self.ids.get(&frame) {
            return *id;
        }
        let id = self.frames.len() as u32; // 2^32 frames do not fit into memory
        self.frames.push(frame.clone());
        self.ids.insert(frame, id);
        id
    }

    /// Returns folded stacks, `outermost;…;innermost value`, in alphabetical order. Stacks without
    /// a value are omitted. Times are in microseconds and at least 1. Threads are merged, or become
    /// the outermost frames with `by_thread`.
    pub(crate) fn folded(&self, by_thread: bool) -> Vec<String> {
        let names: Vec<String> = self.frames.iter().map(folded_name).collect();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for of_thread in &self.threads {
            let thread = of_thread.thread.as_deref().filter(|_| by_thread).map(frame_name);
            for stack in of_thread.stacks.iter().filter(|stack| stack.value > 0) {
                let frames = of_thread.frames(stack);
                let frames = frames.iter().map(|frame| names[*frame as usize].as_str());
                let frames: Vec<&str> = thread.as_deref().into_iter().chain(frames).collect();
                *sums.entry(frames.join(";")).or_default() += stack.value;
            }
        }
        let lines = sums.into_iter().map(|(stack, value)| (stack, self.unit.folded(value)));
        let mut lines: Vec<String> = lines
            .filter(|(_, value)| *value > 0)
            .map(|(stack, value)| format!("{stack} {value}"))
            .collect();
        lines.sort_unstable();
        lines
    }
}

/// Distinct stacks of a thread. Parents precede their children.
#[derive(Default)]
struct Nodes {
    stacks: Vec<Stack>,
    ids: HashMap<(Option<usize>, u32), usize>,
}

impl Nodes {
    fn insert(&mut self, parent: Option<usize>, frame: u32, extent: Extent, is_cut: bool) -> usize {
        let place = self.stacks.len();
        self.stacks.push(Stack { parent, frame, value: 0, extent, is_cut });
        self.ids.insert((parent, frame), place);
        place
    }

    fn add(&mut self, node: usize, value: u64) {
        let own = &mut self.stacks[node].value;
        *own = own.saturating_add(value);
    }

    fn of_thread(self, thread: String) -> ThreadStacks {
        ThreadStacks { thread: Some(thread), stacks: self.stacks }
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9).round() as u64
}

fn plain(name: String) -> Frame {
    Frame { name, place: None }
}

fn frame_of_sample(samples: &Samples, node: &StackNode) -> Frame {
    if let Some(action) = &node.action {
        return match node.sub_stage {
            Some(stage) => plain(format!("[{stage:?}]{action}")),
            None => plain(action.clone()),
        };
    }
    let function = node.function.and_then(|function| samples.functions.get(function as usize));
    let Some(function) = function else { return plain(String::new()) };
    Frame { name: function.name.clone(), place: function.file.clone().zip(function.line) }
}

fn frame_of(function: &FunctionKey) -> Frame {
    let is_known = function.line > 0;
    let place = is_known.then(|| (function.file.clone(), function.line));
    Frame { name: function.name.clone(), place }
}

/// Returns `name (file:line)`, which keeps functions of the same name apart.
fn folded_name(frame: &Frame) -> String {
    match &frame.place {
        Some((file, line)) => frame_name(&format!("{} ({file}:{line})", frame.name)),
        None => frame_name(&frame.name),
    }
}

/// Gives all steps one name: `ProfilerStep#3` becomes `ProfilerStep*`.
fn name_of_step(name: &str) -> &str {
    const STEP: &str = "ProfilerStep#";
    let number = name.strip_prefix(STEP).filter(|number| !number.is_empty());
    match number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        true => "ProfilerStep*",
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_is_not_nothing() {
        let folded = |value: u64| Unit::Nanoseconds.folded(value);
        assert_eq!([0, 1, 499, 1499, 1500].map(folded), [0, 1, 1, 1, 2]);
        assert_eq!(Unit::Bytes.folded(7), 7);
    }
}
