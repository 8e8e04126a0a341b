//! Deduplication of findings when several reports are delivered together.

use std::cell::{Cell, RefCell};

use super::console::Console;
use crate::finding::{Confidence, Finding};
use crate::findings::text;
use mlprof_events::OrderExt;

thread_local! {
    /// Findings of the reports that this thread delivers together. `None` if no such delivery is in
    /// progress.
    static HELD_BACK: RefCell<Option<Vec<HeldBack>>> = const { RefCell::new(None) };

    /// `true` if one of these reports has already printed the summary of all ranks.
    static RANKS_ARE_TOLD: Cell<bool> = const { Cell::new(false) };

    /// `true` if one of these reports has already printed its verdict.
    static HAS_VERDICT: Cell<bool> = const { Cell::new(false) };
}

/// A finding that is printed after all reports are delivered.
struct HeldBack {
    finding: Finding,
    goes_to_stderr: bool,
}

/// Runs `deliver`, which delivers several reports of one run. The findings are printed below the
/// last report, in descending order of savings. If several reports contain the same finding, the
/// one with the better evidence is printed. Files contain all findings of their own report.
pub fn deliver_together(deliver: impl FnOnce()) {
    // If the thread-local values are already destroyed, each report prints its own findings.
    if with_held_back(|held_back| held_back.is_some()).unwrap_or(true) {
        return deliver();
    }
    /// Drop guard that prints the pending findings, even if a user's profiler panics.
    struct FlushGuard;
    impl Drop for FlushGuard {
        fn drop(&mut self) {
            let _ = RANKS_ARE_TOLD.try_with(|told| told.set(false));
            let _ = HAS_VERDICT.try_with(|printed| printed.set(false));
            let held_back = with_held_back(Option::take).flatten().unwrap_or_default();
            tell(held_back, |goes_to_stderr| match goes_to_stderr {
                true => Console::standard_error(),
                false => Console::standard(),
            });
        }
    }
    with_held_back(|held_back| *held_back = Some(Vec::new()));
    let _whole = FlushGuard;
    deliver();
}

/// Accesses the pending findings. Returns `None` if the thread-local value is already destroyed.
/// Reports of a whole run are delivered after the end of the main thread.
fn with_held_back<R>(access: impl FnOnce(&mut Option<Vec<HeldBack>>) -> R) -> Option<R> {
    HELD_BACK.try_with(|held_back| access(&mut held_back.borrow_mut())).ok()
}

/// Runs `tell` to print the summary of all ranks. Among reports that are delivered together, only
/// the first one with a summary prints it.
pub(super) fn tell_ranks(tell: impl FnOnce() -> bool) {
    if RANKS_ARE_TOLD.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let are_told = tell() && with_held_back(|held_back| held_back.is_some()).unwrap_or(false);
    let _ = RANKS_ARE_TOLD.try_with(|told| told.set(are_told));
}

/// Returns the finding lines to print below a report. Returns an empty string while findings are
/// deferred.
pub(super) fn lines(findings: &[Finding], goes_to_stderr: bool) -> String {
    let hold = |held_back: &mut Option<Vec<HeldBack>>| {
        let held_back = held_back.as_mut()?;
        let held = |finding: &Finding| HeldBack { finding: finding.clone(), goes_to_stderr };
        held_back.extend(findings.iter().map(held));
        Some(String::new())
    };
    with_held_back(hold).flatten().unwrap_or_else(|| text::brief(findings))
}

/// Returns the lines above a report on the console. If several profilers report together, their
/// titles are equal, so a heading names the kind. Only the first of them with a verdict shows it.
pub(super) fn heading(kind: Option<&str>, verdict: &str) -> String {
    let are_several = with_held_back(|held_back| held_back.is_some()).unwrap_or(false);
    if !are_several {
        return verdict.to_owned();
    }
    let is_shown = HAS_VERDICT.try_with(|printed| {
        let is_first = !printed.get();
        printed.set(printed.get() || !verdict.is_empty());
        is_first
    });
    let verdict = if is_shown.unwrap_or(true) { verdict } else { "" };
    match kind {
        Some(kind) => format!("{verdict}===== {kind} =====\n"),
        None => verdict.to_owned(),
    }
}

fn tell<'streams>(held_back: Vec<HeldBack>, console: impl Fn(bool) -> Console<'streams>) {
    let told = once(held_back);
    for goes_to_stderr in [false, true] {
        let own = told.iter().filter(|held| held.goes_to_stderr == goes_to_stderr);
        let findings: Vec<_> = own.map(|held| held.finding.clone()).collect();
        let lines = text::brief(&findings);
        if !lines.is_empty() {
            console(goes_to_stderr).print(&lines);
        }
    }
}

/// Removes duplicate findings and orders the others by their share. Reports cover different parts
/// of a run, so shares are comparable and seconds are not.
fn once(held_back: Vec<HeldBack>) -> Vec<HeldBack> {
    let mut told: Vec<HeldBack> = Vec::new();
    for held in held_back {
        match told.iter_mut().find(|other| is_same(&other.finding, &held.finding)) {
            Some(other) if evidence(&held.finding) > evidence(&other.finding) => *other = held,
            Some(_) => {}
            None => told.push(held),
        }
    }
    let share = |held: &HeldBack| held.finding.cost.share;
    told.order_by(|one, other| share(other).total_cmp(&share(one)));
    told
}

