//! Reports which functions are instrumented, and why others are not.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Plan;
use super::record::CrateRecord;
use super::say;
use mlprof_instrument::{LeftOut, Pattern, near_misses};

/// Returns the records that match this plan. Other records belong to crates that were not compiled
/// in this run.
pub fn current<'a>(
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

/// Returns the current records of crates with selected functions.
pub fn concerned<'a>(
    plan: &'a Plan,
    records: &'a [CrateRecord],
) -> impl Iterator<Item = &'a CrateRecord> {
    current(plan, records).filter(|record| plan.selection.concerns(&record.crate_name))
}

/// Returns the patterns that match no function of any crate.
pub fn unmatched(plan: &Plan, records: &[CrateRecord]) -> Vec<String> {
    let seen = || current(plan, records).flat_map(|record| &record.seen);
    let patterns = plan.selection.patterns();
    patterns
        .filter(|pattern| !seen().any(|path| pattern.matches_text(path)))
        .map(|pattern| format!("`{}`", pattern.text()))
        .collect()
}

/// Warns about patterns without a match, and suggests similar names.
pub fn warn_of_unmatched(plan: &Plan, records: &[CrateRecord]) {
    let current: Vec<_> = current(plan, records).collect();
    if current.is_empty() {
        return; // nothing was compiled, which was already reported
    }
    for pattern in plan.selection.patterns() {
        let seen = || current.iter().flat_map(|record| &record.seen);
        // Crates that cannot be instrumented were not searched. The reason is printed elsewhere.
        let is_unread = |record: &&CrateRecord| {
            record.obstacle.is_some() && pattern.concerns(&record.crate_name)
        };
        if current.iter().any(is_unread) || seen().any(|path| pattern.matches_text(path)) {
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
                    "  no crate of that name was compiled; did you mean {}?",
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

/// Warns about functions that may behave differently because of the hooks.
pub fn warn_of_cautions(plan: &Plan, records: &[CrateRecord]) {
    for caution in current(plan, records).flat_map(|record| &record.cautions) {
        let line = format!("{}:{}", caution.file.display(), caution.line);
        say(&format!("warning: {}: {}  {line}", caution.path, caution.reason));
    }
}

/// Prints how much of the selection has no hooks, and why. `--explain` lists the functions.
pub fn warn_of_unmeasured(plan: &Plan, records: &[CrateRecord]) {
    let records: Vec<_> = concerned(plan, records).collect();
    let names: BTreeSet<_> = records.iter().map(|record| record.crate_name.as_str()).collect();
    for name in names {
        let of_crate = records.iter().filter(|record| record.crate_name == name);
        // Functions from macros and included files count as selected only if a pattern covers the
        // whole crate.
        let is_whole = plan.selection.patterns().any(|pattern| {
            pattern.concerns(name) && (pattern.text().ends_with('*') || pattern.text() == name)
        });
        let lines = unmeasured(name, of_crate.copied(), is_whole);
        lines.iter().for_each(|line| say(line));
    }
}

/// Returns one line for functions, one for files, and one for macros and included files if
/// `is_whole` is set.
fn unmeasured<'a>(
    name: &str,
    records: impl Iterator<Item = &'a CrateRecord> + Clone,
    is_whole: bool,
) -> Vec<String> {
    // A library and its tests are compiled from the same source, so locations are deduplicated.
    let places = |of: fn(&CrateRecord) -> &[LeftOut]| {
        let all = records.clone().flat_map(of);
        all.map(|one| ((&*one.path, &*one.file, one.line), &*one.reason))
            .collect::<BTreeMap<_, _>>()
    };
    let functions = places(|record| &record.left_out);
    let elsewhere = if is_whole { places(|record| &record.unseen) } else { BTreeMap::new() };
    let files: BTreeMap<_, _> = records
        .clone()
        .flat_map(|record| &record.unread)
        .map(|one| (&one.path, &*one.reason))
        .collect();
    let what = [
        (reasons(functions.into_values()), "function", "functions"),
        (reasons(elsewhere.into_values()), "macro call", "macro calls"),
        (reasons(files.into_values()), "file", "files"),
    ];
    let lines = what.into_iter().filter(|((count, _), ..)| *count > 0);
    let line = |((count, reasons), one, many): ((usize, String), &str, &str)| {
        let (what, are) = if count == 1 { (one, "is") } else { (many, "are") };
        format!("{count} {what} of {name} {are} left out: {reasons} (see --explain)")
    };
    lines.map(line).collect()
}

/// Returns the number of reasons and a list of the three most frequent ones.
fn reasons<'a>(all: impl Iterator<Item = &'a str>) -> (usize, String) {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut count = 0;
    for reason in all {
        count += 1;
        // The call count at the end of a macro's reason is removed, so equal reasons are grouped.
        let end = reason.rfind(" (").filter(|_| reason.ends_with(" times)"));
        *counts.entry(&reason[..end.unwrap_or(reason.len())]).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = counts.len().saturating_sub(3);
    let shown = counts.iter().take(3).map(|(reason, of)| match count {
        1 => (*reason).to_owned(),
        _ => format!("{reason} ({of})"),
    });
    let mut text = shown.collect::<Vec<_>>().join("; ");
    if others > 0 {
        text += &format!("; {others} other reasons");
    }
    (count, text)
}

/// Lists all functions with hooks, and the functions that were left out.
pub fn explain(plan: &Plan, records: &[CrateRecord]) {
    for record in concerned(plan, records) {
        say(&format!("crate {} (package {})", record.crate_name, record.package));
        if let Some(obstacle) = &record.obstacle {
            say(&format!("  has no hooks: {obstacle}"));
            continue;
        }
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
        for made in &record.unseen {
            let line = format!("{}:{}", made.file.display(), made.line);
            say(&format!("  left out {}: {}  {line}", made.path, made.reason));
        }
        for file in &record.unread {
            say(&format!("  not read {}: {}", file.path.display(), file.reason));
        }
        let is_empty = record.spliced.is_empty() && record.left_out.is_empty();
        if is_empty && record.unread.is_empty() && record.unseen.is_empty() {
            say("  no function is selected");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlprof_instrument::Unread;

    #[test]
    fn omitted_functions_are_counted_by_reason() {
        let left_out = |path: &str, line: u32, reason: &str| LeftOut {
            path: path.into(),
            file: "lib.rs".into(),
            line,
            reason: reason.into(),
        };
        let record = CrateRecord {
            left_out: vec![
                left_out("a::f", 1, "const"),
                left_out("a::g", 2, "naked"),
                left_out("a::h", 3, "const"),
            ],
            unseen: vec![left_out("derive(X)", 4, "another crate (2 times)")],
            unread: vec![Unread { path: "x.rs".into(), reason: "gone".into() }],
            ..CrateRecord::default()
        };
        // The second record stands for the tests of the same crate.
        let both = [record.clone(), record];
        let lines = unmeasured("a", both.iter(), true);
        let expected = [
            "3 functions of a are left out: const (2); naked (1) (see --explain)",
            "1 macro call of a is left out: another crate (see --explain)",
            "1 file of a is left out: gone (see --explain)",
        ];
        assert_eq!(lines, expected);
        assert_eq!(unmeasured("a", both.iter(), false).len(), 2, "nobody selected all of it");
        assert_eq!(unmeasured("a", [CrateRecord::default()].iter(), true), [""; 0]);
    }
}
