//! Size limits of a page, and the reduction of reports to these limits.

use std::mem;

use crate::Report;
use crate::advanced::{ActionProfile, CallTreeNode, ThreadCallTree};
use crate::lines::FunctionLines;
use crate::memory::{MemoryTree, PathMemory};
use crate::samples::Samples;
use crate::steps::StepSeries;
use crate::tensor::ModuleStatistics;
use crate::tensor::finest::at_most;

/// Maximum depth of trees in a page. The page's script traverses trees by recursion.
const DEEPEST: usize = 200;

/// Maximum amount of data that a page takes from each report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum number of rows of a table.
    pub(super) rows: usize,
    /// Maximum number of nodes of a tree.
    pub(super) places: usize,
    /// Maximum number of source lines.
    pub(super) lines: usize,
    /// Maximum number of bars in the step chart.
    pub(super) steps: usize,
    /// Maximum number of points of memory over time.
    pub(super) moments: usize,
    /// Maximum length of a name, in characters.
    pub(super) name: usize,
}

impl Limits {
    /// Initial limits of a page.
    pub(super) const FIRST: Self =
        Self { rows: 1_000, places: 6_000, lines: 4_000, steps: 240, moments: 240, name: 320 };

    /// Returns limits with half of each value, down to a minimum.
    pub(super) fn half(self) -> Self {
        let half = |number: usize, least: usize| (number / 2).max(least);
        Self {
            rows: half(self.rows, 8),
            places: half(self.places, 16),
            lines: half(self.lines, 16),
            steps: half(self.steps, 60),
            moments: half(self.moments, 30),
            name: half(self.name, 40),
        }
    }
}

/// Amount of data that a page leaves out of its reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) rows: usize,
    pub(super) places: usize,
    pub(super) lines: usize,
}

impl LeftOut {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Reduces a report to the page's limits. Tables keep the rows with the highest costs in their
/// order, and trees keep the nodes that are large enough.
pub(super) fn prune(report: &Report, limits: Limits, left_out: &mut LeftOut) -> Report {
    let mut pruner = Pruner { limits, left_out };
    match report {
        Report::Simple(report) => {
            let mut report = report.clone();
            report.step_series = shortened(&report.step_series, limits);
            pruner.truncate(&mut report.actions);
            if report.threads.len() == 1 {
                // A single thread has the same rows as the whole process.
                report.threads.clear();
            }
            report.threads.truncate(limits.rows);
            for thread in &mut report.threads {
                pruner.truncate(&mut thread.actions);
            }
            Report::Simple(report)
        }
        Report::Advanced(report) => {
            let actions = report.actions.iter().map(|action| pruner.profile(action)).collect();
            let threads = pruner.call_trees(&report.threads);
            let samples = report.samples.as_ref().map(|samples| pruner.samples(samples));
            Report::Advanced(crate::AdvancedReport {
                header: report.header.clone(),
                actions,
                threads,
                open: report.open.clone(),
                samples,
                device_regions: report.device_regions.clone(),
                step_series: shortened(&report.step_series, limits),
                findings: report.findings.clone(),
            })
        }
        Report::Tensor(report) => {
            let own =
                |row: &crate::tensor::KeyAverage| row.self_device_seconds.max(row.self_cpu_seconds);
            let averages = &report.key_averages;
            let rows = pruner.largest(&averages.rows, own);
            let modules = pruner.modules(&report.modules, 0);
            let mut device_counters = report.device_counters.clone();
            for device in &mut device_counters {
                pruner.truncate(&mut device.actions);
            }
            Report::Tensor(crate::TensorReport {
                header: report.header.clone(),
                cycles: report.cycles.clone(),
                key_averages: crate::tensor::KeyAverages {
                    group_by: averages.group_by,
                    device_name: averages.device_name.clone(),
                    has_memory: averages.has_memory,
                    rows,
                },
                finest_rows: at_most(report.finest_rows.clone(), limits.rows),
                threads: report.threads.iter().take(limits.rows).cloned().collect(),
                modules,
                tuning: pruner.largest(&report.tuning, |kernel| kernel.device_seconds),
                device_regions: report.device_regions.clone(),
                device_counters,
                device_idle: report.device_idle.clone(),
                step_series: shortened(&report.step_series, limits),
                memory_over_time: report
                    .memory_over_time
                    .iter()
                    .map(|memory| memory.shortened(limits.moments))
                    .collect(),
                files: report.files.clone(),
                findings: report.findings.clone(),
                ..*report
            })
        }
        Report::Memory(report) => {
            let mut pruned = report.clone();
            pruner.truncate(&mut pruned.actions);
            for thread in &mut pruned.threads {
                pruner.truncate(&mut thread.actions);
            }
            for tree in [&mut pruned.peak, &mut pruned.alive, &mut pruned.copies] {
                pruner.memory(tree);
            }
            Report::Memory(pruned)
        }
        Report::Lines(report) => {
            let mut report = report.clone();
            pruner.lines(&mut report.functions);
            Report::Lines(report)
        }
        Report::Numerics(report) => {
            let mut pruned = report.clone();
            pruner.truncate(&mut pruned.tensors);
            Report::Numerics(pruned)
        }
        Report::Samples(report) => Report::Samples(crate::SamplesReport {
            header: report.header.clone(),
            samples: pruner.samples(&report.samples),
        }),
    }
}

/// Merges steps to the number of bars in the step chart. The tables below the chart still cover all
/// steps, so this does not count as left out.
fn shortened(series: &[StepSeries], limits: Limits) -> Vec<StepSeries> {
    series.iter().map(|series| series.shortened(limits.steps)).collect()
}

struct Pruner<'page> {
    limits: Limits,
    left_out: &'page mut LeftOut,
}

