use mlprof_core::report::LineCountRestriction;
use mlprof_core::report::simple::detailed::{paint, paint_rows};
use mlprof_core::report::simple::rows::{RowKey, Rows};
use mlprof_core::report::simple::{
    CpuStatisticsParts, DataWaitingParts, IoStatistics, IoStatisticsParts, ThreadStatisticsParts,
};
use mlprof_core::report::{SimpleReport, SimpleReportParts, StartupDurationsParts};

use crate::samples::{header, open, row, training_run};

fn position(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("{part:?} is missing in:\n{text}"))
}

fn assert_golden(text: &str, name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/detailed");
    let path = std::path::Path::new(folder).join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(folder).expect("the folder of golden files");
        std::fs::write(&path, text).expect("the golden file");
    }
    let expected = std::fs::read_to_string(&path).expect("the golden file");
    assert_eq!(text, expected, "if the change is meant, run again with UPDATE_GOLDEN=1");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(140), "only names may go beyond the page: {widest:?}");
}

#[test]
fn the_layout_is_as_agreed() {
    assert_golden(&paint(&training_run()), "training_run.txt");
}

/// Returns the same run with the operating system's counters.
fn counted_run() -> SimpleReport {
    let mut report = training_run();
    let threads = report.threads.iter_mut().flat_map(|thread| &mut thread.actions);
    for row in report.actions.iter_mut().chain(threads) {
        let (working, cores, gave) = match row.action.as_str() {
            "decode_sample" => (0.75, 3.25, 154_000),
            "[TrainingEpochLoop].train_dataloader_next" => (0.01, 4.0, 2_400),
            "save_checkpoint" => (0.125, 0.125, 12),
            // The counters were read just outside of the action, so they exceed its time.
            "on_fit_start" => (25.0, 25.0, 0),
            _ => (1.0, 1.0, 0),
        };
        row.cpu = Some(
            CpuStatisticsParts {
                thread_seconds: working * row.total_seconds,
                process_seconds: cores * row.total_seconds,
                voluntary_switches: gave,
                involuntary_switches: row.calls / 100,
            }
            .build(),
        );
    }
    report
}

#[test]
fn cpu_time_has_a_table_of_its_own() {
    let text = paint(&counted_run());
    assert_golden(&text, "counted_run.txt");
    let table = &text[position(&text, "\nCPU time, all threads, longest first\n")..];
    let cells = |action: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.ends_with(&format!("  {action}")));
        line.unwrap_or_else(|| panic!("no row {action} in {table}")).split_whitespace().collect()
    };
    // The action takes 10.464 ms and works for an eighth of it. No other thread works meanwhile.
    let expected = "10.46 ms 1.308 ms 9.156 ms 12.50 1.308 ms 0.12 12 0 save_checkpoint";
    assert_eq!(cells("save_checkpoint").join(" "), expected);
    let start = cells("on_fit_start").join(" ");
    assert!(start.starts_with("17.00 ns 425.0 ns 0.000 s 100.00 425.0 ns 25.00 "), "{start}");
    assert!(!paint(&training_run()).contains("CPU time"));
}

