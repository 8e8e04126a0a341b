use mlprof_report::internals::sections::Content;
use mlprof_report::internals::table::Table;
use serde_json::Value;

use super::*;
use crate::kineto;
use crate::ranks::RankFacts;

/// Returns a slice event with times in microseconds.
fn slice(category: &str, name: &str, tid: u32, (ts, dur): (u32, u32), args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

/// Returns a trace with `steps` steps of 100 µs. Each step waits for data, launches a kernel and
/// waits for it.
fn json(rank: u32, steps: u32) -> String {
    let step = |number: u32| {
        let at = 100 * number;
        // Correlation ids start at 1 because 0 means "no id".
        let launch = format!(r#""correlation":{}"#, number + 1);
        let kernel = format!(r#""device":0,"stream":7,{launch}"#);
        [
            slice("user_annotation", &format!("ProfilerStep#{number}"), 1, (at, 100), ""),
            slice("user_annotation", "[_TrainingEpochLoop].train_dataloader_next", 1, (at, 25), ""),
            slice("cpu_op", "aten::mm", 1, (at + 30, 20), ""),
            slice("cuda_runtime", "cudaLaunchKernel", 1, (at + 40, 5), &launch),
            slice("kernel", "gemm <b>", 7, (at + 50, 30), &kernel),
            slice("cuda_runtime", "cudaDeviceSynchronize", 1, (at + 52, 30), ""),
        ]
        .join(",")
    };
    let events: Vec<_> = (0..steps).map(step).collect();
    format!(
        r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

fn tables(section: &Section) -> Vec<Value> {
    let tables = section.content.iter().filter_map(|content| match content {
        Content::Table(table) => Some(Table::json(table)),
        _ => None,
    });
    tables.collect()
}

/// Returns the sum of a column in whole nanoseconds.
fn sum(table: &Value, title: &str) -> i64 {
    let rows = table["rows"].as_array().expect("rows");
    let number = |row: &Value| (row[title].as_f64().unwrap_or(0.0) * 1e9).round() as i64;
    assert!(rows[0].get(title).is_some(), "{title}: {table}");
    rows.iter().map(number).sum()
}

#[test]
fn tables_have_all_of_the_time() {
    let trace = kineto::read(json(0, 3).as_bytes()).expect("a trace");
    let analysis = Analysis::of(&trace);
    let section = section("a.json", &analysis);
    let of = |caption: &str| {
        let tables = tables(&section);
        let is_it =
            |table: &Value| table["caption"].as_str().is_some_and(|it| it.starts_with(caption));
        let found = tables.into_iter().find(is_it);
        found.unwrap_or_else(|| panic!("no {caption}"))
    };
    assert_eq!(sum(&of("Time by action and activity"), "Time"), 300_000);
    assert_eq!(sum(&of("Steps in time order"), "Waiting for data"), 75_000);
    assert_eq!(sum(&of("Critical path of all steps"), "Time"), 300_000);
    assert_eq!(sum(&of("Critical path of step 1"), "Time"), 100_000);
    assert_eq!(sum(&of("Device time by activity"), "Time"), 300_000);
    let threads = of("Thread times");
    let columns = ["Busy", "Waiting for device", "Waiting for data", "Idle"];
    assert_eq!(columns.map(|title| sum(&threads, title)).iter().sum::<i64>(), 300_000);
    assert_eq!(sum(&of("Times by name"), "Device"), 90_000);
    // The drawn path must equal the path in the table.
    let strip = section.content.iter().find_map(|content| match content {
        Content::Strip(strip) => Some(strip),
        _ => None,
    });
    let strip = strip.expect("the path of one step");
    let seconds: f64 = strip.stretches.iter().map(|stretch| stretch.seconds).sum();
    assert!((seconds - 1e-4).abs() < 1e-12, "{strip:?}");
    let kernel = strip.stretches.iter().find(|it| it.what.starts_with("gemm <b>, kernels"));
    assert_eq!(strip.legend[kernel.expect("it is on the path").colour], "kernels");
}

#[test]
fn a_page_has_ranks_first_and_says_what_is_missing() {
    let traces = [0, 1].map(|rank| {
        let trace = kineto::read(json(rank, 3).as_bytes()).expect("a trace");
        (RankFacts::of(format!("{rank}.json"), &trace), Analysis::of(&trace))
    });
    let facts: Vec<_> = traces.iter().map(|(facts, _)| facts.clone()).collect();
    let ranks = Ranks::of(&facts).expect("two ranks");
    let mut page = Page::default();
    for (rank, (_, analysis)) in traces.iter().enumerate() {
        page.add(&format!("{rank}.json"), analysis);
    }
    page.note("a trace is missing here: <c>.json");
    let html = page.html(&[], Some(&ranks));
    let places = ["<h2>Ranks", "<h2>Trace · rank 0", "<h2>Trace · rank 1"].map(|it| html.find(it));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    assert!(html.contains("a trace is missing here: &lt;c&gt;.json"), "{html}");
    assert!(html.contains("gemm &lt;b&gt;") && !html.contains("gemm <b>"), "names are harmless");
    assert!(html.contains("No rank is slow."));
    assert_eq!(mlprof_report::page::reports_in(&html), Some(Vec::new()), "sections are none");
}

#[test]
fn more_traces_than_there_is_room_for_are_counted() {
    let analysis = Analysis::of(&kineto::read(json(0, 3).as_bytes()).expect("a trace"));
    let mut page = Page::default();
    (0..TRACES + 5).for_each(|number| page.add(&format!("{number}.json"), &analysis));
    let html = page.html(&[], None);
    assert_eq!(html.matches("<h2>Trace").count(), TRACES);
    assert!(html.contains("5 more traces have no section"), "{html}");
}

/// Checks that the page size is bounded for any number of steps and names.
#[test]
fn a_page_is_bounded() {
    let mut analysis = Analysis::of(&kineto::read(json(0, 3).as_bytes()).expect("a trace"));
    analysis.steps = analysis.steps.iter().cycle().take(50_000).cloned().collect();
    let last = analysis.steps.last_mut().expect("steps");
    (last.number, last.duration_ns) = (Some(77_777), 1_000_000_000);
    let path = analysis.critical_paths.iter_mut().find(|path| !path.segments.is_empty());
    let segments = &mut path.expect("the middle one").segments;
    *segments = segments.iter().cycle().take(50_000).cloned().collect();
    let name = analysis.names[0].clone();
    let names = (0..50_000).map(|number| {
        let mut name = name.clone();
        name.name = format!("{}{number}", "x".repeat(300));
        name
    });
    analysis.names = names.collect();
    let mut page = Page::default();
    page.add("a.json", &analysis);
    let html = page.html(&[], None);
    assert!(html.len() <= 3_000_000, "{}", html.len());
    assert!(html.contains("rows with the smallest values are left out"));
    assert!(html.contains("<th scope=row>77777<"), "the longest step stays");
    assert!(
        html.matches("<rect class=p").count() > 100 && html.contains(" stretches, the longest ")
    );
}
