//! Reports that are delivered together: what several of them found is said once.

use std::cell::{Cell, RefCell};

use super::console::Console;
use crate::finding::{Confidence, Finding};
use crate::findings::text;
use mlprof_events::OrderExt;

thread_local! {
    /// What the reports that this thread delivers together would have said on the console.
    static HELD_BACK: RefCell<Option<Vec<HeldBack>>> = const { RefCell::new(None) };

    /// Whether one of them has said what all ranks say together.
    static RANKS_ARE_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// A finding that is said when all reports are delivered.
struct HeldBack {
    finding: Finding,
    goes_to_stderr: bool,
}

/// Has `deliver` deliver several reports of one run. What they find is said below the last one, what saves
/// most first, and what more than one of them found is said by the one with the better evidence. Files
/// have all findings of their own report.
pub fn deliver_together(deliver: impl FnOnce()) {
    // Where the thread's own values are gone already, each report says its own.
    if with_held_back(|held_back| held_back.is_some()).unwrap_or(true) {
        return deliver();
    }
    /// Also if a profiler of the user's panics.
    struct Whole;
    impl Drop for Whole {
        fn drop(&mut self) {
            let _ = RANKS_ARE_TOLD.try_with(|told| told.set(false));
            let held_back = with_held_back(Option::take).flatten().unwrap_or_default();
            tell(held_back, |goes_to_stderr| match goes_to_stderr {
                true => Console::standard_error(),
                false => Console::standard(),
            });
        }
    }
    with_held_back(|held_back| *held_back = Some(Vec::new()));
    let _whole = Whole;
    deliver();
}

/// `None` in a thread whose own values are gone: reports of a whole run are delivered when the main thread has
/// ended.
fn with_held_back<R>(access: impl FnOnce(&mut Option<Vec<HeldBack>>) -> R) -> Option<R> {
    HELD_BACK.try_with(|held_back| access(&mut held_back.borrow_mut())).ok()
}

/// Has `tell` say what all ranks say together; of several reports that are delivered together below the first one
/// of which there is something to say.
pub(super) fn tell_ranks(tell: impl FnOnce() -> bool) {
    if RANKS_ARE_TOLD.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let are_told = tell() && with_held_back(|held_back| held_back.is_some()).unwrap_or(false);
    let _ = RANKS_ARE_TOLD.try_with(|told| told.set(are_told));
}

/// The lines that are to be printed below a report now: none while they are held back.
pub(super) fn lines(findings: &[Finding], goes_to_stderr: bool) -> String {
    let hold = |held_back: &mut Option<Vec<HeldBack>>| {
        let held_back = held_back.as_mut()?;
        let held = |finding: &Finding| HeldBack { finding: finding.clone(), goes_to_stderr };
        held_back.extend(findings.iter().map(held));
        Some(String::new())
    };
    with_held_back(hold).flatten().unwrap_or_else(|| text::brief(findings))
}

/// Returns the line above a report on the console where several profilers report together, whose
/// titles are the same; else nothing.
pub(super) fn heading(kind: Option<&str>) -> String {
    let are_several = with_held_back(|held_back| held_back.is_some()).unwrap_or(false);
    match kind.filter(|_| are_several) {
        Some(kind) => format!("===== {kind} =====\n"),
        None => String::new(),
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

/// Each finding once. Reports cover different parts of a run, so that shares say what saves most.
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

/// Whether both rules found the same thing in different numbers: of hooks of one type, which of them is
/// the longest may differ.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let owner = |finding: &Finding| {
        let action = finding.place.action.clone()?;
        Some(action.rsplit_once('.').map_or(action.clone(), |(owner, _)| owner.to_owned()))
    };
    one.rule == other.rule && owner(one) == owner(other)
}

/// How good it is: how sure, and then of how much time.
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

    /// A run of so many steps, in each of which a hook of a type took so long.
    fn hooked(steps: u64, hook: &str, seconds: f64) -> RenderedReport {
        let mut report = samples::steps(steps, 0.02);
        report.header.wall_seconds += seconds * steps as f64;
        report.actions.push(samples::row(hook, steps, seconds * steps as f64));
        RenderedReport::new("A table\n", Some(Report::Simple(report)))
    }

    fn findings(rendered: &RenderedReport) -> Vec<Finding> {
        rendered.report().map_or_else(Vec::new, |report| Rules::new().apply(report))
    }

    /// What is said of several reports.
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
    fn what_two_reports_found_is_said_once_by_the_one_that_saw_more() {
        let (start, end) = ("[Callback]A.on_train_batch_start", "[Callback]A.on_train_batch_end");
        let (few, many) = (hooked(50, start, 0.02), hooked(100, end, 0.01));
        for reports in [[few.clone(), many.clone()], [many, few]] {
            let said = said(&reports);
            assert_eq!(said.lines().count(), 1, "{said}");
            // Of the 100 steps.
            assert!(said.contains("[Callback]A held training up for 1.00 s (33.33 %)"), "{said}");
        }
    }

    #[test]
    fn what_only_one_found_is_said_and_what_saves_most_comes_first() {
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
            // The test's own output stays as it is.
            HELD_BACK.set(Some(Vec::new()));
        });
        assert_eq!(held_back, 2);
        for name in ["one.txt", "other.txt"] {
            let text = std::fs::read_to_string(directory.path().join(name)).expect("a file");
            assert!(text.contains("1. Hooks of [Callback]A"), "{text}");
        }
        // Later ones are said at once.
        let lines = lines(&findings(&report()), false);
        assert!(lines.starts_with("Finding: "), "{lines}");
    }

    /// As at the end of a program that `mlprof run` measures.
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
    fn who_panics_while_it_delivers_holds_nothing_back_for_ever() {
        let panicked = std::panic::catch_unwind(|| deliver_together(|| panic!("as asked for")));
        assert!(panicked.is_err() && HELD_BACK.with_borrow(Option::is_none));
    }
}
