//! Reports of samples, memory and lines with fixed values, whose text and stacks are known.

use mlprof_core::Report;
use mlprof_core::hook::TensorRole;
use mlprof_core::report::advanced::samples as samples_page;
use mlprof_core::report::advanced::samples::SampleOrder;
use mlprof_core::report::lines::memory as lines_memory;
use mlprof_core::report::lines::text as lines_text;
use mlprof_core::report::lines::text::LinesOptions;
use mlprof_core::report::lines::{FunctionLines, LineMemory, LineStatistics};
use mlprof_core::report::memory::{MemoryTree, PathMemory};
use mlprof_core::report::numerics::{
    RecordedTensorParts, Rerun, TensorRowParts, TensorStatistics, TensorStatisticsParts, troubles,
};
use mlprof_core::report::samples::{SampledCode, Samples, StackNode};
use mlprof_core::report::{
    LinesReport, LinesReportParts, MemoryReport, MemoryReportParts, NumericsReport,
    NumericsReportParts, ReportHeader, SamplesReportParts, memory, number,
};
use serde_json::Value;

use crate::runs::{Folder, advanced, printed, refused, simple, text};

pub fn header() -> ReportHeader {
    match simple() {
        Report::Simple(report) => report.header,
        other => panic!("{other:?}"),
    }
}

pub fn samples() -> Samples {
    let node = |parent, action: Option<&str>, function, working_ticks| StackNode {
        parent,
        action: action.map(str::to_owned),
        sub_stage: None,
        function,
        working_ticks,
        waiting_ticks: 1_000,
    };
    let code = |name: &str, file: Option<&str>, line| SampledCode {
        name: name.to_owned(),
        library: "program".to_owned(),
        file: file.map(str::to_owned),
        line,
    };
    Samples {
        asked_hz: 1000.0,
        reached_hz: 1000.0,
        seconds: 1.0,
        seconds_per_tick: 0.001,
        samples: 12,
        functions: vec![
            code("model::forward", Some("src/model.rs"), Some(7)),
            code("sgemm", None, None),
        ],
        stacks: vec![
            node(None, Some("training_step"), None, 1),
            node(Some(0), None, Some(0), 4),
            node(Some(1), None, Some(1), 7),
            node(Some(0), None, Some(1), 0),
        ],
        ..Samples::default()
    }
}

pub fn memory_report() -> MemoryReport {
    let path = |action: &str, own_bytes, inside| PathMemory {
        action: action.to_owned(),
        own_bytes,
        inside,
        ..PathMemory::default()
    };
    let tree = |blocks| MemoryTree { blocks, ..MemoryTree::default() };
    let inner =
        vec![path("load", 4_096, vec![]), path("forward", 0, vec![path("relu", 10, vec![])])];
    MemoryReportParts {
        header: header(),
        process: Default::default(),
        actions: Vec::new(),
        threads: Vec::new(),
        peak: tree(path("", 5, vec![path("epoch", 100, inner)])),
        alive: tree(path("", 0, vec![path("leak", 7, vec![])])),
        copies: MemoryTree::default(),
        open: Vec::new(),
        findings: Vec::new(),
    }
    .build()
}

/// Returns a report with a layer that produced a NaN, and a layer whose outputs are zero.
pub fn numerics() -> NumericsReport {
    let numbers = TensorStatisticsParts {
        count: 64,
        nans: 1,
        zeros: 63,
        minimum: Some(0.0),
        maximum: Some(0.5),
        mean: Some(0.25),
        standard_deviation: Some(0.25),
        l1_norm: 0.5,
        l2_norm: 0.5,
        least_magnitude: Some(0.5),
        ..TensorStatistics::default().into()
    }
    .build();
    let tensor = RecordedTensorParts {
        step: 20,
        role: TensorRole::Output,
        name: "[module]Linear: hidden".to_owned(),
        call: 0,
        thread: "main".to_owned(),
        source: Some("src/net.rs:36".to_owned()),
        element_type: "f32".to_owned(),
        shape: vec![2, 32],
        statistics: numbers,
        input: Some(numbers),
        sample: vec![Some(0.5), None],
        sketch: Vec::new(),
        interval: None,
        location: Some("src/net.rs:7".to_owned()),
        hash: Some("2d06800538d394c2".to_owned()),
        not_finite_hash: None,
        is_rerun: false,
    }
    .build();
    let first = RecordedTensorParts { is_rerun: true, ..tensor.clone().into() }.build();
    let rerun = Rerun { step: 20, tensors: 7, first_not_finite: Some(first), failure: None };
    let row = TensorRowParts {
        role: TensorRole::Output,
        name: tensor.name.clone(),
        element_type: tensor.element_type.clone(),
        shape: tensor.shape.clone(),
        tensors: 3,
        first: numbers,
        last: numbers,
        all: numbers,
    }
    .build();
    NumericsReportParts {
        header: header(),
        steps: 40,
        recorded_steps: 4,
        is_watched: true,
        first_not_finite: Some(tensor),
        first_op_not_finite: None,
        not_finite: 7,
        rerun: Some(Box::new(rerun)),
        troubles: troubles(std::slice::from_ref(&row)),
        tensors: vec![row],
        dropped: 0,
        files: vec!["fit.numerics.jsonl".to_owned()],
        findings: Vec::new(),
    }
    .build()
}

