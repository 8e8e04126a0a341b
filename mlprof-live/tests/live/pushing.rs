//! Tests the OpenTelemetry push: the pushed metrics, and the behaviour when the collector fails.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(feature = "otlp-tls")]
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

use crate::asking::{PATIENCE, Program, wait_until};
use crate::collector::{Answer, Collector, Pushed, of, text};
#[cfg(feature = "metrics")]
use crate::scraping::{Scraped, train, value};
#[cfg(feature = "metrics")]
use opentelemetry_proto::tonic::common::v1::KeyValue;

/// Checks with their names.
pub const CHECKS: &[(&str, fn())] = &[
    ("a_training_is_pushed", a_training_is_pushed),
    #[cfg(feature = "metrics")]
    ("prometheus_is_told_the_same", prometheus_is_told_the_same),
    ("pushed_metrics_follow_the_environment", pushed_metrics_follow_the_environment),
    ("troubles_of_a_collector_are_said_once", troubles_of_a_collector_are_said_once),
    (
        "a_collector_that_was_away_gets_all_that_was_counted",
        a_collector_that_was_away_gets_all_that_was_counted,
    ),
    (
        "a_collector_that_says_nothing_does_not_hold_up_the_end",
        a_collector_that_says_nothing_does_not_hold_up_the_end,
    ),
    ("nothing_is_pushed_unasked", nothing_is_pushed_unasked),
    ("failed_pushes_are_reported", failed_pushes_are_reported),
    ("a_forked_child_pushes_nothing", a_forked_child_pushes_nothing),
    #[cfg(feature = "otlp-tls")]
    ("https_is_spoken_with_whom_is_trusted", https_is_spoken_with_whom_is_trusted),
];

/// Message at the start of the push.
const BEGUN: &str = "mlprof: pushing metrics to ";