#[test]
fn rows_can_be_chosen_and_sorted() {
    let report = counted_run();
    let named = |label: &str| label.contains("step");
    let rows = Rows {
        sort_by: Some(RowKey::First),
        limit: LineCountRestriction::Lines(2),
        is_shown: Some(&named),
    };
    let text = paint_rows(&report, &rows);
    let all = &text[position(&text, "\nActions, all threads, by first\n")..];
    let shown: Vec<_> =
        all.lines().skip(4).take(2).filter_map(|line| line.split("  ").last()).collect();
    assert_eq!(shown, ["[TrainStep]DigitsCnn.training_step", "optimizer_step"]);
    position(all, "  6 other rows\n");
    let cpu = &all[position(all, "\nCPU time, all threads, in the order above\n")..];
    assert_eq!(cpu.lines().skip(4).take_while(|line| !line.starts_with("Including")).count(), 2);
    // The summary of the whole run remains.
    let whole = paint(&report);
    let summary = whole.lines().find(|line| line.contains("in actions of thread main"));
    position(&text, summary.expect("a summary"));
    let sum = |text: &str| {
        text.lines()
            .find(|line| line.contains("  Sum"))
            .map(|line| line.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(sum(&text), sum(&whole));
}

#[test]
fn rows_are_in_the_order_of_self_time_and_add_up() {
    let text = paint(&training_run());
    let main = &text[position(&text, "\nThread main\n")..];
    let rows: Vec<&str> = main.lines().skip(4).take_while(|line| !line.starts_with('─')).collect();
    let names: Vec<_> = rows.iter().map(|row| row.rsplit("  ").next().expect("a name")).collect();
    assert_eq!(
        names,
        [
            "[TrainStep]DigitsCnn.training_step",
            "optimizer_step",
            "run_training_batch",
            "[SanityCheck]validation_step",
            "[TrainingEpochLoop].train_dataloader_next",
            "save_checkpoint",
            "on_fit_start",
        ]
    );
    let share = |line: &str, word: usize| -> f64 {
        let cell = line.split_whitespace().nth(word).expect("a share");
        cell.trim_start_matches('(').parse().expect("a number")
    };
    // The columns are calls, total and self with their units, and then the share of self.
    let sum: f64 = rows.iter().map(|row| share(row, 5)).sum();
    let shown = share(main.lines().find(|line| line.ends_with("  Sum")).expect("a sum"), 3);
    assert!((sum - shown).abs() < 0.005 * rows.len() as f64, "{sum} and {shown}");
    let summary = text.lines().find(|line| line.contains("in actions of thread main"));
    assert_eq!(share(summary.expect("a summary"), 2), shown, "the summary says the same");
}

#[test]
fn one_call_has_no_others() {
    let text = paint(&training_run());
    let line = text.lines().find(|line| line.ends_with("  on_fit_start")).expect("the row");
    assert_eq!(line.matches("17.0").count(), 3, "total, self and first: {line}");
    assert_eq!(line.matches("-   ").count(), 5, "mean, min, p50, p95 and max: {line}");
}

#[test]
fn a_single_thread_is_not_shown_twice() {
    let mut report = training_run();
    report.threads.retain(|thread| thread.thread == "main");
    report.actions.clone_from(&report.threads[0].actions);
    let text = paint(&report);
    assert!(!text.contains("\nThread main"), "{text}");
    assert_eq!(text.matches("optimizer_step").count(), 1, "{text}");
    assert!(!text.contains("in parallel"), "{text}");
}

#[test]
fn a_thousand_threads_are_counted_not_listed() {
    let thread = |number: usize| {
        ThreadStatisticsParts {
            thread: format!("thread-{number}"),
            threads: 1,
            actions: vec![row("work", &[number as f64 * 1e-3])],
        }
        .build()
    };
    let mut report = training_run();
    report.threads = (1..=1_000).map(thread).collect();
    let text = paint(&report);
    assert_eq!(text.matches("\nThread thread-").count(), 16);
    assert!(position(&text, "\nThread thread-1000\n") < position(&text, "\nThread thread-999\n"));
    position(
        &text,
        "\n984 more threads, 485 s of self time in total, are only in the JSON report.",
    );
}

#[test]
fn ranks_open_actions_and_notes_are_said() {
    let mut report = training_run();
    (report.header.rank, report.header.world_size) = (3, 8);
    report.open = vec![open("run_training_epoch", "main", 12.5)];
    report.header.notes = vec!["2 stops without a start".into()];
    let text = paint(&report);
    assert!(text.starts_with("FIT Profiler Report (rank 3 of 8)\n"), "{text}");
    position(&text, "outside or in running actions\n");
    assert!(
        text.ends_with(
            "\n\nStill running: run_training_epoch on main for 12.500 s\n\
             Note: 2 stops without a start\n"
        ),
        "{text}"
    );
}

#[test]
fn nothing_measured_is_a_report_too() {
    let header = header(None, 0.0);
    let empty = SimpleReportParts {
        header,
        actions: vec![],
        threads: vec![],
        open: vec![],
        data_waiting: None,
        device_regions: vec![],
        step_series: Vec::new(),
        findings: vec![],
    }
    .build();
    let text = paint(&empty);
    assert!(text.starts_with("Profiler Report\n\nWall time   0.00 s since 2026-01-02"), "{text}");
    assert!(text.ends_with("\nNo action has ended.\n"), "{text}");
}

#[test]
fn start_up_is_a_line_at_the_top_and_no_row() {
    let mut report = training_run();
    let without = paint(&report);
    report.actions.push(row("process_startup", &[2.5]));
    report.actions.push(row("process_startup_before_main", &[1.25]));
    report.header.startup =
        Some(StartupDurationsParts { total_seconds: 2.5, before_main_seconds: Some(1.25) }.build());
    let line = "Start-up    2.50 s from the start of the process to its first action, including 1.25 s \
                before main; not part of the wall time\n";
    assert_eq!(paint(&report).replace(line, ""), without);
    assert!(paint(&report).contains(line));
    report.header.startup =
        Some(StartupDurationsParts { total_seconds: 2.5, before_main_seconds: None }.build());
    position(&paint(&report), "\nStart-up    2.50 s from main to the first action\n");
}

#[test]
fn waiting_for_data_is_said() {
    let mut report = training_run();
    let waiting =
        DataWaitingParts { waiting_seconds: 1.234, epoch_seconds: Some(20.06), share: 0.0615 }
            .build();
    report.data_waiting = Some(waiting);
    position(
        &paint(&report),
        "\nWaiting for data: 1.23 s of 20.1 s in training epochs (6.15 %)\n\nActions",
    );
    report.data_waiting = Some(DataWaitingParts { epoch_seconds: None, ..waiting.into() }.build());
    position(&paint(&report), "\nWaiting for data: 1.23 s of 13.4 s wall time (6.15 %)\n");
}

#[test]
fn bytes_have_a_table_of_their_own() {
    let mut report = training_run();
    let io = |read_bytes, written_bytes| {
        Some(
            IoStatisticsParts { read_bytes, written_bytes, ..IoStatistics::default().into() }
                .build(),
        )
    };
    for row in &mut report.actions {
        row.io = match row.action.as_str() {
            "decode_sample" => io(5 << 30, 0),
            "save_checkpoint" => Some(
                IoStatisticsParts {
                    storage_written_bytes: 4_096,
                    storage_read_bytes: 8_192,
                    ..io(17, 1_000).expect("bytes").into()
                }
                .build(),
            ),
            _ => io(0, 0),
        };
    }
    let text = paint(&report);
    let table =
        &text[position(&text, "\nBytes read and written, all threads, most bytes first\n")..];
    let lines: Vec<Vec<&str>> =
        table.lines().skip(2).take(4).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "Read Written From storage To storage Action");
    assert_eq!(lines[2].join(" "), "5.00 GiB 0 B 0 B 0 B decode_sample");
    assert_eq!(lines[3].join(" "), "17 B 1000 B 8.00 KiB 4.00 KiB save_checkpoint");
    report.actions.iter_mut().for_each(|row| row.io = io(0, 0));
    position(&paint(&report), "\nNo action read or wrote anything.\n");
}
