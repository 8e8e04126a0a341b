use super::log::{StepLog, StepParts, StepTicks};
use super::*;

fn step(number: u64, elapsed: u64) -> StepTicks {
    let parts = StepParts { data: elapsed / 2, ..StepParts::default() };
    StepTicks { number, started: 10 * number, elapsed, parts, slowest: None }
}

fn series(steps: impl IntoIterator<Item = StepTicks>) -> StepSeries {
    let mut log = StepLog::default();
    steps.into_iter().for_each(|step| log.add(step));
    log.series(Some(Stage::Fit), 0, |ticks| ticks as f64)
}

#[test]
fn each_step_is_there_as_long_as_there_is_room() {
    let series = series((0..5).map(|number| step(number, 4 + number)));
    assert_eq!((series.steps, series.entries.len()), (5, 5));
    let last = &series.entries[4];
    assert_eq!((last.number, last.count, last.longest), (4, 1, None));
    assert_eq!((last.start_seconds, last.seconds), (40.0, 8.0));
    assert_eq!((last.data_seconds, last.other_seconds), (4.0, 4.0));
}

#[test]
fn neighbours_share_a_place_and_the_slow_one_is_still_seen() {
    let most = MOST_ENTRIES as u64;
    for all in [most, most + 1, most + 2, 2 * most, 2 * most + 1, 4 * most + 3, 9 * most + 1] {
        let slow = all - 2;
        let steps = (0..all).map(|number| step(number, if number == slow { 1000 } else { 6 }));
        let series = series(steps);
        assert_eq!(series.steps, all);
        let entries = &series.entries;
        assert!(entries.len() <= MOST_ENTRIES && entries.len() >= MOST_ENTRIES / 2, "{all}");
        let counts: u64 = entries.iter().map(|entry| entry.count).sum();
        assert_eq!(counts, all, "none is lost");
        let seconds: f64 = entries.iter().map(|entry| entry.seconds).sum();
        assert_eq!(seconds, 6.0 * (all - 1) as f64 + 1000.0);
        for pair in entries.windows(2) {
            assert_eq!(pair[0].number + pair[0].count, pair[1].number, "in order, without gaps");
        }
        let longest = entries.iter().map(StepEntry::longest);
        let longest = longest.max_by(|one, other| one.seconds.total_cmp(&other.seconds));
        assert_eq!(longest, Some(LongestStep { number: slow, seconds: 1000.0 }), "of {all}");
    }
}

#[test]
fn quantiles_count_steps_and_not_entries() {
    let many = 8 * MOST_ENTRIES as u64;
    let series = series((0..many).map(|number| step(number, if number == 7 { 900 } else { 10 })));
    assert_eq!(series.quantile(0.5), Some(10.0));
    assert_eq!(series.quantile(0.9999), Some(10.0));
    assert_eq!(series.quantile(1.0), Some(900.0));
    assert_eq!(StepSeries::default().quantile(0.5), None);
}

#[test]
fn missing_values_are_omitted_in_json_and_read_back() {
    let whole = series([step(0, 4)]);
    let json = serde_json::to_string(&whole).expect("JSON");
    assert!(!json.contains("forward_seconds") && !json.contains("count"), "{json}");
    assert_eq!(serde_json::from_str::<StepSeries>(&json).expect("a series"), whole);
}

/// Checks the quantiles of single steps when entries are shared. Every tenth step takes twice as
/// long.
#[test]
fn quantiles_of_long_runs_are_those_of_single_steps() {
    let tenth =
        |number: u64| step(number, if number % 10 == 4 { 2_000 } else { 995 + number % 11 });
    for all in [4_000, 4_097, 30_000, 100_000] {
        let series = series((0..all).map(tenth));
        let about = |share: f64, expected: f64| {
            let found = series.quantile(share).expect("steps");
            assert!((found / expected - 1.0).abs() < 0.016, "{share} of {all}: {found}");
        };
        about(0.0, 995.0);
        about(0.5, 1_000.0);
        about(0.85, 1_000.0);
        about(0.95, 2_000.0);
        assert_eq!(series.quantile(1.0), Some(2_000.0));
        assert_eq!(series.durations.is_some(), all > MOST_ENTRIES as u64);
        let durations = series.durations.clone().unwrap_or_default();
        let counted: u64 = durations.seconds.iter().map(|bucket| bucket.count).sum();
        assert!(counted == 0 || counted == all, "{counted} of {all}");
        // A page shows fewer entries with the same quantiles.
        let short = series.shortened(100);
        assert!(short.entries.len() <= 100, "{}", short.entries.len());
        let (one, other) = (short.quantile(0.5), series.quantile(0.5));
        assert!((one.expect("it") / other.expect("it") - 1.0).abs() < 0.016, "{one:?} {other:?}");
        let data = short.durations.as_ref().map(|durations| durations.part(0));
        let half = data.and_then(|data| durations::quantile(data, 0.5)).expect("parts, too");
        assert!((half / 500.0 - 1.0).abs() < 0.016, "{half}");
    }
}

#[test]
fn histograms_are_read_again_and_old_reports_have_none() {
    let long = series((0..5_000).map(|number| step(number, 10)));
    let json = serde_json::to_string(&long).expect("JSON");
    assert_eq!(serde_json::from_str::<StepSeries>(&json).expect("a series"), long);
    let short = series([step(0, 4)]);
    let json = serde_json::to_string(&short).expect("JSON");
    assert!(!json.contains("durations"), "{json}");
}