fn environment(
    collector: &Collector,
    more: &[(&'static str, &str)],
) -> HashMap<&'static str, PathBuf> {
    let mut all = HashMap::from([("OTEL_EXPORTER_OTLP_ENDPOINT", PathBuf::from(collector.url()))]);
    all.extend(more.iter().map(|(name, value)| (*name, PathBuf::from(value))));
    all
}

/// Starts a program that pushes at this interval, in milliseconds.
fn start(
    scene: &str,
    collector: &Collector,
    interval: &str,
    more: &[(&'static str, &str)],
) -> Program {
    let mut all = environment(collector, more);
    all.insert("OTEL_METRIC_EXPORT_INTERVAL", interval.into());
    let mut program = Program::start_in(scene, "1", &all);
    let said = program.error_line();
    assert!(said.starts_with(BEGUN), "{said}");
    assert!(said.contains(&format!("{}/v1/metrics every ", collector.url())), "{said}");
    program
}

/// Waits for the first push that satisfies the condition.
fn await_push(collector: &Collector, is_so: impl Fn(&Pushed) -> bool) -> Pushed {
    let began = Instant::now();
    loop {
        if let Some(pushed) = collector.pushed().into_iter().find(&is_so) {
            return pushed;
        }
        assert!(began.elapsed() < PATIENCE, "it never came: {:#?}", collector.last());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn a_training_is_pushed() {
    let collector = Collector::start(Answer::taken());
    let mut program = start("simple", &collector, "20", &[]);
    program.steps(5);
    let pushed = await_push(&collector, |pushed| pushed.steps() == 5.0);
    assert!(pushed.head.starts_with("post /v1/metrics http/1.1\r\n"), "{}", pushed.head);
    assert!(pushed.head.contains("content-type: application/x-protobuf\r\n"), "{}", pushed.head);
    let [(attributes, steps)] = &pushed.values("mlprof_steps_total")[..] else { panic!("one") };
    assert_eq!((*steps, of(attributes, "stage")), (5.0, Some(text("fit"))));
    assert_eq!(of(attributes, "rank"), Some(text("0")));
    let actions = pushed.values("mlprof_action_seconds");
    let is_step = |it: &&(Vec<_>, f64)| of(&it.0, "action") == Some(text("training_step"));
    assert_eq!(actions.iter().find(is_step).expect("a row").1, 5.0);
    assert_eq!(pushed.metric("process_resident_memory_bytes").expect("one").unit, "By");
    program.steps(2);
    let later = await_push(&collector, |pushed| pushed.steps() == 7.0);
    for key in ["service.instance.id", "process.pid"] {
        assert_eq!(later.resource(key), pushed.resource(key), "it counts on");
    }
    let (status, said, errors) = program.end();
    // The program's own results are the same as without the push.
    assert!(status.success() && said.contains("calls: 7\nops were wanted: false"), "{said}");
    assert_eq!(errors, "");
}

/// Compares the pushed metrics with those of the Prometheus endpoint, while the training is idle.
#[cfg(feature = "metrics")]
fn prometheus_is_told_the_same() {
    let collector = Collector::start(Answer::taken());
    let (url, interval) = (collector.url(), "20");
    let more =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_METRIC_EXPORT_INTERVAL", interval)];
    let mut scraped = Scraped::start("simple", &more);
    assert!(scraped.program.error_line().starts_with(BEGUN));
    train(&mut scraped.program, 20);
    scraped.program.steps(30);
    let pushed = await_push(&collector, |pushed| pushed.steps() == 30.0);
    let text = scraped.scrape();
    let mut compared = 0;
    for metric in pushed.metrics().iter().filter(|it| it.name.starts_with("mlprof_")) {
        for (attributes, shown) in pushed.values(&metric.name) {
            let is_histogram = matches!(metric.data, Some(Data::Histogram(_)));
            let name =
                if is_histogram { format!("{}_count", metric.name) } else { metric.name.clone() };
            let there = value(&text, &format!("{name}{{{}}}", labels(&attributes)));
            // This metric increases even while the training is idle.
            let is_clock = metric.name == "mlprof_stage_seconds";
            assert!(there == shown || is_clock && there > shown, "{name}: {shown}, and {there}");
            compared += 1;
        }
    }
    let lines = text.lines().filter(|line| line.starts_with("mlprof_"));
    let is_part = |line: &&str| line.contains("_bucket{") || line.contains("_sum{");
    assert_eq!(compared, lines.filter(|line| !is_part(line)).count(), "each series of {text}");
    let Some(Data::Histogram(histogram)) =
        &pushed.metric("mlprof_action_seconds").expect("one").data
    else {
        panic!("{pushed:#?}")
    };
    for point in &histogram.data_points {
        let labels = labels(&point.attributes);
        let sum = value(&text, &format!("mlprof_action_seconds_sum{{{labels}}}"));
        // The calibration of the clock improves over time, so sums may differ slightly.
        assert!((point.sum.expect("a sum") / sum - 1.0).abs() < 1e-6, "{sum} and {point:?}");
        let mut below = 0;
        for (bound, count) in point.explicit_bounds.iter().zip(&point.bucket_counts) {
            below += count;
            let series = format!("mlprof_action_seconds_bucket{{{labels},le=\"{bound}\"}}");
            assert_eq!(below as f64, value(&text, &series), "{series}");
        }
    }
    assert!(scraped.program.end().0.success());
}

/// Formats labels as Prometheus does.
#[cfg(feature = "metrics")]
fn labels(attributes: &[KeyValue]) -> String {
    let label = |attribute: &KeyValue| match of(attributes, &attribute.key) {
        Some(Value::StringValue(value)) => format!("{}=\"{value}\"", attribute.key),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(label).collect::<Vec<_>>().join(",")
}

fn pushed_metrics_follow_the_environment() {
    let collector = Collector::start(Answer::taken());
    let more = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret,x-scope=vision"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", "digits"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=a%2Cb,service.name=other"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "base2_exponential_bucket_histogram",
        ),
        ("RANK", "3"),
        ("WORLD_SIZE", "8"),
    ];
    // With this interval, only the end of the process pushes.
    let mut program = start("none", &collector, "3600000", &more);
    program.steps(3);
    let process = program.child.id();
    let (status, _, errors) = program.end();
    assert!(status.success(), "{errors}");
    assert_eq!(errors, "", "no secret, and nothing else");
    let [pushed] = &collector.pushed()[..] else { panic!("once: {:#?}", collector.pushed()) };
    for header in
        ["authorization: bearer secret\r\n", "x-scope: vision\r\n", "content-encoding: gzip\r\n"]
    {
        assert!(pushed.head.contains(header), "{header} in {}", pushed.head);
    }
    assert_eq!(pushed.steps(), 3.0, "what there was at the end");
    let number = |number: u32| Value::IntValue(number.into());
    let said = [
        ("service.name", text("digits")),
        ("team", text("a,b")),
        ("process.pid", number(process)),
        ("rank", number(3)),
        ("world_size", number(8)),
    ];
    for (key, expected) in said {
        assert_eq!(pushed.resource(key), expected, "{key}");
    }
    let steps = pushed.metric("mlprof_step_seconds").and_then(|it| it.data.as_ref());
    let Some(Data::ExponentialHistogram(steps)) = steps else { panic!("{steps:?}") };
    let point = &steps.data_points[0];
    let counted: u64 = point.positive.iter().flat_map(|it| &it.bucket_counts).sum();
    assert_eq!((point.count, counted + point.zero_count), (3, 3));
    assert!(0 < point.start_time_unix_nano && point.start_time_unix_nano < point.time_unix_nano);
}

/// Returns the failures of a collector, each with a part of the expected message.
fn troubles() -> Vec<(Answer, &'static str)> {
    let protobuf = "Content-Type: application/x-protobuf\r\n";
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 4,
            error_message: "out\nof\u{1b}[31m order".to_owned(),
        }),
    };
    let half = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nhalf";
    vec![
        (Answer::Close, "cannot send metrics to "),
        (Answer::Bytes(half.to_vec()), "its reply is incomplete"),
        (Answer::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), "cannot send metrics to "),
        (
            Answer::of("503 Service Unavailable", "", b"come back"),
            "it replies 503 Service Unavailable: come back; mlprof keeps retrying",
        ),
        // This body is a `google.rpc.Status` with a message.
        (
            Answer::of("400 Bad Request", protobuf, b"\x08\x03\x12\x07no rank"),
            "does not accept the metrics: it replies 400 Bad Request: no rank (shown once)",
        ),
        (
            Answer::of("404 Not Found", "", b""),
            "does not accept the metrics: it replies 404 Not Found (shown once)",
        ),
        (
            Answer::of("301 Moved Permanently", "Location: http://127.0.0.1:1/\r\n", b""),
            "it replies 301 Moved Permanently",
        ),
        (Answer::of("200 OK", protobuf, b"<html>"), "its reply is not an OTLP message"),
        (
            Answer::of("200 OK", protobuf, &partial.encode_to_vec()),
            "rejected 4 of the values: out of [31m order (shown once)",
        ),
    ]
}

