use std::iter;

use mlprof_events::ActionKind;

use super::*;
use crate::advanced::{CallStatistics, CallTreeNode, FunctionKey, ThreadCallTree};
use crate::findings::samples::rank;
use crate::simple::ActionStatistics;
use crate::{AdvancedReport, ReportHeader, SimpleReport};

fn header(rank: u32) -> ReportHeader {
    ReportHeader {
        stage: None,
        rank,
        world_size: rank + 1,
        ..crate::findings::samples::header(10.0)
    }
}

fn action(name: &str, total_seconds: f64) -> ActionStatistics {
    ActionStatistics {
        action: name.to_owned(),
        sub_stage: None,
        inside: None,
        calls: 4,
        total_seconds,
        self_seconds: total_seconds,
        first_seconds: 0.1,
        rest: None,
        io: None,
        cpu: None,
        device: None,
    }
}

fn simple(rank: u32, actions: Vec<ActionStatistics>) -> Report {
    Report::Simple(SimpleReport {
        header: header(rank),
        actions,
        threads: Vec::new(),
        open: Vec::new(),
        data_waiting: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    })
}

fn node(name: String, seconds: f64, children: Vec<CallTreeNode>) -> CallTreeNode {
    let function = FunctionKey { file: "src/net.rs".to_owned(), line: 7, name };
    let calls = CallStatistics {
        total_calls: 3,
        primitive_calls: 3,
        polls: 0,
        self_seconds: 0.001,
        cumulative_seconds: seconds,
    };
    CallTreeNode { function, kind: ActionKind::Function, calls, children }
}

fn advanced(roots: Vec<CallTreeNode>) -> Report {
    let thread = ThreadCallTree { thread: "main".to_owned(), threads: 1, roots };
    Report::Advanced(AdvancedReport {
        header: header(0),
        actions: Vec::new(),
        threads: vec![thread],
        open: Vec::new(),
        samples: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    })
}

/// Returns the values in the page's JSON element.
fn values(html: &str) -> Value {
    let (_, rest) = html.split_once("id=reports>").expect("the element");
    let (json, _) = rest.split_once("</script>").expect("its end");
    packed::unpacked(serde_json::from_str(json).expect("JSON")).expect("columns")
}

#[test]
fn a_page_is_whole_by_itself() {
    let html = html(&[simple(0, vec![action("load", 1.0 / 3.0)])]);
    assert!(html.contains("default-src 'none'; script-src 'sha256-"), "{html}");
    assert!(
        !html.contains("src=") && !html.contains("http:") && !html.contains("https:"),
        "{html}"
    );
    assert!(html.contains("<th scope=row>load<td class=n>4<td"), "{html}");
    let value = values(&html);
    assert_eq!(value[0]["profiler"], "simple");
    assert_eq!(value[0]["actions"][0]["total_seconds"], 0.333_333, "six digits");
}

#[test]
fn names_are_harmless() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\n🔥";
    let html = html(&[
        simple(0, vec![action(hostile, 1.0), action(&"x".repeat(10_000), 0.5)]),
        advanced(vec![node(hostile.to_owned(), 1.0, Vec::new())]),
    ]);
    assert_eq!(html.matches("</script>").count(), 2, "those of the page");
    // JSON contains unmodified names, except for characters that could end its element.
    let (before, json) = html.split_once("id=reports>").expect("the element");
    assert!(!before.contains("<img") && !before.contains('\u{202e}') && !json.contains("<img"));
    assert_eq!(values(&html)[0]["actions"][0]["action"], hostile);
}

#[test]
fn a_page_is_bounded_and_counts_what_it_leaves_out() {
    let rows = |count: usize| -> Vec<ActionStatistics> {
        (0..count).map(|index| action(&format!("action {index}"), index as f64)).collect()
    };
    let small = html(&[simple(0, rows(1_000))]);
    assert!(!small.contains("are left out"));
    let cut = html(&[simple(0, rows(1_500))]);
    assert!(cut.contains("are left out: 500 rows of tables."), "by the limit of rows");
    assert!(cut.contains(">action 1499<") && !cut.contains(">action 7<"), "the largest stay");
    // Each of these ranks has more rows than a page can hold.
    let ranks: Vec<_> = (0..12).map(|rank| simple(rank, rows(2_000))).collect();
    let all = html(&ranks);
    assert!(all.len() <= LARGEST, "{}", all.len());
    assert!(all.contains("rows of tables"));
}

