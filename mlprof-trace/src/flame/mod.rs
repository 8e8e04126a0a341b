//! Flame graphs: time, device time, memory and calls, by the stack of open scopes.
//!
//! *Folded stacks* are lines of the form `outermost;…;innermost value`, which `flamegraph.pl`,
//! inferno, speedscope and other tools read. A value is the self value of a stack; nested scopes
//! have lines of their own. Stacks of all threads are merged. A call that ran on another thread
//! appears below the scopes that were open at its call site.
//!
//! In names, `;` is replaced by `,`, and control characters and direction marks by spaces. All
//! steps are named `ProfilerStep*`. A scope that crosses others counts as a call but has no self
//! time. Otherwise its time would be counted twice.
//!
//! *Limits*: every frame of a stack stands in the lines of all stacks below it, so that the text
//! grows with the square of a recursion's depth. The number of frames of a stack, the number of
//! stacks and the size of the text are limited. What is further inside is one frame, which has all
//! values of what it stands for.

mod stacks;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::cycle::Cycle;
use mlprof_events::OrderExt;
use mlprof_events::{Action, ActionKind};
#[cfg(feature = "flame")]
#[doc(hidden)]
pub use mlprof_report::folded::draw;
#[doc(hidden)]
pub use mlprof_report::folded::{
    CUT, Extent, MOST_BYTES, MOST_FRAMES, MOST_STACKS, Room, frame_name,
};
use mlprof_report::output::write_file;

/// Quantity shown by the widths of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FlameMetric {
    /// Self time on the host in microseconds, at least 1 if it is not zero.
    SelfCpuTime,
    /// Time of kernels, copies and fills on devices in microseconds, at least 1 if it is not zero.
    /// They are the innermost frames.
    SelfDeviceTime,
    /// Allocated bytes, in host memory and on devices. Deallocations are not subtracted.
    AllocatedBytes,
    /// Number of calls.
    Calls,
}

impl FlameMetric {
    /// All metrics.
    #[doc(hidden)]
    pub const ALL: [Self; 4] =
        [Self::SelfCpuTime, Self::SelfDeviceTime, Self::AllocatedBytes, Self::Calls];

    /// Returns the name in file names and JSON: `self_cpu_time`, …
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SelfCpuTime => "self_cpu_time",
            Self::SelfDeviceTime => "self_device_time",
            Self::AllocatedBytes => "allocated_bytes",
            Self::Calls => "calls",
        }
    }

    /// Returns the unit of the values.
    #[doc(hidden)]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::SelfCpuTime | Self::SelfDeviceTime => "us",
            Self::AllocatedBytes => "bytes",
            Self::Calls => "calls",
        }
    }
}

/// Self values of one stack.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    /// Self time in nanoseconds. It is negative only while a track is being read.
    cpu: i64,
    /// Device time in nanoseconds.
    device: i64,
    allocated: i64,
    calls: i64,
}

impl Values {
    /// Returns the value in the metric's unit.
    fn get(&self, metric: FlameMetric) -> i64 {
        // A short time must not become 0: a stack of 1 ns to 1,499 ns has 1 us.
        let microseconds = |nanoseconds: i64| match nanoseconds {
            ..=0 => 0,
            more => ((more + 500) / 1000).max(1),
        };
        match metric {
            FlameMetric::SelfCpuTime => microseconds(self.cpu),
            FlameMetric::SelfDeviceTime => microseconds(self.device),
            FlameMetric::AllocatedBytes => self.allocated,
            FlameMetric::Calls => self.calls,
        }
    }
}

/// A stack, stored as its innermost frame and its parent.
#[derive(Debug)]
struct Node {
    parent: NodeId,
    action: Action,
    extent: Extent,
    values: Values,
}

type NodeId = u32;

/// Parent of the outermost frames.
const NOWHERE: NodeId = NodeId::MAX;

/// All stacks of a cycle with their values.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct FlameGraph {
    nodes: Vec<Node>,
    ids: HashMap<(NodeId, Action), NodeId>,
    room: Room,
    cut: u64,
    #[cfg(feature = "flame")]
    title: String,
}

impl FlameGraph {
    /// The stacks of a cycle. *Cost*: some 50 ns per event; memory by the number of different
    /// stacks, within the limits.
    pub fn of(cycle: &Cycle) -> Self {
        let mut graph = Self {
            #[cfg(feature = "flame")]
            title: title_of(cycle),
            ..Self::default()
        };
        stacks::collect(&mut graph, cycle);
        graph
    }

    /// Returns the stack of `action` below `parent`.
    fn node(&mut self, parent: NodeId, action: Action) -> NodeId {
        if let Some(id) = self.ids.get(&(parent, action)) {
            return *id;
        }
        if self.is_cut(parent) {
            return parent;
        }
        if let Some(called) = action.resumed() {
            let id = self.node(parent, called);
            if !self.is_cut(id) {
                self.ids.insert((parent, action), id);
            }
            return id;
        }
        let around =
            self.nodes.get(parent as usize).map_or_else(Extent::default, |node| node.extent);
        let extent = around.with(&frame(action));
        if action != cut() && !self.room.take(extent) {
            return self.node(parent, cut());
        }
        let id = self.nodes.len() as NodeId; // far below 2^32
        self.nodes.push(Node { parent, action, extent, values: Values::default() });
        self.ids.insert((parent, action), id);
        id
    }

