//! Protocol Buffers messages of a file: `tensorflow/tsl/profiler/protobuf/xplane.proto`.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// Root message of a file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XSpace {
    #[prost(message, repeated, tag = "1")]
    pub(super) planes: Vec<XPlane>,
    #[prost(string, repeated, tag = "2")]
    pub(super) errors: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) warnings: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) hostnames: Vec<String>,
}

/// Threads of a machine, or a device.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XPlane {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) lines: Vec<XLine>,
    #[prost(btree_map = "int64, message", tag = "4")]
    pub(super) event_metadata: BTreeMap<i64, XEventMetadata>,
    #[prost(btree_map = "int64, message", tag = "5")]
    pub(super) stat_metadata: BTreeMap<i64, XStatMetadata>,
    #[prost(message, repeated, tag = "6")]
    pub(super) stats: Vec<XStat>,
}

/// Thread or stream.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XLine {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// Unix time in nanoseconds from which the events' offsets count.
    #[prost(int64, tag = "3")]
    pub(super) timestamp_ns: i64,
    /// Events in order of their starts. Enclosing events precede nested ones.
    #[prost(message, repeated, tag = "4")]
    pub(super) events: Vec<XEvent>,
    #[prost(int64, tag = "9")]
    pub(super) duration_ps: i64,
}

/// Time span.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XEvent {
    #[prost(int64, tag = "1")]
    pub(super) metadata_id: i64,
    #[prost(int64, tag = "2")]
    pub(super) offset_ps: i64,
    #[prost(int64, tag = "3")]
    pub(super) duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub(super) stats: Vec<XStat>,
}

/// Value with the id of its name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XStat {
    #[prost(int64, tag = "1")]
    pub(super) metadata_id: i64,
    #[prost(oneof = "Value", tags = "2, 4, 5")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(double, tag = "2")]
    Double(f64),
    #[prost(int64, tag = "4")]
    Signed(i64),
    #[prost(string, tag = "5")]
    Text(String),
}

/// Properties shared by all events of one name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XEventMetadata {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) display_name: String,
}

/// Name of a value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XStatMetadata {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}
