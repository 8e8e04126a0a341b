//! Converts call trees, in ticks, to the numbers of a report, in seconds.

use std::collections::HashMap;

use super::AdvancedProfiler;
use super::snapshot::{Counts, Place, TreeSnapshot};
use crate::recorder::header::{header, open_actions};
use crate::recorder::overhead::seconds_per_scope;
use crate::recorder::{Collected, Part};
use crate::report::StartupDurations;
use crate::report::advanced::{
    ActionProfile, ActionProfileParts, AdvancedReport, AdvancedReportParts, CallStatistics,
    CallStatisticsParts, CallTreeNode, CallTreeNodeParts, CallerStatisticsParts, FunctionKey,
    FunctionKeyParts, FunctionStatistics, FunctionStatisticsParts, OUTSIDE, ThreadCallTree,
};
use crate::{RunContext, Stage};
use mlprof_events::Action;
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::startup::{PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN};

pub(super) fn summarize(collected: Collected<TreeSnapshot>, run: &RunContext) -> AdvancedReport {
    let rate = collected.rate;
    let mut profiles = Profiles::new(collected.parts.iter().map(|part| &part.snapshot));
    for part in &collected.parts {
        profiles.add(part.sub_stage, &part.snapshot);
    }
    let places = collected.parts.iter().flat_map(|part| &part.snapshot.places);
    let measured = |counts: &Counts| counts.calls + counts.resumptions;
    let back = |place: &Place| place.back.iter().map(|(_, counts)| measured(counts)).sum::<u64>();
    let scopes = places.map(|place| measured(&place.counts) + back(place)).sum();
    let seconds_per_scope = seconds_per_scope::<AdvancedProfiler>(0, AdvancedProfiler::aside);
    let mut header = header(&collected, run, scopes, seconds_per_scope);
    let overflowed: u64 = collected.parts.iter().map(|part| part.snapshot.overflowed).sum();
    if overflowed > 0 {
        header.notes.push(format!(
            "a call tree reached its limit of {} nodes: {overflowed} further calls are counted as \
             {:?}",
            super::tree::MAX_EDGES,
            super::tree::OVERFLOW,
        ));
    }
    if profiles.left_out > 0 {
        header.notes.push(format!(
            "actions are nested so deeply that the tables of outer actions end {} actions further \
             in: time below that level counts as the action's own, and its calls are in the tables \
             of the enclosing actions",
            profiles.deepest
        ));
    }
    let mut actions = in_seconds(profiles.tables, rate);
    let devices = collected.device_times();
    for profile in &mut actions {
        profile.device = devices.get(&(profile.sub_stage, profile.action.clone())).copied();
    }
    if let Some(startup) = header.startup {
        actions.push(startup_profile(startup));
        actions.order_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    }
    AdvancedReportParts {
        header,
        actions,
        threads: collected
            .by_thread_name()
            .into_iter()
            .map(|group| {
                let roots = roots(&merged(&group.parts), rate);
                ThreadCallTree::new(group.thread.to_owned(), group.threads, roots)
            })
            .filter(|thread| !thread.roots.is_empty())
            .collect(),
        open: open_actions(&collected),
        samples: None,
        device_regions: collected.device_regions(),
        step_series: collected.step_series.clone(),
        findings: Vec::new(),
    }
    .build()
}

fn merged(parts: &[&Part<TreeSnapshot>]) -> TreeSnapshot {
    let mut tree = TreeSnapshot::default();
    parts.iter().for_each(|part| tree.merge(&part.snapshot));
    tree
}

/// Tables of all actions. Their rows are limited. A function has a row in the table of every
/// enclosing action, which would need too much memory with deep nesting.
struct Profiles {
    tables: HashMap<(Option<Stage>, &'static str), Profile>,
    /// Number of nested action levels after which a table ends.
    deepest: usize,
    /// Number of places that are missing in a table for this reason.
    left_out: usize,
}

/// Maximum number of rows of all tables together. Very large trees may exceed it because of
/// [`LEAST_NESTED`].
const ROWS: usize = 200_000;
/// Minimum number of nested action levels in every table.
const LEAST_NESTED: usize = 8;

/// All calls below one action, on all threads. Times are in ticks.
#[derive(Default)]
struct Profile {
    calls: u64,
    total: u64,
    functions: HashMap<Action, (Counts, HashMap<Action, Counts>)>,
}

impl Profile {
    fn add(&mut self, callee: Action, caller: Option<Action>, counts: Counts) {
        let (sum, callers) = self.functions.entry(callee).or_default();
        sum.add(counts);
        if let Some(caller) = caller {
            callers.entry(caller).or_default().add(counts);
        }
    }

