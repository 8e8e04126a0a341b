//! Aggregation of call paths into the rows of a table.

use rustc_hash::FxHashMap;

use super::Profile;
use super::fold::Bytes;
use super::modules::ModuleId;
use super::tree::{Calls, NOWHERE, Node, NodeId, PathTree};
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::work::{bytes, flops};
use mlprof_events::{Action, ActionKind, GroupBy, MemoryDevice, Phase, ShapeList, TensorShape};
use mlprof_report::tensor::{
    KeyAverage, KeyAverageParts, KeyAverages, KeyAveragesParts, MemoryUse, RestDurations,
};

/// Costs of every path in addition to its own calls, indexed by [`NodeId`].
pub(super) struct Costs {
    pub(super) phases: Vec<Phase>,
    /// Time of the kernels launched directly by the path, in ticks. For a kernel, its own time.
    pub(super) own_device: Vec<u64>,
    /// Time of all kernels in the path's subtree, in ticks.
    pub(super) device: Vec<u64>,
    /// Floating-point operations of all calls of the path itself.
    pub(super) flops: Vec<u64>,
    /// Bytes that all calls of the path itself read and write at least.
    pub(super) moved: Vec<Moved>,
    pub(super) own_memory: FxHashMap<MemoryDevice, Vec<Bytes>>,
    pub(super) memory: FxHashMap<MemoryDevice, Vec<Bytes>>,
}

impl Costs {
    pub(super) fn new(profile: &Profile) -> Self {
        let tree = &profile.tree;
        let phases = tree.inherit(|node, around: Option<&Phase>| {
            let told = Phase::of_action(node.key.action, node.key.direction);
            told.or(around.copied()).unwrap_or(Phase::Other)
        });
        let mut own_device = vec![0; tree.nodes.len()];
        for (id, node) in tree.nodes.iter().enumerate() {
            if node.kind == ActionKind::Kernel {
                own_device[id] += node.calls.total;
                if let Some(parent) = own_device.get_mut(node.key.parent as usize) {
                    *parent += node.calls.total;
                }
            }
        }
        let kernel_time = |node: &Node| match node.kind {
            ActionKind::Kernel => node.calls.total,
            _ => 0,
        };
        let mut device: Vec<u64> = tree.nodes.iter().map(kernel_time).collect();
        tree.sum_up(&mut device);
        let mut own_memory: FxHashMap<MemoryDevice, Vec<Bytes>> = FxHashMap::default();
        for ((id, device), bytes) in &profile.memory {
            let all = own_memory
                .entry(*device)
                .or_insert_with(|| vec![Bytes::default(); tree.nodes.len()]);
            all[*id as usize] += *bytes;
        }
        let mut memory = own_memory.clone();
        memory.values_mut().for_each(|values| tree.sum_up(values));
        Self {
            phases,
            own_device,
            device,
            flops: flops_of(tree),
            moved: moved_of(tree),
            own_memory,
            memory,
        }
    }
}

/// Returns the floating-point operations of every path. An op inside a counted op performs the same
/// operations again, so it is not counted.
fn flops_of(tree: &PathTree) -> Vec<u64> {
    let mut known: FxHashMap<(Action, ShapeList), u64> = FxHashMap::default();
    let per_call: Vec<u64> = tree
        .nodes
        .iter()
        .map(|node| {
            if node.kind != ActionKind::Op || node.key.shapes == ShapeList::NONE {
                return 0;
            }
            let (action, shapes) = (node.key.action, node.key.shapes);
            *known.entry((action, shapes)).or_insert_with(|| {
                shapes.inputs().and_then(|inputs| flops(action.name(), &inputs)).unwrap_or(0)
            })
        })
        .collect();
    let mut is_counted = vec![false; tree.nodes.len()];
    let mut all = vec![0; tree.nodes.len()];
    for (id, node) in tree.nodes.iter().enumerate() {
        let is_inside = is_counted.get(node.key.parent as usize).copied().unwrap_or(false);
        is_counted[id] = is_inside || per_call[id] > 0;
        if !is_inside {
            all[id] = per_call[id].saturating_mul(node.calls.count);
        }
    }
    all
}

/// Bytes read and written by ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Moved {
    /// No op counts here.
    #[default]
    Nothing,
    Known(u64),
    Unknown,
}

