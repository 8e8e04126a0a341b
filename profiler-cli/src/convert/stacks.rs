//! Stacks and the time or memory that each has itself: what flame graphs are drawn from.

use std::collections::{BTreeMap, HashMap};

use profiler_core::report::AdvancedReport;
use profiler_core::report::advanced::{FunctionKey, ThreadCallTree};
use profiler_core::report::memory::{MemoryTree, PathMemory};
use profiler_core::report::samples::{Samples, StackNode};
use profiler_core::trace::flame::frame_name;

use super::trace::{Edge, Trace, Track};

/// A function, an action or an op.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// Where it stands in the source, if that is known.
    pub(crate) place: Option<(String, u32)>,
}

/// A stack by its frames, the outermost first, and what it has itself.
#[derive(Debug)]
pub(crate) struct Stack {
    /// In [`Stacks::frames`].
    pub(crate) frames: Vec<u32>,
    pub(crate) value: u64,
}

/// So many frames of a stack are told apart.
const DEEPEST: usize = 1000;

/// What values are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Unit {
    #[default]
    Nanoseconds,
    Bytes,
}

impl Unit {
    /// What one of a value in folded stacks is.
    pub(crate) const fn of_folded(self) -> &'static str {
        match self {
            Self::Nanoseconds => "us",
            Self::Bytes => "bytes",
        }
    }

    fn folded(self, value: u64) -> u64 {
        match self {
            Self::Nanoseconds => (value + 500) / 1000,
            Self::Bytes => value,
        }
    }
}

/// The stacks of one thread, what is around something before it.
#[derive(Debug)]
pub(crate) struct ThreadStacks {
    pub(crate) thread: String,
    pub(crate) stacks: Vec<Stack>,
}

/// The stacks of all threads.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) unit: Unit,
    pub(crate) frames: Vec<Frame>,
    pub(crate) threads: Vec<ThreadStacks>,
    ids: HashMap<Frame, u32>,
}

impl Stacks {
    /// The call trees of an Advanced report.
    pub(crate) fn of_report(report: &AdvancedReport) -> Self {
        let mut all = Self::default();
        for tree in &report.threads {
            let stacks = all.of_tree(tree);
            all.threads.push(ThreadStacks { thread: tree.thread.clone(), stacks });
        }
        all
    }

    /// Every stack names all its frames, so their sizes add up to the square of the depth: what is
    /// deeper than [`DEEPEST`] is one frame.
    fn of_tree(&mut self, tree: &ThreadCallTree) -> Vec<Stack> {
        let mut stacks: Vec<Stack> = Vec::new();
        let mut around = Vec::new();
        for (depth, node) in tree.nodes() {
            let value = nanoseconds(node.calls.self_seconds);
            around.truncate(depth);
            if depth < DEEPEST {
                around.push(self.frame(frame_of(&node.function)));
                stacks.push(Stack { frames: around.clone(), value });
            } else if let Some(last) = stacks.last_mut().filter(|_| depth > DEEPEST) {
                last.value += value;
            } else {
                let deeper = self.frame(plain(format!("(deeper than {DEEPEST} calls)")));
                let frames = around.iter().copied().chain([deeper]).collect();
                stacks.push(Stack { frames, value });
            }
        }
        stacks
    }

    /// What was sampled, by the work that it stands for. Stacks of all threads are together.
    pub(crate) fn of_samples(samples: &Samples) -> Self {
        let mut all = Self::default();
        let mut stacks: Vec<Stack> = Vec::with_capacity(samples.stacks.len());
        for node in &samples.stacks {
            // Parents stand before what is below them.
            let above = node.parent.and_then(|parent| stacks.get(parent as usize));
            let around = above.map_or_else(Vec::new, |above| above.frames.clone());
            let frame = all.frame(frame_of_sample(samples, node));
            let seconds = node.working_ticks as f64 * samples.seconds_per_tick;
            let frames = around.into_iter().chain([frame]).collect();
            stacks.push(Stack { frames, value: nanoseconds(seconds) });
        }
        all.threads.push(ThreadStacks { thread: "all threads".to_owned(), stacks });
        all
    }