    fn is_cut(&self, id: NodeId) -> bool {
        self.nodes.get(id as usize).is_some_and(|node| node.action == cut())
    }

    /// Returns `true` if an event of `action` on this stack is a call and not a resumption.
    fn is_call(&self, id: NodeId, action: Action) -> bool {
        let is_own = self.nodes.get(id as usize).is_some_and(|node| node.action == action);
        is_own || (self.is_cut(id) && action.resumed().is_none())
    }

    /// Returns the number of events beyond the [limits](self) of stacks.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn values(&mut self, id: NodeId) -> Option<&mut Values> {
        self.nodes.get_mut(id as usize).map(|node| &mut node.values)
    }

    /// Returns `true` if any stack has a value for this metric.
    pub fn has(&self, metric: FlameMetric) -> bool {
        self.nodes.iter().any(|node| node.values.get(metric) > 0)
    }

    /// Returns the folded stacks in alphabetical order, without those of value 0.
    fn lines(&self, metric: FlameMetric) -> Vec<String> {
        let valued = self.nodes.iter().filter(|node| node.values.get(metric) > 0);
        let mut lines: Vec<String> = valued
            .map(|node| format!("{} {}", self.stack(node), node.values.get(metric)))
            .collect();
        lines.order();
        lines
    }

    fn stack(&self, innermost: &Node) -> String {
        let parent = |node: &&Node| self.nodes.get(node.parent as usize);
        let mut frames: Vec<String> =
            std::iter::successors(Some(innermost), parent).map(|node| frame(node.action)).collect();
        frames.reverse();
        frames.join(";")
    }

    /// Writes the folded stacks.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write_stacks(&self, metric: FlameMetric, mut out: impl Write) -> io::Result<()> {
        for line in self.lines(metric) {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }

    /// Writes the folded stacks to a file, which gets its name when it is complete.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. In that case no file is created.
    pub fn export_stacks(&self, path: impl AsRef<Path>, metric: FlameMetric) -> io::Result<()> {
        self.write_stacks_at(path.as_ref(), metric)
    }

    fn write_stacks_at(&self, path: &Path, metric: FlameMetric) -> io::Result<()> {
        write_file(path, |file| self.write_stacks(metric, BufWriter::new(file)))
    }

    /// Draws the flame graph as an SVG file that browsers can zoom and search.
    ///
    /// # Errors
    ///
    /// Fails if no stack has a value for this metric, or if the file cannot be written. In that
    /// case no file is created.
    #[cfg(feature = "flame")]
    pub fn export_svg(&self, path: impl AsRef<Path>, metric: FlameMetric) -> io::Result<()> {
        let lines = self.lines(metric);
        if lines.is_empty() {
            let reason =
                format!("cannot draw a flame graph: no stack has a value for {}", metric.as_str());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let title = format!("{}: {}", metric.as_str().replace('_', " "), self.title);
        write_file(path.as_ref(), |file| draw(&lines, &title, metric.unit(), file))
    }
}

/// Returns the action of the frame for cut stacks. Its kind and location are never used by a hook,
/// so it is unique.
fn cut() -> Action {
    static SITE: mlprof_events::Callsite = mlprof_events::Callsite::function(CUT, file!(), line!());
    SITE.action()
}

/// Returns the name of a frame, which is the same for all steps.
fn frame(action: Action) -> String {
    let name = frame_name(action.name());
    if action.kind() == ActionKind::Step { name + "*" } else { name }
}

#[cfg(feature = "flame")]
fn title_of(cycle: &Cycle) -> String {
    let stage = cycle.stage.map_or("no stage", |stage| stage.as_str());
    let (first, end) = (cycle.steps.start, cycle.steps.end);
    match end.saturating_sub(first) {
        0 => stage.to_owned(),
        1 => format!("{stage}, step {first}"),
        _ => format!("{stage}, steps {first} to {}", end - 1),
    }
}

impl Cycle {
    /// Writes the cycle as folded stacks for flame graphs: see [`flame`](crate::flame). Create one
    /// [`FlameGraph`] to write several metrics.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. In that case no file is created.
    pub fn export_stacks(&self, path: impl AsRef<Path>, metric: FlameMetric) -> io::Result<()> {
        FlameGraph::of(self).export_stacks(path, metric)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_is_not_nothing() {
        let shown = |cpu: i64| Values { cpu, ..Values::default() }.get(FlameMetric::SelfCpuTime);
        assert_eq!([-5, 0, 1, 499, 1499, 1500].map(shown), [0, 0, 1, 1, 1, 2]);
        let shown =
            |device: i64| Values { device, ..Values::default() }.get(FlameMetric::SelfDeviceTime);
        assert_eq!([0, 80, 2600].map(shown), [0, 1, 3]);
    }
}
