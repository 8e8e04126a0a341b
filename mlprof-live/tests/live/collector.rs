//! Fake collector that stores the pushes of a process and sends configured answers.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use prost::Message;

/// Reaction to a push.
#[derive(Clone)]
pub enum Answer {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Closes the connection before the push is read.
    Close,
    /// Sends no answer and keeps the connection open.
    Silence,
}

impl Answer {
    /// Creates a complete HTTP answer. Each header in `headers` ends with a line break.
    pub fn of(status: &str, headers: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        Self::Bytes([head.as_bytes(), body].concat())
    }

    pub fn taken() -> Self {
        Self::of("200 OK", "Content-Type: application/x-protobuf\r\n", b"")
    }
}

/// Received push.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// Request line and headers, in lower case.
    pub head: String,
    pub request: ExportMetricsServiceRequest,
}

struct State {
    pushed: Vec<Pushed>,
    connections: u64,
    /// Answers for the next pushes. Later pushes receive `usual`.
    answers: VecDeque<Answer>,
    usual: Answer,
    /// Connections without an answer.
    open: Vec<TcpStream>,
}

#[derive(Clone)]
pub struct Collector {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

impl Collector {
    pub fn start(usual: Answer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = State {
            pushed: Vec::new(),
            connections: 0,
            answers: VecDeque::new(),
            usual,
            open: Vec::new(),
        };
        let collector = Self { port, state: Arc::new(Mutex::new(state)) };
        let serving = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.serve(stream);
            }
        });
        collector
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        let answer = {
            let mut state = self.state();
            state.connections += 1;
            let next = state.answers.pop_front();
            next.unwrap_or_else(|| state.usual.clone())
        };
        if matches!(answer, Answer::Close) {
            return;
        }
        // An incomplete push is not stored.
        let Some(pushed) = read(&stream) else { return };
        let mut state = self.state();
        state.pushed.push(pushed);
        match answer {
            Answer::Bytes(bytes) => {
                let _ = (&stream).write_all(&bytes);
            }
            _ => state.open.push(stream),
        }
    }

    /// Sets the answers for the next pushes.
    pub fn answer_next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state().answers.extend(answers);
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> u64 {
        self.state().connections
    }

    /// Returns all received pushes.
    pub fn pushed(&self) -> Vec<Pushed> {
        self.state().pushed.clone()
    }

    pub fn last(&self) -> Option<Pushed> {
        self.state().pushed.last().cloned()
    }
}

fn read(stream: &TcpStream) -> Option<Pushed> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.expect("a length").trim().parse().expect("a number");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if head.contains("content-encoding: gzip\r\n") {
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("gzip");
        body = plain;
    }
    let request = ExportMetricsServiceRequest::decode(&body[..]).expect("a message");
    Some(Pushed { head, request })
}

impl Pushed {
    /// Returns an attribute of the process's resource.
    pub fn resource(&self, key: &str) -> Value {
        let resource = self.request.resource_metrics[0].resource.as_ref().expect("a resource");
        of(&resource.attributes, key).unwrap_or_else(|| panic!("no {key} in {resource:?}"))
    }

    pub fn metrics(&self) -> &[Metric] {
        &self.request.resource_metrics[0].scope_metrics[0].metrics
    }

    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics().iter().find(|metric| metric.name == name)
    }

    /// Returns the value of each point of a metric, with its attributes. The value of a histogram
    /// is its count.
    pub fn values(&self, name: &str) -> Vec<(Vec<KeyValue>, f64)> {
        let number = |value: &Option<Number>| match value {
            Some(Number::AsDouble(number)) => *number,
            other => panic!("no number but {other:?}"),
        };
        match self.metric(name).and_then(|metric| metric.data.as_ref()) {
            None => Vec::new(),
            Some(Data::Gauge(gauge)) => {
                let points = gauge.data_points.iter();
                points.map(|it| (it.attributes.clone(), number(&it.value))).collect()
            }
            Some(Data::Sum(sum)) => {
                let points = sum.data_points.iter();
                points.map(|it| (it.attributes.clone(), number(&it.value))).collect()
            }
            Some(Data::Histogram(histogram)) => {
                let points = histogram.data_points.iter();
                points.map(|it| (it.attributes.clone(), it.count as f64)).collect()
            }
            Some(Data::ExponentialHistogram(histogram)) => {
                let points = histogram.data_points.iter();
                points.map(|it| (it.attributes.clone(), it.count as f64)).collect()
            }
            Some(other) => panic!("{other:?}"),
        }
    }

    /// Returns the number of finished steps.
    pub fn steps(&self) -> f64 {
        self.values("mlprof_steps_total").iter().map(|(_, steps)| steps).sum()
    }
}

pub fn of(attributes: &[KeyValue], key: &str) -> Option<Value> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    attribute.value.as_ref()?.value.clone()
}

pub fn text(value: &str) -> Value {
    Value::StringValue(value.to_owned())
}
