//! Summary of all ranks of a run, printed below the report of rank 0.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use super::Output;
use crate::Report;
use crate::number::duration;
use crate::ranks::{held_up, numbers, stages_of_reports, stragglers};
use mlprof_events::clock::{self, Stopwatch};
use mlprof_events::{Stage, files};

/// Default time that rank 0 waits for the reports of the other ranks.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Maximum size of a rank's report, in bytes.
const LONGEST_REPORT: u64 = 64 << 20;
/// Maximum time for reading existing reports, in addition to the waiting time.
const READING: Duration = Duration::from_secs(4);
/// Maximum number of ranks. Reading more reports would take too long at the end of a run.
const MOST_RANKS: u32 = 256;

impl Output {
    /// Sets the time that rank 0 waits for the reports of the other ranks when its training report
    /// is delivered. The default is one second, and [`Duration::ZERO`] disables the summary. The
    /// summary shows the delays in each step and the rank that the others wait for. It requires
    /// [`json`](Self::json), a directory that all ranks share, and steps in the report.
    ///
    /// If no other rank has written a report by then, the summary appears only if this method was
    /// called. For example, this applies if only rank 0 is profiled.
    #[must_use]
    pub fn wait_for_ranks(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Waits for the reports of the other ranks and returns the summary to print below `own`, the
    /// report of rank 0.
    pub(super) fn ranks_text(&self, own: &Report) -> Option<String> {
        let run = self.run();
        let patience = self.patience.unwrap_or(PATIENCE);
        self.directory()?;
        if run.rank != 0
            || run.world_size < 2
            || !self.writes_json
            || patience.is_zero()
            || !clock::IS_THERE
        {
            return None;
        }
        own.step_series().first()?;
        // Tests and predictions often run on one rank only, which would wait for the others in
        // vain.
        if !matches!(own.header().stage, None | Some(Stage::Fit)) {
            return None;
        }
        if run.world_size > MOST_RANKS {
            let more = format!("\nMore than {MOST_RANKS} ranks are not merged here: ");
            return self.patience.map(|_| more + "run `mlprof report`.\n");
        }
        // A file that was not a report of this run is read again after it changes.
        let mut written: BTreeMap<u32, Option<SystemTime>> = BTreeMap::new();
        let mut missing: Vec<u32> = (1..run.world_size).collect();
        let mut others = Vec::new();
        let began = Stopwatch::start();
        loop {
            missing.retain(|rank| {
                if began.elapsed() > patience + READING {
                    return true;
                }
                let other = run.clone().with_rank(*rank, run.world_size);
                let path = self.part_path(own.header().stage, &other, "json");
                let time =
                    |path: &PathBuf| std::fs::metadata(path).and_then(|it| it.modified()).ok();
                let now = path.as_ref().and_then(time);
                if now.is_some() && written.insert(*rank, now) == Some(now) {
                    return true;
                }
                let report = path.and_then(|path| report_of(&path, *rank, own));
                let is_missing = report.is_none();
                others.extend(report);
                is_missing
            });
            if missing.is_empty() || began.elapsed() >= patience {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        if others.is_empty() && self.patience.is_none() {
            return None;
        }
        Some(text(own, &others, &missing, patience))
    }
}

/// Returns the report of a rank, if the file exists and belongs to the same run as `own`.
fn report_of(path: &Path, rank: u32, own: &Report) -> Option<Report> {
    let report = Report::from_json(&files::read_text(path, LONGEST_REPORT).ok()?).ok()?;
    let (header, own) = (report.header(), own.header());
    let is_same =
        (header.rank, header.world_size, header.stage) == (rank, own.world_size, own.stage);
    // A report of an earlier run ended before this run began.
    let ran = Duration::try_from_secs_f64(header.wall_seconds).ok()?;
    let ended = header.started_at.checked_add(ran)?;
    let is_of_this_run = ended >= own.started_at;
    (is_same && is_of_this_run).then_some(report)
}

fn text(own: &Report, others: &[Report], missing: &[u32], patience: Duration) -> String {
    let stage = own.header().stage.unwrap_or(Stage::Fit);
    let there = 1 + others.len();
    let mut text = format!("\n{} of {} ranks merged, {stage}\n", there, own.header().world_size);
    if !missing.is_empty() {
        let patience = duration(patience.as_secs_f64());
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "There is no report of {} after {patience}; `mlprof report` merges later reports.",
            numbers(missing)
        );
    }
    let all: Vec<&Report> = std::iter::once(own).chain(others).collect();
    match stages_of_reports(&all) {
        _ if others.is_empty() => {}
        Some(table) if !table.steps.is_empty() && !table.has_waits() => text.push_str(
            "The ranks cannot be compared, because the reports have no action in which ranks wait \
             for each other: hold `profile_collective!(\"all_reduce_gradients\", step)` around \
             it.\n",
        ),
        Some(table) if !table.steps.is_empty() => {
            text.push_str(&held_up(
                table.steps.len() as u64,
                &table.exposed(),
                &stragglers(&table),
            ));
        }
        _ => text.push_str(
            "The ranks cannot be compared, because no step is in all of their reports.\n",
        ),
    }
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs;

    use super::*;
    use crate::findings::samples::rank;
    use crate::output::{RenderedReport, deliver_together};
    use mlprof_events::RunContext;

    const WORLD: u32 = 3;

    fn report(number: u32, data_seconds: f64) -> Report {
        Report::Simple(rank(number, WORLD, data_seconds))
    }

    fn output(folder: &Path, rank: u32) -> Output {
        let output = Output::new().dirpath(folder).filename("run").json(true);
        output.setup(Stage::Fit, &RunContext::default().with_rank(rank, WORLD));
        output
    }

    fn deliver(output: &Output, report: Report) {
        RenderedReport::new("A table\n", Some(report)).deliver(Some(output));
    }

    fn text(folder: &Path, rank: u32) -> String {
        fs::read_to_string(folder.join(format!("fit-run-{rank}.txt"))).expect("a report")
    }

    #[test]
    fn the_report_of_rank_0_ends_with_what_all_ranks_say_together() {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in [1, 2] {
            let data_seconds = if rank == 2 { 0.031 } else { 0.001 };
            deliver(&output(folder.path(), rank), report(rank, data_seconds));
            let own = text(folder.path(), rank);
            assert!(own.contains("A table") && !own.contains("merged"), "{own}");
        }
        deliver(&output(folder.path(), 0), report(0, 0.001));
        let text = text(folder.path(), 0);
        assert!(text.contains("3 of 3 ranks merged, fit\n"), "{text}");
        assert!(
            text.contains("Rank 2 is slow") && text.contains("waiting for data, 30.0 ms"),
            "{text}"
        );
    }

    /// Checks that a report that arrives during the wait is used, and that a missing rank is named.
    #[test]
    fn rank_0_waits_for_the_others_and_says_who_is_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            deliver(&output(&path, 2), report(2, 0.001));
        });
        let first = output(folder.path(), 0).wait_for_ranks(Duration::from_millis(500));
        deliver(&first, report(0, 0.001));
        late.join().expect("delivered");
        let said = text(folder.path(), 0);
        assert!(
            said.contains("2 of 3 ranks merged") && said.contains("report of rank 1 after"),
            "{said}"
        );
        assert!(said.contains("No rank is slow."), "{said}");
    }

    #[test]
    fn files_of_an_earlier_run_are_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in [1, 2] {
            let mut old = report(rank, 0.001);
            let header = old.header_mut();
            header.started_at -= Duration::from_secs_f64(header.wall_seconds + 1.0);
            deliver(&output(folder.path(), rank), old);
        }
        let patience = Duration::from_millis(1);
        deliver(&output(folder.path(), 0).wait_for_ranks(patience), report(0, 0.001));
        let said = text(folder.path(), 0);
        assert!(
            said.contains("1 of 3 ranks") && said.contains("no report of ranks 1, 2"),
            "{said}"
        );
    }

    /// Checks that arbitrary files in place of a rank's report are ignored. Another user or a
    /// failed run may have left them.
    #[test]
    fn files_that_are_not_reports_neither_stop_nor_end_the_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut overflows = report(1, 0.001);
        overflows.header_mut().wall_seconds = 1e17;
        deliver(&output(folder.path(), 1), overflows);
        let pipe = folder.path().join("fit-run-2.json");
        #[cfg(unix)]
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
        #[cfg(not(unix))]
        fs::create_dir(&pipe).expect("made");
        let patience = Duration::from_millis(1);
        deliver(&output(folder.path(), 0).wait_for_ranks(patience), report(0, 0.001));
        let said = text(folder.path(), 0);
        assert!(said.contains("A table") && said.contains("no report of ranks 1, 2"), "{said}");
        // This file exceeds the maximum size of a report.
        fs::remove_file(&pipe).or_else(|_| fs::remove_dir(&pipe)).expect("removed");
        fs::File::create(&pipe).and_then(|it| it.set_len(LONGEST_REPORT + 1)).expect("made");
        deliver(&output(folder.path(), 0).wait_for_ranks(patience), report(0, 0.001));
        assert_eq!(text(folder.path(), 0).matches("no report of ranks 1, 2").count(), 2);
    }

    #[test]
    fn nothing_is_said_where_nobody_else_measures_nor_twice_nor_to_who_does_not_want_it() {
        let folder = tempfile::tempdir().expect("a folder");
        deliver(&output(folder.path(), 0), report(0, 0.001));
        assert!(!text(folder.path(), 0).contains("merged"));
        for rank in [1, 2] {
            deliver(&output(folder.path(), rank), report(rank, 0.001));
        }
        deliver(&output(folder.path(), 0).wait_for_ranks(Duration::ZERO), report(0, 0.001));
        assert!(!text(folder.path(), 0).contains("merged"));
        let output = output(folder.path(), 0);
        deliver_together(|| (0..2).for_each(|_| deliver(&output, report(0, 0.001))));
        assert_eq!(text(folder.path(), 0).matches("ranks merged").count(), 1);
        deliver_together(|| deliver(&output, report(0, 0.001)));
        assert_eq!(text(folder.path(), 0).matches("ranks merged").count(), 2);
    }

    #[test]
    fn of_a_test_which_rank_0_runs_alone_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = output(folder.path(), 0).wait_for_ranks(Duration::from_millis(50));
        own.setup(Stage::Test, &RunContext::default().with_rank(0, WORLD));
        let mut of_test = report(0, 0.001);
        of_test.header_mut().stage = Some(Stage::Test);
        deliver(&own, of_test);
        let said = fs::read_to_string(folder.path().join("test-run-0.txt")).expect("a report");
        assert!(!said.contains("merged"), "{said}");
    }

    #[test]
    fn without_steps_of_its_own_it_has_nothing_to_put_beside_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = output(folder.path(), 0).wait_for_ranks(Duration::from_millis(50));
        let Report::Simple(mut without) = report(0, 0.001) else { panic!("as made") };
        without.step_series.clear();
        deliver(&own, Report::Simple(without));
        assert!(!text(folder.path(), 0).contains("merged"));
    }

    #[test]
    fn where_no_wait_for_others_is_known_it_says_how_to_show_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in [2, 1, 0] {
            let mut own = report(rank, 0.001);
            let Report::Simple(simple) = &mut own else { panic!("as made") };
            simple.step_series[0]
                .entries
                .iter_mut()
                .for_each(|entry| entry.collective_seconds = 0.0);
            deliver(&output(folder.path(), rank), own);
        }
        let said = text(folder.path(), 0);
        assert!(said.contains("profile_collective!") && !said.contains("slow\n"), "{said}");
    }
}
