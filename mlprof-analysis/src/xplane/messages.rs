//! The messages that a file consists of: `tensorflow/tsl/profiler/protobuf/xplane.proto`.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// A file.
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

/// A machine's threads, or a device.
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

/// A thread, or a stream.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XLine {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// Unix time, from which its events count.
    #[prost(int64, tag = "3")]
    pub(super) timestamp_ns: i64,
    /// By their beginnings, what is around others before them.
    #[prost(message, repeated, tag = "4")]
    pub(super) events: Vec<XEvent>,
    #[prost(int64, tag = "9")]
    pub(super) duration_ps: i64,
}

/// Something that took time.
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

/// A value, by the number of its name.
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

/// What events of one name have in common.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XEventMetadata {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) display_name: String,
}

/// The name of values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct XStatMetadata {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}
