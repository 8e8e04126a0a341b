//! Conversion of sampled addresses and ticks to the numbers of a report.

use std::collections::HashMap;

use super::samples_so_far::{SampleData, Totals};
use super::symbols::{Frame, Function, Symbols};
use super::tree::{Key, NodeId, Tree, Weights};
use crate::ReportedSessions;
use mlprof_events::Stage;
use mlprof_events::clock::Rate;
use mlprof_report::advanced::OUTSIDE;
use mlprof_report::samples::{
    ActionSamples, SampleCounts, SampledCode, SampledFunction, Samples, StackNode, ThreadSamples,
};

/// Name of the frame for unknown callers.
pub(super) const CUT: &str = "(unknown callers)";

pub(super) fn summarize(found: SampleData, of: Option<&ReportedSessions>) -> Samples {
    let totals = &found.totals;
    let hz = f64::from(found.hz);
    let mut summary = Summary::new(Symbols::new(&found.libraries));
    summary.add_tree(&totals.tree, of);
    let mut threads: Vec<ThreadSamples> = found
        .threads
        .into_iter()
        .map(|(thread, tally)| ThreadSamples {
            thread,
            threads: tally.threads,
            working_ticks: tally.working,
            waiting_ticks: tally.waiting,
            stalled_ticks: tally.stalled,
        })
        .collect();
    threads.sort_by(|a, b| {
        b.working_ticks.cmp(&a.working_ticks).then_with(|| a.thread.cmp(&b.thread))
    });
    let in_time = if totals.ticks == 0 { 1.0 } else { totals.samples as f64 / totals.ticks as f64 };
    let (functions, stacks, actions) = summary.finish();
    Samples {
        asked_hz: hz,
        reached_hz: hz * in_time,
        seconds: found.nanoseconds as f64 * 1e-9,
        seconds_per_tick: 1.0 / hz,
        samples: totals.samples,
        dropped_ticks: totals.dropped,
        handler_seconds: Rate::now().seconds(totals.cost),
        processor_seconds: found.processor as f64 * 1e-9,
        unsampled_processor_seconds: totals.unsampled as f64 * 1e-9,
        actions,
        threads,
        functions,
        stacks,
        notes: notes(totals),
    }
}

fn notes(totals: &Totals) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            notes.push(format!("{count} {text}"));
        }
    };
    note(
        totals.dropped,
        "ticks were dropped, because samples arrived faster than they could be processed",
    );
    note(totals.refused, "threads were not sampled, because there are too many threads or timers");
    note(
        totals.tree.crowded,
        "samples are counted at one of their callers, because there are too many different stacks",
    );
    note(
        totals.tree.without_stack,
        "samples have no callers, because they hit a foreign or nearly full stack",
    );
    notes
}

/// An action in a stage that may be nested in the reported stage.
type ActionKey = (Option<Stage>, &'static str);

#[derive(Default)]
struct ActionSum {
    all: Weights,
    functions: HashMap<u32, FunctionSum>,
}

#[derive(Default)]
struct FunctionSum {
    own: Weights,
    total: Weights,
    /// Ticks of work on each line.
    lines: HashMap<u32, u64>,
}

/// A frame of the report's stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum StackKey {
    Action(Option<Stage>, &'static str),
    Function(u32),
}

struct Summary<'libraries> {
    symbols: Symbols<'libraries>,
    actions: HashMap<ActionKey, ActionSum>,
    stacks: Vec<(Option<u32>, StackKey, Weights)>,
    stack_ids: HashMap<(Option<u32>, StackKey), u32>,
}

impl<'libraries> Summary<'libraries> {
    fn new(symbols: Symbols<'libraries>) -> Self {
        Self { symbols, actions: HashMap::new(), stacks: Vec::new(), stack_ids: HashMap::new() }
    }

    fn add_tree(&mut self, tree: &Tree, of: Option<&ReportedSessions>) {
        for (id, node) in tree.nodes.iter().enumerate() {
            if node.weights != Weights::default() {
                self.add_place(tree, id as NodeId, &node.weights, of);
            }
        }
    }

    fn add_place(
        &mut self,
        tree: &Tree,
        id: NodeId,
        weights: &Weights,
        of: Option<&ReportedSessions>,
    ) {
        let mut frames: Vec<Frame> = Vec::new();
        let mut scopes: Vec<&'static str> = Vec::new();
        let mut sub_stage = None;
        for node in tree.way_up(id) {
            match node.key {
                Key::Code(address) => frames.extend(self.symbols.frames(address)),
                Key::Cut => frames.push(self.cut()),
                Key::Scope(action) => scopes.push(action.name()),
                Key::Session { running, own } => {
                    let Some(of) = of else { break };
                    match (of.sub_stage_of(own), of.sub_stage_of(running)) {
                        (Some(stage), _) => sub_stage = stage,
                        // If the sample has actions, they belong to another recorder.
                        (None, Some(stage)) => {
                            sub_stage = stage;
                            scopes.clear();
                        }
                        (None, None) => return,
                    }
                }
            }
        }
        if scopes.is_empty() {
            scopes.push(OUTSIDE);
        }
        self.add_stack(sub_stage, &scopes, &frames, weights);
        scopes.sort_unstable();
        scopes.dedup();
        for action in scopes {
            self.actions.entry((sub_stage, action)).or_default().add(&frames, weights);
        }
    }

