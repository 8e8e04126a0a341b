//! A training whose metrics are scraped while it runs, and pushed to a collector that reads them by OpenTelemetry's own
//! messages for Python: both beside the training's own report.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::{Run, Running, build};
use tests::python;
use tests::table::{Row, Table};

use crate::live::succeed;

/// Keeps the last push that came as JSON. One that has what OTLP does not know is not answered.
const COLLECTOR: &str = r#"
import http.server, json, os, sys
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest, ExportMetricsServiceResponse)

def is_known(message):
    fields = [value for field, value in message.ListFields() if field.message_type]
    inner = [one for value in fields for one in ([value] if isinstance(value, Message) else value)]
    return len(UnknownFieldSet(message)) == 0 and all(map(is_known, inner))

class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
        request = ExportMetricsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        assert is_known(request), request
        with open(sys.argv[1] + ".part", "w") as file:
            json.dump(MessageToDict(request), file)
        os.replace(sys.argv[1] + ".part", sys.argv[1])
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass

# One after the other.
server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Gone when this is dropped.
struct Collector {
    child: Child,
    port: String,
}

impl Collector {
    fn start(file: &Path) -> Self {
        let mut command = Command::new(python::with_opentelemetry());
        command.arg("-c").arg(COLLECTOR).arg(file).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python 3 is there");
        let mut port = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut port).expect("text");
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prepared(directory: &Path) -> Run {
    let run = Run::of(&crate::program(), directory);
    // rayon's threads wait in circles, and other tests run beside this one.
    run.args(["--profiler", "simple", "--epochs", "40"]).env("RAYON_NUM_THREADS", "1")
}

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers, and closes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    body.to_owned()
}

/// What the series of a name show, by one of their labels.
fn series(text: &str, name: &str, label: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let of_line = |line: &str| {
        let (labels, value) = line.rsplit_once("} ")?;
        let value_of = labels.split_once(&format!("{label}=\""))?.1.split_once('"')?.0;
        Some((value_of.to_owned(), value.parse().ok()?))
    };
    lines.filter_map(of_line).collect()
}

/// What Prometheus' own tool has to say of it, where it is installed.
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

/// A library that stands for NVML, with three devices.
fn fake_nvml(folder: &Path) -> PathBuf {
    let source =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../profiler-cuda/tests/device_counters/nvml.c");
    let library = folder.join("libnvidia-ml.so.1");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("a compiler for C").success(), "{source}");
    library
}

/// What devices show is there once their library is loaded, which the first scrape may not wait for.
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

/// How often an action was called by a report, which tells the sanity check apart, as metrics do not; `None` if it has no such
/// row.
fn calls(tables: &[&Table], action: &str) -> Option<u64> {
    let is_of =
        |row: &&Row| row.action.strip_prefix("[SanityCheck]").unwrap_or(&row.action) == action;
    let rows = tables.iter().flat_map(|table| table.rows.iter().filter(is_of));
    rows.map(|row| row.calls).reduce(|sum, calls| sum + calls)
}

/// A report between two scrapes has no less than the first one, and no more than the second.
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
        // A report has the call that is open.
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
    assert_eq!(gauge("mlprof_epochs"), 40.0);
    assert!((1.0..40.0).contains(&gauge("mlprof_epoch")), "{second}");
    assert!(series(&second, "mlprof_data_wait_seconds_total", "rank")["0"] > 0.0, "{second}");
}

/// The points of a metric, by one of their attributes.
fn points(pushed: &Value, name: &str, attribute: &str) -> BTreeMap<String, Value> {
    let metrics = pushed["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array();
    let metric = metrics.expect("some").iter().find(|metric| metric["name"] == name);
    let metric = metric.unwrap_or_else(|| panic!("no {name} in {pushed:#}"));
    let kinds = ["sum", "histogram", "gauge"].map(|kind| &metric[kind]["dataPoints"]);
    let points = kinds.into_iter().find_map(Value::as_array).expect("points");
    let of = |point: &Value| {
        let mut all = point["attributes"].as_array().expect("attributes").iter();
        let found = all.find(|it| it["key"] == attribute).expect("such an attribute");
        found["value"]["stringValue"].as_str().expect("text").to_owned()
    };
    points.iter().map(|point| (of(point), point.clone())).collect()
}

/// The last push is made when the process ends, and so has all that the reports have.
fn compare_with_reports(pushed: &Value, stdout: &str) {
    let [fit, test] = ["FIT", "TEST"].map(|stage| Table::find(stage, stdout));
    let steps = points(pushed, "mlprof_steps_total", "stage");
    assert_eq!(steps["fit"]["asDouble"], fit.row("run_training_batch").calls as f64);
    let actions = points(pushed, "mlprof_action_seconds", "action");
    assert!(actions.len() > 50, "{actions:#?}");
    for (action, point) in &actions {
        let calls = calls(&[&fit, &test], action).map(|calls| calls.to_string());
        // Protobuf's JSON has numbers of 64 bits as text.
        assert_eq!(point["count"].as_str(), calls.as_deref(), "{action}");
    }
    let sum = actions["run_training_epoch"]["sum"].as_f64().expect("a number");
    let total = fit.row("run_training_epoch").total;
    assert!((sum / total - 1.0).abs() < 0.1, "{sum} s, and {total} s in the report");
}

#[test]
fn what_is_scraped_and_pushed_is_what_the_reports_say() {
    let plain = tempdir().expect("a folder");
    let expected = test_accuracy(&prepared(plain.path()).succeed().stdout);
    let (directory, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    // Before the training begins, which does not wait for it.
    build("profiler-cli", "mlprof");
    let file = directory.path().join("pushed.json");
    let collector = Collector::start(&file);
    let run = prepared(directory.path())
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("MLPROF_LIVE", "1")
        .env("MLPROF_METRICS_PORT", "0")
        .env("MLPROF_METRICS_TOKEN", "off")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{}", collector.port))
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
    assert_eq!(test_accuracy(&finished.stdout), expected, "it learns the same");
    let said = finished.stderr.lines().filter(|line| line.contains("mlprof"));
    assert_eq!(said.count(), 2, "where they are, and nothing else: {}", finished.stderr);
    let pushed = std::fs::read_to_string(&file).expect("something was pushed");
    let pushed: Value = serde_json::from_str(&pushed).expect("JSON");
    compare_with_reports(&pushed, &finished.stdout);
    let attributes = pushed["resourceMetrics"][0]["resource"]["attributes"].as_array();
    let attribute = |key: &str| {
        let found = attributes.expect("attributes").iter().find(|it| it["key"] == key);
        found.unwrap_or_else(|| panic!("no {key} in {pushed:#}"))["value"].clone()
    };
    assert_eq!(attribute("service.name")["stringValue"], "digits");
    assert_eq!(attribute("process.pid")["intValue"], number.to_string());
    assert_eq!(attribute("process.executable.name")["stringValue"], crate::PACKAGE);
}