#[test]
fn trees_are_bounded_in_width_and_depth() {
    let deep = (0..2_000).fold(node("leaf".to_owned(), 1.0, Vec::new()), |inner, index| {
        node(format!("level {index}"), 1.0, vec![inner])
    });
    let wide =
        (0..20_000).map(|index| node(format!("wide {index}"), index as f64 * 1e-6, Vec::new()));
    let report = advanced(iter::once(deep).chain(wide).collect());
    let html = html(&[report]);
    assert!(html.len() <= LARGEST);
    assert!(html.contains("nodes of trees"));
    let values = values(&html);
    let roots = values[0]["threads"][0]["roots"].as_array().expect("roots");
    assert!(roots.len() > 1_000 && roots.len() <= Limits::FIRST.places, "{}", roots.len());
    let kept: Report = serde_json::from_value(values[0].clone()).expect("still a report");
    let Report::Advanced(kept) = kept else { panic!("another kind") };
    let deepest = kept.threads[0].nodes().map(|(depth, _)| depth).max();
    assert_eq!(deepest, Some(199));
}

#[test]
fn ranks_stand_beside_each_other() {
    let ranks = [simple(1, vec![action("step", 3.0)]), simple(0, vec![action("step", 2.0)])];
    let html = html(&ranks);
    let (_, table) = html.split_once("Totals per rank").expect("a table");
    assert!(table.contains("data-v=2>2.00 s<td class=\"n b50\" data-v=3>3.00 s"), "{table}");
    assert!(table.contains("data-v=1>1.00 s<td>1"), "rank 1 by a second");
    let alone = super::html(&ranks[..1]);
    assert!(!alone.contains("Totals per rank"));
    assert!(!html.contains("Stages that delay"), "of no steps nothing is known");
}

#[test]
fn ranks_that_wait_for_each_other_say_who_is_slow() {
    let ranks = [rank(0, 2, 0.001), rank(1, 2, 0.031)].map(Report::Simple);
    let html = html(&ranks);
    let (_, table) =
        html.split_once("Stages that delay the 20 steps common to all ranks").expect("a table");
    assert!(table.contains("waiting for data"), "{table}");
    assert!(table.contains("rank 1, 20 times"), "{table}");
    assert!(table.contains("<p>Rank 1 is slow: its own work takes 41.0 ms of a step"), "{table}");
}

/// Checks that the finding from the comparison of ranks appears with those of the reports and links
/// to the slowest rank.
#[test]
fn the_slowest_rank_is_something_to_do_about() {
    let waits = |number: u32, seconds: f64| {
        let mut report = rank(number, 2, seconds);
        report.actions.push(crate::findings::samples::row("run_training_epoch", 1, 1.0));
        Report::Simple(report)
    };
    let page = html(&[waits(0, 0.001), waits(1, 0.031)]);
    let (before, section) = page.split_once("<section id=findings>").expect("something to do");
    let (section, _) = section.split_once("</section>").expect("its end");
    assert!(!before.contains("<section class=report"), "on top");
    assert!(section.contains("<b>Rank 1 needs 600 ms longer"), "{section}");
    assert!(section.contains("rule: slowest-rank · in: <a href=\"#r1\">"), "{section}");
    assert!(!html(&[waits(0, 0.001), waits(1, 0.002)]).contains("id=findings"));
    let mut rules = Rules::new();
    rules.set("slowest-rank.share", 0.9).expect("there is such a threshold");
    assert!(!html_by(&[waits(0, 0.001), waits(1, 0.031)], &rules).contains("id=findings"));
}

