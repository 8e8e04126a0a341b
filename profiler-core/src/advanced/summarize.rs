//! From the call trees of threads, in ticks, to the numbers of a report, in seconds.

use std::collections::HashMap;

use super::AdvancedProfiler;
use super::snapshot::{Counts, Place, TreeSnapshot};
use crate::action::Action;
use crate::clock::Rate;
use crate::recorder::header::{header, open_actions};
use crate::recorder::overhead::seconds_per_scope;
use crate::recorder::{Collected, Part};
use crate::report::StartupDurations;
use crate::report::advanced::{
    ActionProfile, AdvancedReport, CallStatistics, CallTreeNode, CallerStatistics, FunctionKey,
    FunctionStatistics, OUTSIDE, ThreadCallTree,
};
use crate::startup::{PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN};
use crate::{RunContext, Stage};

pub(super) fn summarize(collected: Collected<TreeSnapshot>, run: &RunContext) -> AdvancedReport {
    let rate = collected.rate;
    let mut profiles: HashMap<(Option<Stage>, &'static str), Profile> = HashMap::new();
    for part in &collected.parts {
        add_profiles(&mut profiles, part.sub_stage, &part.snapshot);
    }
    let places = collected.parts.iter().flat_map(|part| &part.snapshot.places);
    let measured = |counts: &Counts| counts.calls + counts.resumptions;
    let back = |place: &Place| place.back.iter().map(|(_, counts)| measured(counts)).sum::<u64>();
    let scopes = places.map(|place| measured(&place.counts) + back(place)).sum();
    let seconds_per_scope = seconds_per_scope::<AdvancedProfiler>(AdvancedProfiler::aside);
    let mut header = header(&collected, run, scopes, seconds_per_scope);
    let overflowed: u64 = collected.parts.iter().map(|part| part.snapshot.overflowed).sum();
    if overflowed > 0 {
        header.notes.push(format!(
            "a call tree reached its limit of {} places: {overflowed} kinds of calls after that \
             are counted as {:?}",
            super::tree::MAX_EDGES,
            super::tree::OVERFLOW,
        ));
    }
    let mut actions = in_seconds(profiles, rate);
    if let Some(startup) = header.startup {
        actions.push(startup_profile(startup));
        actions.sort_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    }
    AdvancedReport {
        header,
        actions,
        threads: collected
            .by_thread_name()
            .into_iter()
            .map(|group| ThreadCallTree {
                thread: group.thread.to_owned(),
                threads: group.threads,
                roots: children(&merged(&group.parts), 0, rate),
            })
            .filter(|thread| !thread.roots.is_empty())
            .collect(),
        open: open_actions(&collected),
        samples: None,
        device_regions: collected.device_regions(),
    }
}

fn merged(parts: &[&Part<TreeSnapshot>]) -> TreeSnapshot {
    let mut tree = TreeSnapshot::default();
    parts.iter().for_each(|part| tree.merge(&part.snapshot));
    tree
}

/// Everything below one action, on all threads. Times in ticks.
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

    /// Adds the place `index` and all below it.
    fn add_below(&mut self, tree: &TreeSnapshot, index: usize, caller: Option<Action>) {
        let mut open = vec![(index, caller)];
        while let Some((index, caller)) = open.pop() {
            let place = &tree.places[index];
            let Some(action) = place.action else { continue };
            self.add(action, caller, place.counts);
            for (callee, counts) in &place.back {
                self.add(*callee, Some(action), *counts);
            }
            open.extend(place.children.iter().map(|child| (*child, Some(action))));
        }
    }
}

