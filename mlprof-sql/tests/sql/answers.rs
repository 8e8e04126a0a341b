//! Comparison of query results with those of `mlprof analyze`.

use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_analysis::{Analysis, Trace};
use serde_json::Value;

use crate::rank_tables::ranks;
use crate::{asked, integer, word};

fn analysed(traces: &[Trace]) -> Ranks {
    let facts = traces.iter().enumerate();
    let facts: Vec<_> = facts.map(|(at, trace)| RankFacts::of(at.to_string(), trace)).collect();
    Ranks::of(&facts).expect("one of each")
}

/// Returns the median. For an even number of values, it is the rounded mean of the two middle
/// values.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (low + high + 1) / 2
}

#[test]
fn a_slow_rank_is_named_as_analyze_names_it() {
    for (count, late) in [(2, 9_000), (4, 9_000), (5, 4_000), (4, 0), (5, 800)] {
        let folder = tempfile::tempdir().expect("a folder");
        let traces = ranks(folder.path(), count, 6, (1, late));
        let expected = analysed(&traces);
        let expected_slow = expected.stragglers.iter().map(|slow| {
            let numbers = [slow.own_ns, slow.usual_ns, slow.stage_longer_ns, slow.longer_ns];
            (i64::from(slow.rank), slow.stage.clone(), numbers)
        });
        let expected_slow: Vec<_> = expected_slow.collect();
        // The expected result must not be empty, otherwise an empty query result would also pass.
        assert_eq!(
            expected_slow.len(),
            usize::from(late >= 4_000),
            "{count} ranks, {late} µs late"
        );
        let found = asked(folder.path(), "straggler");
        let found: Vec<_> = found
            .iter()
            .map(|row| {
                let columns = ["own_ns", "usual_ns", "phase_longer_ns", "longer_ns"];
                let numbers = columns.map(|column| integer(row, column));
                (integer(row, "rank"), word(row, "phase").to_owned(), numbers)
            })
            .collect();
        assert_eq!(found, expected_slow, "{count} ranks, {late} µs late");
        let exposed = asked(folder.path(), "exposed");
        assert_eq!(exposed.len(), expected.exposed.len());
        for (row, part) in exposed.iter().zip(&expected.exposed) {
            assert_eq!(word(row, "phase"), part.stage.name);
            assert_eq!(integer(row, "exposed_ns"), part.exposed_ns, "{row:?}");
            let last = row.get("last_rank").and_then(Value::as_u64).map(|rank| rank as u32);
            let times = row.get("times_last").and_then(Value::as_u64).map(|times| times as usize);
            assert_eq!(last.zip(times), part.last, "{row:?}");
        }
    }
}

/// Checks ranks with different numbers of steps, of which only common steps count. A single rank is
/// never slow.
#[test]
fn only_steps_that_all_ranks_have_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut traces = ranks(folder.path(), 2, 6, (1, 9_000));
    let shorter = ranks(folder.path(), 2, 4, (1, 9_000));
    // The first cycle of rank 0 is the shorter one.
    for trace in &traces[1..] {
        mlprof_analysis::columns::write(trace, folder.path()).expect("tables");
    }
    traces[0] = shorter.into_iter().next().expect("four traces");
    let expected = analysed(&traces);
    assert_eq!(expected.common_steps, 10);
    let sum: i64 =
        asked(folder.path(), "exposed").iter().map(|row| integer(row, "exposed_ns")).sum();
    assert_eq!(sum, expected.length_ns);
    assert_eq!(
        integer(&asked(folder.path(), "straggler")[0], "longer_ns"),
        expected.stragglers[0].longer_ns
    );
    let alone = tempfile::tempdir().expect("a folder");
    ranks(alone.path(), 1, 6, (0, 9_000));
    assert!(asked(alone.path(), "straggler").is_empty());
}