    /// Adds the place `index` and all places below it, down to `deepest` nested actions. Returns a
    /// lower limit for the number of places left out.
    fn add_below(&mut self, tree: &Tree<'_>, index: usize, deepest: usize) -> usize {
        let mut left_out = 0;
        let last = tree.actions_around[index] + deepest;
        let mut open = vec![(index, None)];
        while let Some((index, caller)) = open.pop() {
            let place = &tree.snapshot.places[index];
            let Some(action) = place.action else { continue };
            if tree.actions_around[index] > last {
                left_out += place.children.len();
                // The action's own time includes the omitted places, so that the times of a table
                // add up.
                self.add(action, caller, Counts { own: tree.own_below[index], ..place.counts });
                continue;
            }
            self.add(action, caller, place.counts);
            for (callee, counts) in &place.back {
                self.add(*callee, Some(action), *counts);
            }
            open.extend(place.children.iter().map(|child| (*child, Some(action))));
        }
        left_out
    }
}

/// A call tree with derived data of its places.
struct Tree<'snapshot> {
    snapshot: &'snapshot TreeSnapshot,
    /// Counts including recursive calls.
    counts: Vec<Counts>,
    own_below: Vec<u64>,
    actions_around: Vec<usize>,
}

impl Profiles {
    /// Returns empty tables, with limits for these trees.
    fn new<'trees>(trees: impl Iterator<Item = &'trees TreeSnapshot>) -> Self {
        let (mut places, mut rows) = (0, 0);
        for tree in trees {
            places += tree.places.len();
            rows += tree.actions_around().iter().sum::<usize>();
        }
        let deepest = match rows {
            0..=ROWS => usize::MAX / 2,
            _ => (ROWS / places).max(LEAST_NESTED),
        };
        Self { tables: HashMap::new(), deepest, left_out: 0 }
    }

    fn add(&mut self, sub_stage: Option<Stage>, snapshot: &TreeSnapshot) {
        let tree = Tree {
            snapshot,
            counts: snapshot.counts_with_recursion(),
            own_below: snapshot.own_below(),
            actions_around: snapshot.actions_around(),
        };
        for (index, place) in snapshot.places.iter().enumerate() {
            if let Some(action) = place.action.filter(|action| action.kind().is_action()) {
                self.add_table(sub_stage, action.name(), &tree, index);
            }
        }
        for index in &snapshot.places[0].children {
            let action = snapshot.places[*index].action;
            if action.is_some_and(|action| !action.kind().is_action()) {
                self.add_table(sub_stage, OUTSIDE, &tree, *index);
            }
        }
    }

    fn add_table(
        &mut self,
        sub_stage: Option<Stage>,
        name: &'static str,
        tree: &Tree<'_>,
        index: usize,
    ) {
        let profile = self.tables.entry((sub_stage, name)).or_default();
        profile.calls += tree.counts[index].calls;
        profile.total += tree.counts[index].cumulative;
        self.left_out += profile.add_below(tree, index, self.deepest);
    }
}

/// Returns start-up as an action, with the part before `main` as a function that it called.
fn startup_profile(startup: StartupDurations) -> ActionProfile {
    let key = |name: &str| {
        FunctionKeyParts { file: "~".to_owned(), line: 0, name: name.to_owned() }.build()
    };
    let calls = |self_seconds, cumulative_seconds| {
        CallStatisticsParts {
            total_calls: 1,
            primitive_calls: 1,
            polls: 0,
            self_seconds,
            cumulative_seconds,
        }
        .build()
    };
    let whole = key(PROCESS_STARTUP);
    let mut functions = vec![
        FunctionStatisticsParts {
            function: whole.clone(),
            calls: calls(startup.after_main_seconds(), startup.total_seconds),
            callers: Vec::new(),
        }
        .build(),
    ];
    functions.extend(startup.before_main_seconds.map(|part| {
        FunctionStatisticsParts {
            function: key(PROCESS_STARTUP_BEFORE_MAIN),
            calls: calls(part, part),
            callers: vec![
                CallerStatisticsParts { caller: whole, calls: calls(part, part) }.build(),
            ],
        }
        .build()
    }));
    ActionProfileParts {
        action: PROCESS_STARTUP.to_owned(),
        sub_stage: None,
        calls: 1,
        total_seconds: startup.total_seconds,
        functions,
        device: None,
    }
    .build()
}

