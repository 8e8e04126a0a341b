//! The messages of the service, as far as they are looked at: what else a client says is skipped.

use bytes::Bytes;
use prost::Message;

/// What is to be captured. The folder that it names, the files and the machine are for services that write files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileRequest {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    #[prost(message, optional, tag = "4")]
    pub(super) opts: Option<ProfileOptions>,
    #[prost(string, tag = "6")]
    pub(super) session_id: String,
    /// Whether the trace is wanted as a message, too.
    #[prost(bool, tag = "9")]
    pub(super) emit_xspace: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileOptions {
    #[prost(uint32, tag = "2")]
    pub(super) host_tracer_level: u32,
    /// 0: the levels have not been set.
    #[prost(uint32, tag = "5")]
    pub(super) version: u32,
    /// Unix time at which it is to begin; 0: at once.
    #[prost(uint64, tag = "8")]
    pub(super) start_timestamp_ns: u64,
    #[prost(uint64, tag = "9")]
    pub(super) duration_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileResponse {
    /// Files, which the client writes.
    #[prost(message, repeated, tag = "6")]
    pub(super) tool_data: Vec<ToolData>,
    /// An `XSpace`, as it is written.
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub(super) xspace: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ToolData {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) data: Bytes,
}

/// What an `XSpace` says of itself. Behind the bytes of one it is a part of it: protobuf appends lists to each other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Remarks {
    #[prost(string, repeated, tag = "2")]
    pub(super) errors: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TerminateRequest {
    #[prost(string, tag = "1")]
    pub(super) session_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TerminateResponse {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorRequest {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    /// Whether the text says when it was.
    #[prost(bool, tag = "3")]
    pub(super) timestamp: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResponse {
    /// Text for people.
    #[prost(string, tag = "1")]
    pub(super) data: String,
    #[prost(message, optional, tag = "10")]
    pub(super) monitor_result: Option<MonitorResult>,
}

/// Numbers. How much a device or its matrix units are used is not known, so what kind of a result it is (1) stays
/// unset: each kind claims to know that.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResult {
    #[prost(double, tag = "4")]
    pub(super) step_time_ms_avg: f64,
    #[prost(double, tag = "5")]
    pub(super) step_time_ms_min: f64,
    #[prost(double, tag = "6")]
    pub(super) step_time_ms_max: f64,
}
