//! Compares metrics that are scraped from a running training, and metrics pushed to a collector,
//! with the training's own report.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::tempdir;
use tests::collector::{Collector, calls};
use tests::digits::test_accuracy;
use tests::program::Running;
use tests::table::Table;

use crate::live::succeed;
use crate::long_training::{EPOCHS, prepared, unwatched_accuracy};

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers, and closes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    body.to_owned()
}

/// Returns the values of a metric's series by one of their labels.
fn series(text: &str, name: &str, label: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let of_line = |line: &str| {
        let (labels, value) = line.rsplit_once("} ")?;
        let value_of = labels.split_once(&format!("{label}=\""))?.1.split_once('"')?.0;
        Some((value_of.to_owned(), value.parse().ok()?))
    };
    lines.filter_map(of_line).collect()
}

/// Checks the metrics with Prometheus' own tool, if it is installed.
fn check_by_promtool(text: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = started else {
        return println!("there is no promtool here: it is not asked");
    };
    let mut input = promtool.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("written");
    drop(input);
    let said = promtool.wait_with_output().expect("it ends");
    assert!(said.status.success() && said.stdout.is_empty() && said.stderr.is_empty(), "{said:?}");
}

/// Builds a replacement for the NVML library with three devices.
fn fake_nvml(folder: &Path) -> PathBuf {
    let source =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../mlprof-cuda/tests/device_counters/nvml.c");
    let library = folder.join("libnvidia-ml.so.1");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("a compiler for C").success(), "{source}");
    library
}

/// Scrapes until device metrics appear. Their library is loaded in the background, and the first
/// scrape does not wait for it.
fn scrape_devices(address: &str) {
    let text = loop {
        let text = scrape(address);
        if text.contains("\nmlprof_device_") {
            break text;
        }
    };
    let shown = series(&text, "mlprof_device_utilization_ratio", "device");
    assert_eq!(shown.len(), 3, "{text}");
    let is_about = |device: &str, share: f64| (shown[device] - share).abs() < 1e-9;
    assert!(is_about("0", 0.52) && is_about("1", 0.51) && is_about("2", 0.50), "{shown:?}");
    assert_eq!(
        series(&text, "mlprof_device_memory_used_bytes", "device")["1"],
        f64::from(1 << 30) * 2.0
    );
}

/// Checks that a report between two scrapes has at least the values of the first one and at most
/// those of the second.
fn scrape_around_a_report(running: &mut Running, address: &str, runtime: &Path) {
    let (first, number) = (scrape(address), running.number().to_string());
    let table = succeed(runtime, &["report", &number]);
    let second = scrape(address);
    check_by_promtool(&second);
    let table = Table::find("FIT", &table);
    let counts = [&first, &second].map(|it| series(it, "mlprof_action_seconds_count", "action"));
    let mut compared = 0;
    for (action, before) in &counts[0] {
        let Some(calls) = calls(&[&table], action) else { continue };
        let (calls, after) = (calls as f64, counts[1][action]);
        // The report includes the open call.
        assert!(*before <= calls && calls <= after + 1.0, "{action}: {before}, {calls}, {after}");
        compared += 1;
    }
    assert!(compared > 30, "{compared} of {table:#?}");
    let steps = [&first, &second].map(|it| series(it, "mlprof_steps_total", "stage")["fit"]);
    let batches = table.row("run_training_batch").calls as f64;
    assert!(steps[0] - 1.0 <= batches && batches <= steps[1] + 1.0, "{steps:?}, {batches}");
    let gauge = |name: &str| series(&second, name, "stage")["fit"];
    assert!((0.0..3.0).contains(&gauge("mlprof_loss")), "{second}");
    let samples = series(&second, "mlprof_samples_total", "rank")["0"];
    assert!(samples > steps[0], "several in each step: {second}");
    assert_eq!(gauge("mlprof_epochs"), f64::from(EPOCHS));
    assert!((1.0..f64::from(EPOCHS)).contains(&gauge("mlprof_epoch")), "{second}");
    assert!(series(&second, "mlprof_data_wait_seconds_total", "rank")["0"] > 0.0, "{second}");
}

#[test]
fn scraped_and_pushed_metrics_equal_the_reports() {
    let (directory, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let collector = Collector::start(directory.path());
    let run = prepared(directory.path(), "simple")
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("MLPROF_LIVE", "1")
        .env("MLPROF_METRICS_PORT", "0")
        .env("MLPROF_METRICS_TOKEN", "off")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200")
        .env("OTEL_SERVICE_NAME", "digits")
        .env("MLPROF_NVML_LIBRARY", fake_nvml(directory.path()));
    let mut running = run.start();
    let line = running.rest_of_line("mlprof: metrics are at http://");
    let address = line.split_once("/metrics").expect("an address").0.to_owned();
    running.wait_until_it_says("epoch 2/");
    scrape_devices(&address);
    scrape_around_a_report(&mut running, &address, runtime.path());
    let number = running.number();
    let finished = running.finish();
    assert!(finished.status.success(), "{finished:#?}");
    assert_eq!(test_accuracy(&finished.stdout), unwatched_accuracy(), "it learns the same");
    let said = finished.stderr.lines().filter(|line| line.contains("mlprof"));
    assert_eq!(said.count(), 2, "where they are, and nothing else: {}", finished.stderr);
    let [fit, test] = ["FIT", "TEST"].map(|stage| Table::find(stage, &finished.stdout));
    let pushed = collector.finish();
    let steps = pushed.points("mlprof_steps_total", "stage");
    assert_eq!(steps["fit"]["asDouble"], fit.row("run_training_batch").calls as f64);
    assert!(
        pushed.assert_is_as_reported(&[&fit, &test], "run_training_epoch", &[]) > 50,
        "{pushed:#?}"
    );
    assert_eq!(pushed.resource("service.name")["stringValue"], "digits");
    assert_eq!(pushed.resource("process.pid")["intValue"], number.to_string());
    assert_eq!(pushed.resource("process.executable.name")["stringValue"], crate::PACKAGE);
}