#[test]
fn devices_are_answered_for_as_analyze_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = ranks(folder.path(), 3, 6, (1, 5_000));
    let answers: Vec<_> = traces
        .iter()
        .map(|trace| ((i64::from(trace.info.rank), trace.info.cycle as i64), Analysis::of(trace)))
        .collect();
    let of = |row: &crate::Row| {
        let key = (integer(row, "rank"), integer(row, "cycle"));
        let found = answers.iter().find(|(known, _)| *known == key);
        found.map(|(_, analysis)| analysis).expect("a trace of this rank and cycle")
    };
    let rows = asked(folder.path(), "devices");
    assert_eq!(rows.len(), 6);
    for row in &rows {
        let [device] = &of(row).devices[..] else { panic!("one device") };
        let times = &device.times;
        for (column, expected) in [
            ("window_ns", times.window_ns),
            ("compute_ns", times.compute_ns),
            ("exposed_communication_ns", times.exposed_communication_ns),
            ("exposed_memory_ns", times.exposed_memory_ns),
            ("idle_before_ns", times.idle_before_ns),
            ("idle_between_ns", times.idle_between_ns),
            ("idle_after_ns", times.idle_after_ns),
        ] {
            assert_eq!(integer(row, column), expected, "{column} of {row:?}");
            assert!(expected > 0, "{column} is not tried");
        }
    }
    let rows = asked(folder.path(), "overlap");
    assert_eq!(rows.len(), 12);
    for row in &rows {
        let kind = word(row, "kind");
        let overlaps = of(row).devices[0].overlap.iter();
        let found = overlaps.filter(|one| format!("{:?}", one.kind).to_lowercase() == kind);
        let [overlap] = found.collect::<Vec<_>>()[..] else { panic!("{kind}") };
        assert_eq!(integer(row, "total_ns"), overlap.total_ns, "{row:?}");
        assert_eq!(integer(row, "hidden_ns"), overlap.hidden_ns, "{row:?}");
        assert!(overlap.hidden_ns > 0);
    }
    for row in &asked(folder.path(), "launches") {
        let launches = &of(row).devices[0].launches;
        let found = ["launched", "delay_median_ns", "delay_max_ns", "long_delays"];
        let found = found.map(|column| integer(row, column));
        let expected = [
            launches.launched as i64,
            launches.delay_median_ns,
            launches.delay_max_ns,
            launches.long_delays as i64,
        ];
        assert_eq!(found, expected, "{row:?}");
    }
}

