//! An OpenTelemetry collector as used in production: Rotel. It receives and parses pushed metrics,
//! and exports them to a Python script based on OpenTelemetry's message definitions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::digits::test_accuracy;
use crate::program::Run;
use crate::python;
use crate::table::Table;

/// Python script that stores the latest push as JSON, because the collector may export an earlier
/// one after it. It rejects pushes with fields that OTLP does not define.
const READER: &str = r#"
import gzip, http.server, json, os, sys
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest, ExportMetricsServiceResponse)

def is_known(message):
    fields = [value for field, value in message.ListFields() if field.message_type]
    inner = [one for value in fields for one in ([value] if isinstance(value, Message) else value)]
    return len(UnknownFieldSet(message)) == 0 and all(map(is_known, inner))

def time_of(pushed):
    points = [
        int(point["timeUnixNano"])
        for scope in pushed["scopeMetrics"] for metric in scope["metrics"]
        for values in metric.values() if isinstance(values, dict)
        for point in values.get("dataPoints", [])]
    return max(points, default=0)

newest = -1

class Reader(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global newest
        assert self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        assert is_known(request), request
        for pushed in MessageToDict(request)["resourceMetrics"]:
            if time_of(pushed) > newest:
                newest = time_of(pushed)
                with open(sys.argv[1] + ".part", "w") as file:
                    json.dump(pushed, file)
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
server = http.server.HTTPServer(("127.0.0.1", 0), Reader)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Timeout for the start, and for exporting the remaining data at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running collector, which is stopped when dropped.
#[derive(Debug)]
pub struct Collector {
    rotel: Child,
    reader: Child,
    port: u16,
    file: PathBuf,
}

impl Collector {
    /// Starts a collector that writes its files to `folder`.
    pub fn start(folder: &Path) -> Self {
        let file = folder.join("pushed.json");
        let (python, agent) = python::with_opentelemetry();
        let mut reader = Command::new(python);
        reader.arg("-c").arg(READER).arg(&file).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut reader = reader.spawn().expect("Python 3 is there");
        let mut port = String::new();
        let output = reader.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut port).expect("text");
        let behind = format!("http://127.0.0.1:{}", port.trim());
        let [port, unused] = free_ports();
        let mut rotel = Command::new(agent);
        rotel
            .args(["start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"])
            .args(["--otlp-exporter-endpoint", &behind])
            .args(["--otlp-http-endpoint", &format!("127.0.0.1:{port}")])
            .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{unused}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let rotel = rotel.spawn().expect("Rotel runs");
        let mut collector = Self { rotel, reader, port, file };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = collector.rotel.try_wait().expect("it was started here");
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "it does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        collector
    }

    /// Returns the value for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Stops the collector and returns the last push that it received.
    pub fn finish(mut self) -> Pushed {
        let mut kill = Command::new("kill");
        let told = kill.arg(self.rotel.id().to_string()).status().expect("it is everywhere");
        assert!(told.success(), "it runs");
        let began = Instant::now();
        while self.rotel.try_wait().expect("it was started here").is_none() {
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pushed = std::fs::read_to_string(&self.file).expect("something was pushed");
        Pushed(serde_json::from_str(&pushed).expect("JSON"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        for child in [&mut self.rotel, &mut self.reader] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns two ports on which no program listens, and which the system will not assign soon.
fn free_ports() -> [u16; 2] {
    let listeners = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

/// The metrics of one push, in Protobuf's JSON format.
#[derive(Debug)]
pub struct Pushed(Value);

impl Pushed {
    /// Returns an attribute of the whole process.
    pub fn resource(&self, key: &str) -> &Value {
        let attributes = self.0["resource"]["attributes"].as_array().expect("attributes");
        let found = attributes.iter().find(|it| it["key"] == key);
        &found.unwrap_or_else(|| panic!("no {key} in {:#}", self.0["resource"]))["value"]
    }

    /// Returns the points of a metric by one of their attributes.
    pub fn points(&self, name: &str, attribute: &str) -> BTreeMap<&str, &Value> {
        let metrics = self.0["scopeMetrics"][0]["metrics"].as_array();
        let metric = metrics.expect("some").iter().find(|metric| metric["name"] == name);
        let metric = metric.unwrap_or_else(|| panic!("no {name} in {:#}", self.0));
        let kinds = ["sum", "histogram", "gauge"].map(|kind| &metric[kind]["dataPoints"]);
        let points = kinds.into_iter().find_map(Value::as_array).expect("points");
        let of = |point: &'_ Value| -> usize {
            let mut all = point["attributes"].as_array().expect("attributes").iter();
            all.position(|it| it["key"] == attribute).expect("such an attribute")
        };
        let named = points.iter().map(|point| {
            let name = &point["attributes"][of(point)]["value"]["stringValue"];
            (name.as_str().expect("text"), point)
        });
        named.collect()
    }

    /// Asserts that the last push agrees with the reports of all stages. The last push happens at
    /// process exit, so it contains the calls of each action and the total time of one of them.
    /// Actions that begin with an entry of `outside` also run outside stages, and the metrics
    /// include these calls. Returns the number of compared actions.
    pub fn assert_is_as_reported(
        &self,
        reports: &[&Table],
        longest: &str,
        outside: &[&str],
    ) -> usize {
        let actions = self.points("mlprof_action_seconds", "action");
        for (action, point) in &actions {
            // Protobuf's JSON represents 64-bit numbers as text.
            let pushed = point["count"].as_str().and_then(|count| count.parse::<u64>().ok());
            let reported = calls(reports, action);
            let is_more =
                outside.iter().any(|start| action.starts_with(start)) && pushed > reported;
            assert!(pushed == reported || is_more, "{action}: {pushed:?}, {reported:?}");
        }
        let sum = actions[longest]["sum"].as_f64().expect("a number");
        let total = reports[0].row(longest).total;
        assert!((sum / total - 1.0).abs() < 0.1, "{sum} s, and {total} s in the report");
        actions.len()
    }
}

/// Returns the calls of an action in the reports, or `None` without such a row. Reports separate
/// the sanity check, but metrics do not.
pub fn calls(reports: &[&Table], action: &str) -> Option<u64> {
    let is_of = |name: &str| name.strip_prefix("[SanityCheck]").unwrap_or(name) == action;
    let rows = reports.iter().flat_map(|table| &table.rows).filter(|row| is_of(&row.action));
    rows.map(|row| row.calls).reduce(|sum, calls| sum + calls)
}

/// Runs a short training on the digits with a collector. Asserts that it pushes the values of its
/// reports, learns the same as without a push, and prints only the push address. `outside` lists
/// actions that also run outside stages.
pub fn assert_pushed_is_as_reported(program: &Path, outside: &[&str]) {
    let directory = tempdir().expect("a folder");
    let run = || Run::of(program, directory.path()).args(["--profiler", "simple", "--epochs", "2"]);
    let expected = test_accuracy(&run().succeed().stdout);
    let collector = Collector::start(directory.path());
    let pushing = run().env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    // The interval is shorter than an epoch, but long enough for the collector on a loaded machine.
    let finished = pushing.env("OTEL_METRIC_EXPORT_INTERVAL", "50").succeed();
    assert_eq!(test_accuracy(&finished.stdout), expected, "it learns the same");
    let said = finished.stderr.lines().filter(|line| line.contains("mlprof"));
    assert_eq!(said.count(), 1, "where they go, and nothing else: {}", finished.stderr);
    let [fit, test] = ["FIT", "TEST"].map(|stage| Table::find(stage, &finished.stdout));
    let pushed = collector.finish();
    let compared = pushed.assert_is_as_reported(&[&fit, &test], "run_training_epoch", outside);
    assert!(compared > 10, "{pushed:#?}");
    let steps = pushed.points("mlprof_steps_total", "stage");
    assert_eq!(steps["fit"]["asDouble"], fit.row("run_training_batch").calls as f64);
}
