//! Nodes of host threads and devices of one trace.

use rustc_hash::{FxHashMap, FxHashSet};

use super::graph::{Builder, EdgeKind, NO_SLICE, Node};
use crate::host::path::{Paths, may_wait_for_backward};
use crate::host::steps::Step;
use crate::sweep::innermost;
use crate::trace::{FlowKind, Slice, TrackKind};

/// Builds the part of a graph that belongs to one trace.
pub(super) struct Rank<'a> {
    pub(super) paths: &'a Paths<'a>,
    steps: &'a [Step],
    /// Index of the trace's first slice among the slices of all traces.
    first_slice: u32,
    /// Nanoseconds to add to the trace's times.
    offset: i64,
    /// Index of the first node of each thread, and of the node after its last one.
    threads: FxHashMap<usize, (u32, u32)>,
    /// First and last node of device work: its start and its end.
    work: FxHashMap<u32, (u32, u32)>,
}

impl<'a> Rank<'a> {
    pub(super) fn new(
        paths: &'a Paths<'a>,
        steps: &'a [Step],
        (first_slice, offset): (u32, i64),
    ) -> Self {
        let (threads, work) = (FxHashMap::default(), FxHashMap::default());
        Self { paths, steps, first_slice, offset, threads, work }
    }

    pub(super) fn add(&mut self, graph: &mut Builder) {
        self.add_threads(graph);
        self.add_devices(graph);
        self.tie_arrows(graph);
        self.tie_threads(graph);
    }

    fn base(&self, track: u32) -> usize {
        self.paths.trace.tracks[track as usize].overlaps.unwrap_or(track) as usize
    }

