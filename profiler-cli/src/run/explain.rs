//! Which functions have hooks, and why others have none.

use std::collections::BTreeSet;

use super::plan::Plan;
use super::record::CrateRecord;
use super::say;
use crate::splice::{Pattern, near_misses};

/// The records that belong to this plan; others are of crates that were not compiled this time.
fn current<'a>(
    plan: &'a Plan,
    records: &'a [CrateRecord],
) -> impl Iterator<Item = &'a CrateRecord> {
    let is_current = |record: &&CrateRecord| {
        [false, true].iter().any(|is_program| {
            record.fingerprint == plan.fingerprint(&record.crate_name, *is_program)
        })
    };
    records.iter().filter(is_current)
}

/// Those of crates of which something is selected.
pub fn concerned<'a>(
    plan: &'a Plan,
    records: &'a [CrateRecord],
) -> impl Iterator<Item = &'a CrateRecord> {
    current(plan, records).filter(|record| plan.selection.concerns(&record.crate_name))
}

/// The patterns that match no function of any crate.
pub fn unmatched(plan: &Plan, records: &[CrateRecord]) -> Vec<String> {
    let seen = || current(plan, records).flat_map(|record| &record.seen);
    let patterns = plan.selection.patterns();
    patterns
        .filter(|pattern| !seen().any(|path| pattern.matches_text(path)))
        .map(|pattern| format!("`{}`", pattern.text()))
        .collect()
}

/// Tells of patterns that have chosen nothing, with what may have been meant.
pub fn warn_of_unmatched(plan: &Plan, records: &[CrateRecord]) {
    let current: Vec<_> = current(plan, records).collect();
    if current.is_empty() {
        return; // nothing was compiled, which has been said
    }
    for pattern in plan.selection.patterns() {
        let seen = || current.iter().flat_map(|record| &record.seen);
        if seen().any(|path| pattern.matches_text(path)) {
            continue;
        }
        say(&format!("warning: the pattern `{}` matches no function", pattern.text()));
        let crates: BTreeSet<_> = current.iter().map(|record| record.crate_name.as_str()).collect();
        if !crates.iter().any(|name| pattern.concerns(name)) {
            let first = pattern.text().split("::").next().unwrap_or_default().parse::<Pattern>();
            let names = first.map(|first| near_misses(&first, crates.iter().copied()));
            let names = names.unwrap_or_default();
            match names.as_slice() {
                [] => say("  no crate of that name was compiled"),
                names => say(&format!(
                    "  no crate of that name was compiled; is it {}?",
                    names.join(", ")
                )),
            }
            continue;
        }
        for near in near_misses(pattern, seen().map(String::as_str)) {
            say(&format!("  similar: {near}"));
        }
    }
}

/// Lists all functions with hooks, and those that were left out.
pub fn explain(plan: &Plan, records: &[CrateRecord]) {
    for record in concerned(plan, records) {
        say(&format!("crate {} (package {})", record.crate_name, record.package));
        if let Some(reason) = &record.unspliced {
            say("  built without hooks:");
            reason.lines().for_each(|line| say(&format!("    {line}")));
        }
        for function in &record.spliced {
            let line = format!("{}:{}", function.file.display(), function.line);
            let kind = format!("{:?}", function.kind).to_lowercase();
            say(&format!("  {kind:<9}{}  as {}  {line}", function.path, function.name));
        }
        for function in &record.left_out {
            let line = format!("{}:{}", function.file.display(), function.line);
            say(&format!("  left out {}: {}  {line}", function.path, function.reason));
        }
        for file in &record.unread {
            say(&format!("  not read {}: {}", file.path.display(), file.reason));
        }
        if record.spliced.is_empty() && record.left_out.is_empty() && record.unread.is_empty() {
            say("  nothing of it is selected");
        }
    }
}