#[test]
fn findings_come_first_with_the_largest_saving_on_top() {
    let finding = |rule: &str, seconds: f64| {
        serde_json::json!({
            "rule": rule, "sentence": format!("{rule} <b>"), "remedy": "do something",
            "evidence": [{ "what": "share", "value": "30 %" }],
            "place": { "action": "load" }, "confidence": "likely",
            "cost": { "seconds_per_step": 0.001, "seconds": seconds, "share": 0.25 }
        })
    };
    let mut html = String::new();
    findings::Lists::of(&[serde_json::json!({ "findings": [] })], &[]).write(&mut html, &[]);
    assert_eq!(html, "");
    let report = serde_json::json!({ "findings": [finding("small", 1.0), finding("large", 2.0)] });
    let titles = ["Simple · fit", "Tensor"].map(str::to_owned);
    let lists = findings::Lists::of(&[report], &[]);
    assert_eq!([lists.counts(&[0]), lists.counts(&[1])], [[2, 0], [0, 0]]);
    lists.write(&mut html, &titles);
    assert!(html.contains("in: <a href=\"#r0\">Simple · fit</a></p>"), "{html}");
    assert!(html.contains("<p>Do something</p>"), "{html}");
    let places =
        ["large &lt;b&gt;", "2.00 s of the run", "small &lt;b&gt;"].map(|it| html.find(it));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{html}");
    assert!(
        html.contains("1.00 ms a step") && html.contains("25.0 %") && html.contains("share: 30 %")
    );
    assert!(html.contains("<a href=\"#r0\" data-row>load</a>"), "{html}");
}

#[test]
fn the_head_says_what_was_asked_for_and_on_which_devices() {
    let mut report = simple(0, Vec::new());
    let before = html(std::slice::from_ref(&report));
    assert!(!before.contains("Settings: ") && !before.contains("<dt>Device"));
    let device = |number| crate::MachineDevice {
        number,
        name: "GPU <2>".to_owned(),
        memory_bytes: 80 << 30,
    };
    let header = report.header_mut();
    header.frameworks.push(crate::Framework {
        name: "candle<1>".to_owned(),
        version: Some("0.11".to_owned()),
        threads: Some(4),
        ..crate::Framework::default()
    });
    header.settings = vec![crate::Setting::recorded("bytes <read>", false)];
    let machine = crate::Machine { devices: vec![device(0)], ..crate::Machine::default() };
    header.machine = Some(machine);
    let one = html(std::slice::from_ref(&report));
    assert!(one.contains("<p class=quiet>Settings: bytes &lt;read&gt; not recorded.</p>"), "{one}");
    assert!(one.contains("<dt>Framework<dd>candle&lt;1&gt; 0.11, 4 threads<"), "{one}");
    assert!(one.contains("<dt>Device<dd>GPU &lt;2&gt;, 80.00 GiB<"), "{one}");
    let machine = report.header_mut().machine.as_mut().expect("just set");
    machine.devices.push(device(1));
    let two = html(&[report]);
    let devices = "<dt>Devices<dd>0: GPU &lt;2&gt;, 80.00 GiB; 1: GPU &lt;2&gt;, 80.00 GiB<";
    assert!(two.contains(devices), "{two}");
}

#[test]
fn a_device_is_a_bar_of_what_it_did_and_waited_for() {
    let gaps = |seconds| crate::tensor::IdleGaps { count: 1, seconds, longest_seconds: seconds };
    let idle = crate::tensor::DeviceIdle {
        device: 1,
        window_seconds: 1.0,
        busy_seconds: 0.5,
        host_wait: gaps(0.25),
        other: gaps(0.25),
        ..Default::default()
    };
    let recorded = crate::findings::samples::recorded(Vec::new());
    let html = html(&[Report::Tensor(crate::TensorReport { device_idle: vec![idle], ..recorded })]);
    let bar = "<rect class=p1 x=0.0 y=1 width=80.0 height=9 /><rect class=p0 x=80.0 y=1 width=40.0 \
               height=9 /><rect class=p4 x=120.0 y=1 width=40.0 height=9 /></svg>";
    assert!(html.contains(bar), "{html}");
    assert!(html.contains("key p0\">host late") && !html.contains("key p5\">launch"), "{html}");
}

/// Returns the page's JSON text.
fn json_in(html: &str) -> &str {
    let (_, json) = html.split_once("id=reports>").expect("the reports");
    json.split_once("</script>").expect("their end").0
}