fn in_seconds(
    profiles: HashMap<(Option<Stage>, &'static str), Profile>,
    rate: Rate,
) -> Vec<ActionProfile> {
    let mut profiles: Vec<_> = profiles.into_iter().collect();
    profiles.order_by_key(|((_, name), profile)| (std::cmp::Reverse(profile.total), *name));
    profiles
        .into_iter()
        .map(|((sub_stage, name), profile)| {
            ActionProfileParts {
                action: name.to_owned(),
                sub_stage,
                calls: profile.calls,
                total_seconds: rate.seconds(profile.total),
                functions: functions(profile, rate),
                device: None,
            }
            .build()
        })
        .collect()
}

/// Returns the functions, longest cumulative time first, like pstats. Functions with the same key
/// share one row, for example a name that several places start as an action.
fn functions(profile: Profile, rate: Rate) -> Vec<FunctionStatistics> {
    let mut rows: HashMap<FunctionKey, (Counts, HashMap<FunctionKey, Counts>)> = HashMap::new();
    for (action, (counts, callers)) in profile.functions {
        let (sum, by_caller) = rows.entry(key(action)).or_default();
        sum.add(counts);
        for (caller, counts) in callers {
            by_caller.entry(key(caller)).or_default().add(counts);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.order_by(|(one, (first, _)), (other, (second, _))| {
        second.cumulative.cmp(&first.cumulative).then_with(|| one.cmp(other))
    });
    rows.into_iter()
        .map(|(function, (counts, callers))| {
            FunctionStatisticsParts {
                function,
                calls: statistics(counts, rate),
                callers: {
                    let mut callers: Vec<_> = callers.into_iter().collect();
                    callers.order_by(|(one, _), (other, _)| one.cmp(other));
                    callers
                        .into_iter()
                        .map(|(caller, counts)| {
                            CallerStatisticsParts { caller, calls: statistics(counts, rate) }
                                .build()
                        })
                        .collect()
                },
            }
            .build()
        })
        .collect()
}

fn statistics(counts: Counts, rate: Rate) -> CallStatistics {
    CallStatisticsParts {
        total_calls: counts.calls,
        primitive_calls: counts.primitive,
        polls: if counts.resumptions == 0 { 0 } else { counts.calls + counts.resumptions },
        self_seconds: rate.seconds(counts.own),
        cumulative_seconds: rate.seconds(counts.cumulative),
    }
    .build()
}

fn key(action: Action) -> FunctionKey {
    match action.location() {
        Some(location) => FunctionKeyParts {
            file: location.file.to_owned(),
            line: location.line,
            name: action.name().to_owned(),
        }
        .build(),
        None => FunctionKeyParts { file: "~".to_owned(), line: 0, name: action.name().to_owned() }
            .build(),
    }
}

/// Returns the calls at the top of a thread. Recursive calls are counted at the node to which they
/// lead back.
fn roots(tree: &TreeSnapshot, rate: Rate) -> Vec<CallTreeNode> {
    let counts = tree.counts_with_recursion();
    // Nodes that are not yet attached to their parents. Children follow their parents, so a loop
    // from the last place to the first finds all children of a place.
    let mut nodes: Vec<Option<CallTreeNode>> = tree.places.iter().map(|_| None).collect();
    for (index, place) in tree.places.iter().enumerate().rev() {
        let mut children: Vec<CallTreeNode> =
            place.children.iter().filter_map(|child| nodes[*child].take()).collect();
        children.order_by(|one, other| {
            other.calls.cumulative_seconds.total_cmp(&one.calls.cumulative_seconds)
        });
        let Some(action) = place.action else { return children };
        nodes[index] = Some(
            CallTreeNodeParts {
                function: key(action),
                kind: action.kind(),
                calls: statistics(counts[index], rate),
                children,
            }
            .build(),
        );
    }
    Vec::new()
}
