//! Client of `tensorflow.ProfilerService`, similar to that of TensorBoard and XProf.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use http::{HeaderMap, Method, Request};
use prost::Message;
use tokio::runtime::{Builder, Runtime};

use crate::asking::PATIENCE;

#[derive(Clone, PartialEq, Message)]
pub struct ProfileRequest {
    #[prost(uint64, tag = "1")]
    pub duration_ms: u64,
    #[prost(message, optional, tag = "4")]
    pub opts: Option<ProfileOptions>,
    #[prost(string, tag = "5")]
    pub repository_root: String,
    #[prost(string, tag = "6")]
    pub session_id: String,
    #[prost(bool, tag = "9")]
    pub emit_xspace: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProfileOptions {
    #[prost(uint32, tag = "2")]
    pub host_tracer_level: u32,
    #[prost(uint32, tag = "5")]
    pub version: u32,
    #[prost(uint64, tag = "8")]
    pub start_timestamp_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProfileResponse {
    #[prost(message, repeated, tag = "6")]
    pub tool_data: Vec<ToolData>,
    #[prost(bool, tag = "7")]
    pub empty_trace: bool,
    #[prost(message, optional, tag = "8")]
    pub xspace: Option<Space>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ToolData {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Space {
    #[prost(message, repeated, tag = "1")]
    pub planes: Vec<Plane>,
    #[prost(string, repeated, tag = "2")]
    pub errors: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Plane {
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
    #[prost(map = "int64, message", tag = "4")]
    pub event_metadata: HashMap<i64, Name>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(message, repeated, tag = "4")]
    pub events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Name {
    #[prost(string, tag = "2")]
    pub name: String,
}

/// First field of `TerminateRequest` and `MonitorResponse`, which is a text in both.
#[derive(Clone, PartialEq, Message)]
pub struct Text {
    #[prost(string, tag = "1")]
    pub text: String,
}

impl Space {
    /// Returns the number of events whose name begins with `name`.
    pub fn count(&self, name: &str) -> usize {
        let of_plane = |plane: &Plane| {
            let events = plane.lines.iter().flat_map(|line| &line.events);
            let names = events.map(|event| &plane.event_metadata[&event.metadata_id].name);
            names.filter(|found| found.starts_with(name)).count()
        };
        self.planes.iter().map(of_plane).sum()
    }
}

pub fn request(milliseconds: u64) -> ProfileRequest {
    ProfileRequest {
        duration_ms: milliseconds,
        repository_root: "/nobody/writes/here".to_owned(),
        session_id: "2026_11_21_23_58_45".to_owned(),
        ..ProfileRequest::default()
    }
}

pub fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes.into()
}

/// Client with its connection.
pub struct Client {
    pub runtime: Runtime,
    pub send: SendRequest<Bytes>,
}

/// Bytes of the answer, or the gRPC status code and message.
pub type Answer = Result<Vec<u8>, (u32, String)>;

impl Client {
    pub fn of(port: u16) -> Self {
        Self::with_window(port, 1 << 20)
    }

    /// Connects a client with a receive window of `bytes`.
    pub fn with_window(port: u16, bytes: u32) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let send = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            let mut settings = client::Builder::new();
            let settings = settings.initial_window_size(bytes);
            let connected = settings.handshake(stream.expect("it listens")).await;
            let (send, connection) = connected.expect("HTTP/2");
            tokio::spawn(connection);
            send
        });
        Self { runtime, send }
    }

    pub fn ask(&self, method: &str, message: &impl Message) -> Answer {
        let request = to(&format!("http://127.0.0.1/tensorflow.ProfilerService/{method}"));
        let request = request.body(()).expect("a request");
        self.send(request, framed(message)).1
    }

    /// Sends a request. Returns the HTTP status and the gRPC answer.
    pub fn send(&self, request: Request<()>, body: Bytes) -> (u16, Answer) {
        let mut send = self.send.clone();
        let exchange = async {
            let (response, mut stream) = send.send_request(request, false).expect("sent");
            // If the server refuses the body, its answer contains the reason.
            let _ = stream.send_data(body, true);
            let (head, mut body) = response.await.expect("an answer").into_parts();
            let mut bytes = Vec::new();
            while let Some(part) = body.data().await {
                let part = part.expect("all of it");
                body.flow_control().release_capacity(part.len()).expect("taken");
                bytes.extend_from_slice(&part);
            }
            let trailers = body.trailers().await.expect("an end").unwrap_or(head.headers);
            (head.status.as_u16(), bytes, trailers)
        };
        let exchange = async { tokio::time::timeout(PATIENCE, exchange).await };
        let (status, bytes, trailers) = self.runtime.block_on(exchange).expect("in time");
        (status, understood(&bytes, &trailers))
    }

    pub fn capture(&self, request: &ProfileRequest) -> Space {
        let bytes = self.ask("Profile", request).expect("never an error");
        let response = ProfileResponse::decode(&bytes[..]).expect("a response");
        let [file] = &response.tool_data[..] else { panic!("{response:?}") };
        assert_eq!((file.name.as_str(), response.empty_trace), ("xplane.pb", false));
        let space = Space::decode(&file.data[..]).expect("a space");
        assert_eq!(response.xspace, request.emit_xspace.then(|| space.clone()));
        space
    }
}

pub fn to(uri: &str) -> http::request::Builder {
    Request::builder().method(Method::POST).uri(uri).header("content-type", "application/grpc")
}

fn understood(bytes: &[u8], trailers: &HeaderMap) -> Answer {
    let text = |name: &str| trailers.get(name).map_or("", |it| it.to_str().expect("text"));
    match text("grpc-status") {
        "0" => {
            let (prefix, message) = bytes.split_at(5);
            assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
            Ok(message.to_vec())
        }
        status => Err((status.parse().unwrap_or(0), text("grpc-message").to_owned())),
    }
}