impl Moved {
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Nothing, other) => other,
            (own, Self::Nothing) => own,
            (Self::Known(own), Self::Known(other)) => Self::Known(own.saturating_add(other)),
        }
    }

    pub(super) fn known(self) -> Option<u64> {
        match self {
            Self::Known(bytes) => Some(bytes),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

/// Returns the bytes of every path. As with operations, an op inside a counted op does not count.
fn moved_of(tree: &PathTree) -> Vec<Moved> {
    let mut known: FxHashMap<(Action, ShapeList), Option<u64>> = FxHashMap::default();
    let mut is_counted = vec![false; tree.nodes.len()];
    let mut all = vec![Moved::Nothing; tree.nodes.len()];
    for (id, node) in tree.nodes.iter().enumerate() {
        let is_inside = is_counted.get(node.key.parent as usize).copied().unwrap_or(false);
        is_counted[id] = is_inside;
        if node.kind != ActionKind::Op || is_inside {
            continue;
        }
        let (action, shapes) = (node.key.action, node.key.shapes);
        let per_call = *known
            .entry((action, shapes))
            .or_insert_with(|| shapes.inputs().and_then(|inputs| bytes(action.name(), &inputs)));
        is_counted[id] = per_call.is_some();
        all[id] = per_call
            .map_or(Moved::Unknown, |bytes| Moved::Known(bytes.saturating_mul(node.calls.count)));
    }
    all
}

/// Key that identifies a row.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RowKey {
    name: &'static str,
    is_on_device: bool,
    shapes: Option<String>,
    stack: Box<[Action]>,
    module: Option<ModuleId>,
    phase: Option<Phase>,
}

/// A row under construction. Times are in ticks.
struct Row {
    key: RowKey,
    kind: ActionKind,
    is_top_level: bool,
    shapes: ShapeList,
    calls: Calls,
    device: u64,
    own_device: u64,
    memory: FxHashMap<MemoryDevice, (Bytes, Bytes)>,
    flops: u64,
    moved: Moved,
    /// Number of the row's calls that enclose the current path.
    open: u32,
}

pub(super) fn key_averages(profile: &Profile, group_by: GroupBy, rate: Rate) -> KeyAverages {
    let costs = Costs::new(profile);
    let mut grouping = Grouping {
        tree: &profile.tree,
        costs: &costs,
        group_by,
        around: shown_around(&profile.tree),
        rows: Vec::new(),
        numbers: FxHashMap::default(),
        shapes: FxHashMap::default(),
    };
    grouping.walk();
    let mut rows = grouping.rows;
    rows.retain(|row| row.calls.measured() > 0);
    rows.order_by_key(|row| row.calls.first_started);
    let modules = &profile.tree.modules;
    KeyAveragesParts {
        group_by,
        device_name: "Device".to_owned(),
        has_memory: !profile.memory.is_empty(),
        rows: rows
            .into_iter()
            .map(|row| {
                let module = row.key.module.map(|module| modules.label(module));
                row.finish(rate, &group_by, module)
            })
            .collect(),
    }
    .build()
}

struct Grouping<'profile> {
    tree: &'profile PathTree,
    costs: &'profile Costs,
    group_by: GroupBy,
    /// For every path, the innermost enclosing path that a stack shows; see [`shown_around`].
    around: Vec<NodeId>,
    rows: Vec<Row>,
    numbers: FxHashMap<RowKey, usize>,
    /// Shape lists as displayed text. Lists with the same text share a row.
    shapes: FxHashMap<ShapeList, String>,
}

impl Grouping<'_> {
    /// Visits all paths depth-first, so that the rows of the enclosing calls are known.
    fn walk(&mut self) {
        let count = self.tree.nodes.len();
        let mut children: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        let mut todo = Vec::new();
        for (id, node) in self.tree.nodes.iter().enumerate().rev() {
            match children.get_mut(node.key.parent as usize) {
                Some(siblings) => siblings.push(id as NodeId),
                None => todo.push((id as NodeId, None)),
            }
        }
        // A path is entered, then its descendants are visited, and then it is left.
        while let Some((id, left)) = todo.pop() {
            if let Some(row) = left {
                let row: usize = row;
                self.rows[row].open -= 1;
                continue;
            }
            let row = self.enter(id);
            todo.push((id, Some(row)));
            todo.extend(children[id as usize].iter().map(|child| (*child, None)));
        }
    }

    fn enter(&mut self, id: NodeId) -> usize {
        let node = &self.tree.nodes[id as usize];
        let key = self.key(id, node);
        let number = *self.numbers.entry(key).or_insert_with_key(|key| {
            self.rows.push(Row::new(key.clone(), node));
            self.rows.len() - 1
        });
        let row = &mut self.rows[number];
        row.add(id as usize, node, self.costs);
        row.open += 1;
        number
    }

    fn key(&mut self, id: NodeId, node: &Node) -> RowKey {
        let shapes = node.key.shapes;
        RowKey {
            name: match node.kind {
                ActionKind::Step => "ProfilerStep*",
                _ => node.key.action.name(),
            },
            is_on_device: node.kind == ActionKind::Kernel,
            shapes: self.group_by.input_shapes.then(|| {
                let text =
                    || mlprof_report::internals::shapes_text(&shapes.inputs().unwrap_or_default());
                self.shapes.entry(shapes).or_insert_with(text).clone()
            }),
            stack: self.stack(id),
            module: self.tree.module_of(node).filter(|_| self.group_by.module),
            phase: self.group_by.phase.then(|| self.costs.phases[id as usize]),
        }
    }

    /// Returns the innermost enclosing functions, spans, actions and modules.
    fn stack(&self, id: NodeId) -> Box<[Action]> {
        let next = |id: &NodeId| self.around.get(*id as usize).copied();
        std::iter::successors(next(&id), next)
            .take_while(|id| *id != NOWHERE)
            .take(self.group_by.stack)
            .map(|id| self.tree.nodes[id as usize].key.action)
            .collect()
    }
}