    fn cut(&mut self) -> Frame {
        let function = Function { name: CUT.to_owned(), library: String::new(), file: None };
        Frame { function: self.symbols.id(function), line: None }
    }

    /// Adds a stack. Both `scopes` and `frames` are given innermost first.
    fn add_stack(
        &mut self,
        sub_stage: Option<Stage>,
        scopes: &[&'static str],
        frames: &[Frame],
        weights: &Weights,
    ) {
        let scopes = scopes.iter().rev().map(|scope| StackKey::Action(sub_stage, scope));
        let frames = frames.iter().rev().map(|frame| StackKey::Function(frame.function));
        let mut place = None;
        for key in scopes.chain(frames) {
            let next = self.stacks.len() as u32;
            let id = *self.stack_ids.entry((place, key)).or_insert(next);
            if id == next {
                self.stacks.push((place, key, Weights::default()));
            }
            place = Some(id);
        }
        if let Some(place) = place {
            self.stacks[place as usize].2.add(weights);
        }
    }

    fn finish(self) -> (Vec<SampledCode>, Vec<StackNode>, Vec<ActionSamples>) {
        let mut lines: HashMap<u32, HashMap<u32, u64>> = HashMap::new();
        for sum in self.actions.values().flat_map(|action| &action.functions) {
            for (line, ticks) in &sum.1.lines {
                *lines.entry(*sum.0).or_default().entry(*line).or_default() += ticks;
            }
        }
        let functions = self.symbols.functions.iter().zip(0_u32..);
        let functions = functions
            .map(|(function, id)| SampledCode {
                name: function.name.clone(),
                library: function.library.clone(),
                file: function.file.clone(),
                line: lines.get(&id).and_then(busiest),
            })
            .collect();
        let stacks = self.stacks.iter().map(|(parent, key, weights)| {
            let (action, sub_stage, function) = match *key {
                StackKey::Action(stage, name) => (Some(name.to_owned()), stage, None),
                StackKey::Function(id) => (None, None, Some(id)),
            };
            StackNode {
                parent: *parent,
                action,
                sub_stage,
                function,
                working_ticks: weights.working,
                waiting_ticks: weights.waiting,
            }
        });
        let mut actions: Vec<ActionSamples> =
            self.actions.into_iter().map(|(key, sum)| sum.in_report(key)).collect();
        actions.sort_by(|a, b| {
            let weight = |action: &ActionSamples| action.all.working_ticks;
            weight(b).cmp(&weight(a)).then_with(|| a.action.cmp(&b.action))
        });
        (functions, stacks.collect(), actions)
    }
}

/// Returns the line with the most ticks, or the first of several.
fn busiest(lines: &HashMap<u32, u64>) -> Option<u32> {
    let most = lines.iter().max_by_key(|(line, ticks)| (**ticks, std::cmp::Reverse(**line)));
    most.map(|(line, _)| *line)
}

impl ActionSum {
    fn add(&mut self, frames: &[Frame], weights: &Weights) {
        self.all.add(weights);
        let mut seen: Vec<u32> = Vec::with_capacity(frames.len());
        for frame in frames {
            // A recursive function counts once per stack.
            if !seen.contains(&frame.function) {
                seen.push(frame.function);
                self.functions.entry(frame.function).or_default().total.add(weights);
            }
        }
        if let Some(innermost) = frames.first() {
            let function = self.functions.entry(innermost.function).or_default();
            function.own.add(weights);
        }
        for frame in frames {
            if let (Some(line), Some(sum)) = (frame.line, self.functions.get_mut(&frame.function)) {
                *sum.lines.entry(line).or_default() += weights.working;
            }
        }
    }

    fn in_report(self, (sub_stage, action): ActionKey) -> ActionSamples {
        let mut functions: Vec<SampledFunction> = self
            .functions
            .into_iter()
            .map(|(function, sum)| SampledFunction {
                function,
                own: counts(&sum.own),
                total: counts(&sum.total),
            })
            .collect();
        functions.sort_by_key(|row| {
            let reversed = std::cmp::Reverse;
            (reversed(row.own.working_ticks), reversed(row.total.working_ticks), row.function)
        });
        ActionSamples {
            action: action.to_owned(),
            sub_stage,
            all: counts(&self.all),
            squared_ticks: self.all.squares,
            functions,
        }
    }
}

fn counts(weights: &Weights) -> SampleCounts {
    SampleCounts {
        samples: weights.samples,
        working_ticks: weights.working,
        waiting_ticks: weights.waiting,
        stalled_ticks: weights.stalled,
    }
}