/// Returns `true` if two findings of one rule refer to the same type of hook. The longest hook of
/// the type may differ between reports.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let owner = |finding: &Finding| {
        let action = finding.place.action.clone()?;
        Some(action.rsplit_once('.').map_or(action.clone(), |(owner, _)| owner.to_owned()))
    };
    one.rule == other.rule && owner(one) == owner(other)
}

/// Returns the quality of the evidence: the confidence, and then the covered time in seconds.
fn evidence(finding: &Finding) -> (Confidence, f64) {
    let cost = &finding.cost;
    let covered = if cost.share > 0.0 { cost.seconds / cost.share } else { 0.0 };
    (finding.confidence, covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use crate::findings::{Rules, samples};
    use crate::output::{Output, RenderedReport};

    /// Builds a report with `steps` steps, in which a hook takes `seconds` per step.
    fn hooked(steps: u64, hook: &str, seconds: f64) -> RenderedReport {
        let mut report = samples::steps(steps, 0.02);
        report.header.wall_seconds += seconds * steps as f64;
        report.actions.push(samples::row(hook, steps, seconds * steps as f64));
        RenderedReport::new("A table\n", Some(Report::Simple(report)))
    }

    fn findings(rendered: &RenderedReport) -> Vec<Finding> {
        rendered.report().map_or_else(Vec::new, |report| Rules::new().apply(report))
    }

    /// Returns the console output for several reports.
    fn said(reports: &[RenderedReport]) -> String {
        let held_back = reports.iter().flat_map(findings);
        let held_back = held_back.map(|finding| HeldBack { finding, goes_to_stderr: false });
        let printed = RefCell::new(Vec::new());
        tell(held_back.collect(), |_| Console::new(Shared(&printed), Shared(&printed)));
        String::from_utf8(printed.into_inner()).expect("text")
    }

    struct Shared<'buffer>(&'buffer RefCell<Vec<u8>>);

    impl std::io::Write for Shared<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_finding_of_two_reports_appears_in_the_larger_one() {
        let (start, end) = ("[Callback]A.on_train_batch_start", "[Callback]A.on_train_batch_end");
        let (few, many) = (hooked(50, start, 0.02), hooked(100, end, 0.01));
        for reports in [[few.clone(), many.clone()], [many, few]] {
            let said = said(&reports);
            assert_eq!(said.lines().count(), 1, "{said}");
            // The value comes from the report with 100 steps.
            assert!(said.contains("[Callback]A delayed training by 1.00 s (33.33 %)"), "{said}");
        }
    }

    #[test]
    fn single_findings_appear_in_order_of_saving() {
        let one = hooked(100, "[Callback]A.on_train_batch_end", 0.01);
        let other = hooked(50, "[Callback]B.on_train_batch_end", 0.03);
        let said = said(&[one, other]);
        let of = |owner| said.find(owner).unwrap_or_else(|| panic!("{owner} is not in {said}"));
        assert!(of("[Callback]B") < of("[Callback]A"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }

    #[test]
    fn nothing_is_said_twice_and_files_have_their_own() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let report = || hooked(100, "[Callback]A.on_train_batch_end", 0.01);
        let output = |name: &str| Output::new().dirpath(directory.path()).filename(name);
        let mut held_back = 0;
        deliver_together(|| {
            for name in ["one", "other"] {
                report().deliver(Some(&output(name).always_print(true)));
            }
            held_back = HELD_BACK.with_borrow(|held_back| held_back.as_ref().map_or(0, Vec::len));
            // The pending findings are dropped, so that they do not appear in the test's own
            // output.
            HELD_BACK.set(Some(Vec::new()));
        });
        assert_eq!(held_back, 2);
        for name in ["one.txt", "other.txt"] {
            let text = std::fs::read_to_string(directory.path().join(name)).expect("a file");
            assert!(text.contains("1. Hooks of [Callback]A"), "{text}");
        }
        // Findings of later reports are printed immediately.
        let lines = lines(&findings(&report()), false);
        assert!(lines.starts_with("Finding: "), "{lines}");
    }

    /// Checks the state at the end of a program that `mlprof run` measures.
    #[test]
    fn a_thread_whose_own_values_are_gone_says_everything_at_once() {
        struct AtTheEnd(std::sync::mpsc::Sender<(bool, String)>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                let found = findings(&hooked(100, "[Callback]A.on_train_batch_end", 0.01));
                let mut said = String::new();
                deliver_together(|| said = lines(&found, false));
                let is_gone = HELD_BACK.try_with(|_| ()).is_err();
                self.0.send((is_gone, said)).expect("the test waits");
            }
        }
        thread_local! {
            static FIRST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
            static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            FIRST.set(Some(AtTheEnd(sender.clone())));
            assert_eq!(lines(&[], false), "");
            LAST.set(Some(AtTheEnd(sender)));
        });
        let ends: Vec<_> = receiver.iter().collect();
        let gone = ends.iter().find(|(is_gone, _)| *is_gone).expect("one is before the other");
        assert!(gone.1.starts_with("Finding: "), "{gone:?}");
    }

    #[test]
    fn a_panic_during_delivery_releases_pending_findings() {
        let panicked = std::panic::catch_unwind(|| deliver_together(|| panic!("as asked for")));
        assert!(panicked.is_err() && HELD_BACK.with_borrow(Option::is_none));
    }
}