pub fn lines() -> LinesReport {
    let line = |line, hits, seconds, increment_bytes| LineStatistics {
        line,
        hits,
        seconds,
        memory: Some(LineMemory { max_bytes: 1 << 20, increment_bytes, occurrences: hits }),
    };
    let function = |name: &str, first_line, lines| FunctionLines {
        name: name.to_owned(),
        file: "/src/model.rs".to_owned(),
        first_line,
        last_line: first_line + 1,
        calls: 3,
        total_seconds: 0.5,
        entry_memory: None,
        lines,
        source: Some(vec!["fn f() {".to_owned(), "    g();".to_owned()]),
    };
    let functions = vec![
        function("model::slow", 1, vec![line(2, 3, 0.5, 1 << 20)]),
        function("model::quick", 5, vec![line(6, 3, 0.25, 0)]),
        function("model::never", 9, vec![]),
    ];
    LinesReportParts { header: header(), functions }.build()
}

#[test]
fn each_kind_is_printed_as_its_profiler_does() {
    let folder = Folder::new();
    let samples = SamplesReportParts { header: header(), samples: samples() }.build();
    let file = folder.report("samples.json", &Report::Samples(samples.clone()));
    assert_eq!(printed(&["report", text(&file)]), samples_page::paint(&samples));
    let sorted = printed(&["report", text(&file), "--sort", "waiting"]);
    assert_eq!(sorted, samples_page::paint_ordered(&samples, SampleOrder::Waiting));
    let error = refused(&["report", text(&file), "--sort", "calls"]);
    assert!(error.contains("cannot sort samples by \"calls\""), "{error}");

    let report = memory_report();
    let file = folder.report("memory.json", &Report::Memory(report.clone()));
    assert_eq!(printed(&["report", text(&file)]), memory::paint(&report));

    let mut report = lines();
    let file = folder.report("lines.json", &Report::Lines(report.clone()));
    let both = |report: &LinesReport, options: &LinesOptions| {
        format!("{}\n{}", lines_text::paint(report, options), lines_memory::paint(report, 1))
    };
    assert_eq!(printed(&["report", text(&file)]), both(&report, &LinesOptions::default()));
    let options = LinesOptions { unit: 1e-3, skip_zero: true, sort: true, ..Default::default() };
    let arguments = ["report", text(&file), "--sort", "time", "--unit", "1e-3", "--skip-zero"];
    let sorted = printed(&arguments);
    assert_eq!(sorted, both(&report, &options));
    assert!(sorted.find("model::quick") < sorted.find("model::slow"), "{sorted}");
    let chosen = printed(&[&arguments[..], &["--filter", "::q"]].concat());
    report.functions.retain(|function| function.name == "model::quick");
    assert_eq!(chosen, both(&report, &options));
    let error = refused(&["report", text(&file), "--sort", "hits"]);
    assert!(error.contains("cannot sort lines by \"hits\": use \"file\" or \"time\""));
    let error = refused(&["convert", text(&file), "--to", "svg"]);
    assert!(error.contains("totals per line") && error.contains("formats: json"), "{error}");
}

