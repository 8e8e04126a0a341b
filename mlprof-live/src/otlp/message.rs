//! Encodes metrics as an OTLP message.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AttributeValue;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::resource::attribute;
use crate::durations::{BOUNDS, Durations, SCHEMA, ZERO_THRESHOLD};
use crate::families::family::{Family, Kind, Value};

/// Maximum number of buckets of an exponential histogram, as in the specification. Larger
/// histograms are rescaled to wider buckets.
const MOST_BUCKETS: usize = 160;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Options of the encoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) is_exponential: bool,
    /// Time at which counting began, in nanoseconds since 1970.
    pub(super) since: u64,
    pub(super) now: u64,
}

/// Encodes all families with at least one metric.
pub(super) fn write(families: &[Family], resource: &Resource, form: Form) -> Vec<u8> {
    let known = families.iter().filter(|family| !family.metrics.is_empty());
    let scope = InstrumentationScope {
        name: "mlprof".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = ScopeMetrics {
        scope: Some(scope),
        metrics: known.map(|family| metric(family, form)).collect(),
        ..ScopeMetrics::default()
    };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

/// Converts a family. The Prometheus name is kept, also when a collector translates the metrics for
/// Prometheus, which adds no unit to a name that has one.
fn metric(family: &Family, form: Form) -> Metric {
    let data = match (family.kind, form.is_exponential) {
        (Kind::Gauge, _) => Data::Gauge(Gauge { data_points: numbers(family, form) }),
        (Kind::Counter, _) => Data::Sum(Sum {
            data_points: numbers(family, form),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        (Kind::Histogram, false) => Data::Histogram(Histogram {
            data_points: histograms(family, |attributes, it| explicit(attributes, it, form)),
            aggregation_temporality: CUMULATIVE,
        }),
        (Kind::Histogram, true) => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: histograms(family, |attributes, it| exponential(attributes, it, form)),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit(family.name).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// Returns the unit in UCUM notation.
fn unit(name: &str) -> &'static str {
    match name.strip_suffix("_total").unwrap_or(name).rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        Some("watts") => "W",
        Some("celsius") => "Cel",
        Some("hertz") => "Hz",
        _ => "",
    }
}

fn attributes(labels: &[(&'static str, String)]) -> Vec<KeyValue> {
    let text = |value: &String| AttributeValue::StringValue(value.clone());
    labels.iter().map(|(name, value)| attribute(name, text(value))).collect()
}

fn numbers(family: &Family, form: Form) -> Vec<NumberDataPoint> {
    // A gauge is a momentary value and has no start time.
    let since = if family.kind == Kind::Counter { form.since } else { 0 };
    let points = family.metrics.iter().filter_map(|metric| match metric.value {
        Value::Number(number) => Some(NumberDataPoint {
            attributes: attributes(&metric.labels),
            start_time_unix_nano: since,
            time_unix_nano: form.now,
            value: Some(Number::AsDouble(number)),
            ..NumberDataPoint::default()
        }),
        Value::Durations(_) => None,
    });
    points.collect()
}

fn histograms<T>(family: &Family, point: impl Fn(Vec<KeyValue>, &Durations) -> T) -> Vec<T> {
    let points = family.metrics.iter().filter_map(|metric| match &metric.value {
        Value::Durations(durations) => Some(point(attributes(&metric.labels), durations)),
        Value::Number(_) => None,
    });
    points.collect()
}

fn explicit(attributes: Vec<KeyValue>, durations: &Durations, form: Form) -> HistogramDataPoint {
    let mut before = 0;
    let up_to_all = durations.cumulative().map(|(_, count)| count).chain([durations.count]);
    let counts = up_to_all.map(|count| count - std::mem::replace(&mut before, count));
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: form.since,
        time_unix_nano: form.now,
        count: durations.count,
        sum: Some(durations.sum),
        bucket_counts: counts.collect(),
        explicit_bounds: BOUNDS.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn exponential(
    attributes: Vec<KeyValue>,
    durations: &Durations,
    form: Form,
) -> ExponentialHistogramDataPoint {
    let (scale, buckets) = buckets(durations);
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: form.since,
        time_unix_nano: form.now,
        count: durations.count,
        sum: Some(durations.sum),
        scale,
        zero_count: durations.zeros,
        zero_threshold: ZERO_THRESHOLD,
        positive: Some(buckets),
        ..ExponentialHistogramDataPoint::default()
    }
}

/// Returns the scale and the buckets. OTLP identifies a bucket by its lower bound and Prometheus by
/// its upper bound, so indices differ by one.
fn buckets(durations: &Durations) -> (i32, Buckets) {
    let ends = durations.native.keys().next().zip(durations.native.keys().next_back());
    let Some((first, last)) = ends.map(|(first, last)| (first - 1, last - 1)) else {
        return (SCHEMA, Buckets::default());
    };
    // Each step merges pairs of adjacent buckets.
    let is_too_long = |steps: &i32| ((last >> steps) - (first >> steps)) as usize >= MOST_BUCKETS;
    let steps = (0..).find(|steps| !is_too_long(steps)).unwrap_or_default();
    let offset = first >> steps;
    let mut bucket_counts = vec![0; ((last >> steps) - offset) as usize + 1];
    for (number, count) in &durations.native {
        bucket_counts[(((number - 1) >> steps) - offset) as usize] += count;
    }
    (SCHEMA - steps, Buckets { offset, bucket_counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { is_exponential: false, since: 5, now: 9 };

    fn durations(all: &[f64]) -> Durations {
        let mut durations = Durations::default();
        all.iter().for_each(|seconds| durations.add(*seconds));
        durations
    }

    fn labels() -> Vec<(&'static str, String)> {
        vec![("stage", "fit".to_owned())]
    }

    fn written(families: &[Family], form: Form) -> Vec<Metric> {
        let bytes = write(families, &Resource::default(), form);
        let mut request = ExportMetricsServiceRequest::decode(&bytes[..]).expect("a message");
        request.resource_metrics.remove(0).scope_metrics.remove(0).metrics
    }

    #[test]
    fn families_are_metrics_with_their_units() {
        let gauge = Family::new("memory_bytes", Kind::Gauge, "Memory.").number(labels(), f64::NAN);
        let counter =
            Family::new("cpu_seconds_total", Kind::Counter, "Time.").number(labels(), 7.5);
        let none = Family::new("none", Kind::Gauge, "Nothing.");
        let [gauge, counter] = &written(&[gauge, none, counter], FORM)[..] else { panic!("two") };
        assert_eq!((gauge.name.as_str(), gauge.unit.as_str()), ("memory_bytes", "By"));
        assert_eq!((counter.name.as_str(), counter.unit.as_str()), ("cpu_seconds_total", "s"));
        assert_eq!(unit("mlprof_steps_total"), "");
        let Some(Data::Gauge(Gauge { data_points })) = &gauge.data else { panic!("{gauge:?}") };
        assert_eq!((data_points[0].start_time_unix_nano, data_points[0].time_unix_nano), (0, 9));
        assert!(matches!(data_points[0].value, Some(Number::AsDouble(it)) if it.is_nan()));
        let Some(Data::Sum(sum)) = &counter.data else { panic!("{counter:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.value), (5, Some(Number::AsDouble(7.5))));
        assert_eq!(point.attributes, attributes(&labels()));
    }

    #[test]
    fn durations_are_in_the_buckets_that_they_are_looked_for_in() {
        let mut family = Family::new("x_seconds", Kind::Histogram, "How long.");
        let all = durations(&[0.3, 0.5, 1000.0, 0.0]);
        family.add(labels(), Value::Durations(Box::new(all)));
        let [metric] = &written(&[family], FORM)[..] else { panic!("one") };
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        let of_bound = |bound: f64| {
            let place = point.explicit_bounds.iter().position(|known| *known == bound);
            point.bucket_counts[place.expect("a bound")]
        };
        assert_eq!((of_bound(1e-6), of_bound(0.25), of_bound(0.5)), (1, 0, 2));
        assert_eq!(
            (point.bucket_counts.last(), point.bucket_counts.iter().sum::<u64>()),
            (Some(&1), 4)
        );
        assert_eq!((point.count, point.sum), (4, Some(1000.8)));
    }

    /// OTLP buckets are (base^index, base^(index + 1)], and Prometheus buckets are (base^(index -
    /// 1), base^index].
    #[test]
    fn exponential_buckets_are_named_by_where_they_begin() {
        let (scale, buckets) = buckets(&durations(&[1.0, 1.05, 2.0, 0.0]));
        assert_eq!((scale, buckets.offset), (3, -1));
        assert_eq!(buckets.bucket_counts, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        let (scale, none) = super::buckets(&durations(&[0.0]));
        assert_eq!((scale, none.bucket_counts.len()), (3, 0));
    }

    proptest::proptest! {
        #[test]
        fn no_histogram_has_too_many_buckets_and_each_duration_is_in_its_own(
            exponents in proptest::collection::vec(-1000_i32..1000, 1..20),
        ) {
            let all: Vec<f64> = exponents.iter().map(|exponent| 1.5 * 2_f64.powi(*exponent)).collect();
            let known = all.iter().filter(|seconds| **seconds > ZERO_THRESHOLD);
            let (scale, buckets) = buckets(&durations(&all));
            proptest::prop_assert!(buckets.bucket_counts.len() <= MOST_BUCKETS);
            for seconds in known {
                let index = (seconds.log2() * 2_f64.powi(scale)).ceil() as i32 - 1;
                proptest::prop_assert!(buckets.bucket_counts[(index - buckets.offset) as usize] > 0);
            }
        }
    }
}