fn troubles_of_a_collector_are_said_once() {
    for (answer, expected) in troubles() {
        let collector = Collector::start(answer);
        let mut program = start("simple", &collector, "10", &[]);
        program.steps(4);
        wait_until(|| collector.connections() >= 3);
        let (status, said, errors) = program.end();
        assert!(status.success() && said.contains("calls: 4\n"), "{said}");
        assert!(
            errors.starts_with("mlprof: ") && errors.contains(expected),
            "{expected}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

fn a_collector_that_was_away_gets_all_that_was_counted() {
    let collector = Collector::start(Answer::taken());
    let unavailable = || Answer::of("503 Service Unavailable", "Retry-After: 0\r\n", b"");
    collector.answer_next([Answer::Close, unavailable(), Answer::Close]);
    let mut program = start("none", &collector, "10", &[]);
    program.steps(6);
    await_push(&collector, |pushed| pushed.steps() == 6.0);
    wait_until(|| collector.connections() > 4);
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert_eq!(errors.lines().count(), 1, "{errors}");
    // No process listens at this port.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let url = PathBuf::from(format!("http://127.0.0.1:{port}/"));
    let all = HashMap::from([("OTEL_EXPORTER_OTLP_ENDPOINT", url)]);
    let mut program = Program::start_in("none", "1", &all);
    assert!(program.error_line().starts_with(BEGUN));
    program.steps(1);
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert!(errors.contains("cannot send metrics to ") && errors.contains("refused"), "{errors}");
}

fn a_collector_that_says_nothing_does_not_hold_up_the_end() {
    let collector = Collector::start(Answer::Silence);
    // This timeout is longer than that of the test.
    let patience = [("OTEL_EXPORTER_OTLP_TIMEOUT", "600000")];
    let mut program = start("simple", &collector, "10", &patience);
    wait_until(|| collector.last().is_some());
    program.steps(9);
    let (status, said, errors) = program.end();
    assert!(status.success() && said.contains("calls: 9\n"), "{said}");
    let expected =
        "mlprof: the collector did not accept the last metrics within 2 s; they are lost\n";
    assert_eq!(errors, expected);
    // This push times out.
    let collector = Collector::start(Answer::Silence);
    let mut program = start("none", &collector, "10", &[("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]);
    program.steps(1);
    wait_until(|| collector.connections() >= 3);
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert!(errors.contains("cannot send metrics to ") && errors.contains("timeout"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

fn nothing_is_pushed_unasked() {
    let collector = Collector::start(Answer::taken());
    let off = [("OTEL_SDK_DISABLED", "true"), ("OTEL_METRICS_EXPORTER", "none")];
    for (name, value) in off {
        let all = environment(&collector, &[(name, value), ("OTEL_METRIC_EXPORT_INTERVAL", "10")]);
        let mut program = Program::start_in("none", "1", &all);
        program.steps(1);
        let (status, _, errors) = program.end();
        assert!(status.success());
        assert_eq!(errors, "", "{name}={value}");
    }
    assert_eq!(collector.connections(), 0);
}

fn failed_pushes_are_reported() {
    let collector = Collector::start(Answer::taken());
    let all = environment(&collector, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    let (status, _, errors) = Program::start_in("none", "1", &all).end();
    assert!(status.success());
    let expected = format!(
        "mlprof: cannot push metrics to {}/v1/metrics, although OTEL_EXPORTER_OTLP_ENDPOINT is set: \
         OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported; set it to http/protobuf, which collectors accept \
         at port 4318\n",
        collector.url()
    );
    assert_eq!(errors, expected);
    let all = HashMap::from([("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", PathBuf::from("here"))]);
    let (status, _, errors) = Program::start_in("none", "1", &all).end();
    assert!(status.success());
    assert!(
        errors.starts_with(
            "mlprof: cannot push metrics to here, although OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is set: "
        ),
        "{errors}"
    );
    assert_eq!(collector.connections(), 0);
}

fn a_forked_child_pushes_nothing() {
    let collector = Collector::start(Answer::taken());
    let program = start("fork", &collector, "3600000", &[]);
    let file = program.folder.path().join("child");
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let child = std::fs::read_to_string(&file).expect("text");
    std::fs::remove_file(&file).expect("removed");
    let parent = program.child.id();
    assert_ne!(child, parent.to_string());
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert_eq!(errors, "", "nor does its end wait for a push");
    let [pushed] = &collector.pushed()[..] else { panic!("once: {:#?}", collector.pushed()) };
    assert_eq!(pushed.resource("process.pid"), Value::IntValue(parent.into()));
}

/// Server that receives one push over TLS from a client with a certificate.
#[cfg(feature = "otlp-tls")]
const BY_TLS: &str = r#"
import http.server, ssl, sys
certificate, key, file = sys.argv[1:]

class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.connection.getpeercert(), "who is it?"
        open(file, "wb").write(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
context.load_cert_chain(certificate, key)
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[cfg(feature = "otlp-tls")]
fn https_is_spoken_with_whom_is_trusted() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().expect("a folder");
    let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/certificates");
    let [certificate, key] = ["certificate", "key"].map(|it| format!("{certificates}/{it}.pem"));
    let file = folder.path().join("pushed");
    let mut python = Command::new("python3")
        .args(["-c", BY_TLS, &certificate, &key])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("Python 3 is there");
    let mut port = String::new();
    BufReader::new(python.stdout.take().expect("piped")).read_line(&mut port).expect("text");
    let url = format!("https://localhost:{}", port.trim());
    let mut all = HashMap::from([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", PathBuf::from(url)),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate.clone().into()),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.into()),
    ]);
    let run = |all: &HashMap<&'static str, PathBuf>| {
        let mut program = Program::start_in("none", "1", all);
        assert!(program.error_line().starts_with(BEGUN));
        program.steps(3);
        let (status, _, errors) = program.end();
        assert!(status.success());
        errors
    };
    let errors = run(&all);
    assert!(
        errors.contains("cannot send metrics to ") && errors.contains("certificate"),
        "{errors}"
    );
    assert!(!file.exists(), "who is not trusted gets nothing");
    all.insert("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate.into());
    assert_eq!(run(&all), "");
    let body = std::fs::read(&file).expect("it came");
    let request = ExportMetricsServiceRequest::decode(&body[..]).expect("a message");
    assert_eq!(Pushed { head: String::new(), request }.steps(), 3.0);
    python.kill().expect("it runs");
    python.wait().expect("it ended");
}