#[test]
fn samples_are_stacks_of_the_time_they_stand_for() {
    let folder = Folder::new();
    let folded = "training_step 1000\n\
                  training_step;model::forward (src/model.rs:7) 4000\n\
                  training_step;model::forward (src/model.rs:7);sgemm 7000\n";
    let samples = samples();
    let alone = SamplesReportParts { header: header(), samples: samples.clone() }.build();
    let alone = folder.report("samples.json", &Report::Samples(alone));
    assert_eq!(printed(&["convert", text(&alone), "--to", "folded", "-o", "-"]), folded);
    let json = printed(&["convert", text(&alone), "--to", "speedscope", "-o", "-"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["profiles"][0]["weights"],
        serde_json::json!([1_000_000, 4_000_000, 7_000_000])
    );
    let error = refused(&["convert", text(&alone), "--to", "prof"]);
    assert!(error.contains("supported formats: folded, svg, speedscope, json"), "{error}");

    let waiting = printed(&["convert", text(&alone), "--to", "folded", "--waiting", "-o", "-"]);
    let expected = "training_step 1000000\n\
                    training_step;model::forward (src/model.rs:7) 1000000\n\
                    training_step;model::forward (src/model.rs:7);sgemm 1000000\n\
                    training_step;sgemm 1000000\n";
    assert_eq!(waiting, expected);

    // Samples may accompany the exact calls of an Advanced report.
    let Report::Advanced(mut report) = advanced() else { panic!("an Advanced report") };
    let without = folder.report("without.json", &Report::Advanced(report.clone()));
    let error = refused(&["convert", text(&without), "--to", "folded", "--samples"]);
    assert!(error.contains("it contains no samples"), "{error}");
    report.samples = Some(samples);
    let both = folder.report("both.json", &Report::Advanced(report));
    let convert = |more: &[&str]| {
        printed(&[&["convert", text(&both), "--to", "folded", "-o", "-"], more].concat())
    };
    assert_eq!(convert(&["--samples"]), folded);
    assert!(convert(&[]).contains("forward (") && !convert(&[]).contains("sgemm"));
}

#[test]
fn memory_is_stacks_of_bytes() {
    let folder = Folder::new();
    let file = folder.report("memory.json", &Report::Memory(memory_report()));
    let convert = |format: &str, blocks: &str| {
        printed(&["convert", text(&file), "--to", format, "--memory", blocks, "-o", "-"])
    };
    let peak = "(outside of any action) 5\nepoch 100\nepoch;forward;relu 10\nepoch;load 4096\n";
    assert_eq!(convert("folded", "peak"), peak);
    assert_eq!(convert("folded", "alive"), "leak 7\n");
    let json: Value = serde_json::from_str(&convert("speedscope", "peak")).expect("JSON");
    let profile = &json["profiles"][0];
    assert_eq!((&profile["unit"], &profile["endValue"]), (&"bytes".into(), &4_211.into()));
    let svg = convert("svg", "peak");
    assert!(
        svg.contains("memory at the peak: fit, ") && svg.contains("load (4,096 bytes"),
        "{svg}"
    );
    let error = refused(&["convert", text(&file), "--to", "svg", "--memory", "copies"]);
    assert!(error.contains("it contains no data"), "{error}");
}

/// A line number is no indication of the number of lines.
#[test]
fn lines_far_apart_are_few_lines_of_a_table() {
    let folder = Folder::new();
    for far in [3_000_000, u32::MAX] {
        let mut report = lines();
        report.functions.truncate(1);
        let function = &mut report.functions[0];
        function.source = None;
        function.lines.push(LineStatistics { line: far, ..function.lines[0] });
        let file = folder.report("far.json", &Report::Lines(report.clone()));
        let printed_text = printed(&["report", text(&file)]);
        assert!(printed_text.len() < 200_000, "{} bytes", printed_text.len());
        let rows = |line: u32| {
            let number = line.to_string();
            printed_text
                .lines()
                .filter(|row| row.split_whitespace().next() == Some(&number))
                .count()
        };
        // The rows appear once in the table of times and once in the table of memory.
        assert_eq!((rows(2), rows(502), rows(503), rows(far)), (2, 2, 0, 2));
        // The table lists the first line, the 500 lines after the second one, and both lines that
        // have numbers.
        let blank = number::grouped(u64::from(far) - 503);
        let said = format!("{blank} lines without numbers are not listed.");
        assert_eq!(printed_text.matches(&said).count(), 2, "{said}");
        // The source text ends before the last line with numbers.
        report.functions[0].source = lines().functions[0].source.clone();
        let file = folder.report("far.json", &Report::Lines(report));
        let printed_text = printed(&["report", text(&file)]);
        let said = "1 lines with numbers are outside the function's text.";
        assert_eq!(printed_text.matches(said).count(), 2, "{printed_text}");
    }
}

#[test]
fn the_numbers_of_tensors_are_printed_and_hold_no_stacks() {
    let folder = Folder::new();
    let report = numerics();
    let file = folder.report("numerics.json", &Report::Numerics(report.clone()));
    let shown = printed(&["report", text(&file)]);
    assert_eq!(shown, mlprof_core::report::numerics::paint(&report));
    assert!(
        shown
            .contains("in step 20 the output of [module]Linear: hidden is not finite: 1 NaN of 64"),
        "{shown}"
    );
    let error = refused(&["convert", text(&file), "--to", "folded"]);
    assert!(error.contains("it contains tensor values and no times"), "{error}");
}
