//! Messages of the profiler service, limited to the fields that mlprof uses. Other fields are
//! skipped.

use bytes::Bytes;
use prost::Message;

/// Request for a capture. Its folder, files and host name are only for services that write files
/// themselves.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileRequest {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    #[prost(message, optional, tag = "4")]
    pub(super) opts: Option<ProfileOptions>,
    #[prost(string, tag = "6")]
    pub(super) session_id: String,
    /// Set when the client wants the trace inside the response message as well.
    #[prost(bool, tag = "9")]
    pub(super) emit_xspace: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileOptions {
    #[prost(uint32, tag = "2")]
    pub(super) host_tracer_level: u32,
    /// Version of the options; 0 if the levels were not set.
    #[prost(uint32, tag = "5")]
    pub(super) version: u32,
    /// Unix time in nanoseconds at which the capture begins; 0 for an immediate start.
    #[prost(uint64, tag = "8")]
    pub(super) start_timestamp_ns: u64,
    #[prost(uint64, tag = "9")]
    pub(super) duration_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileResponse {
    /// Files for the client to write.
    #[prost(message, repeated, tag = "6")]
    pub(super) tool_data: Vec<ToolData>,
    /// Encoded `XSpace`.
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

/// Errors and warnings of an `XSpace`. The encoded message can be appended to the bytes of an
/// `XSpace`, because protobuf concatenates repeated fields.
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
    /// Set when the text should contain a timestamp.
    #[prost(bool, tag = "3")]
    pub(super) timestamp: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResponse {
    /// Human-readable text.
    #[prost(string, tag = "1")]
    pub(super) data: String,
    #[prost(message, optional, tag = "10")]
    pub(super) monitor_result: Option<MonitorResult>,
}

/// Numeric results. The utilisation of devices and matrix units is unknown. The field with the kind
/// of result (1) stays unset, because each kind implies such values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResult {
    #[prost(double, tag = "4")]
    pub(super) step_time_ms_avg: f64,
    #[prost(double, tag = "5")]
    pub(super) step_time_ms_min: f64,
    #[prost(double, tag = "6")]
    pub(super) step_time_ms_max: f64,
}
