//! Metrics as length-delimited protobuf messages, with native histograms.
//!
//! *Source*: Prometheus' `io/prometheus/client/metrics.proto`. The crate prometheus-client also has
//! these messages, but its build requires protoc or about thirty other crates.

use prost::Message;

use crate::durations::{Durations, SCHEMA, ZERO_THRESHOLD};
use crate::families::family::{self, Kind, Value};

pub(super) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    /// Metric type: 0 for counter, 1 for gauge, 4 for histogram.
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// Value of a gauge or a counter.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    /// Differences between consecutive bucket counts.
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Span of consecutive buckets.
#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    /// Index of the first bucket in the first span. In later spans, the number of empty buckets
    /// since the previous span.
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

pub(super) fn write(families: &[family::Family]) -> Vec<u8> {
    let families = families.iter().filter(|family| !family.metrics.is_empty());
    families.flat_map(|family| message(family).encode_length_delimited_to_vec()).collect()
}

fn message(family: &family::Family) -> MetricFamily {
    let kind = match family.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    };
    MetricFamily {
        name: Some(family.name.to_owned()),
        help: Some(family.help.to_owned()),
        kind: Some(kind),
        metric: family.metrics.iter().map(|one| metric(one, family.kind)).collect(),
    }
}

fn metric(metric: &family::Metric, kind: Kind) -> Metric {
    let label = |(name, value): &(&str, String)| LabelPair {
        name: Some((*name).to_owned()),
        value: Some(value.clone()),
    };
    let number = |wanted: Kind| match &metric.value {
        Value::Number(value) if kind == wanted => Some(Number { value: Some(*value) }),
        _ => None,
    };
    Metric {
        label: metric.labels.iter().map(label).collect(),
        gauge: number(Kind::Gauge),
        counter: number(Kind::Counter),
        histogram: match &metric.value {
            Value::Durations(durations) => Some(histogram(durations)),
            Value::Number(_) => None,
        },
    }
}

fn histogram(durations: &Durations) -> Histogram {
    let mut spans: Vec<BucketSpan> = Vec::new();
    let (mut deltas, mut before, mut next) = (Vec::new(), 0, None);
    for (number, count) in &durations.native {
        match spans.last_mut() {
            Some(span) if next == Some(*number) => span.length = span.length.map(|it| it + 1),
            _ => spans.push(BucketSpan {
                offset: Some(number - next.unwrap_or_default()),
                length: Some(1),
            }),
        }
        let count = *count as i64;
        deltas.push(count - before);
        (before, next) = (count, Some(number + 1));
    }
    if spans.is_empty() {
        // An empty span marks the histogram as native. Without any span it would be taken for a
        // classic one.
        spans.push(BucketSpan { offset: Some(0), length: Some(0) });
    }
    let bucket =
        |(bound, count)| Bucket { cumulative_count: Some(count), upper_bound: Some(bound) };
    Histogram {
        sample_count: Some(durations.count),
        sample_sum: Some(durations.sum),
        bucket: durations.cumulative().map(bucket).collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(durations.zeros),
        positive_span: spans,
        positive_delta: deltas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_spans_and_differences() {
        let mut durations = Durations::default();
        // The durations are in buckets 0, 0, 1 and 8.
        for seconds in [1.0, 1.0, 1.05, 2.0] {
            durations.add(seconds);
        }
        let histogram = histogram(&durations);
        let spans: Vec<_> =
            histogram.positive_span.iter().map(|it| (it.offset(), it.length())).collect();
        assert_eq!(spans, [(0, 2), (6, 1)]);
        assert_eq!(histogram.positive_delta, [2, -1, 0]);
        assert_eq!((histogram.sample_count, histogram.schema), (Some(4), Some(3)));
        let empty = super::histogram(&Durations::default());
        assert_eq!(empty.positive_span.len(), 1, "an empty one is native, too");
    }

    #[test]
    fn families_follow_on_each_other_with_their_lengths() {
        let family = |name| {
            family::Family::new(name, Kind::Counter, "help").number(vec![("a", "b".into())], 7.5)
        };
        let bytes = write(&[family("x_total"), family("y_total")]);
        let mut rest = &bytes[..];
        for name in ["x_total", "y_total"] {
            let family = MetricFamily::decode_length_delimited(&mut rest).expect("a family");
            assert_eq!((family.name(), family.kind), (name, Some(0)));
            assert_eq!(family.metric[0].counter, Some(Number { value: Some(7.5) }));
            assert_eq!(family.metric[0].label[0].value(), "b");
        }
        assert!(rest.is_empty());
    }
}