/// Checks that zeros, which are most values of op rows, take no space in the page.
#[test]
fn missing_values_are_omitted_and_read_back() {
    let row = |index: u64| crate::tensor::KeyAverage {
        calls: 4 * index,
        ..crate::findings::samples::op(&format!("aten::op{index}"), 4, 0.25)
    };
    let report = Report::Tensor(crate::findings::samples::recorded((0..3).map(row).collect()));
    let page = html(std::slice::from_ref(&report));
    let json = json_in(&page);
    for absent in ["device_seconds", "\"flops\"", "null", "\"memory\":[]"] {
        let rows = json.split_once("\"rows\":[").expect("rows").1.split_once("]}").expect("end").0;
        assert!(!rows.contains(absent), "{absent}: {rows}");
    }
    assert_eq!(reports_in(&page), Some(vec![report]));
    assert_eq!(reports_in("<!doctype html>"), None);
    // Many rows are stored as columns.
    let many = Report::Tensor(crate::findings::samples::recorded((0..30).map(row).collect()));
    let page = html(std::slice::from_ref(&many));
    assert_eq!(json_in(&page).matches("\"self_cpu_seconds\"").count(), 1);
    assert_eq!(reports_in(&page), Some(vec![many]));
    assert!(page.contains("<td class=n>0<") && !page.contains("data-v=0>"), "{page}");
}

#[test]
fn which_steps_are_long_is_decided_once() {
    let entry = |number: u64| crate::steps::StepEntry {
        number,
        count: 1,
        start_seconds: number as f64,
        // Twenty steps are long, which is more than the list shows.
        seconds: if number % 5 == 1 { 0.151 } else { 0.1 },
        ..crate::steps::StepEntry::default()
    };
    let entries: Vec<_> = (0..100).map(entry).collect();
    let series = crate::steps::StepSeries { steps: 100, entries, ..Default::default() };
    let mut report = crate::findings::samples::steps(100, 0.1);
    report.step_series = vec![series];
    let page = html(&[Report::Simple(report)]);
    let long: Vec<_> = (0..100).filter(|bar| bar % 5 == 1).map(|bar| bar.to_string()).collect();
    assert!(page.contains(&format!("data-long=\"{}\"", long.join(" "))), "{page}");
    assert_eq!(page.matches("class=mark").count(), 16);
}

fn of_program(program: &str, stage: Option<mlprof_events::Stage>) -> Report {
    let mut report = simple(0, vec![action("load", 1.0)]);
    let header = report.header_mut();
    (header.program, header.stage, header.world_size) = (Some(program.to_owned()), stage, 1);
    report
}

#[test]
fn reports_of_several_programs_are_titled_by_them() {
    let fit = Some(mlprof_events::Stage::Fit);
    let links = |reports: &[Report]| -> Vec<String> {
        let html = html(reports);
        let (_, nav) = html.split_once("<nav aria-label=Reports>").expect("links");
        let (nav, _) = nav.split_once("</nav>").expect("their end");
        let links = nav.split("aria-label=\"").skip(1).filter_map(|link| link.split_once('"'));
        links.map(|(title, _)| title.to_owned()).collect()
    };
    let several = [of_program("digits", fit), of_program("text", fit), of_program("text", None)];
    assert_eq!(links(&several), ["digits · Simple · fit", "text · Simple · fit", "text · Simple"]);
    let one = [of_program("digits", fit), of_program("digits", None)];
    assert_eq!(links(&one), ["digits · Simple · fit", "digits · Simple"]);
    // The list contains two runs of one program and two reports with equal properties.
    let mut later = of_program("digits", fit);
    later.header_mut().started_at += std::time::Duration::from_secs(61);
    let runs = [of_program("digits", fit), of_program("digits", fit), later];
    let titles = ["03:04:05 · 1", "03:04:05 · 2", "03:05:06"];
    assert_eq!(links(&runs), titles.map(|it| format!("digits · Simple · fit · {it}")));
    // Both runs have a header with the time of their start.
    let html = html(&runs);
    for run in ["id=run0><h2>digits · 03:04:05<", "id=run1><h2>digits · 03:05:06<"] {
        assert!(html.contains(run), "{run}: {html}");
    }
    assert!(html.contains("id=r0><h2>digits · Simple"), "of several runs, titles name the program");
}

