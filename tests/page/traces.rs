//! Tests the page of traces.

use mlprof_analysis::page::Page;
use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_analysis::{Analysis, kineto};
use mlprof_core::Report;
use serde_json::{Value, json};

use super::pages::everything;
use super::seen_page;

/// Prefix and suffix of normal op names. Other tests use hostile ones.
const HARMLESS: [&str; 2] = ["aten::", ""];
const HOSTILE: [&str; 2] =
    ["</script><img src=x onerror=window.broken=1>", "\u{202e}<script>window.broken=1</script>"];

/// Returns a rank's trace of twelve steps of at least 400 µs, which are 100 µs longer on rank 1. It
/// contains ops, a kernel for each of them, and a copy, for whose end the step waits.
fn trace(rank: u32, [prefix, suffix]: [&str; 2]) -> Value {
    let mut events = Vec::new();
    let mut at = 0;
    for step in 0..12 {
        let own = 100 * rank;
        let mut slice = |category: &str,
                         name: String,
                         tid: u32,
                         (ts, dur): (u32, u32),
                         args: Value| {
            events.push(json!({
                "ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": at + ts, "dur": dur,
                "args": args
            }));
        };
        let length = 500 + 4 * step;
        slice("user_annotation", format!("ProfilerStep#{step}"), 1, (0, length), json!({}));
        let data = "[_TrainingEpochLoop].train_dataloader_next".to_owned();
        slice("user_annotation", data, 1, (0, 25 + own / 2), json!({}));
        for (place, op) in
            ["linear", "relu", "softmax", "mm", "add", "mul", "tanh", "sub"].iter().enumerate()
        {
            let place = place as u32;
            let (ts, number) = (100 + 20 * place, 100 * step + place + 1);
            slice("cpu_op", format!("{prefix}{op}{suffix}"), 1, (ts, 15), json!({}));
            let launch = json!({ "correlation": number });
            slice("cuda_runtime", "cudaLaunchKernel".to_owned(), 1, (ts + 5, 5), launch);
            let kernel = json!({ "device": 0, "stream": 7, "correlation": number });
            slice(
                "kernel",
                format!("{prefix}kernel_{op}{suffix}"),
                7,
                (ts + 12, 14 + own / 20),
                kernel,
            );
        }
        let wait = "cudaDeviceSynchronize".to_owned();
        slice("cuda_runtime", wait, 1, (270, 20 + own), json!({}));
        let reduce = format!("all_reduce{suffix}");
        slice("user_annotation", reduce, 1, (300 + own, 150 - own), json!({}));
        at += length;
    }
    json!({ "distributedInfo": { "rank": rank, "world_size": 2 }, "traceEvents": events })
}

fn page(names: [&str; 2], reports: &[Report]) -> String {
    let mut page = Page::default();
    let facts: Vec<_> = (0..2)
        .map(|rank| {
            let text = trace(rank, names).to_string();
            let trace = kineto::read(text.as_bytes()).expect("a trace");
            let file = format!("{}{rank}{}.pt.trace.json", names[0], names[1]);
            page.add(&file, &Analysis::of(&trace));
            RankFacts::of(file, &trace)
        })
        .collect();
    page.html(reports, Some(&Ranks::of(&facts).expect("two ranks")))
}

fn with_a_report() -> String {
    page(HARMLESS, &everything()[..1])
}

#[test]
fn traces_say_where_the_time_went() {
    seen_page("traces", &with_a_report());
}

#[test]
fn trace_pages_are_complete_without_scripts() {
    seen_page("traces_without_scripts", &with_a_report());
}

#[test]
fn hostile_names_are_harmless_in_traces() {
    seen_page("hostile_traces", &page(HOSTILE, &[]));
}

/// Takes screenshots for developers of the page, as `pictures_are_taken_where_they_are_asked_for`
/// does.
#[test]
fn pictures_of_traces_are_taken_where_they_are_asked_for() {
    if std::env::var_os("MLPROF_TEST_PICTURES").is_some() {
        seen_page("pictures", &page(HARMLESS, &[]));
    }
}