/// Returns, for every path, the innermost enclosing path that a stack shows.
fn shown_around(tree: &PathTree) -> Vec<NodeId> {
    let is_shown = |id: NodeId| {
        use ActionKind::{Action, Function, Module, Span};
        let kind = tree.nodes.get(id as usize).map(|node| node.kind);
        matches!(kind, Some(Action | Function | Module | Span))
    };
    tree.inherit(|node, around: Option<&NodeId>| match is_shown(node.key.parent) {
        true => node.key.parent,
        false => around.copied().unwrap_or(NOWHERE),
    })
}

impl Row {
    fn new(key: RowKey, node: &Node) -> Self {
        Self {
            key,
            kind: node.kind,
            is_top_level: false,
            shapes: node.key.shapes,
            calls: Calls::default(),
            device: 0,
            own_device: 0,
            memory: FxHashMap::default(),
            flops: 0,
            moved: Moved::Nothing,
            open: 0,
        }
    }

    fn add(&mut self, id: usize, node: &Node, costs: &Costs) {
        let is_inside = self.open > 0;
        if node.calls.first_started < self.calls.first_started {
            self.is_top_level = node.key.parent == NOWHERE;
            self.kind = node.kind;
        }
        self.calls.merge(&node.calls, is_inside);
        self.own_device += costs.own_device[id];
        self.flops = self.flops.saturating_add(costs.flops[id]);
        self.moved = self.moved.add(costs.moved[id]);
        if !is_inside {
            self.device += costs.device[id];
        }
        for (device, own) in &costs.own_memory {
            let sum = self.memory.entry(*device).or_default();
            sum.1 += own[id];
            if let Some(all) = costs.memory.get(device).filter(|_| !is_inside) {
                sum.0 += all[id];
            }
        }
    }

    fn finish(self, rate: Rate, group_by: &GroupBy, module: Option<String>) -> KeyAverage {
        let calls = &self.calls;
        let on_host = |ticks: u64| if self.key.is_on_device { 0.0 } else { rate.seconds(ticks) };
        let own = u64::try_from(calls.own).unwrap_or(0);
        let mut memory: Vec<MemoryUse> =
            self.memory.iter().filter_map(|(device, (all, own))| used(*device, all, own)).collect();
        memory.order_by_key(|part| part.device);
        let (cpu, accelerators): (Vec<_>, Vec<_>) =
            memory.iter().partition(|part: &&MemoryUse| part.device == MemoryDevice::Cpu);
        let inputs = || -> Vec<TensorShape> { self.shapes.inputs().unwrap_or_default() };
        KeyAverageParts {
            name: self.key.name.to_owned(),
            kind: self.kind,
            is_on_device: self.key.is_on_device,
            is_top_level: self.is_top_level,
            input_shapes: group_by.input_shapes.then(inputs),
            stack: self.key.stack.iter().map(|action| place(*action)).collect(),
            module,
            phase: self.key.phase,
            calls: calls.count,
            polls: calls.polls(),
            cpu_seconds: on_host(calls.total),
            self_cpu_seconds: on_host(own),
            first_seconds: rate.seconds(calls.first),
            rest: (calls.measured() > 1).then(|| RestDurations {
                min_seconds: rate.seconds(calls.shortest),
                max_seconds: rate.seconds(calls.longest),
                deviation_seconds: calls
                    .deviation()
                    .map(|ticks| rate.seconds(ticks.round() as u64)),
            }),
            device_seconds: rate.seconds(self.device),
            self_device_seconds: rate.seconds(self.own_device),
            cpu_memory_bytes: net(&cpu, |part| (part.allocated_bytes, part.freed_bytes)),
            self_cpu_memory_bytes: net(&cpu, |part| {
                (part.self_allocated_bytes, part.self_freed_bytes)
            }),
            device_memory_bytes: net(&accelerators, |part| {
                (part.allocated_bytes, part.freed_bytes)
            }),
            self_device_memory_bytes: net(&accelerators, |part| {
                (part.self_allocated_bytes, part.self_freed_bytes)
            }),
            memory,
            flops: self.flops,
            moved_bytes: self.moved.known(),
        }
        .build()
    }
}

fn used(device: MemoryDevice, all: &Bytes, own: &Bytes) -> Option<MemoryUse> {
    (*all != Bytes::default() || *own != Bytes::default()).then_some(MemoryUse {
        device,
        allocated_bytes: all.allocated,
        freed_bytes: all.freed,
        self_allocated_bytes: own.allocated,
        self_freed_bytes: own.freed,
    })
}

fn net(parts: &[&MemoryUse], pick: impl Fn(&MemoryUse) -> (u64, u64)) -> i64 {
    parts.iter().fold(0, |sum, part| {
        let (allocated, freed) = pick(part);
        sum.saturating_add_unsigned(allocated).saturating_sub_unsigned(freed)
    })
}

/// Formats a function as `file(line): name`, like torch, and other actions by their name.
pub(crate) fn place(action: Action) -> String {
    match action.location() {
        Some(location) => format!("{}({}): {}", location.file, location.line, action.name()),
        None => action.name().to_owned(),
    }
}