/// Checks that a run has one header with its numbers, and reports show only their own facts.
#[test]
fn profilers_of_a_run_share_one_header() {
    let note = |mut report: Report, note: &str| {
        let header = report.header_mut();
        header.machine = Some(crate::Machine { cores: Some(8), ..crate::Machine::default() });
        header.notes = vec!["of both".to_owned(), note.to_owned()];
        report
    };
    let mut first = note(with_steps(&[0.5, 0.02, 0.02]), "of one");
    let Report::Simple(simple) = &mut first else { panic!("another kind") };
    simple.data_waiting = Some(crate::simple::DataWaiting {
        waiting_seconds: 0.5,
        epoch_seconds: Some(2.0),
        share: 0.25,
    });
    let second = note(of_program("digits", Some(mlprof_events::Stage::Fit)), "of the other");
    let mut validation = note(of_program("digits", Some(mlprof_events::Stage::Validate)), "last");
    validation.header_mut().started_at += std::time::Duration::from_secs(12);
    let page = html(&[first, second, validation]);
    // The JSON behind the sections has the notes of each report.
    let (page, _) = page.split_once("id=reports>").expect("the element");
    for once in [
        "<section class=run",
        "<dt>Machine<dd>8 cores",
        "of both",
        "of one",
        "of the other",
        "<dt>Step<dd><b>20.0 ms</b> median of 2 steps",
        "<dt>Waiting for data<dd><b>25.0 %</b> 500 ms of 2.00 s",
        "<dt>Wall time of fit<",
        "<dt>Wall time of validate<",
        "<dt>Waiting for data<",
    ] {
        assert_eq!(page.matches(once).count(), 1, "{once}: {page}");
    }
    assert!(page.contains("id=r0><h2>Simple · fit"), "the run is named above: {page}");
    let mut late = of_program("digits", Some(mlprof_events::Stage::Test));
    late.header_mut().started_at += std::time::Duration::from_secs(3_600);
    let apart = html(&[of_program("digits", None), late]);
    assert_eq!(apart.matches("<section class=run").count(), 2, "an hour later");
}

/// Checks the number below which the script folds rows: 0.1 % of the wall time of ten seconds.
#[test]
fn the_page_says_which_rows_are_small() {
    let page = html(&[simple(0, vec![action("load", 1.0)])]);
    assert_eq!(page.matches("data-small=0.01").count(), 1, "{page}");
    let rows = vec![crate::findings::samples::op("aten::mm", 4, 0.25)];
    let page = html(&[Report::Tensor(crate::findings::samples::recorded(rows))]);
    assert!(page.contains("data-small="), "{page}");
}

fn with_steps(seconds: &[f64]) -> Report {
    let mut report = of_program("digits", Some(mlprof_events::Stage::Fit));
    let Report::Simple(simple) = &mut report else { panic!("another kind") };
    let entry = |(number, seconds): (usize, &f64)| crate::steps::StepEntry {
        number: number as u64,
        count: 1,
        seconds: *seconds,
        other_seconds: *seconds,
        ..Default::default()
    };
    simple.step_series = vec![crate::steps::StepSeries {
        stage: Some(mlprof_events::Stage::Fit),
        steps: seconds.len() as u64,
        entries: seconds.iter().enumerate().map(entry).collect(),
        durations: None,
    }];
    report
}

/// Checks that the steps of several profilers of one run appear once.
#[test]
fn the_steps_of_a_run_are_shown_once() {
    let steps = [0.5, 0.02, 0.02, 0.2, 0.02];
    let html = html(&[with_steps(&steps), with_steps(&steps)]);
    assert_eq!(html.matches("<figure class=strip").count(), 1, "{html}");
    // A schedule records some of the steps, so the report with all of them is shown.
    let html = self::html(&[with_steps(&steps[1..4]), with_steps(&steps)]);
    assert_eq!(html.matches("<figure class=strip").count(), 1, "{html}");
    assert!(html.contains("id=r1-steps") && !html.contains("id=r0-steps"), "{html}");
    let mut another = with_steps(&steps);
    another.header_mut().started_at += std::time::Duration::from_secs(30);
    let html = self::html(&[with_steps(&steps), another]);
    assert_eq!(html.matches("<figure class=strip").count(), 2, "another run");
}