    /// Who allocated what, in bytes.
    pub(crate) fn of_memory(tree: &MemoryTree) -> Self {
        let mut all = Self { unit: Unit::Bytes, ..Self::default() };
        let mut stacks = Vec::new();
        if tree.blocks.own_bytes > 0 {
            let frame = all.frame(plain("(outside of any action)".to_owned()));
            stacks.push(Stack { frames: vec![frame], value: tree.blocks.own_bytes });
        }
        let mut around = Vec::new();
        let paths = &tree.blocks.inside;
        paths.iter().for_each(|path| all.walk_memory(path, &mut around, &mut stacks));
        all.threads.push(ThreadStacks { thread: "all threads".to_owned(), stacks });
        all
    }

    fn walk_memory(&mut self, path: &PathMemory, around: &mut Vec<u32>, stacks: &mut Vec<Stack>) {
        around.push(self.frame(plain(path.action.clone())));
        stacks.push(Stack { frames: around.clone(), value: path.own_bytes });
        path.inside.iter().for_each(|inner| self.walk_memory(inner, around, stacks));
        around.pop();
    }

    /// What threads did in a trace. What crosses other slices has no time of its own.
    pub(crate) fn of_trace(trace: &Trace) -> Self {
        let mut all = Self::default();
        let threads = trace.tracks.iter().filter(|track| !track.is_on_device);
        for track in threads.filter(|track| !track.is_overlapping) {
            let thread = all.thread(trace, track);
            all.threads.push(thread);
        }
        all
    }

    fn thread(&mut self, trace: &Trace, track: &Track) -> ThreadStacks {
        let mut nodes = Nodes::default();
        // Nodes of the open slices, and where the time that is not given to anybody yet begins.
        let (mut open, mut since) = (Vec::new(), 0);
        for edge in track.edges() {
            let now = match edge {
                Edge::Open(slice) => slice.start,
                Edge::Close(slice) => slice.end,
            };
            if let Some(innermost) = open.last() {
                nodes.add(*innermost, now - since);
            }
            since = now;
            match edge {
                Edge::Open(slice) => {
                    let name = name_of_step(&trace.names[slice.name as usize]);
                    let frame = self.frame(plain(name.to_owned()));
                    open.push(nodes.below(open.last().copied(), frame));
                }
                Edge::Close(_) => drop(open.pop()),
            }
        }
        ThreadStacks { thread: track.name.clone(), stacks: nodes.stacks }
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        if let Some(id) = self.ids.get(&frame) {
            return *id;
        }
        let id = self.frames.len() as u32; // that many frames do not fit into memory
        self.frames.push(frame.clone());
        self.ids.insert(frame, id);
        id
    }

    /// Folded stacks, `outermost;…;innermost value`, in alphabetical order, those without a value left
    /// out; times are in microseconds. Threads are put together, or `by_thread` are the outermost frames.
    pub(crate) fn folded(&self, by_thread: bool) -> Vec<String> {
        let names: Vec<String> = self.frames.iter().map(folded_name).collect();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for ThreadStacks { thread, stacks } in &self.threads {
            for stack in stacks {
                let frames = stack.frames.iter().map(|frame| names[*frame as usize].clone());
                let thread = by_thread.then(|| frame_name(thread));
                let frames: Vec<String> = thread.into_iter().chain(frames).collect();
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

/// Different stacks of a thread, what is around something before it.
#[derive(Default)]
struct Nodes {
    stacks: Vec<Stack>,
    ids: HashMap<(Option<usize>, u32), usize>,
}

impl Nodes {
    fn below(&mut self, parent: Option<usize>, frame: u32) -> usize {
        *self.ids.entry((parent, frame)).or_insert_with(|| {
            let around = parent.map_or(&[][..], |parent| &self.stacks[parent].frames);
            let frames = around.iter().copied().chain([frame]).collect();
            self.stacks.push(Stack { frames, value: 0 });
            self.stacks.len() - 1
        })
    }

    fn add(&mut self, node: usize, nanoseconds: u64) {
        self.stacks[node].value += nanoseconds;
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

/// `name (file:line)`, so that functions of one name stay apart.
fn folded_name(frame: &Frame) -> String {
    match &frame.place {
        Some((file, line)) => frame_name(&format!("{} ({file}:{line})", frame.name)),
        None => frame_name(&frame.name),
    }
}

/// Steps have one name: `ProfilerStep#3` becomes `ProfilerStep*`.
fn name_of_step(name: &str) -> &str {
    const STEP: &str = "ProfilerStep#";
    let number = name.strip_prefix(STEP).filter(|number| !number.is_empty());
    match number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        true => "ProfilerStep*",
        false => name,
    }
}