    fn slice(&self, place: u32) -> &'a Slice {
        &self.paths.trace.slices[place as usize]
    }

    /// Returns the last node of a thread that ended at a time or before.
    pub(super) fn at(&self, graph: &Builder, track: usize, time: i64) -> Option<u32> {
        let (first, last) = *self.threads.get(&track)?;
        let nodes = &graph.nodes[first as usize..last as usize];
        let after = nodes.partition_point(|node| node.end <= time + self.offset) as u32;
        (after > 0).then(|| first + after - 1)
    }

    /// Returns the node of a thread that contains a time, or ends at it.
    fn during(&self, graph: &Builder, track: usize, time: i64) -> Option<u32> {
        let (first, last) = *self.threads.get(&track)?;
        let nodes = &graph.nodes[first as usize..last as usize];
        let place = nodes.partition_point(|node| node.end < time + self.offset) as u32;
        let node = nodes.get(place as usize)?;
        (node.start < time + self.offset).then_some(first + place)
    }

    /// Returns the last node of device work.
    pub(super) fn end_of_work(&self, place: u32) -> Option<u32> {
        self.work.get(&place).map(|(_, end)| *end)
    }

    fn add_threads(&mut self, graph: &mut Builder) {
        let trace = self.paths.trace;
        let Some((begin, _)) = trace.window() else { return };
        let of_steps: FxHashSet<usize> = self.steps.iter().map(|step| step.track).collect();
        let of_hosts = (0..trace.tracks.len()).filter(|track| {
            let track = &trace.tracks[*track];
            track.kind != TrackKind::Stream && track.overlaps.is_none()
        });
        for track in of_hosts {
            let lanes = (0..trace.tracks.len()).filter(|lane| self.base(*lane as u32) == track);
            let ends = lanes.flat_map(|lane| trace.of_track(&trace.tracks[lane])).map(Slice::end);
            let is_step_thread = of_steps.contains(&track);
            let steps = self.steps.iter().filter(|step| step.track == track);
            let mut cuts: Vec<i64> = steps
                .flat_map(|step| step.parts.iter().flat_map(|(start, end)| [*start, *end]))
                .collect();
            cuts.sort_unstable();
            let Some(end) = ends.chain(cuts.last().copied()).max() else { continue };
            let first = graph.nodes.len() as u32;
            let mut last: Option<u32> = None;
            innermost(trace, track, (begin, end), |from, to, place| {
                if place.is_none() && !is_step_thread {
                    return;
                }
                let slice = place.map_or(NO_SLICE, |place| self.first_slice + place as u32);
                let inside = cuts.partition_point(|cut| *cut <= from);
                let inside = cuts[inside..].iter().copied().take_while(|cut| *cut < to);
                let mut start = from + self.offset;
                for end in inside.chain([to]).map(|end| end + self.offset) {
                    if start == end {
                        continue;
                    }
                    let node = graph.node(Node { start, ready: start, end, slice, rank: 0 });
                    if let Some(last) = last {
                        let is_next = graph.nodes[last as usize].end == start;
                        let kind = if is_next { EdgeKind::Order } else { EdgeKind::Gap };
                        graph.edge(node, last, kind);
                    }
                    (last, start) = (Some(node), end);
                }
            });
            self.threads.insert(track, (first, graph.nodes.len() as u32));
        }
    }

    fn add_devices(&mut self, graph: &mut Builder) {
        let work = self.paths.work;
        let places = || {
            let streams = work.devices.iter().flat_map(|device| &device.streams);
            streams.flat_map(|stream| stream.work.iter().copied())
        };
        for place in places() {
            let slice = self.slice(place);
            let (start, end) = (slice.start + self.offset, slice.end() + self.offset);
            let slice = self.first_slice + place;
            let begun = graph.node(Node { start, ready: start, end: start, slice, rank: 2 });
            let mut ended = begun;
            if start < end {
                ended = graph.node(Node { start, ready: start, end, slice, rank: 0 });
                graph.edge(ended, begun, EdgeKind::Order);
            }
            self.work.insert(place, (begun, ended));
        }
        for place in places() {
            let (slice, (begun, _)) = (self.slice(place), self.work[&place]);
            let end_or_start = |source: u32| {
                let (first, last) = self.work[&source];
                let is_over = self.slice(source).end() <= slice.start;
                if is_over { last } else { first }
            };
            let previous = work.previous(self.paths.trace, place);
            if let Some(previous) = previous {
                graph.edge(begun, end_or_start(previous), EdgeKind::Order);
            }
            if let Some(other) = self.paths.waits.of_stream(place) {
                graph.edge(begun, end_or_start(other), EdgeKind::Order);
            }
            let call = work.call(place).and_then(|call| {
                let call = self.slice(call);
                let launched = if call.end() <= slice.start { call.end() } else { call.start };
                self.at(graph, self.base(call.track), launched)
            });
            match call {
                Some(call) => graph.edge(begun, call, EdgeKind::Launch),
                None if previous.is_none() => self.request(graph, begun, slice.start),
                None => {}
            }
        }
    }

    /// Makes a node depend on the thread of the step at that time.
    fn request(&self, graph: &mut Builder, node: u32, time: i64) {
        let step = self.steps.partition_point(|step| step.start() <= time);
        let Some(step) = self.steps.get(step.saturating_sub(1)) else { return };
        if let Some(from) = self.at(graph, step.track, time) {
            graph.edge(node, from, EdgeKind::Order);
        }
    }

    /// Adds the arrows between threads, such as hand-overs of batches.
    fn tie_arrows(&self, graph: &mut Builder) {
        let flows = self.paths.trace.flows.iter().filter(|flow| flow.kind == FlowKind::Other);
        for flow in flows {
            let (from, to) = (self.slice(flow.from), self.slice(flow.to));
            let (source, target) = (self.base(from.track), self.base(to.track));
            let Some(sent) = self.at(graph, source, from.end()) else { continue };
            if source == target || from.category.is_on_device() || to.category.is_on_device() {
                continue;
            }
            if from.end() <= to.start {
                let first = self.during(graph, target, to.start + 1);
                first.into_iter().for_each(|first| graph.edge(first, sent, EdgeKind::HandOver));
            } else if from.end() <= to.end()
                && let Some(node) = self.during(graph, target, from.end())
            {
                graph.wait(node, sent, EdgeKind::HandOver);
            }
        }
    }

    /// Adds the waits of threads for devices and for backward threads. Other threads that were idle
    /// continue at the request of the step's thread.
    fn tie_threads(&self, graph: &mut Builder) {
        let (trace, meanings) = (self.paths.trace, self.paths.meanings);
        let of_steps: FxHashSet<usize> = self.steps.iter().map(|step| step.track).collect();
        let handed: FxHashSet<u32> = graph.handed_over();
        for (track, (first, last)) in &self.threads {
            for node in *first..*last {
                let Node { start, end, slice, .. } = graph.nodes[node as usize];
                let (from, to) = (start - self.offset, end - self.offset);
                let place = (slice != NO_SLICE).then(|| (slice - self.first_slice) as usize);
                let call = place.map(|place| &trace.slices[place]);
                let work = call.and_then(|call| self.paths.waits.of_call(call, to));
                let work = work.filter(|work| self.slice(*work).end() > from);
                if let Some(work) = work.and_then(|work| self.end_of_work(work)) {
                    graph.wait(node, work, EdgeKind::Wait);
                } else if may_wait_for_backward(meanings.activity(trace, place))
                    && let Some((other, ended)) = self.paths.backward_of(*track, (from, to))
                    && let Some(ended) = self.at(graph, other, ended)
                {
                    graph.wait(node, ended, EdgeKind::Wait);
                }
                let ended = call.filter(|call| call.end() == to);
                let sources = ended.map(|call| self.paths.waits.all_of_call(call));
                for work in sources.into_iter().flatten() {
                    let work = self.end_of_work(work);
                    work.into_iter().for_each(|work| graph.wait(node, work, EdgeKind::Wait));
                }
                let is_idle = node == *first || graph.nodes[node as usize - 1].end < start;
                if is_idle && !of_steps.contains(track) && !handed.contains(&node) {
                    self.request(graph, node, from);
                }
            }
        }
    }
}