/// Checks that the page uses the same steps and the same median as the finding `uneven-steps`.
#[test]
fn the_first_step_is_neither_listed_nor_in_the_median() {
    let html = html(&[with_steps(&[0.5, 0.02, 0.02, 0.2, 0.02])]);
    assert!(html.contains("Steps of at least 1.5 times the median, 20.0 ms"), "{html}");
    assert!(html.contains("id=r0-step-3") && !html.contains("id=r0-step-0"), "{html}");
    assert!(html.contains("The first step took 500 ms. It is not compared"), "{html}");
}

#[test]
fn hints_stand_apart_from_what_to_do() {
    let finding =
        |confidence: &str| serde_json::json!({ "sentence": confidence, "confidence": confidence });
    let written = |confidences: &[&str]| {
        let all: Vec<_> = confidences.iter().map(|it| finding(it)).collect();
        let mut html = String::new();
        findings::Lists::of(&[serde_json::json!({ "findings": all })], &[]).write(&mut html, &[]);
        html
    };
    let both = written(&["hint", "likely"]);
    let (advice, hints) = both.split_once("<section id=hints><h2>Worth a look</h2>").expect("two");
    assert!(advice.contains("What to do") && advice.contains("<b>likely"), "{both}");
    assert!(hints.contains("<b>hint") && !hints.contains("<b>likely"), "{both}");
    assert!(!written(&["hint"]).contains("What to do"));
    assert!(!written(&["certain"]).contains("Worth a look"));
}

/// Checks that a finding of several reports appears once, as on the console.
#[test]
fn shared_findings_appear_once_with_all_links() {
    let finding = |sentence: &str| serde_json::json!({ "sentence": sentence, "confidence": "likely", "rule": "a" });
    let report = |sentence| serde_json::json!({ "findings": [finding(sentence)] });
    let titles = ["Simple", "Tensor", "Tensor · fit"].map(str::to_owned);
    let mut html = String::new();
    let reports = [report("slow"), report("other"), report("slow")];
    findings::Lists::of(&reports, &[]).write(&mut html, &titles);
    assert_eq!(html.matches("<b>slow</b>").count(), 1, "{html}");
    let links = "in: <a href=\"#r0\">Simple</a>, <a href=\"#r2\">Tensor · fit</a></p>";
    assert!(html.contains(links), "{html}");
}

#[test]
fn flops_that_are_not_known_are_no_0() {
    let mut known = crate::findings::samples::action("op", 3, 1.0);
    known.flops = 512;
    let mut row = crate::findings::samples::action("epoch", 3, 1.0);
    row.flops = 0;
    let html = html(&[Report::Tensor(crate::findings::samples::recorded(vec![known, row]))]);
    let (_, cells) = html.split_once("<th scope=row>epoch").expect("a row");
    let cells = cells.split("<tr>").next().expect("its cells");
    assert!(cells.contains("<td class=n>–"), "{cells}");
    assert!(html.contains(">512<"), "{html}");
}

/// Checks rows with a short first call. The mean of all calls is then below the minimum of the
/// others.
#[test]
fn mean_minimum_and_maximum_are_of_the_same_calls() {
    let mut hidden = action("hidden", 8.12);
    (hidden.calls, hidden.self_seconds, hidden.first_seconds) = (3, 7.0, 0.24);
    hidden.rest = Some(crate::simple::DurationStatistics {
        min_seconds: 3.88,
        mean_seconds: 3.94,
        p50_seconds: 3.9,
        p50_limits: None,
        p95_seconds: 3.95,
        max_seconds: 3.99,
    });
    let html = html(&[simple(0, vec![hidden])]);
    assert!(html.contains("all calls except the first, which is in the column First."), "{html}");
    assert!(html.contains(">3.94 s<") && html.contains(">240 ms<"), "{html}");
    assert!(!html.contains(">2.71 s<"), "the mean of all calls: {html}");

    let mut op = crate::findings::samples::op("aten::mm", 3, 8.12);
    op.first_seconds = 0.24;
    op.rest = Some(crate::tensor::RestDurations {
        min_seconds: 3.88,
        max_seconds: 3.99,
        deviation_seconds: None,
    });
    let report = crate::findings::samples::recorded(vec![op]);
    let html = super::html(&[Report::Tensor(report)]);
    assert!(html.contains("data-merge=mean"), "{html}");
    assert!(html.contains("all calls except the first, which is in the column First."), "{html}");
    assert!(html.contains(">3.94 s<") && !html.contains(">2.71 s<"), "{html}");
}