impl Pruner<'_> {
    /// Keeps the first rows. The rows must be in descending order.
    fn truncate<T>(&mut self, rows: &mut Vec<T>) {
        self.left_out.rows += rows.len().saturating_sub(self.limits.rows);
        rows.truncate(self.limits.rows);
    }

    /// Returns the largest rows in their original order.
    fn largest<T: Clone>(&mut self, rows: &[T], size: impl Fn(&T) -> f64) -> Vec<T> {
        self.left_out.rows += rows.len().saturating_sub(self.limits.rows);
        largest(rows, self.limits.rows, size).cloned().collect()
    }

    fn profile(&mut self, action: &ActionProfile) -> ActionProfile {
        // A page has one such table per action and one table of all functions, so each of these has
        // few rows.
        let rows = (self.limits.rows / 20).max(1);
        self.left_out.rows += action.functions.len().saturating_sub(rows);
        let mut functions: Vec<_> = action.functions.iter().take(rows).cloned().collect();
        for function in &mut functions {
            // The call tree already contains the callers.
            function.callers = Vec::new();
        }
        ActionProfile { action: action.action.clone(), functions, ..*action }
    }

    fn call_trees(&mut self, threads: &[ThreadCallTree]) -> Vec<ThreadCallTree> {
        let all = threads.iter().flat_map(ThreadCallTree::nodes);
        let sizes: Vec<f64> = all.map(|(_, node)| node.calls.cumulative_seconds).collect();
        let least = least_of_largest(sizes, self.limits.places);
        let mut places = self.limits.places;
        threads.iter().map(|thread| self.call_tree(thread, least, &mut places)).collect()
    }

    /// Reduces a call tree without recursion, because a tree can be as deep as calls are nested.
    fn call_tree(
        &mut self,
        thread: &ThreadCallTree,
        least: f64,
        places: &mut usize,
    ) -> ThreadCallTree {
        let mut pruned = ThreadCallTree {
            thread: thread.thread.clone(),
            threads: thread.threads,
            roots: Vec::new(),
        };
        // Ancestors of the next node that are not yet added to their parents.
        let mut open: Vec<CallTreeNode> = Vec::new();
        for (depth, node) in thread.nodes() {
            while open.len() > depth {
                close(&mut open, &mut pruned.roots);
            }
            let is_large = node.calls.cumulative_seconds >= least && *places > 0;
            // If a node is left out, its descendants are also left out.
            if open.len() < depth || depth >= DEEPEST || !is_large {
                self.left_out.places += 1;
                continue;
            }
            *places -= 1;
            let (function, children) = (node.function.clone(), Vec::new());
            open.push(CallTreeNode { function, kind: node.kind, calls: node.calls, children });
        }
        while !open.is_empty() {
            close(&mut open, &mut pruned.roots);
        }
        pruned
    }

    fn samples(&mut self, samples: &Samples) -> Samples {
        let mut pruned = Samples { stacks: Vec::new(), functions: Vec::new(), ..samples.clone() };
        for action in &mut pruned.actions {
            self.truncate(&mut action.functions);
        }
        // Each node's ticks include those of its descendants, which follow it in the list.
        let mut ticks: Vec<u64> =
            samples.stacks.iter().map(|node| node.working_ticks + node.waiting_ticks).collect();
        for index in (0..samples.stacks.len()).rev() {
            let own = ticks[index];
            if let Some(parent) = samples.stacks[index].parent.filter(|at| (*at as usize) < index) {
                ticks[parent as usize] += own;
            }
        }
        let sizes = ticks.iter().map(|ticks| *ticks as f64).collect();
        let least = least_of_largest(sizes, self.limits.places);
        let mut places: Vec<Option<u32>> = vec![None; samples.stacks.len()];
        for (index, node) in samples.stacks.iter().enumerate() {
            let parent = node.parent.and_then(|at| places.get(at as usize).copied().flatten());
            let is_shown = parent.is_some() == node.parent.is_some()
                && ticks[index] as f64 >= least
                && pruned.stacks.len() < self.limits.places;
            if !is_shown {
                self.left_out.places += 1;
                continue;
            }
            places[index] = u32::try_from(pruned.stacks.len()).ok();
            pruned.stacks.push(crate::samples::StackNode { parent, ..node.clone() });
        }
        self.functions_of(samples, &mut pruned);
        pruned
    }

    /// Keeps only functions that a row or a stack refers to, and updates their indices.
    fn functions_of(&mut self, samples: &Samples, pruned: &mut Samples) {
        let mut places: Vec<Option<u32>> = vec![None; samples.functions.len()];
        let functions = &mut pruned.functions;
        let mut place_of = |old: u32| {
            let Some(place) = places.get_mut(old as usize) else { return old };
            *place.get_or_insert_with(|| {
                functions.push(samples.functions[old as usize].clone());
                functions.len() as u32 - 1
            })
        };
        for row in pruned.actions.iter_mut().flat_map(|action| &mut action.functions) {
            row.function = place_of(row.function);
        }
        for node in &mut pruned.stacks {
            node.function = node.function.map(&mut place_of);
        }
    }

    fn modules(&mut self, modules: &[ModuleStatistics], depth: usize) -> Vec<ModuleStatistics> {
        let mut sizes = Vec::new();
        module_sizes(modules, &mut sizes);
        let least = least_of_largest(sizes, self.limits.rows);
        self.modules_from(modules, depth, least)
    }

    fn modules_from(
        &mut self,
        modules: &[ModuleStatistics],
        depth: usize,
        least: f64,
    ) -> Vec<ModuleStatistics> {
        let mut kept = Vec::new();
        for module in modules {
            if depth >= DEEPEST || module_size(module) < least {
                let mut sizes = Vec::new();
                module_sizes(std::slice::from_ref(module), &mut sizes);
                self.left_out.places += sizes.len();
                continue;
            }
            let children = self.modules_from(&module.children, depth + 1, least);
            kept.push(ModuleStatistics {
                name: module.name.clone(),
                path: module.path.clone(),
                type_name: module.type_name.clone(),
                children,
                ..*module
            });
        }
        kept
    }

    fn memory(&mut self, tree: &mut MemoryTree) {
        let mut sizes = Vec::new();
        path_sizes(&tree.blocks, &mut sizes);
        let least = least_of_largest(sizes, self.limits.rows);
        self.paths(&mut tree.blocks, 0, least as u64);
    }

    fn paths(&mut self, path: &mut PathMemory, depth: usize, least: u64) {
        let inside = mem::take(&mut path.inside);
        for mut inner in inside {
            if depth >= DEEPEST || inner.bytes < least {
                let mut sizes = Vec::new();
                path_sizes(&inner, &mut sizes);
                self.left_out.places += sizes.len();
            } else {
                self.paths(&mut inner, depth + 1, least);
                path.inside.push(inner);
            }
        }
    }

    /// Keeps the functions with the longest times until the limit of lines is reached.
    fn lines(&mut self, functions: &mut Vec<FunctionLines>) {
        const LONGEST: usize = 400;
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.sort_by(|one, other| {
            functions[*other].total_seconds.total_cmp(&functions[*one].total_seconds)
        });
        let mut left = self.limits.lines;
        let mut is_kept = vec![false; functions.len()];
        for index in order {
            let function = &functions[index];
            let lines = (function.last_line.saturating_sub(function.first_line) as usize + 1)
                .max(function.lines.len());
            if lines > left {
                self.left_out.lines += lines;
                continue;
            }
            left -= lines;
            is_kept[index] = true;
        }
        let mut kept = is_kept.into_iter();
        functions.retain(|_| kept.next() == Some(true));
        for line in functions.iter_mut().filter_map(|it| it.source.as_mut()).flatten() {
            if let Some((end, _)) = line.char_indices().nth(LONGEST) {
                line.truncate(end);
                line.push('…');
            }
        }
    }
}

