//! Explains why a requested result is missing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use mlprof_events::run::RunSettings;
use mlprof_report::Report;
use mlprof_report::internals::{counted_were, has_numbers};

use super::explain::{concerned, unmatched};
use super::plan::Plan;
use super::processes::Measured;
use super::record::CrateRecord;
use super::say;
use mlprof_instrument::HookKind;

/// Maximum size in bytes of a report to read.
const LONGEST_REPORT: u64 = 256 << 20;

/// Kind of result that the user can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultKind {
    Ops,
    Numerics,
    Functions,
    Lines,
    Memory,
    Samples,
}

impl ResultKind {
    fn of(settings: &RunSettings) -> Vec<Self> {
        let memory = settings.allocations;
        // With `--memory` alone, lines are instrumented for memory and not for time.
        let lines = settings.lines.as_ref().is_some_and(|lines| lines.time);
        let all = [
            (Self::Ops, settings.tensor.is_some()),
            (Self::Numerics, settings.numerics.is_some()),
            (Self::Functions, settings.advanced.is_some()),
            (Self::Lines, lines),
            (Self::Memory, memory),
            (Self::Samples, settings.samples.is_some()),
        ];
        all.into_iter().filter(|(_, is_asked)| *is_asked).map(|(asked, _)| asked).collect()
    }

    /// Returns the word used in options and file names.
    const fn word(self) -> &'static str {
        match self {
            Self::Ops => "ops",
            Self::Numerics => "numerics",
            Self::Functions => "functions",
            Self::Lines => "lines",
            Self::Memory => "memory",
            Self::Samples => "samples",
        }
    }

    const fn is_hooked_by(self, kind: HookKind) -> bool {
        match self {
            Self::Ops => matches!(kind, HookKind::Op | HookKind::Backward),
            Self::Functions => matches!(kind, HookKind::Function),
            Self::Lines => matches!(kind, HookKind::Lines),
            Self::Memory => matches!(kind, HookKind::Memory),
            Self::Numerics | Self::Samples => false,
        }
    }
}

/// Explains missing results on standard error and in the notes of the reports.
pub fn tell(
    settings: &RunSettings,
    plan: &Plan,
    records: &[CrateRecord],
    new: &[PathBuf],
    measured: Measured,
) {
    for asked in ResultKind::of(settings) {
        let ending = format!("-{}.json", asked.word());
        let is_of_it = |path: &&PathBuf| path.to_string_lossy().ends_with(&ending);
        let files: Vec<_> = new.iter().filter(is_of_it).collect();
        if files.iter().any(|path| read(path).is_none_or(|report| has_numbers(&report))) {
            continue;
        }
        let reason = match asked {
            // The lost process was already reported.
            _ if files.is_empty() && measured.is_lost => continue,
            ResultKind::Samples if files.is_empty() => continue,
            ResultKind::Numerics => {
                "no hook reported a tensor; the candle and tch plugins and --ops candle report \
                 tensors"
                    .to_owned()
            }
            ResultKind::Samples => {
                "the program ended before the first sample; increase --sample, or \
                               let the program run longer"
                    .to_owned()
            }
            asked => of_hooks(asked, plan, records),
        };
        let note = format!("there are no {}: {reason}", asked.word());
        say(&note);
        files.iter().for_each(|path| append(path, &note));
    }
}

fn of_hooks(asked: ResultKind, plan: &Plan, records: &[CrateRecord]) -> String {
    let of_plan: Vec<_> = concerned(plan, records).collect();
    let obstacles: BTreeSet<_> = of_plan
        .iter()
        .filter_map(|record| {
            Some(format!("{} has no hooks: {}", record.package, record.obstacle.as_deref()?))
        })
        .collect();
    if !obstacles.is_empty() {
        return Vec::from_iter(obstacles).join("; ");
    }
    let broken = of_plan.iter().filter_map(|record| {
        let first = record.unspliced.as_deref()?.lines().next()?;
        Some(format!(
            "{} is built without hooks, because it does not compile with them ({first})",
            record.package
        ))
    });
    let broken: Vec<_> = broken.collect();
    if !broken.is_empty() {
        return broken.join("; ");
    }
    let hooked = of_plan.iter().flat_map(|record| &record.spliced);
    let hooks = hooked.filter(|function| asked.is_hooked_by(function.kind)).count();
    if hooks > 0 {
        return format!(
            "{} hooks, but the program called none of them while it was measured",
            if hooks == 1 {
                "1 function has".to_owned()
            } else {
                format!("{hooks} functions have")
            }
        );
    }
    if of_plan.is_empty() {
        return "the program does not contain the selected crates".to_owned();
    }
    let left_out: usize = of_plan.iter().map(|record| record.left_out.len()).sum();
    let unmatched = unmatched(plan, records);
    if unmatched.is_empty() && left_out > 0 {
        return format!(
            "{} left out, and no other function is selected (see --explain)",
            counted_were(left_out as u64, "function", "functions")
        );
    }
    format!("no function matches {}", unmatched.join(", "))
}

fn read(path: &Path) -> Option<Report> {
    Report::from_json(&files::read_text(path, LONGEST_REPORT).ok()?).ok()
}

/// Appends a note to the report, both to its text and to its JSON.
fn append(json: &Path, note: &str) {
    let Some(mut report) = read(json) else { return };
    report.header_mut().notes.push(note.to_owned());
    let written = report.to_json().map_err(io::Error::from);
    let written = written.and_then(|text| files::replace(json, text.as_bytes()));
    let text = json.with_extension("txt");
    let appended = match files::is_regular(&text) {
        true => files::append(&text, format!("Note: {note}\n").as_bytes()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    for (path, outcome) in [(json, written), (&text, appended)] {
        if let Err(error) = outcome {
            say(&format!("cannot add the note to {}: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlprof_instrument::{LeftOut, SelectionBuilder};

    fn plan() -> Plan {
        let selection = SelectionBuilder::default().functions(["one::*"]).expect("a pattern");
        Plan {
            selection: selection.build(),
            tracks_allocations: false,
            frame_pointers: false,
            runtime: "/r/lib.so".into(),
            target: "/nowhere".into(),
            folder: "/nowhere".into(),
            chained_wrapper: None,
            rustdoc: None,
        }
    }

    fn record(plan: &Plan) -> CrateRecord {
        CrateRecord {
            crate_name: "one".into(),
            package: "one".into(),
            fingerprint: plan.fingerprint("one", true),
            seen: vec!["one::f".into()],
            ..CrateRecord::default()
        }
    }

    #[test]
    fn a_crate_that_does_not_compile_with_hooks_is_the_reason() {
        let plan = plan();
        let broken =
            CrateRecord { unspliced: Some("error: File exists\nmore".into()), ..record(&plan) };
        let reason = of_hooks(ResultKind::Functions, &plan, &[broken]);
        assert!(reason.contains("one is built without hooks"), "{reason}");
        assert!(reason.contains("(error: File exists)"), "{reason}");
    }

    #[test]
    fn omissions_are_the_reason_if_everything_was_omitted() {
        let plan = plan();
        let left_out = LeftOut {
            path: "one::f".into(),
            file: "src/lib.rs".into(),
            line: 1,
            reason: "const fn".into(),
        };
        let record = CrateRecord { left_out: vec![left_out], ..record(&plan) };
        let reason = of_hooks(ResultKind::Functions, &plan, &[record]);
        assert!(reason.contains("1 function was left out, and no other"), "{reason}");
        assert!(
            of_hooks(ResultKind::Functions, &plan, &[])
                .contains("does not contain the selected crates")
        );
    }
}