#[test]
fn steps_and_what_is_in_them_are_answered_for_as_analyze_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = ranks(folder.path(), 2, 6, (1, 5_000));
    let answers: Vec<Analysis> = traces.iter().map(Analysis::of).collect();
    let rows = asked(folder.path(), "outliers");
    assert_eq!(rows.len(), answers.iter().map(|one| one.outliers.len()).sum::<usize>());
    assert_eq!(rows.len(), 4, "the last but one of each");
    for row in &rows {
        let outliers = answers.iter().flat_map(|one| &one.outliers);
        let mut outliers = outliers.filter(|one| one.duration_ns == integer(row, "dur_ns"));
        let outlier = outliers.next().expect("analyze has it, too");
        assert_eq!(integer(row, "step"), outlier.number as i64);
        // The durations are those of both cycles of the rank.
        let rank = integer(row, "rank");
        let of_rank = traces.iter().zip(&answers).filter(|(it, _)| i64::from(it.info.rank) == rank);
        let durations = of_rank.flat_map(|(_, one)| one.steps.iter().map(|step| step.duration_ns));
        let durations: Vec<i64> = durations.collect();
        let middle = median(durations.clone());
        assert_eq!(integer(row, "median_ns"), middle);
        let deviation = median(durations.iter().map(|one| (one - middle).abs()).collect());
        let least = (0.01 * middle as f64).max(1.0);
        let distance = (outlier.duration_ns - middle) as f64;
        let expected = 0.6745 * distance / (deviation as f64).max(least);
        let score = row["score"].as_f64().expect("a number");
        assert!((score / expected - 1.0).abs() < 1e-12, "{score} {expected}");
    }
    let sum = |of: &dyn Fn(&Analysis) -> i64| answers.iter().map(of).sum::<i64>();
    let rows = asked(folder.path(), "data");
    let waiting: i64 = rows.iter().map(|row| integer(row, "waiting_ns")).sum();
    assert_eq!(waiting, sum(&|one| one.steps.iter().map(|step| step.waiting_for_data_ns).sum()));
    assert_eq!(integer(&rows[0], "rank"), 1, "whose data are late");
    let rows = asked(folder.path(), "modules");
    assert_eq!(rows.len(), 1);
    let own = sum(&|one| one.modules.iter().map(|module| module.self_ns).sum());
    assert_eq!(integer(&rows[0], "self_ns"), own);
    let device = sum(&|one| one.modules.iter().map(|module| module.device_ns).sum());
    assert_eq!(integer(&rows[0], "device_ns"), device);
    assert!(own > 0 && device > 0);
    for row in &asked(folder.path(), "ops") {
        let category = word(row, "category");
        if category != "cpu_op" {
            continue;
        }
        let of = |one: &Analysis| {
            let names = one.names.iter().filter(|it| it.name == word(row, "name"));
            names.map(|it| it.self_ns).sum::<i64>()
        };
        assert_eq!(integer(row, "self_ns"), sum(&of), "{row:?}");
    }
    // Phases add up to the steps, and so do actions.
    let steps = sum(&|one| one.steps.iter().map(|step| step.duration_ns).sum());
    for query in ["steps", "actions"] {
        let found: i64 =
            asked(folder.path(), query).iter().map(|row| integer(row, "total_ns")).sum();
        assert_eq!(found, steps, "{query}");
    }
}

#[test]
fn answers_of_sql_alone_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 4, 6, (1, 5_000));
    let of = |query: &str| asked(folder.path(), query);
    // The late rank waits least, and the others wait for it in every step.
    let rows = of("collectives");
    let late = rows.iter().filter(|row| word(row, "name") == "all_reduce_gradients");
    let late: Vec<_> = late.collect();
    assert_eq!((integer(late[0], "rank"), integer(late[0], "times_last")), (1, 12));
    assert!(integer(late[1], "waiting_ns") > 12 * 4_900_000, "{late:?}");
    assert_eq!(integer(&of("slowest_ranks")[0], "rank"), 1);
    let hosts = of("hosts");
    assert_eq!((word(&hosts[0], "host"), integer(&hosts[0], "ranks")), ("host-0", 2));
    let step_times = of("step_times");
    assert_eq!((step_times.len(), integer(&step_times[0], "ranks")), (12, 4));
    for row in &step_times {
        let in_order = ["shortest_ns", "median_ns", "longest_ns"].map(|name| integer(row, name));
        assert!(in_order.is_sorted() && in_order[0] > 0, "{row:?}");
    }
    let recorded = of("recorded");
    assert_eq!((recorded.len(), integer(&recorded[7], "there")), (8, 4));
    let peaks = of("memory");
    let everything = of("select max(value) as most, count(distinct rank) as ranks from counters");
    assert_eq!((peaks.len(), &peaks[0]["peak"]), (8, &everything[0]["most"]));
    assert!(peaks.iter().all(|row| row["step"].is_i64() && row["process"].is_string()));
    let kernels = of("kernels");
    assert!(kernels.iter().any(|row| word(row, "name") == "sgemm_128x64"));
    // Kernels of rank 2 take 100 µs longer, and those of rank 1 take 50 µs longer.
    assert!(kernels.iter().all(|row| integer(row, "slowest_rank") == 2));
    let copied: i64 = of("copies").iter().map(|row| integer(row, "bytes")).sum();
    let bytes = of("select sum(bytes) as bytes from slices where category = 'gpu_memcpy'");
    assert_eq!(copied, integer(&bytes[0], "bytes"));
}