/// Returns at most `limit` rows with the largest `size`, in their original order.
pub(super) fn largest<T>(
    rows: &[T],
    limit: usize,
    size: impl Fn(&T) -> f64,
) -> impl Iterator<Item = &T> {
    let least = least_of_largest(rows.iter().map(&size).collect(), limit);
    rows.iter().filter(move |row| size(row) >= least).take(limit)
}

/// Returns the size of the `limit`-th largest element, or negative infinity if there are not more
/// elements than that.
fn least_of_largest(mut sizes: Vec<f64>, limit: usize) -> f64 {
    if sizes.len() <= limit || limit == 0 {
        return f64::NEG_INFINITY;
    }
    let (_, least, _) = sizes.select_nth_unstable_by(limit - 1, |one, other| other.total_cmp(one));
    *least
}

/// Moves the innermost open node to its parent, or to the roots.
fn close(open: &mut Vec<CallTreeNode>, roots: &mut Vec<CallTreeNode>) {
    let Some(node) = open.pop() else { return };
    match open.last_mut() {
        Some(parent) => parent.children.push(node),
        None => roots.push(node),
    }
}

/// Returns the largest cost in seconds of a module and its descendants. A module without its own
/// cost can have children with a larger one.
fn module_size(module: &ModuleStatistics) -> f64 {
    let own = module.total.cpu_seconds().max(module.total.device_seconds());
    module.children.iter().map(module_size).fold(own, f64::max)
}

fn module_sizes(modules: &[ModuleStatistics], sizes: &mut Vec<f64>) {
    for module in modules {
        sizes.push(module_size(module));
        module_sizes(&module.children, sizes);
    }
}

fn path_sizes(path: &PathMemory, sizes: &mut Vec<f64>) {
    sizes.push(path.bytes as f64);
    path.inside.iter().for_each(|inner| path_sizes(inner, sizes));
}