fn add_profiles(
    profiles: &mut HashMap<(Option<Stage>, &'static str), Profile>,
    sub_stage: Option<Stage>,
    tree: &TreeSnapshot,
) {
    for (index, place) in tree.places.iter().enumerate() {
        if let Some(action) = place.action.filter(|action| action.kind().is_action()) {
            let profile = profiles.entry((sub_stage, action.name())).or_default();
            profile.calls += place.counts.calls;
            profile.total += place.counts.cumulative;
            profile.add_below(tree, index, None);
        }
    }
    let top = &tree.places[0].children;
    for index in top {
        let place = &tree.places[*index];
        if place.action.is_some_and(|action| !action.kind().is_action()) {
            let profile = profiles.entry((sub_stage, OUTSIDE)).or_default();
            profile.calls += place.counts.calls;
            profile.total += place.counts.cumulative;
            profile.add_below(tree, *index, None);
        }
    }
}

/// Start-up as an action, with the part before `main` as a function that it called.
fn startup_profile(startup: StartupDurations) -> ActionProfile {
    let key = |name: &str| FunctionKey { file: "~".to_owned(), line: 0, name: name.to_owned() };
    let calls = |self_seconds, cumulative_seconds| CallStatistics {
        total_calls: 1,
        primitive_calls: 1,
        polls: 0,
        self_seconds,
        cumulative_seconds,
    };
    let whole = key(PROCESS_STARTUP);
    let mut functions = vec![FunctionStatistics {
        function: whole.clone(),
        calls: calls(startup.after_main_seconds(), startup.total_seconds),
        callers: Vec::new(),
    }];
    functions.extend(startup.before_main_seconds.map(|part| FunctionStatistics {
        function: key(PROCESS_STARTUP_BEFORE_MAIN),
        calls: calls(part, part),
        callers: vec![CallerStatistics { caller: whole, calls: calls(part, part) }],
    }));
    ActionProfile {
        action: PROCESS_STARTUP.to_owned(),
        sub_stage: None,
        calls: 1,
        total_seconds: startup.total_seconds,
        functions,
    }
}

fn in_seconds(
    profiles: HashMap<(Option<Stage>, &'static str), Profile>,
    rate: Rate,
) -> Vec<ActionProfile> {
    let mut profiles: Vec<_> = profiles.into_iter().collect();
    profiles.sort_by_key(|((_, name), profile)| (std::cmp::Reverse(profile.total), *name));
    profiles
        .into_iter()
        .map(|((sub_stage, name), profile)| ActionProfile {
            action: name.to_owned(),
            sub_stage,
            calls: profile.calls,
            total_seconds: rate.seconds(profile.total),
            functions: functions(profile, rate),
        })
        .collect()
}

/// Longest cumulative time first, as pstats sorts; functions of one key (the same name started as
/// an action in several places) are one row.
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
    rows.sort_by(|(one, (first, _)), (other, (second, _))| {
        second.cumulative.cmp(&first.cumulative).then_with(|| one.cmp(other))
    });
    rows.into_iter()
        .map(|(function, (counts, callers))| FunctionStatistics {
            function,
            calls: statistics(counts, rate),
            callers: {
                let mut callers: Vec<_> = callers.into_iter().collect();
                callers.sort_by(|(one, _), (other, _)| one.cmp(other));
                callers
                    .into_iter()
                    .map(|(caller, counts)| CallerStatistics {
                        caller,
                        calls: statistics(counts, rate),
                    })
                    .collect()
            },
        })
        .collect()
}

fn statistics(counts: Counts, rate: Rate) -> CallStatistics {
    CallStatistics {
        total_calls: counts.calls,
        primitive_calls: counts.primitive,
        polls: if counts.resumptions == 0 { 0 } else { counts.calls + counts.resumptions },
        self_seconds: rate.seconds(counts.own),
        cumulative_seconds: rate.seconds(counts.cumulative),
    }
}

fn key(action: Action) -> FunctionKey {
    match action.location() {
        Some(location) => FunctionKey {
            file: location.file.to_owned(),
            line: location.line,
            name: action.name().to_owned(),
        },
        None => FunctionKey { file: "~".to_owned(), line: 0, name: action.name().to_owned() },
    }
}

/// The nodes below a place, with its recursive calls counted where they lead back to.
fn children(tree: &TreeSnapshot, index: usize, rate: Rate) -> Vec<CallTreeNode> {
    let mut nodes: Vec<CallTreeNode> = tree.places[index]
        .children
        .iter()
        .filter_map(|child| {
            let action = tree.places[*child].action?;
            Some(CallTreeNode {
                function: key(action),
                kind: action.kind(),
                calls: statistics(tree.counts_with_recursion(*child), rate),
                children: children(tree, *child, rate),
            })
        })
        .collect();
    nodes.sort_by(|one, other| {
        other.calls.cumulative_seconds.total_cmp(&one.calls.cumulative_seconds)
    });
    nodes
}
